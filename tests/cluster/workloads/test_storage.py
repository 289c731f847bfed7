"""Claims and volumes on an API server: the same life with our controllers and with kube-controller-manager's binder.

`ours` runs on the embedded server and on a real one, `theirs` on a real one whose own binder runs (`make test-real`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from modelyard.kube.builtin import Namespace, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import is_deleting
from modelyard.local.laptop.directories import VolumeDirectories
from modelyard.local.workloads import claims_controller, volumes_controller
from modelyard.local.workloads.volumes import PROVISIONER
from modelyard.runtime.process.manager import Manager
from tests.cluster.api.calls import eventually
from tests.cluster.conftest import Api
from tests.real.cluster import RealCluster

BINDER = "persistentvolume-binder-controller"


class Ground:
    """One namespace with claims, volumes and pods; the test plays the kubelet."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def claim(self, name: str = "data", **spec: object) -> Object:
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": self.namespace,
        }
        metadata = {"name": name, "namespace": self.namespace}
        return await self.client.create(PersistentVolumeClaim, {"metadata": metadata, "spec": wanted | spec})

    async def volume(self, name: str = "disk", **spec: object) -> str:
        """Made by an administrator; gives its full name."""
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Mi"},
            "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.namespace,
        }
        full = f"{name}-{self.namespace}"
        await self.client.create(PersistentVolume, {"metadata": {"name": full}, "spec": wanted | spec})
        return full

    async def pod(self, phase: str = "Running") -> None:
        """A pod on a node that uses the claim `data`."""
        spec = {
            "containers": [{"name": "main", "image": "x"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            "nodeName": "laptop",
            "automountServiceAccountToken": False,
        }
        metadata = {"name": "user", "namespace": self.namespace}
        await self.client.create(Pod, {"metadata": metadata, "spec": spec})
        body = {"status": {"phase": phase}}
        await self.client.patch(Pod, self.namespace, "user", body, subresource="status")

    async def until(self, kind: Kind, name: str, phase: str) -> Object:
        async def reached() -> Object | None:
            found = await self.client.get(kind, self._place(kind), name)
            return found if (found.get("status") or {}).get("phase") == phase else None

        return await eventually(reached)

    async def until_gone(self, kind: Kind, name: str) -> None:
        async def gone() -> bool:
            return await self.client.find(kind, self._place(kind), name) is None

        await eventually(gone)

    async def delete(self, kind: Kind, name: str, *, grace: int | None = None) -> None:
        await self.client.delete(kind, self._place(kind), name, grace=grace)

    async def is_held(self, kind: Kind, name: str) -> bool:
        """It is being deleted, and still there after a claim that was made and deleted later has gone."""
        await self.claim("later")
        await self.delete(PersistentVolumeClaim, "later")
        await self.until_gone(PersistentVolumeClaim, "later")
        found = await self.client.find(kind, self._place(kind), name)
        return found is not None and is_deleting(found)

    def _place(self, kind: Kind) -> str:
        return self.namespace if kind.namespaced else ""


@pytest.fixture(scope="module")
def binding_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster | None]:
    if request.config.getoption("--apiserver") != "real":
        yield None
        return
    with RealCluster(workloads=[BINDER]) as cluster:
        yield cluster


@pytest.fixture(params=["ours", pytest.param("theirs", marks=pytest.mark.real)])
async def ground(
    request: pytest.FixtureRequest, api: Api, binding_cluster: RealCluster | None, tmp_path: Path
) -> AsyncIterator[Ground]:
    namespace = await api.namespace()
    if request.param == "theirs":
        assert binding_cluster is not None
        client = connect(Path(binding_cluster.kubeconfig))
        try:
            await client.create(Namespace, {"metadata": {"name": namespace}})
            yield Ground(client, namespace)
        finally:
            await client.close()
        return
    directories = VolumeDirectories(tmp_path)
    async with Manager(api.client, [claims_controller(directories), volumes_controller(directories)]):
        yield Ground(api.client, namespace)


async def test_a_claim_is_bound_and_a_retained_volume_is_released_when_it_has_gone(ground: Ground) -> None:
    disk = await ground.volume()
    claim = await ground.claim()
    bound = await ground.until(PersistentVolumeClaim, "data", "Bound")
    assert bound["spec"]["volumeName"] == disk
    assert (bound["status"]["accessModes"], bound["status"]["capacity"]) == (["ReadWriteOnce"], {"storage": "1Mi"})
    assert bound["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    volume = await ground.until(PersistentVolume, disk, "Bound")
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    await ground.delete(PersistentVolumeClaim, "data")
    await ground.until_gone(PersistentVolumeClaim, "data")
    await ground.until(PersistentVolume, disk, "Released")
    await ground.delete(PersistentVolume, disk)
    await ground.until_gone(PersistentVolume, disk)


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_a_claim_stays_while_there_is_a_pod_that_uses_it(ground: Ground, phase: str) -> None:
    await ground.volume()
    await ground.claim()
    await ground.until(PersistentVolumeClaim, "data", "Bound")
    await ground.pod(phase)
    await ground.delete(PersistentVolumeClaim, "data")
    assert await ground.is_held(PersistentVolumeClaim, "data")
    await ground.delete(Pod, "user", grace=0)
    await ground.until_gone(PersistentVolumeClaim, "data")


async def test_a_volume_stays_while_a_claim_is_bound_to_it(ground: Ground) -> None:
    disk = await ground.volume()
    await ground.claim()
    await ground.until(PersistentVolume, disk, "Bound")
    await ground.delete(PersistentVolume, disk)
    assert await ground.is_held(PersistentVolume, disk)
    await ground.delete(PersistentVolumeClaim, "data")
    await ground.until_gone(PersistentVolumeClaim, "data")
    await ground.until_gone(PersistentVolume, disk)


async def test_a_claim_is_never_bound_to_the_volume_of_another_claim(ground: Ground) -> None:
    disk = await ground.volume()
    await ground.claim()
    await ground.until(PersistentVolume, disk, "Bound")
    await ground.claim("thief", volumeName=disk)
    await ground.until(PersistentVolumeClaim, "thief", "Pending")
    await ground.delete(PersistentVolumeClaim, "data")
    await ground.until(PersistentVolume, disk, "Released")
    again = await ground.claim("data", volumeName=disk)
    await ground.until(PersistentVolumeClaim, "data", "Pending")
    await ground.client.patch(PersistentVolume, "", disk, {"spec": {"claimRef": {"name": "data", "uid": None}}})
    volume = await ground.until(PersistentVolume, disk, "Bound")
    assert volume["spec"]["claimRef"]["uid"] == again["metadata"]["uid"]
    await ground.until(PersistentVolumeClaim, "data", "Bound")
    thief = await ground.client.get(PersistentVolumeClaim, ground.namespace, "thief")
    assert thief["status"]["phase"] == "Pending"


async def test_a_claim_takes_the_volume_that_is_reserved_for_it(ground: Ground) -> None:
    await ground.volume("free")
    reserved = {"namespace": ground.namespace, "name": "data"}
    disk = await ground.volume("reserved", capacity={"storage": "1Gi"}, claimRef=reserved)
    await ground.until(PersistentVolume, disk, "Available")
    await ground.claim()
    bound = await ground.until(PersistentVolumeClaim, "data", "Bound")
    assert bound["spec"]["volumeName"] == disk
    assert bound["status"]["capacity"] == {"storage": "1Gi"}


async def test_a_claim_whose_volume_was_torn_away_is_lost(ground: Ground) -> None:
    disk = await ground.volume()
    await ground.claim()
    await ground.until(PersistentVolume, disk, "Bound")
    await ground.until(PersistentVolumeClaim, "data", "Bound")
    await ground.delete(PersistentVolume, disk)
    await ground.client.patch(PersistentVolume, "", disk, {"metadata": {"finalizers": None}})
    await ground.until_gone(PersistentVolume, disk)
    await ground.until(PersistentVolumeClaim, "data", "Lost")
    await ground.delete(PersistentVolumeClaim, "data")
    await ground.until_gone(PersistentVolumeClaim, "data")


async def test_a_provisioned_volume_ends_with_its_claim_and_a_new_claim_starts_empty(api: Api, tmp_path: Path) -> None:
    namespace = await api.namespace()
    ground = Ground(api.client, namespace)
    directories = VolumeDirectories(tmp_path)
    await api.client.create(StorageClass, {"metadata": {"name": namespace}, "provisioner": PROVISIONER})
    async with Manager(api.client, [claims_controller(directories), volumes_controller(directories)]):
        for _ in range(2):
            await ground.claim()
            bound = await ground.until(PersistentVolumeClaim, "data", "Bound")
            disk = bound["spec"]["volumeName"]
            folder = tmp_path / bound["metadata"]["uid"]
            await ground.until(PersistentVolume, disk, "Bound")
            assert list(folder.iterdir()) == []
            (folder / "file").write_text("x")
            await ground.pod()
            await ground.delete(PersistentVolumeClaim, "data")
            assert await ground.is_held(PersistentVolumeClaim, "data")
            assert (folder / "file").exists()
            await ground.delete(Pod, "user", grace=0)
            await ground.until_gone(PersistentVolumeClaim, "data")
            await ground.until_gone(PersistentVolume, disk)
            assert not folder.exists()


async def test_a_namespace_with_a_claim_in_use_ends(api: Api, tmp_path: Path) -> None:
    namespace = await api.namespace()
    ground = Ground(api.client, namespace)
    directories = VolumeDirectories(tmp_path)
    await api.client.create(StorageClass, {"metadata": {"name": namespace}, "provisioner": PROVISIONER})
    async with Manager(api.client, [claims_controller(directories), volumes_controller(directories)]):
        await ground.claim()
        bound = await ground.until(PersistentVolumeClaim, "data", "Bound")
        await ground.pod()
        await api.client.delete(Namespace, "", namespace)
        await ground.delete(Pod, "user", grace=0)
        await ground.until_gone(Namespace, namespace)
        await ground.until_gone(PersistentVolume, bound["spec"]["volumeName"])
