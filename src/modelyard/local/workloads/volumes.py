"""The life of PersistentVolumes: which claim holds one, and what becomes of it and its directory when that claim has gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from modelyard.kube.builtin import PersistentVolume, PersistentVolumeClaim
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import annotations_of, key_of, name_of, namespace_of, resource_version_of, status_of, uid_of
from modelyard.runtime.declaring.controller import Controller, Reader, Watch
from modelyard.runtime.declaring.desired import Desired, Edit, EventNote, Hold
from modelyard.runtime.declaring.world import World

PROVISIONER = "modelyard.dev/directory"
VOLUME_FINALIZER = "modelyard.dev/directory"
"""Keeps a volume until its directory is removed, also when somebody deletes the volume before the claim."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PREFIX = "pvc-"
_REMOVAL_SECONDS = 600.0
_RETRY_SECONDS = 30.0


class Directories(Protocol):
    """Where volumes live on this machine, by the uid of the claim that each was made for."""

    def path(self, uid: str) -> str: ...

    def create(self, uid: str) -> None: ...

    async def remove(self, uid: str) -> None:
        """Raises OSError if something is left."""


def volumes_controller(directories: Directories) -> Controller:
    controller = Controller(
        "volumes",
        PersistentVolume,
        watches=[Watch(PersistentVolumeClaim, to=_volumes_of)],
        finalizer=VOLUME_FINALIZER,
        timeout=_REMOVAL_SECONDS,
    )

    def reconcile(volume: Object, world: World) -> Desired | Hold:
        if (uid := directory_of(volume)) is not None:
            directories.create(uid)
        return _settle(volume, _holder(volume, world))

    async def cleanup(volume: Object, world: World) -> Desired | Hold:
        claim = _holder(volume, world)
        if claim is not None and claim["spec"].get("volumeName") == name_of(volume):
            return Hold("InUse", f"bound to claim {key_of(claim)}", status=status_of(volume))
        uid = directory_of(volume)
        if uid is not None and _policy(volume) == "Delete":
            try:
                await directories.remove(uid)
            except OSError as error:
                return _failed(f"the directory of the volume could not be removed: {error}")
        # The protection of volumes goes by the phase.
        return _phase("Released" if claim_of(volume) else "Available")

    controller.reconcile(reconcile)
    controller.cleanup(cleanup)
    return controller


def volume_name(claim: Object) -> str:
    """The name of the volume that is provisioned for a claim."""
    return _PREFIX + uid_of(claim)


def directory_of(volume: Object) -> str | None:
    """The uid by which the directory of a volume of ours is known; None for a volume that somebody else made."""
    name = name_of(volume)
    if annotations_of(volume).get(PROVISIONED_BY) != PROVISIONER or not name.startswith(_PREFIX):
        return None
    return name.removeprefix(_PREFIX)


def claim_of(volume: Object) -> Object | None:
    """The reference to the claim that a volume belongs to or is reserved for."""
    return volume["spec"].get("claimRef") or None


def is_for(volume: Object, claim: Object) -> bool:
    """Whether the volume belongs to this claim, or is reserved for it by name. A claim of the same name that was made
    later is another claim."""
    wanted = claim_of(volume)
    return (
        wanted is not None
        and (wanted.get("namespace"), wanted.get("name")) == (namespace_of(claim), name_of(claim))
        and wanted.get("uid") in (None, "", uid_of(claim))
    )


def _holder(volume: Object, world: World) -> Object | None:
    """The claim that the volume belongs to, if there still is one."""
    wanted = claim_of(volume)
    if wanted is None or not wanted.get("uid"):
        return None
    claim = world.get(PersistentVolumeClaim, wanted["namespace"], wanted["name"])
    return claim if claim is not None and is_for(volume, claim) else None


def _settle(volume: Object, claim: Object | None) -> Desired | Hold:
    wanted = claim_of(volume)
    if wanted is None or not wanted.get("uid"):
        return _phase("Available")
    if claim is None:
        return _reclaim(volume)
    named = claim["spec"].get("volumeName")
    if named == name_of(volume):
        return _phase("Bound")
    if not named:
        return _phase(status_of(volume).get("phase") or "Pending")
    if directory_of(volume) is not None and _policy(volume) == "Delete":
        return _reclaim(volume)
    return _freed(volume)


def _phase(phase: str) -> Desired:
    return Desired(prune=False, status={"phase": phase})


def _reclaim(volume: Object) -> Desired | Hold:
    """The claim has gone: what the policy says happens to the volume."""
    match _policy(volume):
        case "Retain":
            return _phase("Released")
        case "Delete" if directory_of(volume) is not None:
            itself = (PersistentVolume, key_of(volume))
            return Desired(prune=False, status_first={"phase": "Released"}, delete=[itself])
        case policy:
            return _failed(
                f"a volume that was not provisioned here cannot be reclaimed by {policy}; delete it yourself"
            )


def _freed(volume: Object) -> Desired:
    """Its claim took another volume: this one is for anybody again, or for that name if an administrator wrote it."""
    chosen = BOUND_BY_CONTROLLER in annotations_of(volume)
    patch: Object = {"spec": {"claimRef": None if chosen else {"uid": None, "resourceVersion": None}}}
    if chosen:
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: None}}
    edit = Edit(PersistentVolume, key_of(volume), resource_version_of(volume), patch)
    return Desired(prune=False, status={"phase": "Available"}, edits=[edit])


def _failed(why: str) -> Hold:
    note = EventNote("VolumeFailedDelete", why, "Warning")
    status = {"phase": "Failed", "reason": "VolumeFailedDelete", "message": why}
    return Hold("VolumeFailedDelete", why, status=status, events=[note], requeue_after=_RETRY_SECONDS)


def _policy(volume: Object) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")


def _volumes_of(claim: Object, reader: Reader) -> Iterable[Key]:
    return [key_of(volume) for volume in reader.list(PersistentVolume) if is_for(volume, claim)]
