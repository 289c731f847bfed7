"""One pass over one key: read the resource, ask the controller what should be true, make it true, write the status."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modelyard.kube.builtin import Lease
from modelyard.kube.conditions import condition
from modelyard.kube.crd import Definition
from modelyard.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import (
    annotations_of,
    finalizers_of,
    generation_of,
    is_deleting,
    key_of,
    resource_version_of,
    status_of,
    uid_of,
)
from modelyard.kube.patches import merge_diff, merge_patch
from modelyard.runtime import ownership, status
from modelyard.runtime.apply import Applier, ChildFailed, Placed
from modelyard.runtime.cluster import Cluster, WorldView, declared_kinds
from modelyard.runtime.controller import Controller
from modelyard.runtime.desired import Desired, Edit, EventNote, Failure, Hold, Live, Outcome, Ownership, Stage
from modelyard.runtime.memory import KeyMemory, fingerprint
from modelyard.runtime.ownership import PAUSE, RECONCILE, Owner
from modelyard.runtime.predecessor import LOOK_AGAIN

EVENT_REPEAT = 600.0
"""An Event that every pass repeats is sent again only after so many seconds."""
TERMINATING_POLL = 5.0
"""How soon to look again after a child whose end no watch tells us about."""


class InvalidResource(Exception):
    """The resource does not fit its own type; the message names the field."""


class ReconcileTimeout(Exception):
    """The controller's reconcile did not return in time."""


@dataclass
class PassResult:
    """What a pass found and did."""

    outcome: Outcome | None = None
    live: Live = field(default_factory=Live)
    status: Object | None = None
    """The resource's status after the pass; None if the pass did not concern itself with it."""
    requeue_after: float | None = None
    paused: bool = False
    superseded: str = ""
    """Who does the work in our place, and what to do about it."""
    finalized: bool = False
    """The finalizer was removed: the resource is gone as far as we are concerned."""
    deleted: list[tuple[Kind, Key]] = field(default_factory=list)
    released: list[tuple[Kind, Key]] = field(default_factory=list)

    @property
    def failures(self) -> Sequence[Failure]:
        return self.live.failures

    @property
    def must_retry(self) -> bool:
        return any(f.retryable for f in self.failures)


class Pass:
    """One pass. Every await is a point where a crash must do no harm: the next pass finishes what this one began."""

    def __init__(
        self,
        controller: Controller,
        cluster: Cluster,
        memory: KeyMemory,
        key: Key,
        *,
        timeout: float | None = None,
        heed: bool = True,
    ) -> None:
        """`heed`: do nothing while the controller's predecessor is at work."""
        self.controller = controller
        self.cluster = cluster
        self.memory = memory
        self.key = key
        self.timeout = timeout
        self.heed = heed
        self.resource: Object | None = None
        self.result = PassResult()

    async def run(self) -> PassResult:
        kind = self.controller.kind
        if kind is None:
            if not await self._give_way():
                await self._reconcile(Owner(self.controller.name, self.key), self.key, again=False)
            return self.result
        self.resource = self.cluster.get(kind, self.key)
        if self.resource is None or await self._give_way():
            return self.result
        owner = Owner(self.controller.name, self.key, kind, uid_of(self.resource))
        if is_deleting(self.resource):
            await self._finalize(owner, kind)
            return self.result
        if self.controller.finalizer and self.controller.finalizer not in finalizers_of(self.resource):
            await self._set_finalizers(kind, [*finalizers_of(self.resource), self.controller.finalizer])
        annotations = annotations_of(self.resource)
        again = RECONCILE in annotations
        if annotations.get(PAUSE) == "true" and not again:
            self.result.paused = True
            await self._write_status(None, [status.paused(self._generation)])
            return self.result
        await self._reconcile(owner, self._typed(), again=again)
        if again and not self.result.must_retry:
            await self._drop_reconcile_annotation(kind, annotations[RECONCILE])
        return self.result

    async def _give_way(self) -> bool:
        """While the operator before us is at work: says so, and leaves everything to it."""
        predecessor = self.controller.predecessor
        if predecessor is None or not self.heed:
            return False
        message = predecessor.at_work(self.cluster.list(Lease, None, None), self.cluster.now)
        if message is None:
            return False
        self.result.superseded = message
        self.result.requeue_after = LOOK_AGAIN
        # Not more often than its Event: it may not keep a condition that it does not know.
        if self._is_news(note := EventNote(status.SUPERSEDED, message, "Warning")):
            if isinstance(self.controller.for_, Definition):
                mark = status.superseded(message, self._generation)
                await self._write_status(status.with_conditions(self._current_status, [mark]), [])
            await self._emit(note)
        return True

    # Asking the controller

    def _typed(self) -> Any:
        assert self.resource is not None
        if not isinstance(self.controller.for_, Definition):
            return self.resource
        try:
            return self.controller.for_.type.parse(self.resource)
        except msgspec.ValidationError as error:
            raise InvalidResource(f"{self.resource.get('kind')} {self.key} does not fit its type: {error}") from None

    async def _ask(self, fn: Callable[[Any, WorldView], Any], resource: Any, owner: Owner) -> Any:
        world = WorldView(self.cluster, self.controller, owner, declared_kinds(self.controller))
        answer = fn(resource, world)
        if not inspect.isawaitable(answer):
            return answer
        return await self._within_time(answer)

    async def _within_time(self, answer: Awaitable[Any]) -> Any:
        if self.timeout is None:
            return await answer
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await answer
        except TimeoutError:
            if not limit.expired():
                raise
            raise ReconcileTimeout(f"reconcile of {self.key} did not return within {self.timeout:g} s") from None

    # Acting

    async def _reconcile(self, owner: Owner, resource: Any, *, again: bool) -> None:
        if self.controller.reconcile_fn is None:
            raise TypeError(
                f"controller {self.controller.name} has no reconcile: decorate one with @controller.reconcile"
            )
        outcome = await self._ask(self.controller.reconcile_fn, resource, owner)
        await self._act(owner, resource, outcome, again=again)

    async def _act(self, owner: Owner, resource: Any, outcome: Outcome, *, again: bool = False) -> None:
        self.result.outcome = outcome
        self.result.requeue_after = outcome.requeue_after
        if outcome.patch is not None:
            await self._patch_resource(outcome.patch)
        marks = [status.reconcile_now(self._generation)] if again else []
        if isinstance(outcome, Hold):
            self.result.live = Live(conditions=marks)
            await self._write_status(self._status_of_hold(outcome, resource), marks)
        else:
            if outcome.status_first is not None:
                await self._write_status(status.as_data(outcome.status_first), [], keep_engine_marks=True)
            self.result.live = await self._make(owner, outcome, marks, again=again)
            wanted = status.compute(outcome.status, resource, self.result.live)
            await self._write_status(wanted, self.result.live.conditions)
        notes = [*outcome.events, *self._failure_notes()]
        for note in notes:
            await self._emit(note)
        self._forget_old_events(notes)

    def _failure_notes(self) -> list[EventNote]:
        """What went wrong, where no condition can say it: the resource's status is not ours to write."""
        if isinstance(self.controller.for_, Definition):
            return []
        shown = worth_telling(self.result.failures)
        return [EventNote(f.reason, status.shortened(status.described(f)), "Warning") for f in shown]

    def _status_of_hold(self, hold: Hold, resource: Any) -> Object | None:
        if hold.status is not None:
            return status.compute(hold.status, resource, self.result.live)
        if not isinstance(self.controller.for_, Definition):
            return None
        return status.held(self._current_status, hold, self.controller.ready_condition, self._generation)

    async def _make(self, owner: Owner, desired: Desired, marks: list[Object], *, again: bool) -> Live:
        """Applies the children stage by stage, deletes what is no longer wanted, and says what is live."""
        controller = self.controller
        applier = Applier(self.cluster, owner, controller.field_manager, self.memory, again, controller.predecessor)
        failures: list[Failure] = []
        stages = [(stage, self._placed(applier, stage, failures)) for stage in _stages(desired)]
        wanted = {placed.place for _, children in stages for placed in children}
        objects: dict[tuple[Kind, Key], Object] = {}
        for kind, key in desired.delete:
            await self._delete(applier, kind, key)
        for edit in desired.edits:
            await self._edit(edit)
        waiting = unfinished = False
        for number, (stage, children) in enumerate(stages, start=1):
            for placed in children:
                try:
                    made = await applier.make(placed)
                except ChildFailed as failed:
                    failures.append(failed.failure)
                    if (seen := self.cluster.get(placed.kind, placed.key)) is not None:
                        objects[placed.place] = seen
                    continue
                if made.object is not None:
                    objects[placed.place] = made.object
                if not made.in_place:
                    unfinished = True
                    self._requeue_at_most(TERMINATING_POLL)
            unfinished = unfinished or (stage.ready is not None and not stage.ready(Live(objects, tuple(failures))))
            if waiting := unfinished or any(f.reason != "NotServed" for f in failures):
                unfinished = unfinished or number < len(stages)
                break
        if desired.prune and not unfinished:
            await self._prune(applier, wanted | set(desired.keep), failures)
        self.memory.keep_only(wanted)
        if shown := worth_telling(failures):
            marks = [*marks, status.failed(shown, self._generation)]
        return Live(objects, tuple(failures), waiting, tuple(marks))

    def _placed(self, applier: Applier, stage: Stage, failures: list[Failure]) -> list[Placed]:
        placed = []
        for entry in stage.children:
            try:
                placed.append(applier.place(entry))
            except ChildFailed as failed:
                failures.append(failed.failure)
        return placed

    async def _delete(self, applier: Applier, kind: Kind, key: Key) -> bool:
        """Deletes an object of ours, or the resource itself; True once it is gone. What is not ours is left alone."""
        itself = (kind, key) == (self.controller.kind, self.key)
        manager = self.controller.field_manager
        seen = self.cluster.look(kind, key, manager)
        if seen is None and not self.cluster.is_complete(kind, key.namespace) and self.cluster.serves(kind):
            seen = await self.cluster.read(kind, key, manager)
        if seen is None or not (itself or ownership.belongs_to(seen.object, applier.owner)):
            return True
        if seen.terminating:
            return False
        self.result.deleted.append((kind, key))
        try:
            return await self.cluster.delete(kind, key, uid=seen.uid)
        except NotFound:
            return True

    async def _edit(self, edit: Edit) -> None:
        """Changes someone's object, if it still is as the reconcile saw it."""
        seen = await self.cluster.fetch(edit.kind, edit.key)
        if seen is None or resource_version_of(seen) != edit.resource_version:
            return  # The event of its change starts another pass.
        try:
            if edit.patch is None:
                self.result.deleted.append((edit.kind, edit.key))
                version = edit.resource_version
                await self.cluster.delete(edit.kind, edit.key, uid=uid_of(seen), resource_version=version)
            else:
                guard = {"resourceVersion": edit.resource_version}
                body = edit.patch | {"metadata": {**(edit.patch.get("metadata") or {}), **guard}}
                await self.cluster.patch(edit.kind, edit.key, body, subresource=edit.subresource)
        except (NotFound, Conflict):
            return

    async def _prune(
        self,
        applier: Applier,
        wanted: set[tuple[Kind, Key]],
        failures: Sequence[Failure] = (),
        *,
        outlives: str = "once",
        leave_to_collector: bool = False,
    ) -> bool:
        """Deletes what belongs to the owner and is not wanted, and takes back its shares; True once all of it is gone."""
        gone = True
        for kind in sorted({o.kind for o in self.controller.owns}, key=str):
            if not self.cluster.is_synced(kind):
                continue
            for child in self.cluster.children(kind, applier.owner):
                key = key_of(child)
                if (kind, key) in wanted or ownership.kept_by(child, outlives) or may_be_replaced(key, failures):
                    continue
                if ownership.is_share_of(child, applier.owner):
                    manager = applier.owner.manager(self.controller.field_manager, Ownership.SHARED)
                    seen = self.cluster.look(kind, key, manager)
                    if seen is not None and seen.managed is not None and not seen.terminating:
                        gone = await self._release(applier, kind, key, Ownership.SHARED) and gone
                    continue
                if leave_to_collector and ownership.refers_to(child, applier.owner):
                    continue
                seen = self.cluster.look(kind, key, self.controller.field_manager)
                if seen is None or (seen.managed is None and not ownership.is_tracked_by(child, applier.owner)):
                    continue  # Someone else made it and only hung it on our resource.
                gone = await self._delete(applier, kind, key) and gone
            manager = applier.owner.manager(self.controller.field_manager, Ownership.CONTRIBUTED)
            for key in self.cluster.contributions(kind, manager):
                if (kind, key) not in wanted and not may_be_replaced(key, failures):
                    gone = await self._release(applier, kind, key, Ownership.CONTRIBUTED) and gone
        return gone

    async def _release(self, applier: Applier, kind: Kind, key: Key, held: Ownership) -> bool:
        self.result.released.append((kind, key))
        try:
            return await applier.release(kind, key, held)
        except NotFound:
            return True

    # The end of a resource

    async def _finalize(self, owner: Owner, kind: Kind) -> None:
        assert self.resource is not None
        finalizers = finalizers_of(self.resource)
        if not self.controller.finalizer or self.controller.finalizer not in finalizers:
            return
        applier = Applier(self.cluster, owner, self.controller.field_manager, self.memory)
        outcome: Outcome | None = None
        if self.controller.cleanup_fn is not None:
            resource = self._typed()
            outcome = await self._ask(self.controller.cleanup_fn, resource, owner)
            if outcome is not None:
                await self._act(owner, resource, outcome)
            if isinstance(outcome, Hold) or self.result.live.waiting or self.result.failures:
                return
        wanted = set(self.result.live.objects)
        if isinstance(outcome, Desired):
            wanted |= set(outcome.keep)
        if not await self._prune(applier, wanted, outlives="keep", leave_to_collector=True):
            self._requeue_at_most(TERMINATING_POLL)
            return
        current = finalizers_of(self.resource)
        await self._set_finalizers(kind, [f for f in current if f != self.controller.finalizer])
        self.result.finalized = True

    async def _set_finalizers(self, kind: Kind, finalizers: list[str]) -> None:
        """Guarded by the resource version: a list can only be replaced whole, and others write it too."""
        assert self.resource is not None
        guard = {"uid": uid_of(self.resource), "resourceVersion": self.resource["metadata"].get("resourceVersion")}
        body = {"metadata": {"finalizers": finalizers} | {k: v for k, v in guard.items() if v}}
        self.resource = await self.cluster.patch(kind, self.key, body)

    # The resource itself

    @property
    def _generation(self) -> int | None:
        return (generation_of(self.resource) or None) if self.resource is not None else None

    @property
    def _current_status(self) -> Object:
        return status_of(self.resource) if self.resource is not None else {}

    async def _patch_resource(self, body: Object) -> None:
        if self.resource is None or self.controller.kind is None:
            raise TypeError(f"controller {self.controller.name} returned a patch, but has no resource to patch")
        if merge_diff(self.resource, merge_patch(self.resource, body)):
            self.resource = await self.cluster.patch(self.controller.kind, self.key, body)

    async def _drop_reconcile_annotation(self, kind: Kind, value: str) -> None:
        path = "/metadata/annotations/" + RECONCILE.replace("/", "~1")
        body: list[Object] = [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
        try:
            self.resource = await self.cluster.patch(kind, self.key, body)
        except ApiError:
            # Set anew meanwhile: that asks for one more pass, which its own event starts.
            return

    async def _write_status(
        self, wanted: Object | None, marks: Sequence[Object], *, keep_engine_marks: bool = False
    ) -> None:
        """Writes the status once, as a merge patch without a resource version, and only if it changed."""
        kind = self.controller.kind
        if self.resource is None or kind is None:
            return
        current = self._current_status
        if isinstance(self.controller.for_, Definition):
            if not self.controller.for_.storage.status:
                return
            if wanted is None:
                wanted = status.without_engine_marks(current, self.controller.ready_condition)
            if keep_engine_marks:
                marks = [c for c in current.get("conditions") or () if c.get("type") in status.ENGINE_TYPES]
            missing = [m for m in marks if not _has_condition(wanted, m["type"])]
            wanted = status.with_conditions(wanted, missing)
        elif wanted is None:
            return
        wanted = status.keep_times(wanted, current, self.cluster.now)
        self.result.status = wanted
        patch = merge_diff(current, wanted)
        if not patch:
            return
        if self.memory.status == (fingerprint(patch), fingerprint(current)):
            return
        try:
            self.resource = await self.cluster.patch(kind, self.key, {"status": patch}, subresource="status")
        except NotFound:
            return  # Deleted meanwhile.
        kept = status_of(self.resource)
        left = merge_diff(kept, wanted)
        self.memory.status = (fingerprint(left), fingerprint(kept)) if left else None

    async def fail(self, reason: str, message: str, *, retry: bool = True) -> None:
        """Says in the status and in an Event why a pass came to nothing."""
        note = EventNote(reason, status.shortened(message), "Warning")
        await self._emit(note)
        if isinstance(self.controller.for_, Definition):
            text = status.shortened(message)
            current = status.without_engine_marks(self._current_status, self.controller.ready_condition)
            types = (self.controller.ready_condition, status.RECONCILED)
            marks = [condition(t, False, reason, text, observed_generation=self._generation) for t in types]
            await self._write_status(status.with_conditions(current, marks), [])

    async def _emit(self, note: EventNote) -> None:
        if self.resource is None:
            return
        if not self._is_news(note):
            return
        try:
            await self.cluster.emit(self.resource, note, self.controller.name)
        except (TooManyRequests, Unauthorized):
            raise
        except ApiError:
            return  # An Event is for people; a pass never fails over it.
        self.memory.events[_name(note)] = self.cluster.time()

    def _is_news(self, note: EventNote) -> bool:
        last = self.memory.events.get(_name(note))
        return last is None or self.cluster.time() - last >= EVENT_REPEAT

    def _forget_old_events(self, notes: Sequence[EventNote]) -> None:
        named = {_name(note) for note in notes}
        self.memory.events = {name: at for name, at in self.memory.events.items() if name in named}

    def _requeue_at_most(self, seconds: float) -> None:
        now = self.result.requeue_after
        self.result.requeue_after = seconds if now is None else min(now, seconds)


def worth_telling(failures: Sequence[Failure]) -> list[Failure]:
    """Not that an optional kind is not served."""
    return [f for f in failures if f.retryable or f.reason != "NotServed"]


def may_be_replaced(key: Key, failures: Sequence[Failure]) -> bool:
    """While a wanted child cannot be made, what it may replace stays; in other namespaces that is nothing."""
    reach = {f.key.namespace for f in failures if f.reason != "NotServed"}
    return "" in reach or key.namespace in reach or (not key.namespace and bool(reach))


def _stages(desired: Desired) -> Sequence[Stage]:
    if desired.children and desired.stages:
        raise TypeError("a Desired has either children or stages; put the children into a first stage")
    return desired.stages or (Stage(desired.children),)


def _name(note: EventNote) -> tuple[str, str, str]:
    return note.type, note.reason, note.message


def _has_condition(wanted: Object, type: str) -> bool:
    return any(c.get("type") == type for c in wanted.get("conditions") or ())
