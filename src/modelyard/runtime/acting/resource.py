"""The resource that a pass is about: read once, then kept current by every write of ours to it: patches, finalizers, status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modelyard.kube.crd import Definition
from modelyard.kube.errors import ApiError, NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import finalizers_of, generation_of, status_of, uid_of
from modelyard.kube.patches import merge_diff, merge_patch
from modelyard.runtime.acting import status
from modelyard.runtime.acting.cluster import Cluster
from modelyard.runtime.acting.memory import KeyMemory, fingerprint
from modelyard.runtime.acting.ownership import RECONCILE
from modelyard.runtime.declaring.controller import Controller


class InvalidResource(Exception):
    """The resource does not fit its own type; the message names the field."""


class Resource:
    """`object` is None where the controller has no custom resource, or where it is gone."""

    def __init__(self, controller: Controller, cluster: Cluster, memory: KeyMemory, key: Key) -> None:
        self.object: Object | None = None
        self._controller = controller
        self._cluster = cluster
        self._memory = memory
        self._key = key

    @property
    def generation(self) -> int | None:
        return (generation_of(self.object) or None) if self.object is not None else None

    @property
    def status(self) -> Object:
        return status_of(self.object) if self.object is not None else {}

    @property
    def is_ours_to_report_on(self) -> bool:
        """Is its kind defined by us, so that conditions of the engine belong into its status?"""
        return isinstance(self._controller.for_, Definition)

    def typed(self) -> Any:
        """As the type of its definition; a kind of others stays plain data."""
        assert self.object is not None
        if not isinstance(self._controller.for_, Definition):
            return self.object
        try:
            return self._controller.for_.type.parse(self.object)
        except msgspec.ValidationError as error:
            raise InvalidResource(f"{self.object.get('kind')} {self._key} does not fit its type: {error}") from None

    async def patch(self, body: Object) -> None:
        """Sends a merge patch, if it changes anything."""
        if self.object is None or self._controller.kind is None:
            raise TypeError(f"controller {self._controller.name} returned a patch, but has no resource to patch")
        if merge_diff(self.object, merge_patch(self.object, body)):
            self.object = await self._cluster.patch(self._controller.kind, self._key, body)

    async def add_finalizer(self, kind: Kind, name: str) -> None:
        assert self.object is not None
        if name not in finalizers_of(self.object):
            await self._set_finalizers(kind, [*finalizers_of(self.object), name])

    async def remove_finalizer(self, kind: Kind, name: str) -> None:
        assert self.object is not None
        await self._set_finalizers(kind, [each for each in finalizers_of(self.object) if each != name])

    async def _set_finalizers(self, kind: Kind, finalizers: list[str]) -> None:
        """Guarded by the resource version: a list can only be replaced whole, and others write it too."""
        assert self.object is not None
        guard = {"uid": uid_of(self.object), "resourceVersion": self.object["metadata"].get("resourceVersion")}
        body = {"metadata": {"finalizers": finalizers} | {k: v for k, v in guard.items() if v}}
        self.object = await self._cluster.patch(kind, self._key, body)

    async def drop_reconcile_annotation(self, kind: Kind, value: str) -> None:
        path = "/metadata/annotations/" + RECONCILE.replace("/", "~1")
        body: list[Object] = [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
        try:
            self.object = await self._cluster.patch(kind, self._key, body)
        except ApiError:
            # Someone set it again meanwhile: that asks for one more pass, which its own event starts.
            return

    async def write_status(
        self, wanted: Object | None, marks: Sequence[Object], *, keep_engine_marks: bool = False
    ) -> Object | None:
        """Writes the status once, as a merge patch without a resource version, and only if it changed. Returns the status
        that was asked for, or None where there is none to write."""
        kind = self._controller.kind
        if self.object is None or kind is None:
            return None
        current = self.status
        if isinstance(self._controller.for_, Definition):
            if not self._controller.for_.storage.status:
                return None
            if wanted is None:
                wanted = status.without_engine_marks(current, self._controller.ready_condition)
            if keep_engine_marks:
                marks = [c for c in current.get("conditions") or () if c.get("type") in status.ENGINE_TYPES]
            missing = [m for m in marks if not _has_condition(wanted, m["type"])]
            wanted = status.with_conditions(wanted, missing)
        elif wanted is None:
            return None
        wanted = status.keep_times(status.fitted(wanted), current, self._cluster.now)
        await self._send_status(kind, wanted, current)
        return wanted

    async def _send_status(self, kind: Kind, wanted: Object, current: Object) -> None:
        patch = merge_diff(current, wanted)
        if not patch or self._memory.status == (fingerprint(patch), fingerprint(current)):
            return
        try:
            self.object = await self._cluster.patch(kind, self._key, {"status": patch}, subresource="status")
        except NotFound:
            return  # Deleted meanwhile.
        kept = self.status
        left = merge_diff(kept, wanted)
        # What the API did not keep is not sent again and again.
        self._memory.status = (fingerprint(left), fingerprint(kept)) if left else None


def _has_condition(wanted: Object, type: str) -> bool:
    return any(c.get("type") == type for c in wanted.get("conditions") or ())
