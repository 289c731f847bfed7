"""What a controller declares. The engine, the dataflow page, the RBAC role and the manifests are all made from this."""

from __future__ import annotations

import copy
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from modelyard.kube.builtin import ConfigMap, Lease
from modelyard.kube.crd import Definition
from modelyard.kube.kinds import Key, Kind, Object, TypedKey
from modelyard.kube.objects import key_of
from modelyard.runtime.declaring.desired import Desired, Outcome
from modelyard.runtime.declaring.predecessor import Predecessor
from modelyard.runtime.declaring.settings import SettingsMap
from modelyard.runtime.declaring.world import Objects, World


@dataclass(frozen=True)
class Source:
    """Where in the code a row was declared (for the dataflow page)."""

    file: str
    line: int


def here(depth: int = 2) -> Source:
    frame = sys._getframe(depth)
    return Source(frame.f_code.co_filename, frame.f_lineno)


class Reader(Protocol):
    """What a mapping function may read: the caches, without a resource in hand."""

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None: ...

    def list(self, kind: Kind, namespace: str | None = None, labels: dict[str, str] | None = None) -> Objects: ...

    def by_index(self, name: str, value: str) -> Objects: ...


MapFn: TypeAlias = Callable[[Object, Reader], Iterable[Key]]
"""`(changed object, reader) -> the keys to reconcile`; called with the old and the new object on an update."""
Predicate: TypeAlias = Callable[[Object | None, Object | None], bool]
"""`(old, new) -> is this event of interest`; old is None on create, new is None on delete."""


@dataclass(frozen=True)
class Owns:
    """A kind of children: an event on one wakes its owner."""

    kind: Kind
    optional: bool = False
    """May be served or not, now or later; the watch starts and stops with it."""
    labels: dict[str, str] | str | None = None
    """Cache only objects with these labels (ours carry them), or those that a selector finds."""
    predicate: Predicate | None = None
    namespace: str | None = None
    verbs: tuple[str, ...] | None = None
    """RBAC verbs, if not the default for owned kinds."""
    serving_certificates: bool = False
    """For Services: one that names a Secret for a serving certificate (`build.service(serving_certificate=...)`) gets it."""
    source: Source = field(default_factory=here, compare=False)


@dataclass(frozen=True)
class Watch:
    """A kind that is not ours (or not by owner reference): `to` says whom an event wakes."""

    kind: Kind
    to: MapFn | None = None
    """None: only cached for reading; wakes nobody."""
    optional: bool = False
    labels: dict[str, str] | str | None = None
    """Cache only objects with these labels, or those that a selector finds (`example.com/mine` alone: that have this label)."""
    name: str | None = None
    """Cache only objects of this name; the role is limited to it too."""
    metadata_only: bool = False
    predicate: Predicate | None = None
    namespace: str | None = None
    verbs: tuple[str, ...] | None = None
    source: Source = field(default_factory=here, compare=False)


@dataclass(frozen=True)
class Permission:
    """An RBAC rule beyond what the declarations imply."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str | None = None
    """A Role in that namespace instead of a ClusterRole rule."""
    everywhere: bool = False
    """Needed in the whole cluster, also by a process that acts on one namespace only."""


@dataclass(frozen=True)
class Wraps:
    """Children of kinds that are known only at run time, because a resource names them, such as a template that a user wrote.

    Each kind is followed while a resource names it, and not a moment longer than `Timing.linger`. `World.kind_of` says what the
    API serves under a name, `World.find` reads such an object.
    """

    kinds: Callable[[Object], Iterable[tuple[str, str]]]
    """`resource -> (apiVersion, kind)` of all children that it has, wants, or may still have from before."""
    labels: str = ""
    """A label selector that every such child fulfills: others are not kept in memory."""
    permissions: Sequence[Permission] = ()
    """What the role allows for them. Other kinds stay forbidden until an admin adds a role of their own."""
    source: Source = field(default_factory=here, compare=False)


@dataclass(frozen=True)
class Fixed:
    """Keys of a controller that has no custom resource: always these."""

    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Keyed:
    """Keys of a controller that has no custom resource: whatever its watches map to, such as a Namespace or a runtime in one.

    The reconcile gets the key and finds out in the caches what it stands for; where nothing is left of that, it returns an
    empty `Desired`. Its children are tracked by labels and may name an owner of the reconcile's choice.
    """

    keys: Callable[[Reader], Iterable[Key]]
    """All keys that there are now: asked by a new leader, at a resync, and when a watched kind comes or goes."""


@dataclass(frozen=True)
class AnyOf:
    """Several kinds of resources that one controller works on, ours or others'. Its keys are `TypedKey`s: mappings and triggers
    give them, and `gone` gets one. The reconcile gets the resource itself, and the status goes to the resource that it is about."""

    kinds: tuple[Definition | Kind, ...]


class Trigger:
    """Wakes keys of the controllers that declare it, for a reason that no watch sees: something outside the API changed."""

    def __init__(self) -> None:
        self._wakers: list[Callable[[Key], None]] = []

    def subscribe(self, wake: Callable[[Key], None]) -> None:
        self._wakers.append(wake)

    def fire(self, key: Key) -> None:
        for wake in self._wakers:
            wake(key)


@dataclass(frozen=True)
class Index:
    """Finds objects of a declared kind by values in them, without decoding every object: `world.by_index("secret", name)`."""

    name: str
    kind: Kind
    values: Callable[[Object], Iterable[str]]


ReconcileFn: TypeAlias = Callable[[Any, World], Outcome | Awaitable[Outcome]]
GoneFn: TypeAlias = Callable[[Key, World], Outcome | Awaitable[Outcome | None] | None]
"""Called with the key of a resource that is no longer there. It may run again for the same key, also after a restart."""
CleanupFn: TypeAlias = Callable[[Any, World], Outcome | Awaitable[Outcome | None] | None]
"""Called when the resource is being deleted, before the finalizer goes. `None`: everything tracked is removed, then the finalizer.
A `Desired` names what must still exist (often nothing); a `Hold` keeps the finalizer."""


class Controller:
    """`Controller("mlflow", For=..., owns=[...], watches=[...])`, then `@controller.reconcile`."""

    def __init__(
        self,
        name: str,
        for_: Definition | Kind | AnyOf | Fixed | Keyed,
        *,
        owns: Sequence[Owns | Kind] = (),
        watches: Sequence[Watch] = (),
        finalizer: str | None = None,
        field_manager: str | None = None,
        permissions: Sequence[Permission] = (),
        optional: bool = False,
        concurrency: int = 16,
        timeout: float = 60.0,
        resync: float | None = None,
        ready_condition: str = "Ready",
        namespaces: Iterable[str] = (),
        predecessor: Predecessor | None = None,
        indexes: Sequence[Index] = (),
        triggers: Sequence[Trigger] = (),
        settings: SettingsMap[Any] | None = None,
        asks: Iterable[Kind] = (),
        wraps: Wraps | None = None,
        finalizer_when: Callable[[Any], bool] | None = None,
    ) -> None:
        self.name = name
        self.for_ = for_
        self.any_of = for_ if isinstance(for_, AnyOf) else None
        self.source = here()
        self.owns = tuple(o if isinstance(o, Owns) else Owns(o, source=self.source) for o in owns)
        self.watches = tuple(watches)
        self.finalizer = finalizer
        self.field_manager = field_manager or f"modelyard-{name}"
        self.permissions = tuple(permissions)
        self.optional = optional
        """The For kind is defined by others and may come and go; of `AnyOf`, those kinds that we do not define."""
        self.concurrency = concurrency
        self.timeout = timeout
        self.resync = resync
        self.ready_condition = ready_condition
        self.namespaces = tuple(sorted(set(namespaces)))
        """The only ones in which resources of the For kind are looked at; none: all."""
        self.predecessor = predecessor
        """Another operator for the same resources: waited for while it runs, then taken over from."""
        if predecessor is not None:
            self.watches += (Watch(Lease, to=self._every_key, name=predecessor.lease, source=self.source),)
        if settings is not None:
            self.watches += (
                Watch(
                    ConfigMap,
                    to=self._every_key,
                    name=settings.name,
                    namespace=settings.namespace,
                    source=self.source,
                ),
            )
        self.indexes = {index.name: index for index in indexes}
        self.triggers = tuple(triggers)
        self.asks = frozenset(asks)
        """Kinds of which it matters only whether they are served: when one comes or goes, every key is woken."""
        if wraps is not None and not isinstance(for_, Definition | Kind):
            raise TypeError(f"controller {name} wraps kinds that its resources name, so it needs one kind of resources")
        self.wraps = wraps
        """Children of kinds that only the resources name."""
        self.finalizer_when = finalizer_when
        """Which resources need the finalizer already, or at all; None: each from the start."""
        self.reconcile_fn: ReconcileFn | None = None
        self.gone_fn: GoneFn | None = None
        self.cleanup_fn: CleanupFn | None = None

    def reconcile(self, fn: ReconcileFn) -> ReconcileFn:
        self.reconcile_fn = fn
        return fn

    def gone(self, fn: GoneFn) -> GoneFn:
        """A pass after the resource is gone, without a finalizer: for what was registered elsewhere under its name."""
        self.gone_fn = fn
        return fn

    def cleanup(self, fn: CleanupFn) -> CleanupFn:
        self.cleanup_fn = fn
        return fn

    def _every_key(self, obj: Object, reader: Reader) -> Iterable[Key]:
        return self.keys_without_resource(reader) or [
            face.key_for(key_of(resource))
            for face in self.faces
            if face.kind is not None
            for resource in reader.list(face.kind)
        ]

    def keys_without_resource(self, reader: Reader) -> Sequence[Key]:
        """All keys of a controller that has no custom resource."""
        if isinstance(self.for_, Fixed):
            return self.for_.keys
        return tuple(self.for_.keys(reader)) if isinstance(self.for_, Keyed) else ()

    def handles_namespace(self, namespace: str) -> bool:
        """Are resources in this namespace looked at?"""
        return not self.namespaces or namespace in self.namespaces

    @property
    def kind(self) -> Kind | None:
        """The For kind (its storage version); None for a controller without a custom resource, or with `AnyOf` several."""
        if isinstance(self.for_, Definition):
            return self.for_.kind
        return self.for_ if isinstance(self.for_, Kind) else None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Every kind of resources that it works on."""
        return tuple(face.kind for face in self._all_faces if face.kind is not None)

    @property
    def foreign_kinds(self) -> tuple[Kind, ...]:
        """Those of them that others define and that may come and go."""
        faces = [face for face in self._all_faces if isinstance(face.for_, Kind) and face.optional]
        return tuple(face.kind for face in faces if face.kind is not None)

    @property
    def faces(self) -> tuple[Controller, ...]:
        """The controller as each of its kinds sees it: one `kind` each. Only with `AnyOf` there are several."""
        return self._all_faces if isinstance(self.for_, AnyOf) else (self,)

    @property
    def _all_faces(self) -> tuple[Controller, ...]:
        if self.any_of is None:
            return (self,)
        return tuple(self._facing(member) for member in self.any_of.kinds)

    def _facing(self, member: Definition | Kind) -> Controller:
        face = copy.copy(self)
        face.for_ = member
        face.optional = self.optional and isinstance(member, Kind)
        return face

    def face(self, key: Key) -> Controller:
        """The controller as the kind of this key sees it."""
        if not isinstance(self.for_, AnyOf):
            return self
        found = [face for face in self.faces if isinstance(key, TypedKey) and face.kind == key.kind]
        if not found:
            names = ", ".join(kind.kind for kind in self.kinds)
            raise TypeError(f"controller {self.name} was woken with {key!r}: it needs a TypedKey of {names}")
        return found[0]

    def key_for(self, key: Key) -> Key:
        """The key under which it works on the resource of that name: typed, where there are several kinds."""
        return key if self.any_of is None or self.kind is None else TypedKey(self.kind, *key)


__all__ = [
    "AnyOf", "CleanupFn", "Controller", "Desired", "Fixed", "GoneFn", "Index", "Keyed", "MapFn", "Owns", "Permission", "Predicate", "Reader",
    "ReconcileFn", "Source", "Trigger", "Watch", "Wraps",
]  # fmt: skip
