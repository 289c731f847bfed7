"""One pass over one key: read the resource, ask the controller what should be true, make it true, write the status."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from modelyard.kube.builtin import Lease
from modelyard.kube.conditions import condition
from modelyard.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import annotations_of, finalizers_of, is_deleting, uid_of
from modelyard.runtime.acting import status
from modelyard.runtime.acting.children import TERMINATING_POLL, Children
from modelyard.runtime.acting.cluster import Cluster, WorldView, declared_kinds
from modelyard.runtime.acting.memory import KeyMemory
from modelyard.runtime.acting.notes import Notes
from modelyard.runtime.acting.ownership import PAUSE, RECONCILE, Owner
from modelyard.runtime.acting.resource import InvalidResource, Resource
from modelyard.runtime.acting.results import PassResult, worth_telling
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired, EventNote, FollowUp, Hold, Live, Outcome
from modelyard.runtime.declaring.predecessor import LOOK_AGAIN
from modelyard.runtime.declaring.settings import SettingError


class FinalizerNotRemoved(Exception):
    """All is cleaned up, but the API refuses to let the resource go."""


class ReconcileTimeout(Exception):
    """The controller's reconcile did not return in time."""


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
        defer_to_predecessor: bool = True,
    ) -> None:
        """`defer_to_predecessor`: do nothing while the operator that the controller replaces is at work."""
        self.controller = controller = controller.face(key)
        self.cluster = cluster
        self.memory = memory
        self.key = key = Key(*key)
        self.timeout = timeout
        self.predecessor = controller.predecessor if defer_to_predecessor else None
        self.result = PassResult()
        self._resource = Resource(controller, cluster, memory, key)
        self._notes = Notes(controller, cluster, memory, key)

    @property
    def resource(self) -> Object | None:
        return self._resource.object

    async def run(self) -> PassResult:
        kind = self.controller.kind
        if kind is None:
            if not await self._give_way():
                await self._reconcile(Owner(self.controller.name, self.key), self.key, again=False)
            return self.result
        self._resource.object = resource = self.cluster.get(kind, self.key)
        if resource is None and self.controller.gone_fn is None:
            return self.result
        if await self._give_way():
            return self.result
        if resource is None:
            await self._after_its_end(Owner(self.controller.name, self.key, kind))
        elif is_deleting(resource):
            await self._finalize(Owner(self.controller.name, self.key, kind, uid_of(resource)), kind, resource)
        else:
            await self._keep_true(Owner(self.controller.name, self.key, kind, uid_of(resource)), kind, resource)
        return self.result

    async def _keep_true(self, owner: Owner, kind: Kind, resource: Object) -> None:
        needs_finalizer = self.controller.finalizer_when
        if self.controller.finalizer and (needs_finalizer is None or needs_finalizer(self._resource.typed())):
            await self._resource.add_finalizer(kind, self.controller.finalizer)
        annotations = annotations_of(resource)
        again = RECONCILE in annotations
        if annotations.get(PAUSE) == "true" and not again:
            self.result.paused = True
            await self._write_status(None, [status.paused(self._resource.generation)])
            return
        await self._reconcile(owner, self._resource.typed(), again=again)
        if again and not self.result.must_retry:
            await self._resource.drop_reconcile_annotation(kind, annotations[RECONCILE])

    async def _give_way(self) -> bool:
        """While the operator before us is at work: says so, and leaves everything to it."""
        if self.predecessor is None:
            return False
        message = self.predecessor.at_work(self.cluster.list(Lease, None, None), self.cluster.now)
        if message is None:
            return False
        self.result.superseded = message
        self.result.requeue_after = LOOK_AGAIN
        # Not more often than its Event: it may not keep a condition that it does not know.
        if self._notes.is_news(note := EventNote(status.SUPERSEDED, message, "Warning")):
            if self._resource.is_ours_to_report_on:
                mark = status.superseded(message, self._resource.generation)
                await self._write_status(status.with_conditions(self._resource.status, [mark]), [])
            await self._notes.emit(note, self.resource)
        return True

    def _ignored_leases(self) -> list[EventNote]:
        """A Lease of our predecessor in a place where it is not known to run: nobody should have to guess that two are at work."""
        if self.predecessor is None:
            return []
        message = self.predecessor.ignored(self.cluster.list(Lease, None, None), self.cluster.now)
        return [EventNote("OtherOperatorIgnored", message, "Warning")] if message else []

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

    async def _reconcile(self, owner: Owner, resource: Any, *, again: bool) -> None:
        if self.controller.reconcile_fn is None:
            raise TypeError(
                f"controller {self.controller.name} has no reconcile: decorate one with @controller.reconcile"
            )
        try:
            outcome = await self._ask(self.controller.reconcile_fn, resource, owner)
        except SettingError as error:
            # The ConfigMap that holds it wakes this key when it changes.
            outcome = Hold("SettingInvalid", str(error))
        await self._act(owner, resource, outcome, again=again)

    async def _act(self, owner: Owner, resource: Any, outcome: Outcome, *, again: bool = False) -> None:
        """In the order that `Desired` promises."""
        self.result.outcome = outcome
        self.result.requeue_after = outcome.requeue_after
        if outcome.patch is not None:
            await self._resource.patch(outcome.patch)
        marks = [status.reconcile_now(self._resource.generation)] if again else []
        events = outcome.events
        if isinstance(outcome, Hold):
            self.result.live = Live(conditions=marks)
            await self._write_status(self._status_of_hold(outcome, resource), marks)
        else:
            if outcome.status_first is not None:
                await self._write_status(status.as_data(outcome.status_first), [], keep_engine_marks=True)
            children = self._children(owner, again=again)
            self.result.live = live = await children.make(outcome, marks, self._resource.generation)
            follow = outcome.follow(live) if outcome.follow is not None else FollowUp(events=outcome.events)
            events = follow.events
            if follow.requeue_after is not None:
                self.result.requeue_at_most(follow.requeue_after)
            wanted = status.compute(outcome.status if outcome.follow is None else follow.status, resource, live)
            await self._write_status(wanted, live.conditions)
        notes = [*events, *self._failure_notes(), *self._ignored_leases()]
        for note in notes:
            await self._notes.emit(note, self.resource)
        self._notes.forget_all_but(notes)

    def _children(self, owner: Owner, *, again: bool = False, predecessor: bool = True) -> Children:
        wrapped: set[Kind] = set()
        if self.controller.wraps is not None and self.resource is not None:
            for api_version, name in self.controller.wraps.kinds(self.resource):
                if (kind := self.cluster.kind_of({"apiVersion": api_version, "kind": name})) is not None:
                    wrapped.add(kind)
        return Children(
            self.controller, self.cluster, self.memory, owner, self.result,
            again=again, predecessor=predecessor, wrapped=wrapped,
        )  # fmt: skip

    def _failure_notes(self) -> list[EventNote]:
        """What went wrong, where no condition can say it: the resource's status is not ours to write."""
        if self._resource.is_ours_to_report_on:
            return []
        shown = worth_telling(self.result.failures)
        return [EventNote(f.reason, status.shortened(status.described(f)), "Warning") for f in shown]

    def _status_of_hold(self, hold: Hold, resource: Any) -> Object | None:
        if hold.status is not None:
            return status.compute(hold.status, resource, self.result.live)
        if not self._resource.is_ours_to_report_on:
            return None
        return status.held(self._resource.status, hold, self.controller.ready_condition, self._resource.generation)

    async def _write_status(
        self, wanted: Object | None, marks: Sequence[Object], *, keep_engine_marks: bool = False
    ) -> None:
        written = await self._resource.write_status(wanted, marks, keep_engine_marks=keep_engine_marks)
        if written is not None:
            self.result.status = written

    async def _after_its_end(self, owner: Owner) -> None:
        """The resource is gone and no finalizer held it: what was registered elsewhere under its name is taken out."""
        assert self.controller.gone_fn is not None
        outcome = await self._ask(self.controller.gone_fn, self.controller.key_for(self.key), owner)
        if outcome is not None:
            await self._act(owner, self.key, outcome)

    async def _finalize(self, owner: Owner, kind: Kind, resource: Object) -> None:
        own = self.controller.finalizer
        if not own or own not in finalizers_of(resource):
            return
        outcome: Outcome | None = None
        if self.controller.cleanup_fn is not None:
            typed = self._resource.typed()
            outcome = await self._ask(self.controller.cleanup_fn, typed, owner)
            if outcome is not None:
                await self._act(owner, typed, outcome)
            if isinstance(outcome, Hold) or self.result.live.waiting or self.result.failures:
                return
            if isinstance(outcome, Desired) and outcome.unfinished:
                return
        wanted = set(self.result.live.objects)
        if isinstance(outcome, Desired):
            wanted |= set(outcome.keep)
        children = self._children(owner, predecessor=False)
        if not await children.prune(wanted, outlives="keep", leave_to_collector=True):
            self.result.requeue_at_most(TERMINATING_POLL)
            return
        try:
            await self._resource.remove_finalizer(kind, own)
        except (Conflict, NotFound, TooManyRequests, Unauthorized):
            raise
        except ApiError as error:
            message = f"everything is cleaned up, but the finalizer {own} cannot be removed: {error.message}"
            raise FinalizerNotRemoved(message) from error
        self.result.finalized = True

    async def fail(self, reason: str, message: str) -> None:
        """Says in the status and in an Event why a pass came to nothing."""
        text = status.shortened(message)
        await self._notes.emit(EventNote(reason, text, "Warning"), self.resource)
        if not self._resource.is_ours_to_report_on:
            return
        current = status.without_engine_marks(self._resource.status, self.controller.ready_condition)
        types = (self.controller.ready_condition, status.RECONCILED)
        marks = [condition(t, False, reason, text, observed_generation=self._resource.generation) for t in types]
        await self._write_status(status.with_conditions(current, marks), [])


__all__ = ["FinalizerNotRemoved", "InvalidResource", "Pass", "PassResult", "ReconcileTimeout"]
