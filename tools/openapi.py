"""Writes the compact OpenAPI data of `modelyard.kube.schema` from a Kubernetes source tree's `api/openapi-spec/v3`.

    python tools/openapi.py DIRECTORY

Prose, paths and what no schema here needs are left out; every stable group version is kept.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/modelyard/kube/schema/data/openapi.json.gz"

STABLE = re.compile(r"apis?__(?:[a-z.0-9]+__)?v\d+_openapi\.json")
REFERENCE = "#/components/schemas/"
PREFIXES = (
    "io.k8s.api.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apimachinery.pkg.api.",
    "io.k8s.apimachinery.pkg.util.",
    "io.k8s.apimachinery.pkg.",
    "io.k8s.apiextensions-apiserver.pkg.apis.",
    "io.k8s.kube-aggregator.pkg.apis.",
)
KEPT = (
    "type", "format", "default", "enum", "required", "nullable", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields", "oneOf", "anyOf",
)  # fmt: skip


def short(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` as `core.v1.Pod`."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    raise SystemExit(f"{name}: no rule shortens this definition's name; add its prefix to PREFIXES")


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with only what is read; a reference wrapped in `allOf` to carry a default is written flat."""
    out = {key: schema[key] for key in KEPT if key in schema}
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), None)
    if reference:
        out["$ref"] = short(reference.removeprefix(REFERENCE))
    if "properties" in schema:
        out["properties"] = {name: compact(each) for name, each in sorted(schema["properties"].items())}
    for key in ("items", "additionalProperties"):
        if key in schema:
            out[key] = compact(schema[key]) if isinstance(schema[key], dict) else schema[key]
    return out


def read(directory: Path) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    files = sorted(path for path in directory.iterdir() if STABLE.fullmatch(path.name))
    if not files:
        raise SystemExit(f"{directory}: no OpenAPI documents here; give the v3 directory of api/openapi-spec")
    for path in files:
        for full, schema in json.loads(path.read_bytes())["components"]["schemas"].items():
            name = short(full)
            definitions[name] = compact(schema)
            owners = schema.get("x-kubernetes-group-version-kind", ())
            # A type such as DeleteOptions belongs to every group; it is not a kind of its own.
            if len(owners) == 1:
                owner = owners[0]
                kinds["/".join(filter(None, (owner["group"], owner["version"], owner["kind"])))] = name
    return {"kinds": dict(sorted(kinds.items())), "definitions": dict(sorted(definitions.items()))}


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    data = json.dumps(read(Path(sys.argv[1])), separators=(",", ":")).encode()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(gzip.compress(data, 9, mtime=0))
    sys.stdout.write(f"{TARGET.name}: {len(data)} bytes, {TARGET.stat().st_size} compressed\n")


if __name__ == "__main__":
    main()
