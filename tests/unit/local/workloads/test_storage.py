"""Claims and volumes: how they find each other, and what is left when one of them goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelyard.kube.builtin import PersistentVolume, PersistentVolumeClaim
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, key_of, uid_of
from modelyard.local.workloads import claims_controller, volumes_controller
from modelyard.local.workloads.claims import BIND_COMPLETED
from tests.unit.local.workloads.stage import Stage


class FakeDirectories:
    def __init__(self) -> None:
        self.made: set[str] = set()
        self.stuck = False

    def path(self, uid: str) -> str:
        return f"/volumes/{uid}"

    def create(self, uid: str) -> None:
        self.made.add(uid)

    async def remove(self, uid: str) -> None:
        if self.stuck:
            raise PermissionError(13, "Permission denied", self.path(uid))
        self.made.discard(uid)


class Storage(Stage):
    """A stage with both controllers and the storage class `local`."""

    def __init__(self) -> None:
        self.directories = FakeDirectories()
        super().__init__(claims_controller(self.directories), volumes_controller(self.directories))
        self.put(LOCAL)

    def claim(self, name: str = "data") -> Object:
        return self.one(PersistentVolumeClaim, name)

    def volume(self, name: str) -> Object:
        return self.one(PersistentVolume, name)

    def phases(self) -> dict[str, str]:
        objects = [*self.all(PersistentVolumeClaim), *self.all(PersistentVolume)]
        return {obj["metadata"]["name"]: obj["status"]["phase"] for obj in objects}

    def delete(self, name: str = "data") -> None:
        """The API server has let the claim go: no pod uses it."""
        claim = self.claim(name)
        del self.cluster.objects[PersistentVolumeClaim, key_of(claim)]
        self.play()

    def update(self, name: str, change: Callable[[Object], Any]) -> None:
        self.edit(PersistentVolume, name, change)
        self.play()


def a_claim(name: str = "data", namespace: str = "ns", **spec: object) -> Object:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "local",
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": wanted | spec,
    }


def a_volume(name: str, **spec: object) -> Object:
    """Made by an administrator."""
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "5Gi"},
        "hostPath": {"path": f"/volumes/{name}"},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "local",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": wanted | spec}


LOCAL = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "modelyard.dev/directory",
    "reclaimPolicy": "Delete",
}


def test_a_claim_is_bound_to_a_directory_and_the_directory_goes_with_it() -> None:
    stage = Storage()
    claim = stage.put(a_claim())
    stage.play()
    bound = stage.claim()
    assert bound["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    volume = stage.volume(bound["spec"]["volumeName"])
    assert volume["status"] == {"phase": "Bound"}
    assert volume["spec"]["hostPath"]["path"] == f"/volumes/{uid_of(claim)}"
    assert volume["spec"]["claimRef"]["uid"] == uid_of(claim)
    assert stage.directories.made == {uid_of(claim)}
    stage.delete()
    assert stage.all(PersistentVolume) == []
    assert stage.directories.made == set()


def test_a_claim_that_is_made_again_gets_an_empty_volume_of_its_own() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    first = stage.claim()["spec"]["volumeName"]
    del stage.cluster.objects[PersistentVolumeClaim, key_of(stage.claim())]
    again = a_claim()
    again["metadata"]["uid"] = "another"
    stage.put(again)
    stage.play()
    assert stage.claim()["spec"]["volumeName"] != first
    assert [volume["metadata"]["name"] for volume in stage.all(PersistentVolume)] == [f"pvc-{uid_of(again)}"]
    assert stage.directories.made == {uid_of(again)}


def test_a_volume_that_was_set_to_be_retained_outlives_its_claim_with_its_directory() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    name = stage.claim()["spec"]["volumeName"]
    stage.update(name, lambda v: v["spec"].update(persistentVolumeReclaimPolicy="Retain"))
    stage.delete()
    assert stage.phases() == {name: "Released"}
    assert len(stage.directories.made) == 1
    stage.update(name, lambda v: v["metadata"].update(deletionTimestamp=stage.now))
    assert stage.all(PersistentVolume) == []
    assert len(stage.directories.made) == 1, "an administrator who deletes a retained volume keeps its data"


def test_a_retained_volume_is_not_given_to_the_next_claim_until_an_administrator_frees_it() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    name = stage.claim()["spec"]["volumeName"]
    stage.update(name, lambda v: v["spec"].update(persistentVolumeReclaimPolicy="Retain"))
    stage.delete()
    stage.put(a_claim(volumeName=name))
    stage.play()
    assert stage.phases() == {"data": "Pending", name: "Released"}
    stage.update(name, lambda v: v["spec"].pop("claimRef"))
    assert stage.phases() == {"data": "Bound", name: "Bound"}


def test_a_volume_that_is_deleted_first_stays_until_its_claim_has_gone_and_takes_its_directory_along() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    name = stage.claim()["spec"]["volumeName"]
    stage.update(name, lambda v: v["metadata"].update(deletionTimestamp=stage.now))
    assert stage.phases() == {"data": "Bound", name: "Bound"}
    assert stage.directories.made
    stage.delete()
    assert stage.all(PersistentVolume) == []
    assert stage.directories.made == set()


def test_a_directory_that_cannot_be_removed_is_told_and_tried_again() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    name = stage.claim()["spec"]["volumeName"]
    stage.directories.stuck = True
    stage.delete()
    status = stage.volume(name)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "VolumeFailedDelete")
    assert "Permission denied" in status["message"]
    stage.directories.stuck = False
    stage.play()
    assert stage.all(PersistentVolume) == []


def test_a_claim_that_names_the_volume_of_another_claim_is_not_bound() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    name = stage.claim()["spec"]["volumeName"]
    before = stage.volume(name)
    thief = a_claim("thief", "elsewhere", volumeName=name)
    stage.put(thief)
    outcomes = stage.step()
    stage.play()
    assert stage.claim("thief")["status"] == {"phase": "Pending"}
    said = [note.message for outcome in outcomes for note in outcome.events]
    assert f'volume "{name}" already bound to a different claim.' in said
    assert stage.volume(name)["spec"] == before["spec"]


@pytest.mark.parametrize("namespace", ["ns", "elsewhere"])
def test_a_claim_that_says_it_is_bound_to_the_volume_of_another_claim_is_lost(namespace: str) -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    name = stage.claim()["spec"]["volumeName"]
    thief = a_claim("thief", namespace, volumeName=name)
    thief["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
    stage.put(thief)
    stage.play()
    assert stage.phases() == {"data": "Bound", "thief": "Lost", name: "Bound"}


def test_a_claim_of_the_same_name_in_another_namespace_gets_a_volume_of_its_own() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.put(a_claim(namespace="elsewhere"))
    stage.play()
    names = {claim["spec"]["volumeName"] for claim in stage.all(PersistentVolumeClaim)}
    assert len(names) == 2


def test_a_claim_whose_volume_has_gone_is_lost() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    stage.cluster.objects = {place: obj for place, obj in stage.cluster.objects.items() if place[0] != PersistentVolume}
    stage.play()
    assert stage.phases() == {"data": "Lost"}


def test_a_volume_whose_claim_is_gone_is_released_and_one_without_a_claim_is_available() -> None:
    stage = Storage()
    stage.put(a_volume("left", claimRef={"namespace": "ns", "name": "gone", "uid": "u"}))
    stage.put(a_volume("free"))
    stage.put(a_volume("reserved", claimRef={"namespace": "ns", "name": "later"}))
    stage.play()
    assert stage.phases() == {"left": "Released", "free": "Available", "reserved": "Available"}


def test_a_claim_takes_the_smallest_volume_that_fits_and_one_that_is_reserved_for_it_first() -> None:
    stage = Storage()
    modes = ["ReadWriteMany"]
    stage.put(a_volume("small", capacity={"storage": "1Gi"}, storageClassName="disks"))
    stage.put(a_volume("large", capacity={"storage": "9Gi"}, storageClassName="disks"))
    stage.put(a_volume("right", storageClassName="disks"))
    stage.put(a_volume("other-class", capacity={"storage": "2Gi"}))
    stage.put(a_volume("other-mode", capacity={"storage": "2Gi"}, accessModes=modes, storageClassName="disks"))
    reserved = {"namespace": "ns", "name": "second"}
    stage.put(a_volume("reserved", capacity={"storage": "50Gi"}, claimRef=reserved, storageClassName="disks"))
    stage.play()
    stage.put(a_claim(storageClassName="disks"))
    stage.put(a_claim("second", storageClassName="disks"))
    stage.play()
    assert stage.claim()["spec"]["volumeName"] == "right"
    assert stage.claim("second")["spec"]["volumeName"] == "reserved"
    assert stage.claim()["status"]["capacity"] == {"storage": "5Gi"}
    assert annotations_of(stage.claim())[BIND_COMPLETED] == "yes"


def test_two_claims_for_one_volume_do_not_share_it() -> None:
    stage = Storage()
    stage.put(a_volume("only", storageClassName="disks"))
    stage.put(a_claim("a", storageClassName="disks"))
    stage.put(a_claim("b", storageClassName="disks"))
    stage.play()
    assert sorted([stage.phases()["a"], stage.phases()["b"]]) == ["Bound", "Pending"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"resources": {"requests": {"storage": "50Gi"}}}, "requested PV is too small"),
        ({"storageClassName": "fast"}, "storageClassName does not match"),
        ({"accessModes": ["ReadWriteMany"]}, "incompatible accessMode"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
    ],
)
def test_a_volume_that_does_not_fit_the_claim_that_names_it_is_refused(spec: Object, why: str) -> None:
    stage = Storage()
    stage.put(a_volume("disk"))
    stage.put(a_claim(volumeName="disk", **spec))
    said = [note.message for outcome in stage.step() for note in outcome.events]
    stage.play()
    assert f'Cannot bind to requested volume "disk": {why}' in said
    assert stage.phases() == {"data": "Pending", "disk": "Available"}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"storageClassName": "fast"}, 'storageclass.storage.k8s.io "fast" not found; use the storage class local'),
        ({"storageClassName": ""}, "no persistent volumes available for this claim and no storage class is set"),
        (
            {"storageClassName": "cloud"},
            'storage class "cloud" is served by cloud.example/disk, which does not run here',
        ),
        ({"volumeMode": "Block"}, "block volumes are not available here"),
    ],
)
def test_a_claim_that_cannot_be_served_stays_pending_and_says_why(spec: Object, why: str) -> None:
    stage = Storage()
    stage.put(LOCAL | {"metadata": {"name": "cloud"}, "provisioner": "cloud.example/disk"})
    stage.put(a_claim(**spec))
    outcomes = stage.step()
    assert stage.phases() == {"data": "Pending"}
    assert why in outcomes[0].events[0].message


def test_a_claim_that_grows_has_more_room() -> None:
    stage = Storage()
    stage.put(a_claim())
    stage.play()
    larger = {"requests": {"storage": "4Gi"}}
    stage.edit(PersistentVolumeClaim, "data", lambda c: c["spec"].update(resources=larger))
    stage.play()
    assert stage.claim()["status"]["capacity"] == {"storage": "4Gi"}
    assert stage.volume(stage.claim()["spec"]["volumeName"])["spec"]["capacity"] == {"storage": "4Gi"}


def test_a_volume_that_somebody_else_made_is_never_deleted_for_its_claim() -> None:
    stage = Storage()
    stage.put(a_volume("disk", persistentVolumeReclaimPolicy="Delete", storageClassName="disks"))
    stage.put(a_claim(storageClassName="disks"))
    stage.play()
    stage.delete()
    assert stage.volume("disk")["status"]["phase"] == "Failed"
    assert "delete it yourself" in stage.volume("disk")["status"]["message"]
