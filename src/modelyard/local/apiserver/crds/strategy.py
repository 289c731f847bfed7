"""The rules of a custom resource in one version, compiled from its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests.problems import Cause, go_quote, invalid_value
from modelyard.local.apiserver.served.resources import PlainStrategy
from modelyard.local.apiserver.structural import (
    Node,
    Validator,
    compile_embedded_rules,
    compile_list_rules,
    compile_settling,
    read_schema,
)
from modelyard.local.apiserver.verbs.metadata import STANDARD_FINALIZERS, check_contents

if TYPE_CHECKING:
    from modelyard.local.apiserver.cel import RuleValidator

_BLOCKING = frozenset(
    {
        "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
    }
)  # fmt: skip
_NOT_CHECKED = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
_LARGEST_INT32 = 2**31 - 1


class CustomStrategy(PlainStrategy):
    """Pruning, defaulting and validation by schema. The parts compile when first needed."""

    def __init__(
        self,
        kind: Kind,
        schema: Mapping[str, Any],
        *,
        has_status: bool,
        scale: Object | None = None,
        preserve_unknown: bool = False,
    ) -> None:
        super().__init__(has_status=has_status)
        self.kind = kind
        self.schema = schema
        self._scale = scale
        self._preserve_unknown = preserve_unknown
        self._settle: Callable[[Object], list[str]] | None = None
        self._settle_applied: Callable[[Object], list[str]] | None = None
        self._prune: Callable[[Object], list[str]] | None = None
        self._compiled: _Compiled | None = None

    def settle(self, obj: Object) -> list[str]:
        """Drops unknown fields and fills in defaults, in place; returns the paths of what was dropped."""
        if self._settle is None:
            self._settle = compile_settling(self._root())
        return self._settle(obj)

    def settle_applied(self, obj: Object) -> list[str]:
        """As `settle`, for what came of an apply: there a null is an error where it is not allowed."""
        if self._settle_applied is None:
            self._settle_applied = compile_settling(self._root(), keep_nulls=True)
        return self._settle_applied(obj)

    def prune(self, obj: Object) -> None:
        """Drops unknown fields, in place, as after a conversion: defaults come from the stored version only."""
        if self._prune is None:
            self._prune = compile_settling(self._root(), defaults=False)
        self._prune(obj)

    def _root(self) -> Node:
        root = read_schema(self.schema)
        root.preserve = root.preserve or self._preserve_unknown
        return root

    def default(self, obj: Object) -> None:
        # What is of another kind has no schema; validation refuses it.
        if obj.get("kind", self.kind.kind) == self.kind.kind:
            self.settle(obj)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Everything beside metadata counts; a status with a subresource of its own is the old one by now."""
        return _without_metadata(new) != _without_metadata(old)

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = _Compiled(self.schema)
        if obj.get("kind") != self.kind.kind:
            causes = [invalid_value("kind", obj.get("kind"), f"must be {self.kind.kind}")]
        else:
            causes = check_contents(obj["metadata"]) + self._validate_contents(compiled, obj, old, subresource)
        if compiled.embedded is not None and subresource != "status":
            causes += compiled.embedded(obj)
        if compiled.lists is not None and (found := compiled.lists(obj)) and (old is None or not compiled.lists(old)):
            causes += found
        if compiled.rules is not None:
            nameless = not obj["metadata"].get("name")
            if nameless or any(cause.reason in _BLOCKING for cause in causes):
                causes.append(invalid_value("<nil>", None, _NOT_CHECKED))
            else:
                causes += compiled.rules.validate(obj, old)
        return causes

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        before = (old or {}).get("metadata", {}).get("finalizers") or ()
        found: list[str] = []
        for name in obj["metadata"].get("finalizers") or ():
            if name not in before and name not in STANDARD_FINALIZERS and "/" not in name:
                path = " including a path (/)" if "." in name else ""
                found.append(
                    f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name{path} to avoid "
                    "accidental conflicts with other finalizer writers"
                )
        return found

    def _validate_contents(self, compiled: _Compiled, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        if subresource == "status":
            return self._validate_status(compiled, obj, old)
        causes = compiled.whole.validate(obj) if old is None else compiled.whole.validate_update(obj, old)
        return causes + self._scale_causes(obj, "specReplicasPath", "statusReplicasPath")

    def _validate_status(self, compiled: _Compiled, obj: Object, old: Object | None) -> list[Cause]:
        causes = []
        if compiled.status is not None and "status" in obj:
            causes = compiled.status.validate_update(obj["status"], (old or {}).get("status"))
        return causes + self._scale_causes(obj, "statusReplicasPath")

    def _scale_causes(self, obj: Object, *paths: str) -> list[Cause]:
        if self._scale is None:
            return []
        causes = []
        for name in paths:
            path = self._scale[name]
            value, problem = _nested(obj, path, int)
            if problem:
                causes.append(invalid_value(path, 0, problem))
            elif value is not None and value < 0:
                causes.append(invalid_value(path, value, "should be a non-negative integer"))
            elif value is not None and value > _LARGEST_INT32:
                causes.append(invalid_value(path, value, f"should be less than or equal to {_LARGEST_INT32}"))
        if selector := self._scale.get("labelSelectorPath"):
            _, problem = _nested(obj, selector, str)
            if problem:
                causes.append(invalid_value(selector, "", problem))
        return causes


class _Compiled:
    """The validators of one schema."""

    __slots__ = ("embedded", "lists", "rules", "status", "whole")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        root = read_schema(schema)
        status = root.properties.get("status")
        self.whole = Validator(root)
        self.status = Validator(status, "status") if status is not None else None
        self.embedded = compile_embedded_rules(root)
        self.lists = compile_list_rules(root)
        self.rules = _rules(root)


def _rules(root: Node) -> RuleValidator | None:
    """The CEL rules; the library is loaded only for definitions that have some."""
    if not root.has_rules:
        return None
    from modelyard.local.apiserver.cel import compile_validator

    return compile_validator(root)


def _without_metadata(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "metadata"}


_GO_TYPES = {
    str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}",
    type(None): "<nil>",
}  # fmt: skip


def _nested(obj: Object, path: str, wanted: type) -> tuple[Any, str]:
    """The value at a dotted path (None when absent), and what is wrong with its type."""
    value: Any = obj
    parts = path.removeprefix(".").split(".")
    for index, part in enumerate(parts):
        if type(value) is not dict:
            shown = "." + ".".join(parts[:index])
            return None, (
                f"{shown} accessor error: {_go_print(value)} is of the type {_GO_TYPES[type(value)]}, "
                "expected map[string]interface{}"
            )
        if part not in value:
            return None, ""
        value = value[part]
    if type(value) is not wanted:
        shown = "." + ".".join(parts)
        expected = "int64" if wanted is int else "string"
        return None, (
            f"{shown} accessor error: {_go_print(value)} is of the type {_GO_TYPES[type(value)]}, expected {expected}"
        )
    return value, ""


def _go_print(value: Any) -> str:
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
