"""What a reconcile may return. Plain data: nothing here acts, the engine does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from modelyard.kube.kinds import Key, Kind, Object

if TYPE_CHECKING:
    import msgspec

    from modelyard.kube.client import Propagation


class Policy(Enum):
    """How a child is kept once it exists."""

    APPLY = "apply"
    """Kept as desired: drift is repaired, and it is pruned when no longer desired."""
    ONCE = "once"
    """Created when absent, then never changed and never deleted by us (a PVC, a generated Secret)."""
    RECREATE = "recreate"
    """Like APPLY, but replaced (deleted, then created) when the API refuses the change of an immutable field (a Job)."""
    CREATE = "create"
    """Created by POST when absent, as a user would do it, then never changed; pruned when no longer desired. Without a name, its
    `generateName` gets an ending that is always the same for one owner and one `Child.slot`: a pass that is cut off makes no second."""


class Ownership(Enum):
    """How a child says whose it is."""

    OWNED = "owned"
    """By a controller owner reference; the garbage collector takes it with its owner."""
    TRACKED = "tracked"
    """By labels: for children in other namespaces or cluster-scoped, where no owner reference can go. The finalizer removes them."""
    SHARED = "shared"
    """By one plain owner reference (or tracking label) for each of its owners; every owner applies as a field manager of its own."""
    CONTRIBUTED = "contributed"
    """Someone else's object: only our fields are applied, never forced on a conflict, and taken back when no longer desired."""


PathStep: TypeAlias = str | tuple[str, str]
"""The name of a field; or, for an entry of a list, a field in it and that field's value: `("name", "mm")`."""


@dataclass(frozen=True)
class TextItem:
    """One item of a text that several contribute to, such as a URL in an environment variable that holds a list of them.

    What others put into the text stays. The last list on the path may lack its entry, which is then made (an environment variable);
    what is above it must be there (the container).
    """

    path: tuple[PathStep, ...]
    item: str
    separator: str = " "


@dataclass(frozen=True)
class Child:
    """One object that should exist."""

    object: Object
    policy: Policy = Policy.APPLY
    ownership: Ownership = Ownership.OWNED
    generate: Callable[[], Object] | None = None
    """Gives fields that are merged in on the first creation only (passwords, keys); the object lives on without them being re-applied."""
    keep: bool = False
    """Left in place when the owner is deleted: it gets no owner reference and is adopted again by its labels."""
    until_gone: bool = False
    """Applied also while it is being deleted: how a finalizer of ours is taken off it."""
    adopt: bool = False
    """May take over an object of that name that carries our labels but no owner (what `keep` left behind)."""
    slot: str = ""
    """With `Policy.CREATE` and `generateName`: tells apart children of one owner that ask for the same start of a name."""
    items: Sequence[TextItem] = ()
    """With `Ownership.CONTRIBUTED`: items of ours in texts of the object. They are noted in an annotation, and taken out with our fields."""


_ENDINGS = "bcdfghjklmnpqrstvwxz2456789"
"""What the API makes the ends of generated names of: no vowels, so no words."""
_LONGEST_START = 58


def generated_name(start: str, slot: str, uid: str) -> str:
    """A name like those that the API generates, but always the same one for one `Child.slot` of the owner with this uid."""
    number = int(hashlib.sha256(f"{uid}/{slot}/{start}".encode()).hexdigest()[:16], 16)
    ending = ""
    for _ in range(5):
        number, index = divmod(number, len(_ENDINGS))
        ending += _ENDINGS[index]
    return start[:_LONGEST_START] + ending


@dataclass(frozen=True)
class Stage:
    """Children that are applied together, after the stage before is in place."""

    children: Sequence[Child | Object]
    ready: Callable[[Live], bool] | None = None
    """Asked after the apply with what is live; while it says no, later stages wait (and are not pruned)."""


@dataclass(frozen=True)
class Edit:
    """A change, once, to an object that someone else made: what older software left behind, or what a user may edit.
    The reconcile has read the object; if it is another by then, nothing happens and the next pass looks again."""

    kind: Kind
    key: Key
    resource_version: str
    patch: Object | Sequence[Object] | None
    """A merge patch, or a JSON patch if it is a list of operations; None deletes the object."""
    subresource: str = ""


@dataclass(frozen=True)
class Deletion:
    """An object to delete now, where how it is deleted matters."""

    kind: Kind
    key: Key
    uid: str = ""
    """The reconcile has found out that this very object is ours to delete; without it, only a child of the owner is."""
    grace: int | None = None
    """Seconds that it gets to end; 0 does not wait. With it, an object that is on its way out already is deleted again."""
    propagation: Propagation = "Background"


@dataclass(frozen=True)
class EventNote:
    """An Event for people: about the resource being reconciled, or the namespace of a key that has no resource."""

    reason: str
    message: str
    type: str = "Normal"  # or "Warning"
    about: Object | None = field(default=None, hash=False, compare=False)
    """Another object that the Event is about."""


@dataclass(frozen=True)
class Failure:
    """One child that could not be made as desired."""

    kind: Kind
    key: Key
    reason: str
    """`ApplyFailed`, `Foreign` (a namesake that is not ours), `Contested` (someone keeps changing or deleting it),
    `Conflicting` (the controller asks for things that exclude each other) or `NotServed`."""
    message: str
    retryable: bool = True
    cause: str = ""
    """The API's own reason for its refusal, such as `Invalid` or `Forbidden`; empty where it was not asked."""


@dataclass(frozen=True)
class Live:
    """What the cluster holds after the apply: what status is computed from."""

    objects: Mapping[tuple[Kind, Key], Object] = field(default_factory=dict)
    failures: Sequence[Failure] = ()
    waiting: bool = False
    """True while a stage is not ready, so that later stages were not applied."""
    leaving: Sequence[tuple[Kind, Key]] = ()
    """Where a child cannot be made yet because an earlier object of its name is still being deleted."""
    conditions: Sequence[Object] = ()
    """Conditions the engine itself asks to show (paused, reconcile-now in force, apply failures)."""

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.objects.get((kind, Key(namespace if kind.namespaced else "", name)))


Status: TypeAlias = "Object | msgspec.Struct"
StatusFn: TypeAlias = Callable[[Any, Live], Status]
"""`(resource, live) -> the whole new status`; called after the apply; written once, and only if it changed."""


@dataclass(frozen=True)
class FollowUp:
    """What follows from the apply."""

    status: Status | None = None
    events: Sequence[EventNote] = ()
    requeue_after: float | None = None


@dataclass(frozen=True)
class Desired:
    """The full set of what should be true. What we own and do not find here is deleted.

    The engine acts in this order, and a pass that is cut off anywhere is finished by the next one:

    1. `patch` on the resource itself
    2. `status_first`
    3. `delete`
    4. `edits`
    5. the stages, one after another; `children` are one stage
    6. pruning, once every stage was applied
    7. `status`, computed from what is live then
    8. `events`
    """

    children: Sequence[Child | Object] = ()
    stages: Sequence[Stage] = ()
    """Instead of `children` where order matters."""
    status: StatusFn | Status | None = None
    patch: Object | None = None
    """A merge patch on the custom resource itself, sent before the children are applied (to drop a one-shot annotation)."""
    status_first: Status | None = None
    """A status written before any child is touched: a fact that the next step depends on."""
    events: Sequence[EventNote] = ()
    requeue_after: float | None = None
    keep: Sequence[tuple[Kind, Key]] = ()
    """Children that are left as they are: not applied, not pruned."""
    prune: bool = True
    delete: Sequence[tuple[Kind, Key] | Deletion] = ()
    """Objects of ours to delete now although they would be kept by policy or by another stage (a Job to run again), or the resource itself."""
    edits: Sequence[Edit] = ()
    """Made before any child is applied."""
    unfinished: bool = False
    """A later pass has more to do: nothing is pruned yet, and a finalizer stays."""
    follow: Callable[[Live], FollowUp] | None = None
    """In place of `status`, where events and the next look follow from what came of the children too."""


@dataclass(frozen=True)
class Hold:
    """Leave the children as they are: something needed is missing. Its watch, or the clock, wakes us."""

    reason: str
    message: str
    status: StatusFn | Status | None = None
    """Default: the current status with condition `Ready` (or the controller's own) False with this reason and message."""
    events: Sequence[EventNote] = ()
    requeue_after: float | None = None
    patch: Object | None = None


Outcome: TypeAlias = Desired | Hold
