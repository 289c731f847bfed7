"""Namespaces: the ones that always exist, what each gets at birth, and their end with all their content."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from modelyard.kube.builtin import ConfigMap, Namespace, Pod, ServiceAccount
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time
from modelyard.local.apiserver.controllers.background import Worker
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.options import DeleteOptions, WriteOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Registry, ServedResource
from modelyard.local.apiserver.storage.store import Change, Store, decode
from modelyard.local.apiserver.verbs.deletion import Deletion, Deletions
from modelyard.local.apiserver.verbs.writes import Transform, Write, Writes

ALWAYS = ("default", "kube-system", "kube-public", "kube-node-lease")
ROOT_CA = "kube-root-ca.crt"
_USER = UserInfo(
    "system:serviceaccount:kube-system:namespace-controller",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated", "system:masters"),
)
_STORAGE = Namespace.resource


class Namespaces:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        writes: Writes,
        deletions: Deletions,
        clock: Callable[[], datetime],
        root_ca: Callable[[], str],
    ) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._deletions = deletions
        self._clock = clock
        self._root_ca = root_ca
        self._worker: Worker[str] = Worker("namespaces", self._work)
        self._ending: set[str] = set()

    @property
    def busy(self) -> bool:
        return self._worker.busy

    async def start(self) -> None:
        for name in ALWAYS:
            if self._store.get(_STORAGE, "", name) is None:
                await self._create(Namespace, "", {"metadata": {"name": name}})
        for stored in self._store.items(_STORAGE):
            self._worker.add(stored.name)
        self._store.listen(self._changed, _STORAGE)
        self._store.listen(self._content_changed)
        self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()

    def _changed(self, change: Change) -> None:
        new = change.new
        if new is None:
            self._ending.discard(change.subject.name)
            return
        if new.deleting:
            self._ending.add(new.name)
            self._worker.add(new.name)
        elif change.old is None:
            self._worker.add(new.name)

    def _content_changed(self, change: Change) -> None:
        subject = change.subject
        if not subject.namespace:
            return
        if subject.namespace in self._ending or (
            subject.storage in (ServiceAccount.resource, ConfigMap.resource) and subject.name in ("default", ROOT_CA)
        ):
            self._worker.add(subject.namespace)

    async def _work(self, name: str) -> None:
        stored = self._store.get(_STORAGE, "", name)
        if stored is None:
            return
        if stored.deleting:
            self._ending.add(name)
            await self._end(name)
        else:
            await self._equip(name)

    # The beginning.

    async def _equip(self, namespace: str) -> None:
        if self._store.get(ServiceAccount.resource, namespace, "default") is None:
            await self._create(ServiceAccount, namespace, {"metadata": {"name": "default", "namespace": namespace}})
        data = {"ca.crt": self._root_ca()}
        found = self._store.get(ConfigMap.resource, namespace, ROOT_CA)
        if found is None:
            note = (
                "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
                "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
                "Kubernetes clusters."
            )
            metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description": note}}
            await self._create(ConfigMap, namespace, {"metadata": metadata, "data": data})
        elif found.decode().get("data") != data:
            await self._change(ConfigMap, namespace, ROOT_CA, "", lambda obj: obj.update(data=data))

    async def _create(self, kind: Kind, namespace: str, obj: Object) -> None:
        resource = self._registry.lookup(kind.group, kind.version, kind.plural)
        assert resource is not None
        write = Write(resource, namespace, "", _USER, WriteOptions(), manager="kube-controller-manager")
        try:
            await self._writes.create(write, self._writes.accept(write, obj, []))
        except Problem as problem:
            if problem.reason != "AlreadyExists" and problem.code not in (403, 404):
                raise

    # The end.

    async def _end(self, namespace: str) -> None:
        remaining = await self._delete_content(namespace)
        if remaining:
            await self._report(namespace, remaining)
            return
        # Metadata finalizers may hold it still; the content is gone.
        await self._change(Namespace, "", namespace, "finalize", _without_kubernetes)

    async def _delete_content(self, namespace: str) -> dict[str, list[Object]]:
        """Deletes what is there; returns what stays for now, by storage. Pods go first: they may need the rest to end well."""
        remaining: dict[str, list[Object]] = {}
        others = [storage for storage in self._store.storages() if storage != Pod.resource]
        for storage in (Pod.resource, *others):
            if Pod.resource in remaining:
                break
            resource = self._registry.by_storage(storage)
            if resource is None or not resource.kind.namespaced:
                continue
            for stored in self._store.items(storage, namespace):
                if not stored.deleting:
                    await self._delete(resource, namespace, stored.name)
            left = self._store.items(storage, namespace)
            if left:
                remaining[storage] = [stored.decode() for stored in left]
        return remaining

    async def _delete(self, resource: ServedResource, namespace: str, name: str) -> None:
        try:
            options = DeleteOptions(propagation="Background")
            await self._deletions.delete(Deletion(resource, namespace, name, _USER, options))
        except Problem as problem:
            if problem.code != 404:
                raise

    async def _report(self, namespace: str, remaining: dict[str, list[Object]]) -> None:
        counts = ", ".join(f"{name}. has {len(items)} resource instances" if "." not in name
                           else f"{name} has {len(items)} resource instances" for name, items in sorted(remaining.items()))  # fmt: skip
        finalizers: dict[str, int] = {}
        for items in remaining.values():
            for obj in items:
                for finalizer in obj["metadata"].get("finalizers") or ():
                    finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        waiting = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        conditions = [
            ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
            (
                "NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            (
                "NamespaceDeletionContentFailure", "False", "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            (
                "NamespaceContentRemaining", "True", "SomeResourcesRemain",
                f"Some resources are remaining: {counts}",
            ),
            (
                ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain",
                 f"Some content in the namespace has finalizers remaining: {waiting}")
                if waiting
                else ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers",
                      "All content-preserving finalizers finished")
            ),
        ]  # fmt: skip
        now = format_time(self._clock())

        def report(obj: Object) -> None:
            status = obj.setdefault("status", {})
            before = {condition["type"]: condition for condition in status.get("conditions") or ()}
            status["conditions"] = [_condition(before.get(each[0]), each, now) for each in conditions]

        await self._change(Namespace, "", namespace, "status", report)

    async def _change(
        self, kind: Kind, namespace: str, name: str, subresource: str, change: Callable[[Object], None]
    ) -> None:
        resource = self._registry.lookup(kind.group, kind.version, kind.plural)
        assert resource is not None
        write = Write(resource, namespace, name, _USER, WriteOptions(), subresource, manager="kube-controller-manager")
        try:
            await self._writes.change(write, _changed(change), options_kind="PatchOptions")
        except Problem as problem:
            if problem.code != 404:
                raise


def _condition(before: Object | None, wanted: tuple[str, str, str, str], now: str) -> Object:
    kind, status, reason, message = wanted
    since = before["lastTransitionTime"] if before and before["status"] == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


def _without_kubernetes(obj: Object) -> None:
    spec = obj.get("spec") or {}
    kept = [name for name in spec.get("finalizers") or () if name != "kubernetes"]
    obj["spec"] = {"finalizers": kept} if kept else {}


def _changed(change: Callable[[Object], None]) -> Transform:
    async def changed(raw: bytes | None) -> Object:
        assert raw is not None
        obj = decode(raw)
        change(obj)
        return obj

    return changed
