"""`modelyard up` before anything is started, and what it says once everything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.cli.laptop.progress import Progress
from modelyard.cli.main import main
from modelyard.local.laptop.layout import Layout, State


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file"),
        ("a: [", "is not YAML"),
        ("kind: Pod", "lacks apiVersion, kind or metadata.name"),
    ],
)
def test_a_file_that_cannot_be_applied_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    file, directory = tmp_path / "objects.yaml", tmp_path / "cluster"
    if content is not None:
        file.write_text(content)
    assert main(["up", "--dir", str(directory), "--apply", str(file)]) == 1
    assert said in capsys.readouterr().err
    assert not directory.exists()


def test_an_operator_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--dir", str(tmp_path / "cluster"), "--operators", "nope"]) == 1
    assert "there is no operator 'nope'; there are: mlflow" in capsys.readouterr().err


def test_in_the_end_it_says_what_runs_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(tmp_path / "my cluster")
    state = State(1, 0.0, ["mlflow"], gateway="https://localhost:8443")
    links = {"": "https://home/login?code=1", "mlflow": "https://mlflow/login?code=2"}
    with Progress(quiet=True) as progress:
        progress.done(state, layout, links)
    named = f"--dir '{layout.directory}'"
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"modelyard is up in {layout.directory}",
        "  operators   mlflow",
        "  gateway     https://localhost:8443",
        "  open        start page: https://home/login?code=1",
        "              mlflow: https://mlflow/login?code=2",
        f"              each link works once; for another: modelyard url NAME {named}",
        f"  kubectl     kubectl --kubeconfig '{layout.kubeconfig}' get pods -A",
        f"  next        modelyard status {named}",
        f"              modelyard down {named}",
    ]
