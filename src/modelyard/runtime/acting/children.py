"""Makes the children of one key true: deletes and edits first, then stage by stage, then what is no longer wanted goes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from modelyard.kube.errors import Conflict, NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, resource_version_of, uid_of
from modelyard.runtime.acting import ownership, status
from modelyard.runtime.acting.apply import Applier, ChildFailed, Placed, guarded
from modelyard.runtime.acting.cluster import Cluster
from modelyard.runtime.acting.memory import KeyMemory
from modelyard.runtime.acting.ownership import Owner
from modelyard.runtime.acting.placing import placement
from modelyard.runtime.acting.results import PassResult, worth_telling
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Deletion, Desired, Edit, Failure, Live, Ownership, Stage

TERMINATING_POLL = 5.0
"""How soon to look again after a child whose end no watch tells us about."""


@dataclass
class _Progress:
    """How far the stages came."""

    objects: dict[tuple[Kind, Key], Object] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    leaving: list[tuple[Kind, Key]] = field(default_factory=list)
    waiting: bool = False
    unfinished: bool = False


class Children:
    def __init__(
        self,
        controller: Controller,
        cluster: Cluster,
        memory: KeyMemory,
        owner: Owner,
        result: PassResult,
        *,
        again: bool = False,
        predecessor: bool = True,
        wrapped: Collection[Kind] = (),
    ) -> None:
        """`again`: write every child, also what already is as desired. `predecessor`: take over what it made.
        `wrapped`: kinds known only at run time of which the owner may have children."""
        self._controller = controller
        self._cluster = cluster
        self._memory = memory
        self._owner = owner
        self._result = result
        self._wrapped = wrapped
        before = controller.predecessor if predecessor else None
        self._applier = Applier(cluster, owner, controller.field_manager, memory, again, before)

    async def make(self, desired: Desired, marks: Sequence[Object], generation: int | None) -> Live:
        """Applies the children stage by stage, deletes what is no longer wanted, and says what is live."""
        asked = placement(desired, self._applier.place)
        wanted = set(asked.wanted)
        for entry in desired.delete:
            await self._delete_asked(entry if isinstance(entry, Deletion) else Deletion(*entry))
        for edit in desired.edits:
            await self._edit(edit)
        made = _Progress(failures=list(asked.failures))
        await self._make_stages(asked.stages, made)
        if desired.prune and not (made.unfinished or desired.unfinished):
            await self.prune(wanted | set(desired.keep), made.failures)
        self._memory.keep_only(wanted)
        if shown := worth_telling(made.failures):
            marks = [*marks, status.failed(shown, generation)]
        failures, leaving = tuple(made.failures), tuple(made.leaving)
        return Live(made.objects, failures, made.waiting, leaving=leaving, conditions=tuple(marks))

    async def _make_stages(self, stages: Sequence[tuple[Stage, Sequence[Placed]]], made: _Progress) -> None:
        for number, (stage, children) in enumerate(stages, start=1):
            for placed in children:
                await self._make_one(placed, made)
            ready = stage.ready is None or stage.ready(Live(made.objects, tuple(made.failures)))
            made.unfinished = made.unfinished or not ready
            made.waiting = made.unfinished or any(f.reason != "NotServed" for f in made.failures)
            if made.waiting:
                made.unfinished = made.unfinished or number < len(stages)
                return

    async def _make_one(self, placed: Placed, made: _Progress) -> None:
        try:
            child = await self._applier.make(placed)
        except ChildFailed as failed:
            made.failures.append(failed.failure)
            if (seen := self._cluster.get(placed.kind, placed.key)) is not None:
                made.objects[placed.place] = seen
            return
        if child.object is not None:
            made.objects[placed.place] = child.object
        if not child.in_place:
            made.unfinished = True
            made.leaving.append(placed.place)
            self._result.requeue_at_most(TERMINATING_POLL)

    async def _delete_asked(self, asked: Deletion) -> None:
        if not asked.uid and asked.grace is None and asked.propagation == "Background":
            await self._delete(asked.kind, asked.key)
            return
        uid = asked.uid
        if not uid:
            seen = await self._cluster.read(asked.kind, asked.key, self._controller.field_manager)
            if seen is None or not ownership.belongs_to(seen.object, self._owner):
                return
            uid = seen.uid
        self._result.deleted.append((asked.kind, asked.key))
        try:
            await self._cluster.delete(asked.kind, asked.key, uid=uid, grace=asked.grace, propagation=asked.propagation)
        except (NotFound, Conflict):
            return  # It has gone; another one of its name is not meant.

    async def _delete(self, kind: Kind, key: Key) -> bool:
        """Deletes an object of ours, or the resource itself; True once it is gone. What is not ours is left alone."""
        itself = (kind, key) == (self._controller.kind, self._owner.key)
        manager = self._controller.field_manager
        seen = self._cluster.look(kind, key, manager)
        if seen is None and not self._cluster.is_complete(kind, key.namespace) and self._cluster.serves(kind):
            seen = await self._cluster.read(kind, key, manager)
        if seen is None or not (itself or ownership.belongs_to(seen.object, self._owner)):
            return True
        if seen.terminating:
            return False
        self._result.deleted.append((kind, key))
        try:
            return await self._cluster.delete(kind, key, uid=seen.uid)
        except NotFound:
            return True

    async def _edit(self, edit: Edit) -> None:
        """Changes someone's object, if it still is as the reconcile saw it."""
        seen = await self._cluster.fetch(edit.kind, edit.key)
        if seen is None or resource_version_of(seen) != edit.resource_version:
            return  # The event of its change starts another pass.
        try:
            if edit.patch is None:
                self._result.deleted.append((edit.kind, edit.key))
                version = edit.resource_version
                await self._cluster.delete(edit.kind, edit.key, uid=uid_of(seen), resource_version=version)
            else:
                body = guarded(edit.patch, edit.resource_version)
                await self._cluster.patch(edit.kind, edit.key, body, subresource=edit.subresource)
        except (NotFound, Conflict):
            return

    async def prune(
        self,
        wanted: set[tuple[Kind, Key]],
        failures: Sequence[Failure] = (),
        *,
        outlives: str = "once",
        leave_to_collector: bool = False,
    ) -> bool:
        """Deletes what belongs to the owner and is not wanted, and takes back its shares; True once all of it is gone."""
        gone = True
        for kind in sorted({o.kind for o in self._controller.owns} | set(self._wrapped), key=str):
            if not self._cluster.is_synced(kind):
                continue
            for child in self._cluster.children(kind, self._owner, {key for of, key in wanted if of == kind}):
                key = key_of(child)
                if ownership.kept_by(child, outlives) or may_be_replaced(key, failures):
                    continue
                if leave_to_collector and ownership.refers_to(child, self._owner) and not self._is_share(child):
                    continue
                gone = await self._prune_one(kind, key, child) and gone
            manager = self._owner.manager(self._controller.field_manager, Ownership.CONTRIBUTED)
            for key in self._cluster.contributions(kind, manager):
                if (kind, key) not in wanted and not may_be_replaced(key, failures):
                    gone = await self._release(kind, key, Ownership.CONTRIBUTED) and gone
        return gone

    def _is_share(self, child: Object) -> bool:
        return ownership.is_share_of(child, self._owner)

    async def _prune_one(self, kind: Kind, key: Key, child: Object) -> bool:
        if self._is_share(child):
            manager = self._owner.manager(self._controller.field_manager, Ownership.SHARED)
            seen = self._cluster.look(kind, key, manager)
            if seen is None or seen.managed is None or seen.terminating:
                return True
            return await self._release(kind, key, Ownership.SHARED)
        seen = self._cluster.look(kind, key, self._controller.field_manager)
        if seen is None or not (
            seen.managed is not None or seen.created or ownership.is_surely_tracked_by(child, self._owner)
        ):
            return True  # Someone else made it and only hung it on our resource.
        return await self._delete(kind, key)

    async def _release(self, kind: Kind, key: Key, held: Ownership) -> bool:
        self._result.released.append((kind, key))
        try:
            return await self._applier.release(kind, key, held)
        except NotFound:
            return True


def may_be_replaced(key: Key, failures: Sequence[Failure]) -> bool:
    """While a wanted child cannot be made, what it may replace stays; in other namespaces that is nothing."""
    reach = {f.key.namespace for f in failures if f.reason != "NotServed"}
    return "" in reach or key.namespace in reach or (not key.namespace and bool(reach))
