"""The four kinds of patches, as transforms of a live object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from modelyard.kube import patches
from modelyard.kube.gotext import go_text
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests import bodies, problems
from modelyard.local.apiserver.requests.bodies import Unreadable
from modelyard.local.apiserver.requests.options import APPLY
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.storage.store import decode, encode
from modelyard.local.apiserver.verbs.ownership import Ownership
from modelyard.local.apiserver.verbs.writes import Transform, Write, Writes

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_MOST_OPERATIONS = 10_000
_CONTRADICTIONS = ("lists of lists are not supported", "patch content doesn't match retainKeys list")
_NO_KIND = Kind("", "", "", "")


def accepted_types(resource: ServedResource) -> tuple[str, ...]:
    if resource.custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY)


def read_apply(body: bytes) -> tuple[Object, list[str]]:
    """The configuration to apply, and the paths of keys that it gives twice. Raises 400."""
    try:
        value, duplicates = bodies.decode_yaml(body)
    except Unreadable as error:
        raise problems.bad_request(f"error decoding YAML: {error}") from None
    if value is not None and not isinstance(value, dict):
        raise problems.bad_request(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{_go_type(value)} into Go value of type map[string]interface {{}}"
        )
    return value or {}, duplicates


def read_patch(body: bytes, patch_type: str) -> Any:
    """A JSON, merge or strategic patch as data. Raises 400."""
    try:
        value, _ = bodies.decode_json(body)
    except Unreadable:
        raise problems.bad_request("invalid JSON patch") from None
    if patch_type == JSON_PATCH:
        if not isinstance(value, list):
            raise problems.bad_request(
                f"error decoding patch: json: cannot unmarshal {_go_type(value)} into Go value of type []handlers.jsonPatchOp"
            )
        if len(value) > _MOST_OPERATIONS:
            raise problems.too_large(
                f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(value)}"
            )
    elif not isinstance(value, dict):
        doing = "" if patch_type == STRATEGIC_PATCH else "error decoding patch: "
        raise problems.bad_request(
            f"{doing}json: cannot unmarshal {_go_type(value)} into Go value of type map[string]interface {{}}"
        )
    return value


class Patches:
    def __init__(self, writes: Writes, ownership: Ownership, clock: Callable[[], datetime]) -> None:
        self._writes = writes
        self._ownership = ownership
        self._clock = clock

    def patched(self, resource: ServedResource, raw: bytes, body: bytes, patch_type: str) -> Object:
        """A document with a JSON, merge or strategic patch applied; the result is the caller's own. The patch is only
        read now: what is missing is told before what is wrong with the patch."""
        patch = read_patch(body, patch_type)
        document = decode(raw)
        try:
            if patch_type == JSON_PATCH:
                result = patches.json_patch(document, patch)
            elif patch_type == MERGE_PATCH:
                result = patches.merge_patch(document, patch)
            else:
                result = patches.strategic_patch(document, patch, self._ownership.schema(resource))
        except patches.PatchError as error:
            if patch_type == STRATEGIC_PATCH and str(error) not in _CONTRADICTIONS:
                malformed = str(error).startswith("invalid patch format")
                refused = problems.bad_request(str(error)) if malformed else problems.custom(500, "", str(error))
                raise refused from None
            # The real server keeps the reason of a failed JSON patch to itself.
            message = "the server rejected our request due to an error in our request"
            raise problems.custom(422, "Invalid", message, {}) from error
        if not isinstance(result, dict):
            raise problems.bad_request("the patch does not leave an object")
        # A patch may leave the same list in two places; what follows changes objects in place.
        return decode(encode(result))

    def transform(self, write: Write, patch: bytes, patch_type: str) -> Transform:
        """For JSON, merge and strategic patches."""

        async def patched(raw: bytes | None) -> Object:
            assert raw is not None
            result = await self._writes.aside(write, lambda: self.patched(write.resource, raw, patch, patch_type))
            _check_kind(write.resource, result)
            obj = self._accepted(write, result, patch, patch_type)
            self._writes.check_name(write, obj)
            return obj

        return patched

    def _accepted(self, write: Write, result: Object, patch: bytes, patch_type: str) -> Object:
        try:
            return self._writes.accept(write, result, [])
        except Problem as problem:
            if problem.code != 400 or "cannot be handled as" not in problem.message:
                raise
            why = problem.message.split("cannot be handled as", 1)[1].partition(": ")[2]
            if patch_type == STRATEGIC_PATCH:
                # The only one whose result Kubernetes does not read from JSON.
                shown, why = go_text(read_patch(patch, patch_type)), _unconverted(why)
            else:
                shown = encode(result).decode()
            cause = problems.invalid_value("patch", shown, why)
            raise problems.invalid(_NO_KIND, "", [cause]) from None

    def apply(self, write: Write, config: Object, duplicates: list[str]) -> Transform:
        """For server-side apply."""
        resource = write.resource
        check_applied(resource.kind, config)
        self._check_duplicates(write, duplicates)
        pristine = encode(config)
        first = True

        async def applied(raw: bytes | None) -> Object:
            nonlocal first
            # All of it is this attempt's own, because what follows changes the outcome in place, and that shares parts with both.
            live = decode(raw) if raw is not None else None
            mine = config if first else decode(pristine)
            first = False
            named = mine["metadata"] if isinstance(mine.get("metadata"), dict) else {}
            wanted = named.pop("resourceVersion", None)
            options = write.options
            merged = self._ownership.apply(
                resource, live, mine, options.field_manager, write.subresource, force=options.force, now=self._clock()
            )
            if wanted:
                merged["metadata"]["resourceVersion"] = wanted
            converted = self._converted(write, merged, named)
            self._writes.check_name(write, converted)
            return converted

        return applied

    def _converted(self, write: Write, merged: Object, metadata: Object) -> Object:
        try:
            return self._writes.accept(write, merged, [], applied=True)
        except Problem as problem:
            kind = write.resource.kind
            if problem.code != 400 or "cannot be handled as" not in problem.message or write.resource.custom:
                raise
            why = problem.message.split("cannot be handled as", 1)[1].partition(": ")[2]
            why = _unconverted(why)
            title = f"{kind.group}/{kind.version}, Kind={kind.kind}"
            named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            message = (
                f"failed to convert new object ({named}; {title}) to proper version: "
                f"unable to convert unstructured object to {title}: {why}"
            )
            raise problems.custom(500, "", message) from None

    @staticmethod
    def _check_duplicates(write: Write, duplicates: list[str]) -> None:
        if not duplicates or write.options.field_validation == "Ignore":
            return
        if write.options.field_validation == "Strict":
            raise problems.bad_request(
                f"error strict decoding patch: error converting YAML to JSON: {bodies.repeated(duplicates)}"
            )
        write.warnings += duplicates


def check_applied(kind: Kind, config: Object) -> None:
    """A configuration must be of the kind that it is applied to, and says nothing about who manages what."""
    if config.get("kind") != kind.kind or config.get("apiVersion") != kind.api_version:
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        given = f"{group}/{version}, Kind={config.get('kind') or ''}"
        raise problems.bad_request(f"invalid object type: {given}")
    metadata = config.get("metadata")
    if metadata is None:
        # A manager that names no metadata gives up what it had of it; an empty one is something else.
        config.pop("metadata", None)
        return
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise problems.bad_request("metadata.managedFields must be nil")


def _unconverted(why: str) -> str:
    """Why an object made of plain data cannot be one of its kind."""
    return f"error decoding from json: {why}" if why.startswith("illegal base64 data") else why


def _check_kind(resource: ServedResource, result: Object) -> None:
    kind = resource.kind
    if resource.custom:
        # That is for validation to say.
        return
    given_kind, given_version = result.get("kind") or kind.kind, result.get("apiVersion") or kind.api_version
    if given_kind != kind.kind or given_version != kind.api_version:
        why = (
            f'no kind "{given_kind}" is registered for version "{given_version}" in scheme "pkg/runtime/scheme.go:111"'
        )
        cause = problems.invalid_value("patch", encode(result).decode(), why)
        raise problems.invalid(_NO_KIND, "", [cause])


def _go_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return {str: "string", list: "array", dict: "object", int: "number", float: "number"}.get(type(value), "null")
