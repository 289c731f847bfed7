"""The schemas of served kinds as OpenAPI components: built-in ones from the compact data, custom ones from their definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.schema import builtin_kinds, open_api_definitions
from modelyard.local.apiserver.crds.strategy import CustomStrategy
from modelyard.local.apiserver.openapi.prose import HEAD, METADATA, describe
from modelyard.local.apiserver.served.resources import ServedResource

_PREFIXES = {
    "meta": "io.k8s.apimachinery.pkg.apis.",
    "resource.Quantity": "io.k8s.apimachinery.pkg.api.",
    "intstr": "io.k8s.apimachinery.pkg.util.",
    "runtime": "io.k8s.apimachinery.pkg.",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.",
}
_V2_FORGETS = ("allOf", "anyOf", "oneOf", "not", "nullable")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
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
        name = custom_name(kind)
        if name in self.schemas:
            return name
        strategy = resource.strategy
        source: Mapping[str, Any] = strategy.schema if isinstance(strategy, CustomStrategy) else {"type": "object"}
        if not self._v3 and source.get("x-kubernetes-preserve-unknown-fields"):
            # OpenAPI 2 knows no open objects: clients that check with it must accept everything.
            self.schemas[name] = {"type": "object", "x-kubernetes-group-version-kind": [kind_entry(kind)]}
        else:
            self.schemas[name] = self._custom_schema(kind, source)
        self._add_custom_list(resource, name)
        return name

    def _custom_schema(self, kind: Kind, source: Mapping[str, Any]) -> Object:
        schema = self._for_v3(source) if self._v3 else _for_v2(source)
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        metadata = self._metadata()
        properties |= {n: s for n, s in (schema.get("properties") or {}).items() if n not in ("apiVersion", "kind")}
        schema["properties"] = properties | {"metadata": metadata}
        describe(schema["properties"], HEAD)
        schema["x-kubernetes-group-version-kind"] = [kind_entry(kind)]
        return schema

    def _metadata(self) -> Object:
        self.add(OBJECT_META)
        reference = {"$ref": self._prefix + full_name(OBJECT_META)}
        return {"allOf": [reference]} if self._v3 else reference

    def _for_v3(self, schema: Mapping[str, Any]) -> Object:
        """A custom schema with what its extensions mean spelled out for those who do not know them."""
        out = dict(schema)
        if out.get("x-kubernetes-int-or-string") and "anyOf" not in out:
            out["anyOf"] = _INT_OR_STRING
        if "properties" in out:
            out["properties"] = {name: self._for_v3(child) for name, child in out["properties"].items()}
        if out.get("x-kubernetes-embedded-resource"):
            head: Object = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": self._metadata()}
            describe(head, HEAD)
            out["properties"] = (out.get("properties") or {}) | head
            out["required"] = [*(out.get("required") or ()), "kind", "apiVersion"]
        for key in ("items", "additionalProperties"):
            if isinstance(out.get(key), Mapping):
                out[key] = self._for_v3(out[key])
        return out

    def _add_custom_list(self, resource: ServedResource, name: str) -> None:
        kind = resource.kind
        self.add(LIST_META)
        self.schemas[custom_name(kind, resource.list_kind)] = {
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


def _for_v2(schema: Mapping[str, Any]) -> Object:
    """A custom schema without what OpenAPI 2 has no words for."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("nullable"):
        # Nothing in it can be said for sure.
        return {k: v for k, v in schema.items() if k == "description" or k.startswith("x-")}
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
