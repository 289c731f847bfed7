"""Unknown and duplicate fields in request bodies: refused, warned of, or silently dropped, as the request asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.schema import DEDUCED, Schema, builtin_schema, definition
from modelyard.local.apiserver.builtin.shapes import Reader, ShapeError, reader_for
from modelyard.local.apiserver.crds.strategy import CustomStrategy
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.bodies import RepeatedLine, repeated
from modelyard.local.apiserver.requests.hooks import FieldValidation
from modelyard.local.apiserver.served.resources import ServedResource

MOST_FINDINGS = 100
"""So many unknown or repeated fields are told of; Kubernetes stops there too."""
_OBJECT_META = "meta/v1.ObjectMeta"


class FieldChecks:
    """Drops what a kind does not have, and says so."""

    def __init__(self) -> None:
        self._metadata = definition("meta.v1.ObjectMeta")
        self._read_metadata: Reader | None = reader_for(_OBJECT_META)

    def check(
        self,
        resource: ServedResource,
        obj: Object,
        duplicates: Sequence[str],
        mode: FieldValidation,
        *,
        applied: bool = False,
    ) -> list[str]:
        """Drops unknown fields in place. Strict: the first writes are refused with all of them; Warn: their texts come back."""
        texts = self.findings(resource, obj, duplicates[:MOST_FINDINGS], applied=applied)[:MOST_FINDINGS]
        if not texts or mode == "Ignore":
            return []
        if mode == "Strict":
            raise problems.bad_request(f"{_undecodable(resource.kind)}: {strict_error(texts)}")
        return texts

    def findings(
        self, resource: ServedResource, obj: Object, duplicates: Sequence[str] = (), *, applied: bool = False
    ) -> list[str]:
        """What strict decoding would complain of, in its order; unknown fields are dropped from the object."""
        lines: list[str] = [each for each in duplicates if isinstance(each, RepeatedLine)]
        if lines:
            paths = [each for each in duplicates if not isinstance(each, RepeatedLine)]
            return lines + self.findings(resource, obj, paths, applied=applied)
        strategy = resource.strategy
        if isinstance(strategy, CustomStrategy):
            settle = strategy.settle_applied if applied else strategy.settle
            return self._custom_findings(resource.kind, settle, obj, duplicates)
        schema = resource.schema or builtin_schema(resource.kind)
        if schema is None:
            return [_duplicate(path) for path in duplicates]
        texts: list[str] = []
        _walk(schema, obj, "", frozenset(duplicates), texts)
        return texts

    def _custom_findings(
        self, kind: Kind, settle: Callable[[Object], list[str]], obj: Object, duplicates: Sequence[str]
    ) -> list[str]:
        texts = [_duplicate(path) for path in duplicates]
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            read = self._read(kind, metadata)
            _walk(self._metadata, metadata, "metadata", frozenset(), texts)
            obj["metadata"] = read
        if obj.get("kind", kind.kind) != kind.kind:
            # What is of another kind has no schema; validation refuses it.
            return texts
        return texts + [_unknown(path) for path in settle(obj)]

    def _read(self, kind: Kind, metadata: Object) -> Object:
        """The metadata of a custom resource is read as that of any other object: a label that is null is empty."""
        if self._read_metadata is None:
            return metadata
        try:
            read: Object = self._read_metadata(metadata)
            return read
        except ShapeError as error:
            raise problems.bad_request(f"{_undecodable(kind)}: {error.message}") from None


def strict_error(texts: Sequence[str]) -> str:
    lines = [text for text in texts if isinstance(text, RepeatedLine)]
    shown = [repeated(lines)] if lines else []
    shown += [text for text in texts if not isinstance(text, RepeatedLine)]
    return f"strict decoding error: {', '.join(shown)}"


def _undecodable(kind: Kind) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


def _unknown(path: str) -> str:
    return f"unknown field {problems.go_quote(path)}"


def _duplicate(path: str) -> str:
    return f"duplicate field {problems.go_quote(path)}"


def _walk(schema: Schema, value: Any, path: str, duplicates: Collection[str], out: list[str]) -> None:
    if type(value) is dict:
        fields, values = schema.fields, schema.values
        gone: list[str] | None = None
        for name, child in value.items():
            known = fields.get(name)
            if known is None:
                if values is None:
                    if fields and not schema.preserve_unknown:
                        if len(out) < MOST_FINDINGS:
                            out.append(_unknown(f"{path}.{name}" if path else name))
                        if gone is None:
                            gone = []
                        gone.append(name)
                    continue
                known = values
            container = type(child) is dict or type(child) is list
            if container and not known.fields and known.values is DEDUCED and not duplicates:
                # Everything is allowed below, as in the field sets of managedFields.
                continue
            if container or duplicates:
                below = f"{path}.{name}" if path else name
                if container:
                    _walk(known, child, below, duplicates, out)
                if below in duplicates:
                    out.append(_duplicate(below))
        if gone is not None:
            for name in gone:
                del value[name]
    elif type(value) is list and schema.items is not None:
        items = schema.items
        for index, element in enumerate(value):
            if type(element) is dict or type(element) is list:
                _walk(items, element, f"{path}[{index}]", duplicates, out)
