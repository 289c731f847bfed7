"""The strategy of a built-in kind, put together from a table of rules: shape, defaults, checks, generation, status."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from modelyard.kube import names
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.builtin.defaults import DEFAULTS, Default
from modelyard.local.apiserver.builtin.shapes import Reader, ShapeError, reader_for, written_as_null
from modelyard.local.apiserver.requests.problems import Cause, bad_request
from modelyard.local.apiserver.served.resources import PlainStrategy

Check = Callable[[Object], list[Cause]]
CheckUpdate = Callable[[Object, Object], list[Cause]]
Prepare = Callable[[Object], None]
PrepareUpdate = Callable[[Object, Object], None]
Generation = Literal["", "spec", "spec and annotations", "content", "content and labels"]
"""What `metadata.generation` counts: nothing, changes of the spec (of a Deployment its annotations too), or of everything
beside metadata and status (of an EndpointSlice its labels too)."""

_SYSTEM_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})


@dataclass(frozen=True, slots=True)
class Rules:
    """What is particular about one kind; all else is common."""

    kind: Kind
    check: Check | None = None
    check_update: CheckUpdate | None = None
    """All checks of an update; where it is missing, `check` looks at the new object."""
    check_status: CheckUpdate | None = None
    default: Default | None = None
    prepare: Prepare | None = None
    prepare_update: PrepareUpdate | None = None
    prepare_status: PrepareUpdate | None = None
    empties: tuple[str, ...] = ()
    """Maps whose empty value, unlike an absent one, is a change to an immutable object."""
    generation: Generation = ""
    status: bool = False
    status_keeps: tuple[str, ...] = ()
    """Metadata that a write to the status cannot change."""
    initial_status: Object | None = None
    status_at_create: bool = False
    """Whether a creator may set the status (a kubelet registers its Node with one)."""
    name: Callable[[str], Sequence[str]] = names.dns_subdomain
    prefix_always: bool = True
    """Whether `metadata.generateName` is looked at by updates too, which do nothing with it."""
    qualified_finalizers: bool = True
    """Whether finalizers must be of a domain, but for the standard ones."""
    metadata_last: bool = False
    """Whether the metadata of a new object is only looked at when all else about it is right."""
    warn: Callable[[Object, Object | None], list[str]] | None = None


class BuiltinStrategy(PlainStrategy):
    """Kubernetes' rules for one built-in kind."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(has_status=rules.status)
        self.rules = rules
        self.counts_generation = rules.generation != ""
        self.metadata_last = rules.metadata_last
        self.qualified_finalizers = rules.qualified_finalizers
        self.prefix_always = rules.prefix_always
        kind = rules.kind
        self._default = rules.default or DEFAULTS.get(kind)
        self._reader: Reader | None = reader_for(shape_name(kind))
        self._nulls = written_as_null(shape_name(kind))
        self._fresh_status: Object | None = None

    def default(self, obj: Object) -> None:
        if self._reader is not None:
            try:
                shaped = self._reader(obj)
            except ShapeError as error:
                kind = self.rules.kind
                raise bad_request(
                    f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error.message}'
                ) from None
            empties = [name for name in self.rules.empties if obj.get(name) == {}]
            obj.clear()
            obj.update(shaped)
            for name in empties:
                obj[name] = {}
        if self._default is not None:
            self._default(obj)

    def set_aside(self, obj: Object) -> Object:
        return {name: obj.pop(name) for name in self.rules.empties if obj.get(name) == {}}

    def prepare_create(self, obj: Object) -> None:
        if self.has_status and not self.rules.status_at_create:
            self._reset_status(obj)
        if self.rules.prepare is not None:
            self.rules.prepare(obj)
        self._write_nulls(obj)

    def _write_nulls(self, obj: Object) -> None:
        for name in self._nulls:
            obj[name] = obj.get(name) or None

    def _reset_status(self, obj: Object) -> None:
        if self._fresh_status is None:
            empty: Object = self._reader({}).get("status") or {} if self._reader is not None else {}
            self._fresh_status = empty | (self.rules.initial_status or {})
        obj["status"] = copy.deepcopy(self._fresh_status)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "status":
            for name in list(new):
                if name not in _SYSTEM_FIELDS and name not in old:
                    del new[name]
            for name, value in old.items():
                if name not in _SYSTEM_FIELDS:
                    new[name] = value
            for name in self.rules.status_keeps:
                if name in old["metadata"]:
                    new["metadata"][name] = old["metadata"][name]
                else:
                    new["metadata"].pop(name, None)
            if self.rules.prepare_status is not None:
                self.rules.prepare_status(new, old)
            return
        super().prepare_update(new, old, subresource)
        if self.rules.prepare_update is not None:
            self.rules.prepare_update(new, old)
        self._write_nulls(new)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        if self.rules.generation == "spec":
            return bool(new.get("spec") != old.get("spec"))
        if self.rules.generation == "spec and annotations":
            noted = (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
            return noted or bool(new.get("spec") != old.get("spec"))
        if self.rules.generation.startswith("content"):
            labelled = (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
            if labelled and self.rules.generation == "content and labels":
                return True
            return any(new.get(name) != old.get(name) for name in new.keys() | old.keys() if name not in _SYSTEM_FIELDS)
        return False

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        rules = self.rules
        if old is None:
            return rules.check(obj) if rules.check is not None else []
        if subresource == "status":
            return rules.check_status(obj, old) if rules.check_status is not None else []
        if rules.check_update is not None:
            return rules.check_update(obj, old)
        return rules.check(obj) if rules.check is not None else []

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return self.rules.warn(obj, old) if self.rules.warn is not None else []

    def canonical_name(self, obj: Object) -> str | None:
        metadata = obj["metadata"]
        wrong = self.rules.name(metadata.get("name") or names.mask_trailing_dash(metadata.get("generateName") or ""))
        return "; ".join(wrong) if wrong else None

    def reset_fields(self, subresource: str) -> Sequence[Sequence[str]]:
        if subresource == "status":
            return (("spec",), *(("metadata", name) for name in self.rules.status_keeps))
        return (("status",),) if self.has_status else ()


def shape_name(kind: Kind) -> str:
    """The kind's key in the table of shapes."""
    group = kind.group.split(".", 1)[0] or "core"
    return f"{group}/{kind.version}.{kind.kind}"
