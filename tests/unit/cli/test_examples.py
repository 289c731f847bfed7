"""The examples that come with an installation are listed, printed and written, and never overwrite a user's file unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.cli import examples
from modelyard.cli.examples import QUICKSTARTS, quickstarts
from modelyard.cli.files import read_all
from modelyard.cli.main import main
from modelyard.failure import Failed
from modelyard.operators.registry import BUILT

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted(str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.yaml"))


def test_the_list_has_every_file_with_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples"]) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(f"{name}.yaml" for name, *_ in rows) == FILES
    assert [row for row in rows if len(row) < 2] == []


@pytest.mark.parametrize("name", ["mlflow/minimal", "mlflow/minimal.yaml"])
def test_one_is_printed_as_it_stands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", name]) == 0
    assert capsys.readouterr().out == (EXAMPLES / "mlflow/minimal.yaml").read_text()


def test_those_of_a_system_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "model-registry"]) == 0
    assert all(line.startswith("model-registry/") for line in capsys.readouterr().out.splitlines()[1:])


def test_all_are_written_where_they_are_in_a_checkout(tmp_path: Path) -> None:
    assert main(["examples", "--to", str(tmp_path / "examples")]) == 0
    assert sorted(str(file.relative_to(tmp_path / "examples")) for file in tmp_path.rglob("*.yaml")) == FILES


def test_a_file_that_was_changed_is_kept_until_force_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "quickstart.yaml"
    mine.write_text("mine")
    assert main(["examples", "--to", str(tmp_path)]) == 1
    assert f"{mine} would be overwritten" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [mine]
    assert main(["examples", "--to", str(tmp_path), "--force"]) == 0
    assert mine.read_text() == (EXAMPLES / "quickstart.yaml").read_text()
    assert main(["examples", "--to", str(tmp_path)]) == 0


def test_an_unknown_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "mlflo"]) == 1
    assert "there is no example 'mlflo'; `modelyard examples` lists" in capsys.readouterr().err


@pytest.mark.parametrize("system", list(QUICKSTARTS))
def test_a_quickstart_is_an_example_with_a_resource_of_its_system(system: str) -> None:
    assert system in BUILT
    (file,) = quickstarts([system, system], list(BUILT))
    assert any(system in obj["apiVersion"] for obj in read_all([file]))


def test_a_system_without_a_quickstart_is_said_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--dir", str(tmp_path / "cluster"), "--with", "nothing"]) == 1
    assert "--with nothing: there is no quickstart of that name; there are: mlflow" in capsys.readouterr().err
    assert not (tmp_path / "cluster").exists()


def test_a_quickstart_without_its_operator_is_refused() -> None:
    with pytest.raises(Failed, match="add mlflow to --operators"):
        examples.quickstarts(["mlflow"], ["model-registry"])
