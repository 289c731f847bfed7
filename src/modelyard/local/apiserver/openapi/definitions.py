"""The schemas of served kinds as OpenAPI components: built-in ones from the compact data, custom ones from their definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.schema import builtin_kinds, open_api_definitions
from modelyard.local.apiserver.crds.strategy import CustomStrategy
from modelyard.local.apiserver.openapi.prose import HEAD, METADATA, describe
from modelyard.local.apiserver.resources import ServedResource

_PREFIXES = {
    "meta": "io.k8s.apimachinery.pkg.apis.",
    "resource.Quantity": "io.k8s.apimachinery.pkg.api.",
    "intstr": "io.k8s.apimachinery.pkg.util.",
    "runtime": "io.k8s.apimachinery.pkg.",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.",
}
_V2_FORGETS = ("allOf", "anyOf", "oneOf", "not", "nullable", "x-kubernetes-validations")
OBJECT_META = "meta.v1.ObjectMeta"
LIST_META = "meta.v1.ListMeta"


def full_name(short: str) -> str:
    """`core.v1.Pod` as Kubernetes' documents name it."""
    return _PREFIXES.get(short, _PREFIXES.get(short.partition(".")[0], "io.k8s.api.")) + short


def builtin_name(kind: Kind) -> str | None:
    """The short name of a built-in kind's definition."""
    return builtin_kinds().get(f"{kind.api_version}/{kind.kind}")


def custom_name(kind: Kind, name: str = "") -> str:
    """The name of a custom kind's definition: its group backwards."""
    group = ".".join(reversed(kind.group.split(".")))
    return f"{group}.{kind.version}.{name or kind.kind}"


def kind_entry(kind: Kind, name: str = "") -> Object:
    return {"group": kind.group, "kind": name or kind.kind, "version": kind.version}


class Components:
    """Collects the definitions that a document needs, with all that they refer to."""

    def __init__(self, *, v3: bool) -> None:
        self._v3 = v3
        self._prefix = "#/components/schemas/" if v3 else "#/definitions/"
        self._raw = open_api_definitions()
        self._kinds_of = _kinds_by_definition()
        self.schemas: dict[str, Object] = {}

    def reference(self, short: str) -> Object:
        self.add(short)
        return {"$ref": self._prefix + full_name(short)}

    def add(self, short: str) -> None:
        """A built-in definition and what it refers to."""
        waiting = [short]
        while waiting:
            name = waiting.pop()
            full = full_name(name)
            if full in self.schemas or name not in self._raw:
                continue
            document = msgspec.json.decode(self._raw[name])
            waiting += _references(document)
            self.schemas[full] = schema = self._converted(document)
            if name == OBJECT_META:
                describe(schema["properties"], METADATA)
            if kinds := self._kinds_of.get(name):
                schema["x-kubernetes-group-version-kind"] = kinds
                describe(schema.get("properties") or {}, HEAD)

    def _converted(self, document: Object) -> Object:
        """The compact form as OpenAPI: full names, and for version 3 no siblings of `$ref`."""
        out: Object = {}
        for key, value in document.items():
            if key == "$ref":
                continue
            if key == "properties":
                out[key] = {name: self._converted(child) for name, child in value.items()}
            elif key in ("items", "additionalProperties") and isinstance(value, dict):
                out[key] = self._converted(value)
            else:
                out[key] = value
        if "$ref" in document:
            reference = {"$ref": self._prefix + full_name(document["$ref"])}
            out = out | {"allOf": [reference]} if out and self._v3 else out | reference
        return out

    def add_custom(self, resource: ServedResource) -> str:
        """A custom kind and its list; returns the name of the kind's definition."""
        kind = resource.kind
        name, list_name = custom_name(kind), custom_name(kind, resource.list_kind)
        if name in self.schemas:
            return name
        strategy = resource.strategy
        source: Mapping[str, Any] = strategy.schema if isinstance(strategy, CustomStrategy) else {"type": "object"}
        schema: Object = dict(source) if self._v3 else _for_v2(source)
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        metadata = self._converted({"$ref": OBJECT_META, "default": {}})
        if not self._v3:
            metadata.pop("default")
        self.add(OBJECT_META)
        self.add(LIST_META)
        properties |= {n: s for n, s in (schema.get("properties") or {}).items() if n not in ("apiVersion", "kind")}
        schema["properties"] = properties | {"metadata": metadata}
        describe(schema["properties"], HEAD)
        schema["x-kubernetes-group-version-kind"] = [kind_entry(kind)]
        self.schemas[name] = schema
        self.schemas[list_name] = {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "items": {"type": "array", "items": {"$ref": self._prefix + name}},
                "kind": {"type": "string"},
                "metadata": self._converted({"$ref": LIST_META}),
            },
            "x-kubernetes-group-version-kind": [kind_entry(kind, resource.list_kind)],
        }
        return name


def _for_v2(schema: Mapping[str, Any]) -> Object:
    """A custom schema without what OpenAPI 2 has no words for."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        return {k: v for k, v in schema.items() if k in ("description", "x-kubernetes-preserve-unknown-fields")}
    out = {key: value for key, value in schema.items() if key not in _V2_FORGETS}
    if "properties" in out:
        out["properties"] = {name: _for_v2(child) for name, child in out["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), Mapping):
            out[key] = _for_v2(out[key])
    return out


def _references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif isinstance(value, (dict, list)):
                yield from _references(value)
    elif isinstance(document, list):
        for item in document:
            yield from _references(item)


def _kinds_by_definition() -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for path, name in builtin_kinds().items():
        api_version, _, kind = path.rpartition("/")
        group, _, version = api_version.rpartition("/")
        found.setdefault(name, []).append({"group": group, "kind": kind, "version": version})
    return found
