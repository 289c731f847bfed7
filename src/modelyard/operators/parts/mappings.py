"""Which custom resources an event about another object wakes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, name_of, namespace_of
from modelyard.runtime.declaring.controller import Index, MapFn, Reader


def everyone(kind: Kind) -> MapFn:
    """Any event wakes all resources of the kind."""
    return those(kind, lambda resource: True)


def those(kind: Kind, concerned: Callable[[Object], bool]) -> MapFn:
    """Any event wakes the resources of the kind for which this holds."""

    def wake(obj: Object, reader: Reader) -> Iterable[Key]:
        return [key_of(resource) for resource in reader.list(kind) if concerned(resource)]

    return wake


def readers(kind: Kind, names: Callable[[Object], Collection[str]]) -> Index:
    """Which resources of the kind read a Secret or ConfigMap, by its name: for `users`, and among the `indexes` of the controller."""
    return Index("reads", kind, names)


def users(index: Index, *, all_use: Collection[str] = ()) -> MapFn:
    """A Secret or ConfigMap wakes the resources that the index finds under its name, those of its own namespace where the
    kind has namespaces; no other resource is decoded for it. Every resource reads what `all_use` names."""
    kind = index.kind

    def wake(obj: Object, reader: Reader) -> Iterable[Key]:
        name, namespace = name_of(obj), namespace_of(obj) if kind.namespaced else ""
        found = reader.list(kind, namespace or None) if name in all_use else reader.by_index(index.name, name)
        return [key for key in map(key_of, found) if key.namespace == namespace]

    return wake


def fixed(key: Key) -> MapFn:
    """Any event wakes this key."""
    return lambda obj, reader: [key]
