"""The Events of one key: each is sent when it is news, and again only after a while. A pass never fails over one."""

from __future__ import annotations

from collections.abc import Sequence

from modelyard.kube.errors import ApiError, TooManyRequests, Unauthorized
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.acting.cluster import Cluster
from modelyard.runtime.acting.memory import KeyMemory
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import EventNote

EVENT_REPEAT = 600.0
"""An Event that every pass repeats is sent again only after so many seconds."""


class Notes:
    def __init__(self, controller: Controller, cluster: Cluster, memory: KeyMemory, key: Key) -> None:
        self._controller = controller
        self._cluster = cluster
        self._memory = memory
        self._key = key

    async def emit(self, note: EventNote, resource: Object | None) -> None:
        """Sends it about the object that it names, or about the resource of this key."""
        about = note.about or resource
        if about is None:
            if self._controller.kind is not None:
                return
            about = _namespace_of(self._key)
        if not self.is_news(note):
            return
        try:
            await self._cluster.emit(about, note, self._controller.name)
        except (TooManyRequests, Unauthorized):
            raise
        except ApiError:
            return
        self._memory.events[_name(note)] = self._cluster.time()

    def is_news(self, note: EventNote) -> bool:
        last = self._memory.events.get(_name(note))
        return last is None or self._cluster.time() - last >= EVENT_REPEAT

    def forget_all_but(self, notes: Sequence[EventNote]) -> None:
        named = {_name(note) for note in notes}
        self._memory.events = {name: at for name, at in self._memory.events.items() if name in named}


def _name(note: EventNote) -> tuple[str, str, str]:
    return note.type, note.reason, note.message


def _namespace_of(key: Key) -> Object:
    """What an Event of a controller without a custom resource is about. It stands in that namespace, where people look."""
    name = key.namespace or "default"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": name}}
