"""The rules of CustomResourceDefinition objects themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin.shapes import Reader, ShapeError, reader_for
from modelyard.local.apiserver.crds.checks import check_definition, check_definition_update, check_names
from modelyard.local.apiserver.requests.problems import Cause, bad_request, go_quote
from modelyard.local.apiserver.served.resources import PlainStrategy
from modelyard.local.apiserver.structural.checks import nested_schemas
from modelyard.local.apiserver.structural.formats import is_known_format

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionStrategy(PlainStrategy):
    """Defaults, status and validation of definitions."""

    def __init__(self) -> None:
        super().__init__(has_status=True)
        self._read: Reader | None = reader_for("apiextensions/v1.CustomResourceDefinition")

    def default(self, obj: Object) -> None:
        if self._read is not None:
            try:
                shaped = self._read(obj)
            except ShapeError as error:
                raise bad_request(
                    'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
                    f"{error.message}"
                ) from None
            obj.clear()
            obj.update(shaped)
        spec = obj.setdefault("spec", {})
        names = spec.get("names")
        if isinstance(names, dict):
            if not names.get("singular"):
                names["singular"] = str(names.get("kind") or "").lower()
            if not names.get("listKind") and names.get("kind"):
                names["listKind"] = f"{names['kind']}List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
        if isinstance(service, dict) and service.get("port") is None:
            service["port"] = 443
        if spec.get("preserveUnknownFields") is False:
            del spec["preserveUnknownFields"]
        for version in spec.get("versions") or ():
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if isinstance(schema, dict):
                tidy_schema(schema)
        status = obj.get("status")
        if not isinstance(status, dict):
            status = obj["status"] = {}
        status.setdefault("conditions", None)
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
        if not status.get("storedVersions"):
            status["storedVersions"] = storage_versions(obj) or None

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": storage_versions(obj) or None,
        }

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource:
            return
        status = new["status"] = dict(new.get("status") or {})
        stored = list(status.get("storedVersions") or [])
        status["storedVersions"] = stored + [name for name in storage_versions(new) if name not in stored] or None

    def holds_deletion(self, obj: Object) -> bool:
        """The first delete never removes a definition: its objects go first."""
        return "deletionTimestamp" not in obj["metadata"]

    def start_deletion(self, obj: Object) -> None:
        mark_terminating(obj)

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        if subresource == "status":
            return check_names((obj.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")
        return check_definition(obj) if old is None else check_definition_update(obj, old)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        before = set(_warnings(old)) if old is not None else set()
        return [text for text in _warnings(obj) if text not in before]

    def canonical_name(self, obj: Object) -> str | None:
        spec = obj.get("spec") or {}
        wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
        name = (obj.get("metadata") or {}).get("name")
        if name == wanted:
            return None
        return super().canonical_name(obj) or 'must be spec.names.plural+"."+spec.group'

    def reset_fields(self, subresource: str) -> Sequence[Sequence[str]]:
        return (("spec",),) if subresource == "status" else (("status",),)


_NEVER_EMPTY = frozenset(
    {
        "properties", "required", "enum", "allOf", "anyOf", "oneOf", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
        "type", "format", "title", "description", "pattern", "nullable", "uniqueItems", "exclusiveMaximum", "exclusiveMinimum",
        "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    }
)  # fmt: skip


def tidy_schema(schema: Object) -> None:
    """Drops, in place, the keywords that Kubernetes does not write when they say nothing."""
    for name in [n for n, value in schema.items() if value is None or (not value and n in _NEVER_EMPTY)]:
        del schema[name]
    for child in nested_schemas(schema):
        if isinstance(child, dict):
            tidy_schema(child)


def mark_terminating(obj: Object) -> None:
    """The finalizer that waits for the objects, and the condition that says so."""
    metadata = obj["metadata"]
    # Kubernetes marks a definition past the ways of other kinds: no grace period, no new generation.
    metadata.pop("deletionGracePeriodSeconds", None)
    metadata["generation"] = max(metadata.get("generation", 1) - 1, 1)
    finalizers = metadata.setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    status = obj.setdefault("status", {})
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": metadata["deletionTimestamp"],
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "Terminating"]
    status["conditions"] = [*others, condition]


def storage_versions(obj: Object) -> list[str]:
    """The name of the version that objects are stored in, if one is marked."""
    versions = (obj.get("spec") or {}).get("versions") or ()
    return [version.get("name", "") for version in versions if version.get("storage")][:1]


def _schemas(obj: Object) -> Iterator[Mapping[str, Any]]:
    seen: list[Mapping[str, Any]] = []
    for version in (obj.get("spec") or {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        # A schema that all versions share is looked at once.
        if schema is not None and schema not in seen:
            seen.append(schema)
            yield from _walk(schema)


def _walk(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for child in nested_schemas(schema):
        yield from _walk(child)


def _warnings(obj: Object) -> list[str]:
    texts, sets = [], set()
    for schema in _schemas(obj):
        form, kind = schema.get("format"), schema.get("type") or ""
        if form and not is_known_format(form, kind):
            texts.append(f"unrecognized format {go_quote(form)}")
        items = schema.get("items")
        item_type = items.get("type") if isinstance(items, Mapping) else None
        if schema.get("x-kubernetes-list-type") == "set" and item_type in ("object", "array"):
            sets.add(
                f"x-kubernetes-list-type: set for items of type {go_quote(item_type)} is not supported by "
                "server-side apply or CEL validation rules"
            )
    return texts + sorted(sets)
