"""Garbage collection: dependents of deleted owners go, owners deleted in the foreground wait, orphans lose their references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.controllers.background import Worker
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.options import DeleteOptions, WriteOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Registry
from modelyard.local.apiserver.storage.store import Change, Store, Stored, decode
from modelyard.local.apiserver.verbs.deletion import FOREGROUND, ORPHAN, Deletion, Deletions
from modelyard.local.apiserver.verbs.metadata import system_finalizer
from modelyard.local.apiserver.verbs.writes import Transform, Write, Writes

_USER = UserInfo(
    "system:serviceaccount:kube-system:generic-garbage-collector",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
State = Literal["solid", "absent", "waiting", "unknown"]


class Collector:
    """Knows who depends on whom by uid, and acts on what changed."""

    def __init__(self, store: Store, registry: Registry, writes: Writes, deletions: Deletions) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._deletions = deletions
        self._objects: dict[str, Stored] = {}
        self._dependents: dict[str, set[str]] = {}
        self._worker: Worker[str] = Worker("garbage collector", self._work)
        registry.listen(self._kinds_changed)
        self._unresolved: set[str] = set()
        """Objects with an owner of a kind that is not served (yet)."""
        self._gone: set[str] = set()
        """Owners that were seen to go and still have dependents: those are judged even if their owner's kind goes too."""

    @property
    def busy(self) -> bool:
        return self._worker.busy

    def start(self) -> None:
        for stored in self._store:
            self._add(stored)
        for stored in self._store:
            self._consider(stored)
        self._store.listen(self._changed)
        self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()

    # What is known.

    def _add(self, stored: Stored) -> None:
        self._objects[stored.uid] = stored
        for owner in stored.owners:
            self._dependents.setdefault(owner, set()).add(stored.uid)

    def _forget_owners(self, stored: Stored) -> None:
        for owner in stored.owners:
            dependents = self._dependents.get(owner)
            if dependents is not None:
                dependents.discard(stored.uid)
                if not dependents:
                    del self._dependents[owner]
                    self._gone.discard(owner)

    def _changed(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or old.owners != new.owners):
            self._forget_owners(old)
            for owner in old.owners:
                # It may have waited for this one to go.
                found = self._objects.get(owner)
                if found is not None and found.deleting:
                    self._worker.add(owner)
        if new is None:
            assert old is not None
            self._objects.pop(old.uid, None)
            self._unresolved.discard(old.uid)
            for dependent in self._dependents.get(old.uid, ()):
                self._gone.add(old.uid)
                self._worker.add(dependent)
            return
        if old is None or old.owners != new.owners:
            self._add(new)
        else:
            self._objects[new.uid] = new
        self._consider(new)

    def _consider(self, stored: Stored) -> None:
        if stored.deleting or any(not self._is_solid(owner, stored) for owner in stored.owners):
            self._worker.add(stored.uid)

    def _is_solid(self, owner: str, dependent: Stored) -> bool:
        """A quick look that finds nearly all objects which need no judgement."""
        found = self._objects.get(owner)
        return found is not None and not found.deleting and found.namespace in ("", dependent.namespace)

    def _kinds_changed(self) -> None:
        for uid in self._unresolved:
            self._worker.add(uid)
        self._unresolved.clear()

    # What is done.

    async def _work(self, uid: str) -> None:
        stored = self._objects.get(uid)
        if stored is None:
            return
        if stored.deleting:
            obj = stored.decode()
            finalizers = obj["metadata"].get("finalizers") or ()
            if ORPHAN in finalizers:
                await self._orphan(stored)
                return
            if FOREGROUND in finalizers:
                await self._foreground(stored)
                return
        if stored.owners and not stored.deleting:
            await self._judge(stored)

    async def _orphan(self, owner: Stored) -> None:
        for uid in sorted(self._dependents.get(owner.uid, ())):
            dependent = self._objects.get(uid)
            if dependent is not None:
                await self._drop_owners(dependent, {owner.uid})
        await self._remove_finalizer(owner, ORPHAN)

    async def _foreground(self, owner: Stored) -> None:
        blocking = False
        for uid in sorted(self._dependents.get(owner.uid, ())):
            dependent = self._objects.get(uid)
            if dependent is None:
                continue
            references = dependent.decode()["metadata"].get("ownerReferences") or ()
            if any(r.get("uid") == owner.uid and r.get("blockOwnerDeletion") for r in references):
                blocking = True
            if not dependent.deleting:
                self._worker.add(uid)
        if not blocking:
            await self._remove_finalizer(owner, FOREGROUND)

    async def _judge(self, stored: Stored) -> None:
        """Keeps, cuts loose or deletes an object, by the state of its owners."""
        obj = stored.decode()
        states = {
            reference.get("uid", ""): self._state(stored, reference)
            for reference in obj["metadata"].get("ownerReferences") or ()
        }
        if "unknown" in states.values():
            self._unresolved.add(stored.uid)
            return
        if "solid" in states.values():
            gone = {uid for uid, state in states.items() if state != "solid"}
            if gone:
                await self._drop_owners(stored, gone)
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if "waiting" in states.values() and self._dependents.get(stored.uid):
            policy = "Foreground"
            if any(self._waits(uid) for uid in self._dependents[stored.uid]):
                await self._unblock(stored)
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = "Background"
        await self._delete(stored, policy)

    def _waits(self, uid: str) -> bool:
        """Whether an object is being deleted and waits for its dependents to go first."""
        found = self._objects.get(uid)
        return (
            found is not None and found.deleting and FOREGROUND in (found.decode()["metadata"].get("finalizers") or ())
        )

    async def _unblock(self, stored: Stored) -> None:
        """Owners and dependents that wait for each other in a circle would wait forever: this one holds up no owner."""

        def unblocked(obj: Object) -> None:
            for reference in obj["metadata"].get("ownerReferences") or ():
                if reference.get("blockOwnerDeletion"):
                    reference["blockOwnerDeletion"] = False

        await self._change(stored, unblocked)
        for owner in stored.owners:
            self._worker.add(owner)

    def _state(self, dependent: Stored, reference: Object) -> State:
        if reference.get("uid") in self._gone:
            return "absent"
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        resource = self._registry.by_kind(group, version, str(reference.get("kind", "")))
        if resource is None:
            # An owner of a kind that nobody serves may come back with its kind.
            return "unknown"
        if resource.kind.namespaced and not dependent.namespace:
            # A cluster-scoped object cannot have a namespaced owner; nothing can be said about one.
            return "unknown"
        namespace = dependent.namespace if resource.kind.namespaced else ""
        owner = self._store.get(resource.storage, namespace, str(reference.get("name", "")))
        if owner is None or owner.uid != reference.get("uid"):
            return "absent"
        if owner.deleting and FOREGROUND in (owner.decode()["metadata"].get("finalizers") or ()):
            return "waiting"
        return "solid"

    async def _delete(self, stored: Stored, policy: str) -> None:
        resource = self._registry.by_storage(stored.storage)
        if resource is None:
            return
        options = DeleteOptions(propagation=policy, uid=stored.uid)
        try:
            await self._deletions.delete(Deletion(resource, stored.namespace, stored.name, _USER, options))
        except Problem as problem:
            if problem.code not in (404, 409):
                raise

    async def _drop_owners(self, stored: Stored, uids: set[str]) -> None:
        def without(obj: Object) -> None:
            kept = [r for r in obj["metadata"].get("ownerReferences") or () if r.get("uid") not in uids]
            if kept:
                obj["metadata"]["ownerReferences"] = kept
            else:
                obj["metadata"].pop("ownerReferences", None)

        await self._change(stored, without)

    async def _remove_finalizer(self, stored: Stored, name: str) -> None:
        await self._change(stored, lambda obj: system_finalizer(obj["metadata"], name, present=False))

    async def _change(self, stored: Stored, change: Callable[[Object], None]) -> None:
        resource = self._registry.by_storage(stored.storage)
        if resource is None:
            return
        write = Write(resource, stored.namespace, stored.name, _USER, WriteOptions(), manager="kube-controller-manager")

        try:
            await self._writes.change(write, _same_object(stored.uid, change), options_kind="PatchOptions")
        except (Problem, _AnotherObject) as problem:
            if isinstance(problem, Problem) and problem.code != 404:
                raise


class _AnotherObject(Exception):
    """The name is taken by another object meanwhile."""


def _same_object(uid: str, change: Callable[[Object], None]) -> Transform:
    async def changed(raw: bytes | None) -> Object:
        assert raw is not None
        obj = decode(raw)
        if obj["metadata"].get("uid") != uid:
            raise _AnotherObject
        change(obj)
        return obj

    return changed
