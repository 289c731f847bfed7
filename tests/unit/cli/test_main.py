"""The command line as a whole: help with examples for every command, exit codes, errors in a sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelyard.cli.main import COMMANDS, main

QUICKSTART = Path(__file__).parents[3] / "examples/quickstart.yaml"
NAMES = [command.name for command in COMMANDS]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "examples:" in said
    assert f"modelyard {name}" in said.partition("examples:")[2]


def test_help_lists_the_commands_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(name in said for name in NAMES)
    assert "exit codes:" in said
    assert "3  not everything is ready" in said


@pytest.mark.parametrize("words", [["nothing"], ["status", "--nothing"], ["plan"]])
def test_a_wrong_command_line_ends_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dataflow", "nothing"], "there is no operator 'nothing'; there are:"),
        (["dataflow", "trustyai"], "operator 'trustyai' is not built yet"),
        (["manifests", "--replicas", "0"], "at least one is needed"),
        (["manifests", "--operators", "nothing"], "there is no operator"),
        (["plan", "-f", "nowhere.yaml"], "there is no such file or folder"),
        (["down", "--dir", "nowhere"], ""),
        (["url", "mlflow", "--dir", "nowhere"], "no laptop cluster runs in"),
        (["env", "mlflow", "--dir", "nowhere"], "no laptop cluster runs in"),
        (["logs", "--dir", "nowhere"], "there are no logs"),
        (["docs", "--root", "nowhere"], "is not a source checkout"),
    ],
)
def test_what_does_not_work_is_said_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(words)
    errors = capsys.readouterr().err
    assert code == (1 if said else 0)
    assert said in errors
    assert "Traceback" not in errors


def test_a_pipe_that_closes_is_no_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(args: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr("modelyard.cli.laptop.images.run", closed)
    assert main(["images"]) == 1


def test_a_package_that_only_a_laptop_needs_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(args: object) -> int:
        raise ModuleNotFoundError("No module named 'cel_expr_python'", name="cel_expr_python")

    monkeypatch.setattr("modelyard.cli.laptop.images.run", lacking)
    assert main(["images"]) == 1
    assert (
        f"lacks cel-expr-python, which the image for clusters leaves out; install with: {sys.executable} -m pip install cel-expr-python"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "words",
    [["up"], ["up", "--detach"], ["apiserver", "--dir", "api"], ["plan", "--offline", "-f", str(QUICKSTART)]],
    ids=" ".join,
)
def test_what_needs_a_missing_package_starts_nothing_and_says_so(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODELYARD_DIR", str(tmp_path / "cluster"))
    # As the import system says that there is no such package.
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    assert main(words) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"modelyard {words[0]}: ")
    assert said.rstrip().endswith("-m pip install cel-expr-python")
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
