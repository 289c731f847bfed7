from __future__ import annotations

import base64
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.kubelet.facts import Node
from modelyard.local.kubelet.volumes import paths, payload
from modelyard.local.kubelet.volumes.directories import MountError, VolumeContext, Volumes, sources
from modelyard.local.kubelet.volumes.payload import File
from tests.unit.local.kubelet.harness import FixedTokens, Objects, complete

CLAIM: Object = {
    "metadata": {"name": "c", "namespace": "demo", "uid": "u-c"},
    "spec": {"volumeName": "pv"},
    "status": {"phase": "Bound"},
}


class Ground:
    def __init__(self, directory: Path) -> None:
        self.objects = Objects()
        tokens: Any = FixedTokens(lambda: datetime(2030, 1, 1, tzinfo=UTC))
        self.root = directory / "persistent"
        context = VolumeContext(self.objects, tokens, Node("local"), self.root)
        self.volumes = Volumes(directory / "volumes", context)
        self.config_map({"a": "1", "b": "2"})
        data = {"user": base64.b64encode(b"me").decode()}
        self.objects.put(builtin.Secret, {"metadata": {"name": "sec", "namespace": "demo"}, "data": data})

    def config_map(self, data: dict[str, str]) -> None:
        body: Object = {"metadata": {"name": "cm", "namespace": "demo"}, "data": data, "binaryData": {"raw": "AAE="}}
        self.objects.put(builtin.ConfigMap, body)

    async def make(self, **volume: object) -> Path:
        pod = complete({"spec": {"containers": [{"name": "main"}], "volumes": [{"name": "v", **volume}]}})
        pod["metadata"]["labels"] = {"b": "2", "a": 'x"y'}
        return (await self.volumes.set_up(pod, "127.1.1.1"))["v"].path


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def files(path: Path) -> dict[str, str]:
    found = {}
    for folder, _, names in os.walk(path, followlinks=False):
        for name in names:
            file = Path(folder) / name
            relative = file.relative_to(path)
            if not relative.parts[0].startswith(".."):
                found[str(relative)] = file.read_text()
    for link in path.iterdir():
        if link.is_symlink() and link.is_dir() and not link.name.startswith(".."):
            found |= {f"{link.name}/{p.relative_to(link)}": p.read_text() for p in link.rglob("*") if p.is_file()}
    return found


async def test_a_config_map_shows_text_and_binary_keys_with_the_mode(ground: Ground) -> None:
    path = await ground.make(configMap={"name": "cm", "defaultMode": 0o400})
    assert files(path) == {"a": "1", "b": "2", "raw": "\0\1"}
    assert (path / "a").stat().st_mode & 0o777 == 0o400


async def test_items_choose_rename_and_set_modes(ground: Ground) -> None:
    items = [{"key": "a", "path": "deep/er.txt", "mode": 0o600}]
    path = await ground.make(configMap={"name": "cm", "items": items})
    assert files(path) == {"deep/er.txt": "1"}
    assert (path / "deep" / "er.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        (
            {"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        (
            {"secret": {"secretName": "sec", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
        ({"persistentVolumeClaim": {"claimName": "no"}}, 'persistentvolumeclaim "no" not found'),
        ({"nfs": {"server": "x", "path": "/"}}, "volume type nfs is not available on the local node"),
        ({"configMap": {"name": "cm", "items": [{"key": "a", "path": "../out"}]}}, "must be relative"),
    ],
)
async def test_what_cannot_be_mounted_says_why(ground: Ground, volume: Object, reason: str) -> None:
    with pytest.raises(MountError, match=r'MountVolume\.SetUp failed for volume "v" : ') as error:
        await ground.make(**volume)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    "volume", [{"configMap": {"name": "no", "optional": True}}, {"secret": {"secretName": "no", "optional": True}}]
)
async def test_an_optional_source_that_is_missing_is_an_empty_directory(ground: Ground, volume: Object) -> None:
    path = await ground.make(**volume)
    assert files(path) == {}


async def test_projected_volumes_mix_sources(ground: Ground) -> None:
    parts = [
        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca.crt"}]}},
        {"secret": {"name": "sec"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]
    path = await ground.make(projected={"sources": parts})
    assert files(path) == {"ca.crt": "1", "user": "me", "namespace": "demo", "token": "token-1"}


async def test_downward_labels_are_quoted_lines(ground: Ground) -> None:
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    path = await ground.make(downwardAPI={"items": items})
    assert (path / "labels").read_text() == 'a="x\\"y"\nb="2"'


async def test_a_bound_claim_is_its_directory_and_nothing_outside_the_root(ground: Ground, tmp_path: Path) -> None:
    ground.objects.put(builtin.PersistentVolumeClaim, CLAIM)
    mine = {"claimRef": {"namespace": "demo", "name": "c", "uid": "u-c"}}
    inside: Object = {"metadata": {"name": "pv"}, "spec": {"local": {"path": str(ground.root / "one")}, **mine}}
    ground.objects.put(builtin.PersistentVolume, inside)
    assert await ground.make(persistentVolumeClaim={"claimName": "c"}) == ground.root / "one"
    outside: Object = {"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": str(tmp_path)}, **mine}}
    ground.objects.put(builtin.PersistentVolume, outside)
    with pytest.raises(MountError, match="is not a directory below"):
        await ground.make(persistentVolumeClaim={"claimName": "c"})


@pytest.mark.parametrize("owner", [{}, {"claimRef": {"namespace": "victim", "name": "c", "uid": "u-victim"}}])
async def test_a_claim_shows_no_volume_that_belongs_to_somebody_else(ground: Ground, owner: Object) -> None:
    ground.objects.put(builtin.PersistentVolumeClaim, CLAIM)
    path = {"hostPath": {"path": str(ground.root / "one")}}
    ground.objects.put(builtin.PersistentVolume, {"metadata": {"name": "pv"}, "spec": path | owner})
    with pytest.raises(MountError, match='persistentvolume "pv" does not belong to persistentvolumeclaim "c"'):
        await ground.make(persistentVolumeClaim={"claimName": "c"})


@pytest.mark.parametrize("place", ["/modelyard/volumes/1-2-3", "/before/the/move/volumes/1-2-3"])
async def test_a_volume_is_found_wherever_the_folder_of_the_cluster_is(ground: Ground, place: str) -> None:
    claim: Object = {
        "metadata": {"name": "c", "namespace": "demo", "uid": "1-2-3"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    ground.objects.put(builtin.PersistentVolumeClaim, claim)
    spec = {"hostPath": {"path": place}, "claimRef": {"namespace": "demo", "name": "c", "uid": "1-2-3"}}
    ground.objects.put(builtin.PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})
    assert await ground.make(persistentVolumeClaim={"claimName": "c"}) == ground.root / "1-2-3"


def test_files_change_together_and_unchanged_ones_are_left_alone(tmp_path: Path) -> None:
    first = {"a": File(b"1", 0o644), "b": File(b"2", 0o644)}
    assert payload.write(tmp_path, first)
    before = os.readlink(tmp_path / "..data")
    assert not payload.write(tmp_path, first)
    assert os.readlink(tmp_path / "..data") == before
    assert payload.write(tmp_path, {"a": File(b"3", 0o644)})
    assert sorted(entry.name for entry in tmp_path.iterdir() if not entry.name.startswith("..")) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"3"
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert len([entry for entry in tmp_path.iterdir() if entry.name.startswith("..2")]) == 1


@pytest.mark.parametrize("relative", ["/etc", "../x", "a/../../x"])
def test_a_sub_path_cannot_leave_its_volume(tmp_path: Path, relative: str) -> None:
    with pytest.raises(paths.LeadsOut):
        paths.open_beneath(str(tmp_path), relative, make="dir")


def test_a_sub_path_through_a_link_cannot_leave_its_volume(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "out").symlink_to("/etc")
    with pytest.raises(paths.LeadsOut):
        paths.open_beneath(str(tmp_path / "volume"), "out", make="dir")


def test_the_sources_of_a_pod_are_found_in_volumes_and_variables() -> None:
    container = {
        "name": "main",
        "envFrom": [{"secretRef": {"name": "s1"}}],
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "k"}}}],
    }
    volumes = [
        {"name": "a", "configMap": {"name": "c2"}},
        {"name": "b", "projected": {"sources": [{"secret": {"name": "s2"}}]}},
    ]
    pod = complete({"spec": {"containers": [container], "volumes": volumes}})
    assert sources(pod) == {("Secret", "s1"), ("Secret", "s2"), ("ConfigMap", "c1"), ("ConfigMap", "c2")}
