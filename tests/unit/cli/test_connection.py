"""Which cluster a command talks to, and with which settings it plans."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import yaml

from modelyard.cli.connection import connection_arguments, laptop_behind, open_client, plane_settings
from modelyard.cli.installation import Choice, manifests
from modelyard.failure import Failed
from modelyard.kube.builtin import Deployment, Namespace
from modelyard.local.apiserver import ApiServer
from modelyard.local.laptop.layout import Layout, State, remember
from modelyard.runtime.declaring.operator import Operator


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is set up."""
    for name in ("KUBECONFIG", "MODELYARD_DIR", "MLFLOW_NAMESPACE", "POD_NAMESPACE", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    connection_arguments(parser)
    return parser.parse_args(words)


def write_kubeconfig(path: Path, server: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def laptop(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "laptop")
    layout.create()
    write_kubeconfig(layout.kubeconfig, "https://127.0.0.1:1")
    layout.write_state(State(1, 0.0, ["mlflow"], gateway="https://localhost:9999"))
    return layout


def test_without_any_cluster_it_is_said_what_to_do() -> None:
    with pytest.raises(Failed):
        open_client(arguments())


@pytest.fixture
def here(tmp_path: Path) -> Layout:
    """A cluster as `make up` makes it, in .up of this folder."""
    layout = Layout(tmp_path / "work" / ".up")
    layout.create()
    write_kubeconfig(layout.kubeconfig, "https://127.0.0.1:2")
    layout.write_state(State(1, 0.0, ["mlflow"]))
    return layout


def test_the_cluster_of_this_folder_goes_before_the_users_kubeconfig(
    here: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(tmp_path / "home" / ".kube" / "config", "https://cluster.example.com")
    with here.hold():
        found = laptop_behind(arguments())
        assert found is not None
        assert found.directory == here.directory
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "home" / ".kube" / "config"))
        assert laptop_behind(arguments()) is None, "a kubeconfig that was named goes before what was found"
    monkeypatch.delenv("KUBECONFIG")
    assert laptop_behind(arguments()) is None, "a cluster that does not run is nobody's default"


def test_where_no_cluster_is_found_those_that_run_are_named(laptop: Layout) -> None:
    remember(laptop)
    with laptop.hold():
        with pytest.raises(Failed, match=f"Clusters run in: {laptop.directory}; choose one with --dir"):
            open_client(arguments())
    with pytest.raises(Failed) as told:
        open_client(arguments())
    assert "Clusters run" not in str(told.value)


def test_a_laptop_cluster_that_is_only_just_starting_is_said(laptop: Layout) -> None:
    laptop.kubeconfig.unlink()
    with laptop.hold(), pytest.raises(Failed, match="the laptop cluster is still starting"):
        open_client(arguments("--dir", str(laptop.directory)))


def test_a_laptop_cluster_that_does_not_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no laptop cluster runs in"):
        open_client(arguments("--dir", str(tmp_path)))


def test_the_laptop_cluster_is_recognised_however_it_is_named(
    laptop: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with laptop.hold():
        for words in (["--dir", str(laptop.directory)], ["--kubeconfig", str(laptop.kubeconfig)]):
            found = laptop_behind(arguments(*words))
            assert found is not None
            assert found.directory == laptop.directory
        monkeypatch.setenv("KUBECONFIG", str(laptop.kubeconfig))
        assert laptop_behind(arguments()) is not None
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "other", "https://cluster.example.com")))
        assert laptop_behind(arguments()) is None
        monkeypatch.setenv("MODELYARD_DIR", str(laptop.directory))
        assert laptop_behind(arguments()) is not None, "a folder that was named goes before a kubeconfig that was found"
        assert laptop_behind(arguments("--kubeconfig", str(tmp_path / "other"))) is None


async def test_a_plan_on_a_laptop_has_the_laptops_settings(laptop: Layout) -> None:
    async with ApiServer() as server:
        with laptop.hold():
            found = await plane_settings(server.client(), arguments("--dir", str(laptop.directory)))
    assert found["MLFLOW_URL"] == "https://localhost:9999"


async def test_a_plan_on_a_cluster_has_those_of_the_plane_that_runs_there(
    demo: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_kubeconfig(tmp_path / "config", "https://cluster.example.com")
    args = arguments("--kubeconfig", str(config))
    async with ApiServer() as server:
        client = server.client()
        assert "POD_NAMESPACE" not in await plane_settings(client, args)
        made = manifests([demo], Choice(namespace="ml", settings={"MLFLOW_NAMESPACE": "tracking"}))
        for kind in (Namespace, Deployment):
            for obj in made:
                if obj["kind"] == kind.kind:
                    await client.create(kind, obj)
        found = await plane_settings(client, args)
        assert (found["POD_NAMESPACE"], found["MLFLOW_NAMESPACE"]) == ("ml", "tracking")
        monkeypatch.setenv("MLFLOW_NAMESPACE", "mine")
        assert (await plane_settings(client, args))["MLFLOW_NAMESPACE"] == "mine"
