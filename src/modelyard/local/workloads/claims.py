"""PersistentVolumeClaims bound to directories of the state folder: one volume for each claim, removed with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from modelyard.kube.builtin import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from modelyard.kube.kinds import Key, Object
from modelyard.local.workloads import pods as podlib
from modelyard.runtime.controller import Controller, Owns, Reader, Watch
from modelyard.runtime.desired import Child, Desired, EventNote, Hold, Ownership
from modelyard.runtime.world import World

PROVISIONER = "modelyard.dev/directory"
PROTECTION = "kubernetes.io/pvc-protection"


class Directories(Protocol):
    """Where volumes live on this machine."""

    def path(self, uid: str) -> str: ...

    def create(self, uid: str) -> None: ...

    def remove(self, uid: str) -> None: ...


def claims_controller(directories: Directories) -> Controller:
    controller = Controller(
        "claims",
        PersistentVolumeClaim,
        owns=[Owns(PersistentVolume)],
        watches=[Watch(Pod, to=claims_of), Watch(StorageClass)],
        finalizer=PROTECTION,
    )

    def reconcile(claim: Object, world: World) -> Desired | Hold:
        return bind(claim, world, directories)

    def cleanup(claim: Object, world: World) -> Hold | None:
        users = [p["metadata"]["name"] for p in _users(claim, world)]
        if users:
            status = {**(claim.get("status") or {})}
            return Hold("InUse", f"used by pod {users[0]}", status=status)
        if not _retained(claim, world):
            directories.remove(claim["metadata"]["uid"])
        return None

    controller.reconcile(reconcile)
    controller.cleanup(cleanup)
    return controller


def volumes_controller() -> Controller:
    """Says in each volume's status whether its claim holds it."""
    controller = Controller("volumes", PersistentVolume, watches=[Watch(PersistentVolumeClaim, to=_volume_of)])
    controller.reconcile(lambda volume, world: Desired(prune=False, status={"phase": _phase(volume, world)}))
    return controller


def _volume_of(claim: Object, reader: Reader) -> Iterable[Key]:
    return [Key("", name)] if (name := claim["spec"].get("volumeName")) else []


def _phase(volume: Object, world: World) -> str:
    wanted = volume["spec"].get("claimRef")
    if not wanted:
        return "Available"
    claim = world.get(PersistentVolumeClaim, wanted["namespace"], wanted["name"])
    if claim is None or wanted.get("uid") not in (None, claim["metadata"]["uid"]):
        return "Released"
    return "Bound" if claim["spec"].get("volumeName") == volume["metadata"]["name"] else "Available"


def bind(claim: Object, world: World, directories: Directories) -> Desired | Hold:
    spec, meta = claim["spec"], claim["metadata"]
    name = spec.get("storageClassName")
    storage = world.get(StorageClass, "", name) if name else None
    if not name or storage is None or storage.get("provisioner") != PROVISIONER:
        why = (
            f'storageclass.storage.k8s.io "{name}" not found'
            if name
            else "no storage class is set and there is no default one"
        )
        note = EventNote("ProvisioningFailed", f"{why}; use the storage class local", "Warning")
        return Hold("ProvisioningFailed", why, status={"phase": "Pending"}, events=[note])
    directories.create(meta["uid"])
    volume = _volume(claim, directories.path(meta["uid"]), storage)
    bound = {
        "phase": "Bound",
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
    }
    first = (claim.get("status") or {}).get("phase") != "Bound"
    done = EventNote("ProvisioningSucceeded", f"Successfully provisioned volume {volume['metadata']['name']}")
    return Desired(
        children=[Child(volume, ownership=Ownership.TRACKED)],
        patch=None if spec.get("volumeName") else {"spec": {"volumeName": volume["metadata"]["name"]}},
        status=bound,
        events=[done] if first else [],
    )


def claims_of(pod: Object, reader: Reader) -> Iterable[Key]:
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield Key(pod["metadata"]["namespace"], claim)


def _users(claim: Object, world: World) -> list[Object]:
    meta = claim["metadata"]
    key = Key(meta["namespace"], meta["name"])
    return [
        pod
        for pod in world.list(Pod, meta["namespace"])
        if not podlib.is_finished(pod)
        and any(
            (v.get("persistentVolumeClaim") or {}).get("claimName") == key.name
            for v in pod["spec"].get("volumes") or []
        )
    ]


def _retained(claim: Object, world: World) -> bool:
    volume = world.get(PersistentVolume, "", claim["spec"].get("volumeName") or "")
    return volume is not None and volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain"


def _volume(claim: Object, path: str, storage: Object) -> Object:
    spec, meta = claim["spec"], claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta['uid']}", "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "hostPath": {"path": path, "type": ""},
            "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
            "storageClassName": spec["storageClassName"],
            "volumeMode": "Filesystem",
        },
    }
