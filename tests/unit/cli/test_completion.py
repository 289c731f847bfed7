"""Shells complete what the commands' own parsers know."""

from __future__ import annotations

import subprocess

import pytest

from modelyard.cli import examples
from modelyard.cli.completion import SHELLS, describe
from modelyard.cli.main import COMMANDS, main

_ASK = """
source /dev/stdin
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_modelyard
echo "${COMPREPLY[*]}"
"""


@pytest.fixture(scope="module")
def script() -> str:
    return SHELLS["bash"](describe())


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last word."""
    asked = ["bash", "--norc", "-uc", _ASK, "bash", "modelyard", *words]
    done = subprocess.run(asked, input=script, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["com"], ["completion"]),
        (["up", "--de"], ["--detach"]),
        (["up", "--platform", ""], ["kubernetes", "openshift"]),
        (["up", "--with", ""], list(examples.QUICKSTARTS)),
        (["images", "p"], ["prune"]),
        (["completion", ""], ["bash", "zsh", "fish", "-h", "--help"]),
        (["examples", "quick"], ["quickstart"]),
        (["plan", "-f", ""], []),
    ],
    ids=" ".join,
)
def test_bash_completes(script: str, words: list[str], offered: list[str]) -> None:
    assert completed(script, *words) == offered


def test_bash_completes_every_command(script: str) -> None:
    assert completed(script, "") == [command.name for command in COMMANDS]


@pytest.mark.parametrize("shell", list(SHELLS))
def test_every_shell_knows_every_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    for command in describe():
        for flag in (flag for option in command.options for flag in option.flags):
            shown = {f"-l {flag.removeprefix('--')}", f"-s {flag.removeprefix('-')}"} if shell == "fish" else {flag}
            assert any(each in said for each in shown), f"{command.name} {flag}"
