"""`modelyard up` on a cluster that runs already, or that another `up` is starting."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from modelyard.cli.main import main
from modelyard.kube.builtin import ConfigMap
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.process import kubeconfig_text
from modelyard.local.laptop.layout import Layout, State

_CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"


@pytest.fixture
async def running(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Layout]:
    """The folder of a cluster that this process holds."""
    monkeypatch.setenv("HOME", str(tmp_path))
    layout = Layout(tmp_path / "cluster")
    layout.create()
    server.admit_token("t")
    url = await server.listen("127.0.0.1", 0)
    layout.kubeconfig.write_text(kubeconfig_text(url, server.root_certificate(), "t"))
    with layout.hold():
        layout.write_state(state())
        yield layout


def state(*, ready: bool = True, problem: str = "") -> State:
    return State(
        os.getpid(), 0.0, ["mlflow"], ready=ready, settled=ready, problem=problem, gateway="https://localhost:1"
    )


async def up(layout: Layout, *words: str) -> int:
    return await asyncio.to_thread(main, ["up", "--dir", str(layout.directory), *words])


async def test_a_file_is_applied_to_the_cluster_that_runs(
    running: Layout, server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.yaml").write_text(_CONFIG_MAP)
    assert await up(running, "--apply", str(tmp_path / "x.yaml")) == 0
    assert await server.client().find(ConfigMap, "default", "x") is not None
    assert f"modelyard is up in {running.directory}" in capsys.readouterr().out


async def test_a_context_is_merged_for_the_cluster_that_runs(
    running: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "mine"))
    assert await up(running, "--merge-kubeconfig") == 0
    assert yaml.safe_load((tmp_path / "mine").read_text())["current-context"] == "modelyard"


async def test_a_second_up_waits_for_the_one_that_is_starting(
    running: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    running.write_state(state(ready=False))
    second = asyncio.create_task(up(running, "--detach"))
    said = ""
    while "starts this cluster" not in said and not second.done():
        await asyncio.sleep(0.01)
        said += capsys.readouterr().out
    assert not second.done()
    running.write_state(state())
    assert await second == 0


async def test_a_second_up_tells_what_the_first_could_not_do(
    running: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    running.write_state(state(problem="MLflow mlflow is not ready: no network"))
    assert await up(running, "--detach") == 1
    assert "MLflow mlflow is not ready: no network" in capsys.readouterr().err


async def test_other_operators_than_those_that_run_are_refused_with_the_remedy(
    running: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await up(running, "--detach", "--operators", "model-registry") == 1
    assert "runs with --operators mlflow; to change that, stop it first with: modelyard down" in capsys.readouterr().err
    assert await up(running, "--detach", "--platform", "openshift") == 1
    assert "runs with --platform kubernetes" in capsys.readouterr().err


async def test_in_the_foreground_with_nothing_to_do_it_says_who_runs_the_cluster(
    running: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await up(running) == 1
    assert f"is held by process {os.getpid()}" in capsys.readouterr().err


def test_a_first_up_that_ends_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    layout = Layout(tmp_path / "cluster")
    layout.create()
    codes: list[int] = []
    with layout.hold():
        layout.write_state(state(ready=False))
        second = threading.Thread(target=lambda: codes.append(main(["up", "--detach", "--dir", str(layout.directory)])))
        second.start()
        while "starts this cluster" not in capsys.readouterr().out and second.is_alive():
            time.sleep(0.01)
    second.join(20)
    assert codes == [1]
    assert "was stopped, or could not start" in capsys.readouterr().err
