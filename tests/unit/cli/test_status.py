"""The status tree as a person sees it, and the same for programs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from greetings_operator.api import GREETING
from modelyard.cli import status
from modelyard.cli.files import read_all
from modelyard.cli.main import main
from modelyard.cli.offline import offline_server
from modelyard.cli.output import show
from modelyard.cli.survey import Node
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.process import kubeconfig_text
from modelyard.local.laptop.layout import Layout, State
from modelyard.operators.registry import load

QUICKSTART = Path(__file__).parents[3] / "examples/quickstart.yaml"
LONG = "no recipe for image example/mlflow: " + "a laptop cluster runs only images that it has a recipe for, " * 5


@pytest.fixture
def root() -> Node:
    pod = Node(builtin.Pod, {"metadata": {"name": "hi-abc"}}, "ErrImagePull", False, f"ErrImagePull: {LONG}")
    deployment = Node(builtin.Deployment, {"metadata": {"name": "hi"}}, "0/1 ready", False, "0 of 1", [pod])
    conditions = [{"type": "Ready", "status": "False", "reason": "Starting", "message": "0 of 1 are available"}]
    resource = {"metadata": {"name": "hi", "namespace": "shop"}, "status": {"conditions": conditions}}
    events = [{"type": "Warning", "reason": f"Reason{n}", "message": "said", "count": n} for n in range(5)]
    return Node(GREETING.kind, resource, "not ready", False, "Starting", [deployment], events)


def test_the_tree_shows_why_conditions_children_and_last_events(root: Node, capsys: pytest.CaptureFixture[str]) -> None:
    show(status.page([root]))
    lines = [line.strip("│├└─ ") for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "Greeting hi in shop  not ready",
        f"why: Deployment hi: pod hi-abc is in ErrImagePull: {LONG}".rstrip(),
        "Ready=False  Starting: 0 of 1 are available",
        "Deployment hi  0/1 ready",
        "Pod hi-abc  ErrImagePull",
        "event Reason2: said",
        "event Reason3: said",
        "event Reason4: said",
    ]


def test_each_thing_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    missing = "secret s not found in shop"
    conditions = [
        {"type": name, "status": value, "reason": "SecretMissing", "message": missing}
        for name, value in (("Ready", "False"), ("Available", "False"), ("Degraded", "True"))
    ]
    events = [{"type": "Warning", "reason": "SecretMissing", "message": missing}] * 3
    events += [{"type": "Normal", "reason": "Created", "message": "made a Service"}] * 2
    resource = {"metadata": {"name": "hi", "namespace": "shop"}, "status": {"conditions": conditions}}
    root = Node(GREETING.kind, resource, "not ready", False, f"SecretMissing: {missing}", events=events)
    show(status.page([root]))
    said = capsys.readouterr().out
    assert said.count(missing) == 1
    assert said.count("made a Service") == 1
    assert "Ready=False, Available=False, Degraded=True" in said


def test_what_is_broken_besides_the_resources_is_shown_with_why(capsys: pytest.CaptureFixture[str]) -> None:
    stray = Node(
        builtin.Pod, {"metadata": {"name": "lost", "namespace": "shop"}}, "Error", False, "Error (exit code 3)"
    )
    stray.log = "ValueError: the key is missing"
    show(status.page([], [stray]))
    lines = [line.strip("│├└─ ") for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "there are no platform resources; see examples/ for some to apply",
        "not part of a platform resource, and not ready:",
        "Pod lost in shop  Error",
        "why: Pod lost: Error (exit code 3); its last log line: ValueError: the key is missing",
    ]


async def test_a_cluster_whose_parts_are_down_is_not_empty_but_broken(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = await laptop_with(server, tmp_path)
    state = State(os.getpid(), 0.0, ["mlflow"], ready=True)
    state.broken = {"controllers": "ended with exit code 1: the disk is full: free some space"}
    layout.write_state(state)
    with layout.hold():
        code = await asyncio.to_thread(main, ["status", "--dir", str(layout.directory)])
    said = capsys.readouterr().out
    assert code == 3
    assert "the laptop cluster's controllers is down: ended with exit code 1: the disk is full: free some space" in said
    assert "there are no platform resources" not in said


async def test_a_cluster_without_the_platforms_kinds_is_not_called_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiServer() as server:
        layout = await laptop_with(server, tmp_path)
        code = await asyncio.to_thread(main, ["status", "--kubeconfig", str(layout.kubeconfig)])
    assert code == 1
    assert "serves none of the platform's kinds" in capsys.readouterr().err


def test_a_kubeconfig_of_a_laptop_cluster_that_was_stopped_says_how_to_start_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path / "cluster")
    layout.create()
    layout.kubeconfig.write_text(kubeconfig_text("http://127.0.0.1:1", "", "t"))
    assert main(["status", "--kubeconfig", str(layout.kubeconfig)]) == 1
    assert f"no laptop cluster runs in {layout.directory}; start one with: modelyard up" in capsys.readouterr().err


async def laptop_with(server: ApiServer, tmp_path: Path) -> Layout:
    """The folder of a laptop cluster with this API server."""
    layout = Layout(tmp_path / "cluster")
    layout.create()
    url = await server.listen("127.0.0.1", 0)
    server.admit_token("t")
    layout.kubeconfig.write_text(kubeconfig_text(url, server.root_certificate(), "t"))
    return layout


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[tuple[Client, list[str]]]:
    """A cluster with MLflow's kinds and no controller, and the words that name it."""
    async with offline_server(load(["mlflow"], {})) as server:
        layout = await laptop_with(server, tmp_path)
        client = server.client()
        yield client, ["--kubeconfig", str(layout.kubeconfig)]
        await client.close()


async def test_a_resource_that_no_controller_has_seen_ends_with_3(
    platform: tuple[Client, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    client, where = platform
    assert await asyncio.to_thread(main, ["status", *where]) == 0
    (kind,) = [kind for kind in await client.discover() if kind.kind == "MLflow"]
    (resource,) = [each for each in read_all([QUICKSTART]) if each["kind"] == "MLflow"]
    await client.create(kind, resource)
    capsys.readouterr()
    assert await asyncio.to_thread(main, ["status", *where]) == 3
    assert "MLflow mlflow" in capsys.readouterr().out


async def test_a_kind_that_is_misspelled_ends_with_1_and_a_proposal(
    platform: tuple[Client, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(main, ["status", "mlfow", *platform[1]]) == 1
    said = capsys.readouterr().err
    assert "did you mean mlflow" in said
    assert len(said.splitlines()) == 1


async def test_plan_ends_with_1_where_the_namespace_is_missing(
    platform: tuple[Client, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: mlflow.kubeflow.org/v1\nkind: MLflowConfig\nmetadata: {name: mlflow, namespace: nowhere}\n"
        "spec: {artifactRootSecret: mlflow-artifact-connection}\n"
    )
    assert await asyncio.to_thread(main, ["plan", "-f", str(file), *platform[1]]) == 1
    said = capsys.readouterr()
    assert "there is no namespace nowhere" in said.out + said.err


def test_piped_output_has_no_colours(root: Node, capsys: pytest.CaptureFixture[str]) -> None:
    show(status.page([root]))
    assert "\x1b[" not in capsys.readouterr().out


def test_programs_get_the_same_facts(root: Node) -> None:
    data = json.loads(json.dumps(status.as_data(root)))
    assert (data["kind"], data["namespace"], data["name"], data["ready"]) == ("Greeting", "shop", "hi", False)
    assert data["why"].startswith("Deployment hi: pod hi-abc is in ErrImagePull")
    assert data["children"][0]["children"][0]["state"] == "ErrImagePull"
    assert [event["reason"] for event in data["events"]] == ["Reason2", "Reason3", "Reason4"]


def test_an_empty_cluster_says_where_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    show(status.page([]))
    assert "see examples/" in capsys.readouterr().out


def test_no_cluster_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("HOME", tmp_path), ("MODELYARD_DIR", tmp_path / "none")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main(["status"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("modelyard status: ")
    assert "Traceback" not in said
