"""The dataflow pages: rows from declarations, with the place of each; as Markdown, Mermaid and JSON."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import modelyard
from greetings_operator import controller
from modelyard.cli.main import main
from modelyard.cli.pages.dataflow import markdown, mermaid, table
from modelyard.cli.pages.flow import flow_of
from modelyard.operators.registry import BUILT
from modelyard.runtime.declaring.operator import Operator

ROOT = Path(modelyard.__file__).parent


def test_every_row_says_where_it_is_declared(demo: Operator) -> None:
    lines = inspect.getsource(controller).splitlines()
    for row in flow_of(demo).watches:
        file, _, line = row.source.rpartition(":")
        assert file == "greetings_operator/controller.py"
        assert "Controller(" in lines[int(line) - 1] or row.kind in lines[int(line) - 1]


def test_for_comes_first_then_owned_then_watched(demo: Operator) -> None:
    flow = flow_of(demo)
    assert [(w.type, w.kind) for w in flow.watches] == [
        ("For", "Greeting"), ("Owns", "ConfigMap"), ("Owns", "Secret"), ("Owns", "Service"), ("Owns", "Deployment"),
        ("Owns", "HTTPRoute"), ("Owns", "ClusterRole"), ("Watches", "ConfigMap"), ("Watches", "Secret"),
    ]  # fmt: skip
    assert [w.kind for w in flow.watches if w.optional] == ["HTTPRoute"]
    assert {(w.name, w.type, w.path) for w in flow.webhooks} == {
        ("mgreeting.demo.modelyard.dev", "mutating", "/mutate-greeting"),
        ("vgreeting.demo.modelyard.dev", "validating", "/validate-greeting"),
    }


def test_the_page_has_the_sections_of_the_seeds(demo: Operator) -> None:
    headings = [line for line in markdown(flow_of(demo)).splitlines() if line.startswith("## ")]
    assert headings == [
        "## Controller Watches", "## Reconciliation Flow", "## Exposed Services", "## Defined CRDs", "## Webhooks",
        "## HTTP Endpoints", "## Configuration",
    ]  # fmt: skip


def test_the_diagram_has_one_arrow_a_kind(demo: Operator) -> None:
    diagram = mermaid(flow_of(demo))
    assert diagram.startswith("sequenceDiagram\n")
    assert "KubernetesAPI->>+greetings: Watch Greeting (reconcile)" in diagram
    assert diagram.count("Create/Update Deployment") == 1
    assert "Note right of KubernetesAPI: Greeting (demo.modelyard.dev/v1alpha1)" in diagram


def test_cells_cannot_break_a_table() -> None:
    assert table(["a"], [["x|y\nz"]]).splitlines()[-1] == "| x\\|y z |"


def test_the_command_prints_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataflow", "mlflow", "--format", "json"]) == 0
    (flow,) = json.loads(capsys.readouterr().out)
    assert flow["operator"] == "mlflow"
    assert {"kind": "MLflow", "apiVersion": "mlflow.opendatahub.io/v1"} in flow["crds"]


def test_what_all_operators_share_has_a_page_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataflow", "serving-certificates"]) == 0
    assert "runs with every operator" in capsys.readouterr().out
    assert main(["dataflow", "--format", "json"]) == 0
    names = [flow["operator"] for flow in json.loads(capsys.readouterr().out)]
    assert names == [*BUILT, "serving-certificates"]
