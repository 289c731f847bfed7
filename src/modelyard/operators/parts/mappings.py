"""Which custom resources an event about another object wakes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, name_of, namespace_of
from modelyard.runtime.declaring.controller import MapFn, Reader


def everyone(kind: Kind) -> MapFn:
    """Any event wakes all resources of the kind."""
    return those(kind, lambda resource: True)


def those(kind: Kind, concerned: Callable[[Object], bool]) -> MapFn:
    """Any event wakes the resources of the kind for which this holds."""

    def wake(obj: Object, reader: Reader) -> Iterable[Key]:
        return [key_of(resource) for resource in reader.list(kind) if concerned(resource)]

    return wake


def users(kind: Kind, names: Callable[[Object], Collection[str]], *, all_use: Collection[str] = ()) -> MapFn:
    """A Secret or ConfigMap wakes the resources that read it: those whose `names` hold its name, and in its own namespace
    where the kind has namespaces. Every resource reads what `all_use` names."""

    def wake(obj: Object, reader: Reader) -> Iterable[Key]:
        name = name_of(obj)
        resources = reader.list(kind, namespace_of(obj) if kind.namespaced else None)
        return [key_of(resource) for resource in resources if name in all_use or name in names(resource)]

    return wake


def fixed(key: Key) -> MapFn:
    """Any event wakes this key."""
    return lambda obj, reader: [key]
