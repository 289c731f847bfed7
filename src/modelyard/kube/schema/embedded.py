"""Built-in types as the structural schemas that a custom resource embeds: no references, nothing an API server would refuse."""

from __future__ import annotations

from typing import Any

from modelyard.kube.schema.catalog import INT_OR_STRING, QUANTITY, RAW_EXTENSION, Document, catalog
from modelyard.kube.schema.structural import QUANTITY_PATTERN

# Types that inline a LocalObjectReference take its map type along in a generated schema, though the API's own does not say so.
_ATOMIC = frozenset(
    f"core.v1.{name}"
    for name in (
        "ConfigMapEnvSource",
        "SecretEnvSource",
        "ConfigMapProjection",
        "SecretProjection",
        "ConfigMapVolumeSource",
    )
)
# Defaults that are written as Go constants, which generators of custom resources do not resolve.
_UNRESOLVED = frozenset((("core.v1.AzureDiskVolumeSource", "cachingMode"), ("core.v1.AzureDiskVolumeSource", "kind")))

_COPIED = (
    "format",
    "enum",
    "nullable",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


def openapi_dict(name: str) -> dict[str, Any]:
    """The OpenAPI v3 schema of a type such as `core.v1.Affinity`, whole, as generators of custom resources write it."""
    return _definition(name, ())


def _definition(name: str, above: tuple[str, ...]) -> dict[str, Any]:
    if name == QUANTITY:
        return _int_or_string() | {"pattern": QUANTITY_PATTERN}
    if name == INT_OR_STRING:
        return _int_or_string()
    if name == RAW_EXTENSION or name in above:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if name == "meta.v1.ObjectMeta":
        # An API server owns the form of metadata; a schema may not describe it.
        return {"type": "object"}
    out = _schema(catalog().document(name), (*above, name))
    if name in _ATOMIC:
        out["x-kubernetes-map-type"] = "atomic"
    return out


def _int_or_string() -> dict[str, Any]:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _schema(document: Document, above: tuple[str, ...]) -> dict[str, Any]:
    if "$ref" in document:
        out = _definition(document["$ref"], above)
        if "x-kubernetes-map-type" in document:
            out["x-kubernetes-map-type"] = document["x-kubernetes-map-type"]
        return out
    if not document.get("type"):
        return {"x-kubernetes-preserve-unknown-fields": True}
    out = {"type": document["type"]} | {key: document[key] for key in _COPIED if key in document}
    if "items" in document:
        out["items"] = _schema(document["items"], above)
    additional = document.get("additionalProperties")
    if isinstance(additional, dict):
        out["additionalProperties"] = _schema(additional, above)
    if "properties" in document:
        required = document.get("required", [])
        out["properties"] = {
            key: _schema(each, above) | ({} if (above[-1], key) in _UNRESOLVED else _default(key, each, required))
            for key, each in document["properties"].items()
        }
        if required:
            out["required"] = sorted(required)
    return out


def _default(name: str, document: Document, required: list[str]) -> dict[str, Any]:
    """The default of a field, where it is a real one: Go's zero values of fields that are always written are not."""
    default = document.get("default")
    if default is None or default == {} or (name in required and default in ("", 0, False)):
        return {}
    return {"default": default}
