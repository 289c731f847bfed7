"""Writes the field numbers of Kubernetes' protobuf messages into the API server's data: `python tools/protobuf.py GO_MODULES`.

GO_MODULES is the folder that holds `api@v…`, `apimachinery@v…` and `apiextensions-apiserver@v…`. The numbers are facts of the wire format.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/modelyard/local/apiserver/data/protobuf.json.gz"
GROUPS = (
    "core/v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1", "networking/v1", "rbac/v1", "coordination/v1",
    "storage/v1", "scheduling/v1", "discovery/v1", "admissionregistration/v1", "authentication/v1", "authorization/v1", "events/v1",
    "certificates/v1", "node/v1",
)  # fmt: skip
SPECIAL = {
    "meta.v1.Time": "time", "meta.v1.MicroTime": "micro", "meta.v1.Duration": "duration", "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr", "runtime.RawExtension": "raw", "meta.v1.FieldsV1": "raw", "apiextensions.v1.JSON": "raw",
    "apiextensions.v1.JSONSchemaPropsOrArray": "or:r", "apiextensions.v1.JSONSchemaPropsOrBool": "or:b",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "or:s",
}  # fmt: skip
SCALARS = {
    "string": "s",
    "bool": "b",
    "int": "i",
    "int32": "i",
    "int64": "i",
    "uint32": "i",
    "float64": "f",
    "types.UID": "s",
    "types.NodeName": "s",
}
_EMPTY = re.compile(r"^type (\w+) struct ?\{\s*\}", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) ([\w.*\[\]]+)\s*$", re.MULTILINE)
_FIELD = re.compile(r'^\s*(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*protobuf:"[^"]*"[^`]*)`', re.MULTILINE)


def main(modules: Path) -> None:
    api, machinery = _module(modules, "api"), _module(modules, "apimachinery")
    folders = {f"{group.replace('/', '.')}": api / group for group in GROUPS}
    folders["apiextensions.v1"] = _module(modules, "apiextensions-apiserver") / "pkg/apis/apiextensions/v1"
    folders["meta.v1"] = machinery / "pkg/apis/meta/v1"
    aliases: dict[str, str] = {}
    structs: dict[str, list[list[object]]] = {}
    sources = {
        package: "\n".join(f.read_text() for f in sorted(folder.glob("*types*.go")))
        for package, folder in folders.items()
    }
    for package, text in sources.items():
        for name, target in _ALIAS.findall(text):
            aliases[f"{package}.{name}"] = target
    for package, text in sources.items():
        structs |= {f"{package}.{name}": [] for name in _EMPTY.findall(text)}
        for name, body in _STRUCT.findall(text):
            fields = [_field(package, go_type, tags, aliases) for _, go_type, tags in _FIELD.findall(body)]
            if fields:
                structs[f"{package}.{name}"] = fields
    TARGET.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(TARGET, "wb", mtime=0) as file:
        file.write(json.dumps(structs, sort_keys=True, separators=(",", ":")).encode())
    print(f"{len(structs)} messages, {TARGET.stat().st_size} bytes")


def _module(modules: Path, name: str) -> Path:
    return sorted(modules.glob(f"{name}@v*"))[-1]


def _field(package: str, go_type: str, tags: str, aliases: dict[str, str]) -> list[object]:
    json_tag = re.search(r'json:"([^"]*)"', tags)
    number = re.search(r'protobuf:"\w+,(\d+)', tags)
    if number is None:
        raise SystemExit(f"no field number in the tags {tags!r} of {package}")
    json_name, _, options = (json_tag[1] if json_tag else "").partition(",")
    inline = "inline" in options or not json_name
    flags = ""
    if go_type.startswith("*"):
        flags += "p"
        go_type = go_type[1:]
    if "omitempty" not in options and "omitzero" not in options:
        flags += "k"
    code, repeated = _code(package, go_type, aliases)
    return [int(number[1]), "" if inline else json_name, code, flags + ("r" if repeated else "")]


def _code(package: str, go_type: str, aliases: dict[str, str]) -> tuple[str, bool]:
    if go_type == "[]byte":
        return "y", False
    if go_type.startswith("[]"):
        return _code(package, go_type[2:].lstrip("*"), aliases)[0], True
    if go_type.startswith("map["):
        value = go_type[go_type.index("]") + 1 :]
        if value == "[]string":
            return "{l", True
        return "{" + _code(package, value.lstrip("*"), aliases)[0], True
    if go_type in SCALARS:
        return SCALARS[go_type], False
    full = _full(package, go_type)
    if full in SPECIAL:
        return SPECIAL[full], False
    if full in aliases:
        owner = full.rpartition(".")[0]
        target = aliases[full]
        if target.startswith("[]") and target[2:] in SCALARS:
            # A named list of texts is a message that holds the list.
            return "m:" + full, False
        return _code(owner, target, aliases)
    return "m:" + full, False


def _full(package: str, go_type: str) -> str:
    prefix, _, name = go_type.rpartition(".")
    names = {
        "metav1": "meta.v1",
        "v1": "core.v1",
        "corev1": "core.v1",
        "apiv1": "core.v1",
        "resource": "resource",
        "intstr": "intstr",
        "runtime": "runtime",
        "authenticationv1": "authentication.v1",
        "types": "types",
    }
    return f"{names.get(prefix, prefix) if prefix else package}.{name}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
