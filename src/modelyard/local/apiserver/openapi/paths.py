"""The paths of served resources as OpenAPI operations: what kubectl reads to find kinds and to see what the server can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.openapi.definitions import kind_entry
from modelyard.local.apiserver.served.resources import ServedResource, Subresource

_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_TYPES = {
    "allowWatchBookmarks": "boolean", "limit": "integer", "sendInitialEvents": "boolean", "timeoutSeconds": "integer",
    "watch": "boolean", "gracePeriodSeconds": "integer", "orphanDependents": "boolean", "force": "boolean",
}  # fmt: skip
_PATCHES = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)  # fmt: skip

# method, verb, action, parameters
_COLLECTION = (
    ("get", "list", "list", _LIST),
    ("post", "create", "post", _WRITE),
    ("delete", "deletecollection", "deletecollection", _DELETE + _LIST),
)
_OBJECT = (
    ("get", "get", "get", ()),
    ("put", "update", "put", _WRITE),
    ("delete", "delete", "delete", _DELETE),
    ("patch", "patch", "patch", (*_WRITE, "force")),
)
_NAMES = {"list": "list", "post": "create", "deletecollection": "deleteCollection", "get": "read", "put": "replace", "delete": "delete", "patch": "patch", "connect": "connect"}  # fmt: skip

SchemaOf = Callable[[ServedResource, str], Object]
"""(resource, `object`, `list` or a subresource) -> a reference to the schema."""


class Paths:
    """Writes operations for one OpenAPI version."""

    def __init__(self, schema_of: SchemaOf, *, v3: bool) -> None:
        self._schema_of = schema_of
        self._v3 = v3

    def of(self, resource: ServedResource) -> dict[str, Object]:
        kind = resource.kind
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        inside = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        place = ("namespace",) if kind.namespaced else ()
        paths = {inside: self._item(resource, _COLLECTION, place, "")}
        if kind.namespaced and "list" in resource.verbs:
            paths[f"{root}/{kind.plural}"] = self._item(resource, _COLLECTION[:1], (), "", everywhere=True)
        if "get" in resource.verbs:
            paths[f"{inside}/{{name}}"] = self._item(resource, _OBJECT, ("name", *place), "")
        for sub in resource.subresources.values():
            paths[f"{inside}/{{name}}/{sub.name}"] = self._item(resource, _OBJECT, ("name", *place), sub.name)
        return {path: item for path, item in paths.items() if len(item) > 1}

    def _item(
        self,
        resource: ServedResource,
        operations: Sequence[tuple[str, str, str, Sequence[str]]],
        place: Sequence[str],
        subresource: str,
        *,
        everywhere: bool = False,
    ) -> Object:
        sub = resource.subresources.get(subresource)
        verbs = sub.verbs if sub else resource.verbs
        operations = [*operations, *(_COLLECTION[1:2] if sub else ())]
        item: Object = {
            method: self._operation(resource, sub, action, parameters, everywhere)
            for method, verb, action, parameters in operations
            if verb in verbs
        }
        parameters = [self._parameter(name, "path", required=True) for name in place]
        return item | {"parameters": [*parameters, self._parameter("pretty", "query")]}

    def _operation(
        self,
        resource: ServedResource,
        sub: Subresource | None,
        action: str,
        parameters: Sequence[str],
        everywhere: bool,
    ) -> Object:
        kind = resource.kind
        of_kind = kind_entry(kind)
        if sub is not None:
            of_kind["kind"] = sub.kind
            if sub.version:
                of_kind |= {"group": sub.group, "version": sub.version}
        schema = self._schema_of(resource, "list" if action == "list" else sub.name if sub else "object")
        operation: Object = {
            "tags": [f"{_camel(kind.group, False) or 'core'}_{kind.version}"],
            "operationId": _operation_id(resource, sub, action, everywhere),
            "responses": self._responses(schema),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": of_kind,
        }
        if parameters:
            operation["parameters"] = [self._parameter(name, "query") for name in parameters]
        if action in ("post", "put", "patch"):
            media = _PATCHES[:3] if resource.custom else _PATCHES
            self._add_body(operation, schema, media if action == "patch" else ("*/*",))
        return operation

    def _add_body(self, operation: Object, schema: Object, media: Sequence[str]) -> None:
        """kubectl sends a strategic merge patch only where it finds its media type here."""
        shape = schema if media == ("*/*",) else {"type": "object"}
        if self._v3:
            operation["requestBody"] = {"content": {kind: {"schema": shape} for kind in media}, "required": True}
            return
        operation["consumes"] = list(media)
        body: Object = {"name": "body", "in": "body", "required": True, "schema": shape}
        operation["parameters"] = [body, *operation.get("parameters", ())]

    def _responses(self, schema: Object) -> Object:
        if self._v3:
            return {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}}
        return {"200": {"description": "OK", "schema": schema}}

    def _parameter(self, name: str, where: str, *, required: bool = False) -> Object:
        shape = {"type": _TYPES.get(name, "string")}
        parameter: Object = {"name": name, "in": where}
        if required:
            parameter["required"] = True
        return parameter | ({"schema": shape | {"uniqueItems": True}} if self._v3 else shape | {"uniqueItems": True})


def _camel(group: str, upper: bool = True) -> str:
    short = group.removesuffix(".k8s.io").removesuffix(".authorization")
    words = short.replace("-", ".").split(".")
    text = "".join(word[:1].upper() + word[1:] for word in words)
    return text if upper else text[:1].lower() + text[1:]


def _operation_id(resource: ServedResource, sub: Subresource | None, action: str, everywhere: bool) -> str:
    kind = resource.kind
    group = _camel(kind.group) or "Core"
    place = "Namespaced" if kind.namespaced and not everywhere else ""
    tail = "ForAllNamespaces" if everywhere else _camel(sub.name) if sub else ""
    name = "Collection" + place + kind.kind if action == "deletecollection" else place + kind.kind
    verb = "delete" if action == "deletecollection" else _NAMES[action]
    return f"{verb}{group}{kind.version.capitalize()}{name}{tail}"
