"""The life of PersistentVolumeClaims: each is bound to a volume that fits, or to a new directory of the state folder.

The API server protects claims that pods use; what becomes of a volume whose claim has gone is decided in `volumes`."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube.builtin import PersistentVolume, PersistentVolumeClaim, StorageClass
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import annotations_of, key_of, resource_version_of, status_of, uid_of
from modelyard.kube.quantities import parse
from modelyard.kube.selectors import from_object
from modelyard.local.workloads.volumes import (
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PROVISIONER,
    VOLUME_FINALIZER,
    Directories,
    claim_of,
    directory_of,
    is_for,
    volume_name,
)
from modelyard.runtime.declaring.controller import Controller, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Edit, EventNote, Hold, Ownership, Policy
from modelyard.runtime.declaring.world import World

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_YES = "yes"


def claims_controller(directories: Directories) -> Controller:
    controller = Controller(
        "claims",
        PersistentVolumeClaim,
        owns=[Owns(PersistentVolume)],
        watches=[Watch(PersistentVolume, to=_claims_for), Watch(StorageClass, to=_claims_of_class)],
    )
    controller.reconcile(lambda claim, world: reconcile(claim, world, directories))
    return controller


def reconcile(claim: Object, world: World, directories: Directories) -> Desired | Hold:
    name = claim["spec"].get("volumeName")
    if BIND_COMPLETED in annotations_of(claim):
        return _still_bound(claim, world.get(PersistentVolume, "", name) if name else None)
    if name:
        return _bind_named(claim, name, world)
    volume = _provisioned(claim, world) or _best_match(claim, world)
    return _bind(claim, volume) if volume is not None else _provision(claim, world, directories)


def _still_bound(claim: Object, volume: Object | None) -> Desired | Hold:
    if volume is None:
        return _lost(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    wanted = claim_of(volume)
    if wanted is not None and wanted.get("uid") != uid_of(claim):
        why = "Two claims are bound to the same volume, this one is bound incorrectly"
        return _lost(claim, "ClaimMisbound", why)
    return _bind(claim, volume)


def _lost(claim: Object, reason: str, why: str) -> Hold:
    return Hold(reason, why, status=_status(claim, "Lost"), events=[EventNote(reason, why, "Warning")])


def _bind_named(claim: Object, name: str, world: World) -> Desired | Hold:
    """The claim names its volume; a volume that belongs to another claim is never shared."""
    volume = world.get(PersistentVolume, "", name)
    if volume is None:
        return _pending(claim, "FailedBinding", f'volume "{name}" not found')
    if claim_of(volume) is None:
        if why := _misfit(claim, volume):
            return _pending(claim, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}')
    elif not is_for(volume, claim):
        return _pending(claim, "FailedBinding", f'volume "{name}" already bound to a different claim.')
    return _bind(claim, volume)


def _pending(claim: Object, reason: str, why: str) -> Hold:
    return Hold(reason, why, status=_status(claim, "Pending"), events=[EventNote(reason, why, "Warning")])


def _status(claim: Object, phase: str, **room: object) -> Object:
    """What others say in the status (conditions, a resize) stays."""
    others = {key: value for key, value in status_of(claim).items() if key not in ("accessModes", "capacity")}
    return {**others, "phase": phase, **room}


def _bind(claim: Object, volume: Object) -> Desired:
    """First the volume names the claim with its uid, then the claim names the volume: a cut between the two hurts nobody."""
    wanted = claim_of(volume)
    if wanted is None or not wanted.get("uid"):
        patch: Object = {"spec": {"claimRef": _reference(claim)}}
        if wanted is None:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: _YES}}
        edit = Edit(PersistentVolume, key_of(volume), resource_version_of(volume), patch)
        return Desired(edits=[edit], prune=False)
    name, spec = volume["metadata"]["name"], claim["spec"]
    notes = {BIND_COMPLETED: _YES}
    if not spec.get("volumeName"):
        notes[BOUND_BY_CONTROLLER] = _YES
    capacity = volume["spec"]["capacity"]
    edits = []
    if directory_of(volume) is not None and parse(_request(claim)) > parse(capacity["storage"]):
        # A directory holds what the disk holds: a larger claim needs no more than the number.
        capacity = capacity | {"storage": _request(claim)}
        larger = {"spec": {"capacity": capacity}}
        edits = [Edit(PersistentVolume, key_of(volume), resource_version_of(volume), larger)]
    return Desired(
        patch={"metadata": {"annotations": notes}, "spec": {"volumeName": name}},
        status=_status(claim, "Bound", accessModes=volume["spec"]["accessModes"], capacity=capacity),
        edits=edits,
        prune=False,
    )


def _provisioned(claim: Object, world: World) -> Object | None:
    volume = world.get(PersistentVolume, "", volume_name(claim))
    return volume if volume is not None and is_for(volume, claim) else None


def _best_match(claim: Object, world: World) -> Object | None:
    """A volume that an administrator reserved for this claim, else the smallest free one that is large enough."""
    fitting = [
        volume
        for volume in world.list(PersistentVolume)
        if not volume["metadata"].get("deletionTimestamp")
        and (claim_of(volume) is None or is_for(volume, claim))
        and not _misfit(claim, volume)
    ]
    return min(fitting, key=lambda v: (claim_of(v) is None, parse(v["spec"]["capacity"]["storage"])), default=None)


def _misfit(claim: Object, volume: Object) -> str:
    """Why this volume cannot serve the claim; nothing if it can."""
    asked, offered = claim["spec"], volume["spec"]
    if parse(offered["capacity"]["storage"]) < parse(_request(claim)):
        return "requested PV is too small"
    if _class_of(volume) != _class_of(claim):
        return "storageClassName does not match"
    if asked.get("volumeMode", "Filesystem") != offered.get("volumeMode", "Filesystem"):
        return "incompatible volumeMode"
    if not set(asked.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return "incompatible accessMode"
    if asked.get("selector") and not from_object(asked["selector"]).matches_object(volume):
        return "the claim's selector does not match"
    return ""


def _provision(claim: Object, world: World, directories: Directories) -> Desired | Hold:
    name = _class_of(claim)
    storage = world.get(StorageClass, "", name) if name else None
    if not name:
        why = "no persistent volumes available for this claim and no storage class is set"
        return _pending(claim, "FailedBinding", f"{why}; use the storage class local")
    if storage is None:
        why = f'storageclass.storage.k8s.io "{name}" not found'
        return _pending(claim, "ProvisioningFailed", f"{why}; use the storage class local")
    if storage.get("provisioner") != PROVISIONER:
        why = f'storage class "{name}" is served by {storage.get("provisioner")}, which does not run here'
        return _pending(claim, "ProvisioningFailed", f"{why}; use the storage class local")
    if claim["spec"].get("selector"):
        return _pending(claim, "ProvisioningFailed", "claim.Spec.Selector is not supported for dynamic provisioning")
    if claim["spec"].get("volumeMode") == "Block":
        return _pending(claim, "ProvisioningFailed", "block volumes are not available here; use volumeMode Filesystem")
    volume = _new_volume(claim, directories.path(uid_of(claim)), storage)
    return Desired(
        # Once: an administrator may change the reclaim policy, and only `volumes` deletes it.
        children=[Child(volume, policy=Policy.ONCE, ownership=Ownership.TRACKED)],
        status=_status(claim, "Pending"),
        events=[EventNote("ProvisioningSucceeded", f"Successfully provisioned volume {volume_name(claim)}")],
    )


def _new_volume(claim: Object, path: str, storage: Object) -> Object:
    spec = claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": {PROVISIONED_BY: PROVISIONER},
            "finalizers": [VOLUME_FINALIZER],
        },
        "spec": {
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": _request(claim)},
            "claimRef": _reference(claim),
            "hostPath": {"path": path, "type": ""},
            "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
            "storageClassName": _class_of(claim),
            "volumeMode": "Filesystem",
        },
    }


def _reference(claim: Object) -> Object:
    meta = claim["metadata"]
    place = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **place}


def _class_of(obj: Object) -> str:
    return annotations_of(obj).get(_CLASS) or obj["spec"].get("storageClassName") or ""


def _request(claim: Object) -> str:
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "1Gi"))


def _claims_for(volume: Object, reader: Reader) -> Iterable[Key]:
    """The claims that this volume serves or could serve."""
    name = volume["metadata"]["name"]
    for claim in reader.list(PersistentVolumeClaim):
        named = claim["spec"].get("volumeName")
        if named == name or (not named and (claim_of(volume) is None or is_for(volume, claim))):
            yield key_of(claim)


def _claims_of_class(storage: Object, reader: Reader) -> Iterable[Key]:
    name = storage["metadata"]["name"]
    waiting = (claim for claim in reader.list(PersistentVolumeClaim) if not claim["spec"].get("volumeName"))
    return [key_of(claim) for claim in waiting if _class_of(claim) == name]
