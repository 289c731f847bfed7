"""Takes the protection off claims and volumes that are deleted and no longer used, and puts it back where it is missing, as
Kubernetes' controllers do. Whoever provisioned a volume cleans up its storage after the claim has gone."""

from __future__ import annotations

from modelyard.kube.builtin import PersistentVolume, PersistentVolumeClaim, Pod
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.controllers.background import Worker
from modelyard.local.apiserver.requests.messages import LOOPBACK
from modelyard.local.apiserver.requests.options import WriteOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Registry
from modelyard.local.apiserver.storage.store import Change, Store, Stored, decode
from modelyard.local.apiserver.verbs.metadata import system_finalizer
from modelyard.local.apiserver.verbs.writes import Write, Writes

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
_PROTECTIONS = {PersistentVolumeClaim: CLAIM_PROTECTION, PersistentVolume: VOLUME_PROTECTION}

Key = tuple[Kind, str, str]


class StorageReleases:
    def __init__(self, store: Store, registry: Registry, writes: Writes) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._worker: Worker[Key] = Worker("storage protection", self._work)
        self._leaving: set[Key] = set()

    @property
    def busy(self) -> bool:
        return self._worker.busy

    def start(self) -> None:
        for kind in (PersistentVolumeClaim, PersistentVolume):
            for stored in self._store.items(kind.resource):
                self._look_at(kind, stored)
        self._store.listen(lambda change: self._changed(PersistentVolumeClaim, change), PersistentVolumeClaim.resource)
        self._store.listen(lambda change: self._changed(PersistentVolume, change), PersistentVolume.resource)
        self._store.listen(self._pod_changed, Pod.resource)
        self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()

    def _look_at(self, kind: Kind, stored: Stored) -> None:
        key = (kind, stored.namespace, stored.name)
        if stored.deleting:
            self._leaving.add(key)
            self._worker.add(key)
        elif _PROTECTIONS[kind].encode() not in stored.raw:
            self._worker.add(key)

    def _changed(self, kind: Kind, change: Change) -> None:
        if change.new is not None:
            self._look_at(kind, change.new)
            return
        self._leaving.discard((kind, change.subject.namespace, change.subject.name))
        # A volume may go when its claim has gone, and the other way round.
        for key in self._leaving:
            self._worker.add(key)

    def _pod_changed(self, change: Change) -> None:
        if self._leaving and change.new is None:
            for key in self._leaving:
                if key[1] == change.subject.namespace:
                    self._worker.add(key)

    async def _work(self, key: Key) -> None:
        kind, namespace, name = key
        stored = self._store.get(kind.resource, namespace, name)
        if stored is None:
            return
        obj = stored.decode()
        protected = _PROTECTIONS[kind] in (obj["metadata"].get("finalizers") or ())
        if not stored.deleting:
            if not protected:
                await self._protect(key, present=True)
            return
        if not protected:
            return
        used = self._claim_used(obj) if kind == PersistentVolumeClaim else self._volume_used(obj)
        if not used:
            await self._protect(key, present=False)

    def _claim_used(self, claim: Object) -> bool:
        metadata = claim["metadata"]
        for stored in self._store.items(Pod.resource, metadata["namespace"]):
            spec = stored.decode()["spec"]
            if not spec.get("nodeName"):
                continue
            for each in spec.get("volumes") or ():
                if (each.get("persistentVolumeClaim") or {}).get("claimName") == metadata["name"]:
                    return True
        return False

    def _volume_used(self, volume: Object) -> bool:
        if (volume.get("status") or {}).get("phase") != "Bound":
            return False
        claim = volume["spec"].get("claimRef") or {}
        stored = self._store.get(PersistentVolumeClaim.resource, claim.get("namespace", ""), claim.get("name", ""))
        return stored is not None and stored.uid == claim.get("uid", stored.uid)

    async def _protect(self, key: Key, *, present: bool) -> None:
        kind, namespace, name = key
        resource = self._registry.lookup(kind.group, kind.version, kind.plural)
        assert resource is not None

        async def changed(raw: bytes | None) -> Object:
            assert raw is not None
            obj = decode(raw)
            wanted = present and "deletionTimestamp" not in obj["metadata"]
            system_finalizer(obj["metadata"], _PROTECTIONS[kind], present=wanted)
            return obj

        write = Write(resource, namespace, name, LOOPBACK, WriteOptions(), manager="kube-controller-manager")
        try:
            await self._writes.change(write, changed, options_kind="PatchOptions")
        except Problem as problem:
            if problem.code != 404:
                raise
