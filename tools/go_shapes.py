"""Reads the Go types of the Kubernetes API and writes how each field is serialised: `builtin/shapes.json`.

Usage: python tools/go_shapes.py MODULE_CACHE > shapes.json, where MODULE_CACHE holds k8s.io/api@v0.37.1 and its siblings.
The OpenAPI documents do not say which fields are pointers or are left out when empty; the Go types do.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

VERSION = "v0.37.1"
PACKAGES = {
    **{
        f"k8s.io/api/{group}": f"api@{VERSION}/{group}"
        for group in (
            "core/v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1", "networking/v1", "discovery/v1",
            "coordination/v1", "storage/v1", "scheduling/v1", "rbac/v1", "admissionregistration/v1", "authentication/v1",
            "authorization/v1", "events/v1", "node/v1", "certificates/v1",
        )
    },
    "k8s.io/apimachinery/pkg/apis/meta/v1": f"apimachinery@{VERSION}/pkg/apis/meta/v1",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": f"apiextensions-apiserver@{VERSION}/pkg/apis/apiextensions/v1",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1": f"kube-aggregator@{VERSION}/pkg/apis/apiregistration/v1",
}  # fmt: skip

SCALARS = {
    "string": "string", "bool": "bool", "int": "int", "int8": "int8", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "float64": "float64", "types.UID": "string", "types.NodeName": "string",
    "resource.Quantity": "Quantity", "intstr.IntOrString": "IntOrString", "runtime.RawExtension": "raw",
    "runtime.Object": "raw", "metav1.Time": "Time", "metav1.MicroTime": "MicroTime", "metav1.Duration": "Duration",
    "Time": "Time", "MicroTime": "MicroTime", "Duration": "Duration", "FieldsV1": "raw", "JSON": "raw",
    "JSONSchemaProps": "raw", "metav1.FieldsV1": "raw",
}  # fmt: skip


class Source:
    """The type declarations of one Go package."""

    def __init__(self, path: str, folder: Path) -> None:
        self.path = path
        self.imports: dict[str, str] = {}
        self.structs: dict[str, list[str]] = {}
        self.aliases: dict[str, str] = {}
        for file in sorted(folder.glob("*.go")):
            if file.name.startswith("zz_") or file.name.endswith(("_test.go", ".pb.go")):
                continue
            text = file.read_text()
            for name, imported in re.findall(r'^\s+(\w+)?\s*"(k8s\.io/[^"]+)"', text, re.M):
                self.imports[name or imported.rsplit("/", 1)[1]] = imported
            text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
            for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
                self.structs[name] = [
                    line.split("//")[0].strip() if "`" not in line else line.strip() for line in body.split("\n")
                ]
            for name in re.findall(r"^type (\w+) struct ?\{\}", text, re.M):
                self.structs[name] = []
            for name, target in re.findall(r"^type (\w+) =? ?([\w.\[\]*]+)\s*$", text, re.M):
                self.aliases.setdefault(name, target)
            for block in re.findall(r"^type \(\n(.*?)^\)", text, re.M | re.S):
                for name, target in re.findall(r"^\s+(\w+) ([\w.\[\]*]+)\s*$", block, re.M):
                    self.aliases.setdefault(name, target)


class Shapes:
    """Collects the structs reachable from the kinds that are served."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.sources = {path: Source(path, cache / folder) for path, folder in PACKAGES.items()}
        self.served = list(self.sources.values())
        self.out: dict[str, dict[str, str]] = {}

    def struct(self, package: str, name: str) -> str:
        key = f"{short(package)}.{name}"
        if key not in self.out:
            self.out[key] = {}
            self.out[key] = self.fields(package, name)
        return key

    def fields(self, package: str, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.sources[package].structs[name]:
            if not line or line.startswith("//") or "`" not in line:
                continue
            declaration, tags = line.split("`", 2)[:2]
            match = re.search(r'json:"([^"]*)"', tags)
            if match is None:
                continue
            json_name, *options = match.group(1).split(",")
            words = declaration.split()
            if len(words) == 1 and not json_name:
                owner, inner = self.resolve(package, words[0].lstrip("*"))
                # Go names the embedded struct in the path of a decoding error.
                found |= {name: f"{text}^{inner}" for name, text in self.fields(owner, inner).items()}
                continue
            if json_name in ("-", ""):
                continue
            go_type = " ".join(words[1:]) if len(words) > 1 else words[0]
            mark = "" if "omitempty" in options or "omitzero" in options else "!"
            if "omitzero" in options:
                mark += "~"
            found[json_name] = mark + self.type(package, go_type)
        return found

    def resolve(self, package: str, name: str) -> tuple[str, str]:
        source = self.sources[package]
        if "." not in name:
            return package, name
        alias, inner = name.split(".")
        owner = source.imports[alias]
        if owner not in self.sources:
            self.sources[owner] = Source(owner, self.cache / owner.replace("k8s.io/api/", f"api@{VERSION}/"))
        return owner, inner

    def type(self, package: str, go_type: str) -> str:
        if go_type.startswith("*"):
            return "*" + self.type(package, go_type[1:])
        if go_type == "[]byte":
            return "bytes"
        if go_type.startswith("[]"):
            return "[]" + self.type(package, go_type[2:])
        if match := re.match(r"map\[[\w.]+\](.+)", go_type):
            return "{}" + self.type(package, match.group(1))
        if go_type in SCALARS:
            return SCALARS[go_type]
        owner, name = self.resolve(package, go_type)
        source = self.sources[owner]
        if name in SCALARS and owner.endswith(("meta/v1", "apiextensions/v1")):
            return SCALARS[name]
        if name in source.structs:
            return self.struct(owner, name)
        named = f"@{owner.rsplit('/', 1)[1]}.{name}"
        if name in source.aliases:
            return self.type(owner, source.aliases[name]) + named
        if name == "ResourceList":
            return "{}Quantity" + named
        if name in ("NodeResources", "ExtraValue", "Verbs"):
            return "[]string" + named
        raise SystemExit(f"{package}: cannot resolve {go_type}")


def short(package: str) -> str:
    parts = package.split("/")
    return "meta/v1" if "meta" in parts else "/".join(parts[-2:])


def roots(source: Source) -> list[str]:
    """The kinds of a package: structs with both TypeMeta and ObjectMeta, and the few without metadata."""
    return [
        name
        for name, lines in source.structs.items()
        if any(line.startswith("metav1.TypeMeta") for line in lines)
        and any(line.startswith("metav1.ObjectMeta") for line in lines)
    ]


def main() -> None:
    shapes = Shapes(Path(sys.argv[1]))
    for source in shapes.served:
        for name in roots(source):
            shapes.struct(source.path, name)
    ordered = {key: shapes.out[key] for key in sorted(shapes.out)}
    lines = ",\n".join(
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in ordered.items()
    )
    print("{\n" + lines + "\n}")


if __name__ == "__main__":
    main()
