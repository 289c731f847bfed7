"""Operators are found by entry points: ours, and those of packages that a user installs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelyard.operators.registry import BUILT, ON_REQUEST, BadOperator, UnknownOperator, available, load, modules

EXAMPLE = Path(__file__).parents[3] / "examples/greetings"


def package(folder: Path, entry: str, code: str = "") -> None:
    """An installed package: its code, and what it says about itself."""
    described = folder / "theirs-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[modelyard.operators]\n{entry}\n")
    (folder / "their_operator.py").write_text(code)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_operator", raising=False)
    return tmp_path


def test_a_project_that_is_installed_is_found(tmp_path: Path) -> None:
    uv = Path(sys.prefix) / "bin/uv"
    installing = [
        str(uv),
        "pip",
        "install",
        "-q",
        "--offline",
        "--no-deps",
        "--target",
        str(tmp_path / "site"),
        str(EXAMPLE),
    ]
    subprocess.run(installing, check=True, cwd=tmp_path)
    shown = subprocess.run(
        [sys.executable, "-m", "modelyard.cli.main", "dataflow", "greetings"],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert "demo.modelyard.dev/v1" in shown.stdout


def test_what_is_installed_runs_with_ours_unless_others_are_chosen(installed: Path) -> None:
    package(
        installed,
        "theirs = their_operator:operator",
        "from modelyard.runtime.declaring.operator import Operator\n\n\ndef operator(environ):\n    return Operator('theirs', environ['TITLE'])\n",
    )
    assert list(available()) == [*BUILT, "theirs"]
    assert [operator.name for operator in load(None, {"TITLE": "Theirs"})] == [
        *(name for name in BUILT if name not in ON_REQUEST),
        "theirs",
    ]
    assert [operator.title for operator in load(["theirs"], {"TITLE": "Theirs"})] == ["Theirs"]
    assert modules(["mlflow", "theirs"]) == ["modelyard.operators.mlflow.operator", "their_operator"]


def test_one_that_is_not_installed_is_named_by_its_module() -> None:
    (made,) = load(["greetings_operator.operator:operator"], {})
    assert made.name == "greetings"
    assert modules(["greetings_operator.operator:operator"]) == ["greetings_operator.operator"]


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("mlflow = their_operator:operator", "", "package 'theirs' offers an operator with the name 'mlflow'"),
        ("theirs = nowhere_at_all:operator", "", "operator 'theirs' cannot be loaded from nowhere_at_all:operator"),
        ("theirs = their_operator:operator", "", "cannot be loaded from their_operator:operator"),
        (
            "theirs = their_operator:operator",
            "def operator(environ):\n    return 7\n",
            "gives a int; it must give a modelyard.runtime.declaring.operator.Operator",
        ),
        (
            "theirs = their_operator:operator",
            "from modelyard.runtime.declaring.operator import Operator\n\n\ndef operator(environ):\n    return Operator('x', 'X')\n",
            "calls itself 'x'",
        ),
    ],
)
def test_what_is_wrong_with_a_package_is_said(installed: Path, entry: str, code: str, said: str) -> None:
    package(installed, entry, code)
    with pytest.raises(BadOperator) as error:
        load(None, {})
    assert said in str(error.value)


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(UnknownOperator, match="there is no operator 'mlflwo'; there are: mlflow, model-registry"):
        load(["mlflwo"], {})
