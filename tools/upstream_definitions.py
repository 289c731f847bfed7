"""Writes the facts of upstream's custom resource definitions that ours are compared with: `tests/upstream/definitions.json`.

Usage: python -m tools.upstream_definitions FOLDER, where FOLDER holds one CRD a JSON file. Kept are field paths, types, defaults, enums,
limits and which fields are required; of rules and messages only a digest, since their words are upstream's.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Facts = dict[str, dict[str, Any]]
"""What a definition says, by place: `names`, `v1`, `v1 column Age`, `v1.spec.size`, `v1.spec.items[]`, `v1.spec.labels{}`."""

FILE = Path(__file__).parents[1] / "tests" / "upstream" / "definitions.json"
RULE = "rule "
KINDS = (
    "mlflows.mlflow.opendatahub.io", "mlflowconfigs.mlflow.kubeflow.org",
    "mlflowoperators.components.platform.opendatahub.io", "modelregistries.modelregistry.opendatahub.io",
    "appwrappers.workload.codeflare.dev", "predictors.serving.kserve.io", "servingruntimes.serving.kserve.io",
    "clusterservingruntimes.serving.kserve.io", "trustyaiservices.trustyai.opendatahub.io",
    "lmevaljobs.trustyai.opendatahub.io", "evalhubs.trustyai.opendatahub.io",
    "guardrailsorchestrators.trustyai.opendatahub.io", "nemoguardrails.trustyai.opendatahub.io",
)  # fmt: skip
"""The kinds that our operators define or will define; kinds of third parties are not compared."""

_PROSE = frozenset(("description", "title", "example", "externalDocs"))
_NESTED = frozenset(("properties", "items", "additionalProperties", "required", "enum", "x-kubernetes-validations"))
_WORDS = frozenset(("deprecationWarning", "message", "messageExpression"))
_DIGEST = re.compile(r"#[0-9a-f]{12}").fullmatch


def facts_of(crd: Mapping[str, Any]) -> Facts:
    """The facts of one CRD object; descriptions do not count, nor does the order of anything but columns."""
    return dict(_definition(crd["spec"]))


def without_words(facts: Facts) -> Facts:
    """The same facts, with a digest in place of each rule, message and warning."""
    return {path: dict(_digested(said)) for path, said in facts.items()}


def digest(words: str) -> str:
    return words if _DIGEST(words) else "#" + hashlib.sha256(words.encode()).hexdigest()[:12]


def _digested(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for what, value in said.items():
        if what.startswith(RULE):
            yield RULE + digest(what.removeprefix(RULE)), dict(_digested(value))
        else:
            yield what, digest(value) if what in _WORDS else value


def _definition(spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "", {key: spec[key] for key in ("group", "scope")}
    names = spec["names"]
    lists = {key: sorted(names[key]) for key in ("shortNames", "categories") if names.get(key)}
    yield "names", {key: names[key] for key in ("kind", "listKind", "plural", "singular") if key in names} | lists
    if "conversion" in spec:
        yield "conversion", {"strategy": spec["conversion"]["strategy"]}
    for version in spec["versions"]:
        yield from _version(version)


def _version(version: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    name, columns = version["name"], version.get("additionalPrinterColumns") or ()
    keys = ("served", "storage", "deprecated", "deprecationWarning", "subresources")
    about = {key: version[key] for key in keys if key in version}
    if columns:
        about["order of columns"] = [column["name"] for column in columns]
    schema = list(_schema(version["schema"]["openAPIV3Schema"], name))
    yield name, about | schema[0][1]
    for column in columns:
        said = {key: value for key, value in column.items() if key not in _PROSE}
        yield f"{name} column {column['name']}", {"priority": 0} | said
    yield from schema[1:]


def _schema(schema: Mapping[str, Any], path: str, required: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    said = {key: schema[key] for key in sorted(schema.keys() - _PROSE - _NESTED)}
    if required:
        said["required"] = True
    if schema.get("enum"):
        said["enum"] = sorted(schema["enum"], key=str)
    for rule in schema.get("x-kubernetes-validations") or ():
        said[RULE + rule["rule"]] = {key: value for key, value in rule.items() if key != "rule"}
    inner = {"[]": schema.get("items"), "{}": schema.get("additionalProperties")}
    if isinstance(inner["{}"], bool):
        said["additionalProperties"] = inner["{}"]
    yield path, said
    for name, field in sorted((schema.get("properties") or {}).items()):
        yield from _schema(field, f"{path}.{name}", name in (schema.get("required") or ()))
    for step, part in inner.items():
        if isinstance(part, Mapping):
            yield from _schema(part, path + step)


def written(definitions: Mapping[str, Facts]) -> str:
    """The data file's text: a line a place, so that a change of upstream's shows as one."""
    blocks = []
    for name, facts in sorted(definitions.items()):
        lines = (f"  {json.dumps(path)}: {json.dumps(said, ensure_ascii=False)}" for path, said in facts.items())
        blocks.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python -m tools.upstream_definitions FOLDER   (one CRD a file, FOLDER/PLURAL.GROUP.json)")
    folder = Path(sys.argv[1])
    definitions = {name: json.loads((folder / f"{name}.json").read_text()) for name in KINDS}
    FILE.write_text(written({name: without_words(facts_of(crd)) for name, crd in definitions.items()}))


if __name__ == "__main__":
    main()
