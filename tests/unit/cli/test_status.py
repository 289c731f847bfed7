"""The status tree as a person sees it, and the same for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelyard.cli import status
from modelyard.cli.main import main
from modelyard.cli.output import show
from modelyard.cli.survey import Node
from modelyard.kube import builtin
from modelyard.operators.demo.api import GREETING

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
