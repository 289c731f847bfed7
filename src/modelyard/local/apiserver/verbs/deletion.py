"""Delete: preconditions, grace periods, finalizers, propagation, and collections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time, later, parse_time
from modelyard.local.apiserver.requests import problems, rendering
from modelyard.local.apiserver.requests.hooks import Admission, Hooks
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.options import DeleteOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.storage.store import Stale, Store, Stored, TooLarge, WriteFailed, decode, encode

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_KEEPS_PODS = ("jobs.batch", "replicationcontrollers")
"""Resources whose pods stay, unless a deletion says otherwise."""
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(slots=True)
class Deletion:
    """One delete request."""

    resource: ServedResource
    namespace: str
    name: str
    user: UserInfo
    options: DeleteOptions = field(default_factory=DeleteOptions)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome. `raw` is the answer's body: the object, or a Status where `is_status`."""

    raw: bytes
    gone: bool
    is_status: bool

    def status(self, options: DeleteOptions) -> int:
        return 202 if not self.gone and options.orphan is False else 200


class Deletions:
    def __init__(self, store: Store, hooks: Hooks, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._hooks = hooks
        self._clock = clock

    async def delete(self, deletion: Deletion) -> Deleted:
        resource = deletion.resource
        _warn_of_kept_pods(deletion)
        while True:
            current = self._store.latest(resource.storage, deletion.namespace, deletion.name)
            if current is None:
                raise problems.not_found(resource.kind, deletion.name)
            raw = await rendering.view(current, resource)
            live = decode(raw)
            _check_preconditions(resource.kind, live["metadata"], deletion.options)
            await self._admit(deletion, live)
            try:
                return await self._delete_once(deletion, current, raw, live)
            except Stale:
                # Somebody was faster: what they left is what is deleted now, if the preconditions still hold.
                continue
            except TooLarge:
                raise problems.custom(500, "", "etcdserver: request is too large") from None
            except WriteFailed as error:
                raise problems.internal_error(f"the write could not be kept: {error}") from None

    async def _admit(self, deletion: Deletion, live: Object) -> None:
        options = deletion.options
        admission = Admission(
            "DELETE", deletion.resource, deletion.user, deletion.namespace, deletion.name, "", options.dry_run,
            options.to_object(), warnings=deletion.warnings,
        )  # fmt: skip
        if self._hooks.admitter.concerns(admission):
            await self._hooks.admitter.mutate(admission, None, live)
            await self._hooks.admitter.validate(admission, None, live)

    async def _delete_once(self, deletion: Deletion, current: Stored, raw: bytes, live: Object) -> Deleted:
        resource, options = deletion.resource, deletion.options
        obj = decode(raw)
        metadata = obj["metadata"]
        grace = self._grace(resource, obj, options)
        if grace is _UNCHANGED:
            return self._answer(resource, raw, live, gone=False)
        finalizers = _finalizers(resource, metadata, options)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        waits = bool(finalizers) or resource.strategy.holds_deletion(obj)
        if isinstance(grace, int) and grace > 0:
            self._mark(resource, obj, grace)
        elif waits:
            self._mark(resource, obj, 0)
        else:
            if not options.dry_run:
                await self._store.remove(current)
            if resource.graceful:
                self._mark(resource, obj, 0)
                raw = encode(obj)
            return self._answer(resource, raw, live, gone=True)
        if obj == live:
            return Deleted(raw, gone=False, is_status=False)
        if options.dry_run:
            return Deleted(encode(obj), gone=False, is_status=False)
        own = resource.stored_as_served
        kept = obj if own else await rendering.to_storage(obj, resource)
        stored = await self._store.put(resource.storage, kept, current, resource.strategy if own else None)
        return Deleted(await rendering.view(stored, resource), gone=False, is_status=False)

    def _grace(self, resource: ServedResource, obj: Object, options: DeleteOptions) -> int | object:
        """How many seconds the object may still live, or `_UNCHANGED` where an earlier deletion stands."""
        if not resource.graceful:
            return 0
        metadata = obj["metadata"]
        asked = options.grace
        if asked is not None and asked < 0:
            asked = 1
        if metadata.get("deletionTimestamp"):
            given = metadata.get("deletionGracePeriodSeconds")
            if not given:
                return 0
            if asked is None or asked >= given:
                return _UNCHANGED
            return asked
        period = asked
        if period is None:
            period = (obj.get("spec") or {}).get("terminationGracePeriodSeconds") or 0
        scheduled = bool((obj.get("spec") or {}).get("nodeName"))
        ended = (obj.get("status") or {}).get("phase") in ("Failed", "Succeeded")
        return 0 if not scheduled or ended else (1 if period < 0 else period)

    def _mark(self, resource: ServedResource, obj: Object, grace: int) -> None:
        """Sets or shortens what says when the object is to be gone."""
        metadata = obj["metadata"]
        now = self._clock()
        if "deletionTimestamp" not in metadata:
            if metadata.get("generation"):
                metadata["generation"] += 1
            metadata["deletionTimestamp"] = format_time(later(now, grace))
            metadata["deletionGracePeriodSeconds"] = grace
            resource.strategy.start_deletion(obj)
            return
        given = metadata.get("deletionGracePeriodSeconds") or 0
        until = later(later(parse_time(metadata["deletionTimestamp"]), -given), grace)
        if grace == 0 and parse_time(metadata["deletionTimestamp"]) <= now:
            until = parse_time(metadata["deletionTimestamp"])
        elif until < now:
            until, grace = now, 1 if grace else 0
        metadata["deletionTimestamp"] = format_time(until)
        metadata["deletionGracePeriodSeconds"] = grace

    @staticmethod
    def _answer(resource: ServedResource, raw: bytes, obj: Object, *, gone: bool) -> Deleted:
        if resource.returns_deleted or not gone:
            return Deleted(raw, gone=gone, is_status=False)
        details = {
            "name": obj["metadata"]["name"], "group": resource.kind.group, "kind": resource.kind.plural,
            "uid": obj["metadata"].get("uid", ""),
        }  # fmt: skip
        if not resource.kind.group:
            del details["group"]
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Deleted(encode(status), gone=True, is_status=True)

    async def delete_all(self, deletion: Deletion, items: list[Stored]) -> None:
        """Deletes what a collection request selected; what is gone meanwhile is fine."""
        _warn_of_kept_pods(deletion)
        for stored in items:
            options = DeleteOptions(
                deletion.options.dry_run, deletion.options.grace, deletion.options.propagation, deletion.options.orphan,
                deletion.options.uid, deletion.options.resource_version,
            )  # fmt: skip
            one = Deletion(deletion.resource, stored.namespace, stored.name, deletion.user, options, deletion.warnings)
            try:
                await self.delete(one)
            except Problem as problem:
                if problem.code != 404:
                    raise


_UNCHANGED = object()


def _warn_of_kept_pods(deletion: Deletion) -> None:
    options = deletion.options
    kept = deletion.resource.storage == "jobs.batch" and options.propagation is None and options.orphan is None
    if kept and _PODS_STAY not in deletion.warnings:
        deletion.warnings.append(_PODS_STAY)


def _check_preconditions(kind: Kind, metadata: Object, options: DeleteOptions) -> None:
    uid, version = options.uid, options.resource_version
    # These messages name the kind where others name the resource.
    named = Kind(kind.group, kind.version, kind.kind, kind.kind, kind.namespaced)
    if uid is not None and uid != metadata.get("uid"):
        raise problems.conflict(
            named, metadata["name"],
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata.get('uid', '')}). "
            "The object might have been deleted and then recreated",
        )  # fmt: skip
    if version is not None and version != metadata.get("resourceVersion"):
        raise problems.conflict(
            named, metadata["name"],
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata.get('resourceVersion', '')}). The object might have been modified",
        )  # fmt: skip


def _finalizers(resource: ServedResource, metadata: Object, options: DeleteOptions) -> list[str]:
    """The finalizers after the propagation policy had its say."""
    before: list[str] = metadata.get("finalizers") or []
    if resource.storage == "events":
        orphan = foreground = False
    elif options.orphan is not None:
        orphan, foreground = options.orphan, False
    elif options.propagation is not None:
        orphan, foreground = options.propagation == "Orphan", options.propagation == "Foreground"
    else:
        # What an earlier deletion asked for stands.
        first = next((name for name in before if name in (ORPHAN, FOREGROUND)), "")
        orphan, foreground = first == ORPHAN or (not first and resource.storage in _KEEPS_PODS), first == FOREGROUND
    after = [name for name in before if name not in (ORPHAN, FOREGROUND)]
    if orphan:
        after.append(ORPHAN)
    if foreground:
        after.append(FOREGROUND)
    return before if set(after) == set(before) else after
