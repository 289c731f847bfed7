"""`modelyard completion`: prints what a shell needs to complete commands, options and their values.

examples:
  modelyard completion bash > ~/.local/share/bash-completion/completions/modelyard
  modelyard completion zsh > "${fpath[1]}/_modelyard"
  modelyard completion fish > ~/.config/fish/completions/modelyard.fish
  source <(modelyard completion bash)              for this shell only
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from modelyard.cli import examples
from modelyard.cli.main import COMMANDS, command_parser
from modelyard.operators.registry import available

_VALUES: dict[str, Callable[[], Sequence[str]]] = {
    "NAMES": lambda: list(available()),
    "SYSTEM": lambda: list(examples.QUICKSTARTS),
}
"""What the place holders of the help stand for, where argparse does not know the choices."""


@dataclass(frozen=True)
class Argument:
    """An option, or a positional argument (which has no flags)."""

    flags: Sequence[str]
    help: str
    takes_value: bool
    values: Sequence[str]
    """Those that it may have; empty if they are not known, as of a file."""


@dataclass(frozen=True)
class Described:
    """A command with everything that may follow it."""

    name: str
    summary: str
    arguments: Sequence[Argument]

    @property
    def options(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.flags]

    @property
    def words(self) -> list[str]:
        """What may stand by itself: the values of positional arguments."""
        return [value for argument in self.arguments if not argument.flags for value in argument.values]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(SHELLS), help="the shell that is to complete")


def run(args: argparse.Namespace) -> int:
    sys.stdout.write(SHELLS[args.shell](describe()))
    return 0


def describe() -> list[Described]:
    """All commands, from their own parsers."""
    return [
        Described(command.name, command.summary, [_argument(command.name, a) for a in command_parser(command)._actions])
        for command in COMMANDS
    ]


def _argument(command: str, action: argparse.Action) -> Argument:
    values: Sequence[str] = [str(choice) for choice in action.choices or ()]
    if not values and isinstance(action.metavar, str) and action.metavar in _VALUES:
        values = _VALUES[action.metavar]()
    if (command, action.dest) == ("examples", "name"):
        values = examples.names()
    return Argument(list(action.option_strings), action.help or "", action.nargs != 0, values)


def bash(commands: Sequence[Described]) -> str:
    """Where the words are not known, readline completes files."""
    lines = [
        "# Completion of modelyard for bash; written by `modelyard completion bash`.",
        "_modelyard() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f"    words={_quoted(command.name for command in commands)}",
        "  else",
        '    case "${COMP_WORDS[1]} $before" in',
        *(f"      {patterns}) words={_quoted(values)} ;;" for patterns, values in _valued(commands) if values),
        *(f"      {patterns}) return ;;" for patterns, values in _valued(commands) if not values),
        '      *) case "${COMP_WORDS[1]}" in',
        *(f"        {command.name}) words={_quoted(_all_words(command))} ;;" for command in commands),
        "      esac ;;",
        "    esac",
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _modelyard modelyard",
    ]
    return "\n".join(lines) + "\n"


def zsh(commands: Sequence[Described]) -> str:
    lines = [
        "#compdef modelyard",
        "# Completion of modelyard for zsh; written by `modelyard completion zsh`.",
        "_modelyard() {",
        "  local -a found",
        "  if (( CURRENT == 2 )); then",
        f"    found=({' '.join(_zsh_item(c.name, c.summary) for c in commands)})",
        "    _describe command found",
        "    return",
        "  fi",
        '  case "$words[2] $words[CURRENT-1]" in',
        *(f"    {names}) compadd -- {shlex.join(values)}; return ;;" for names, values in _valued(commands) if values),
        *(f"    {names}) _files; return ;;" for names, values in _valued(commands) if not values),
        "  esac",
        '  case "$words[2]" in',
        *(f"    {command.name}) found=({_zsh_items(command)}) ;;" for command in commands),
        "  esac",
        "  _describe argument found || _files",
        "}",
        "# Found in $fpath it is called; sourced, it is registered.",
        'if [ "$funcstack[1]" = _modelyard ]; then _modelyard "$@"; else compdef _modelyard modelyard; fi',
    ]
    return "\n".join(lines) + "\n"


def fish(commands: Sequence[Described]) -> str:
    lines = ["# Completion of modelyard for fish; written by `modelyard completion fish`."]
    for command in commands:
        lines.append(
            f"complete -c modelyard -f -n __fish_use_subcommand -a {command.name} -d {shlex.quote(command.summary)}"
        )
        after = f"complete -c modelyard -n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            lines.append(f"{after} -f -a {_quoted(command.words)}")
        for option in command.options:
            flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
            value = f" -x -a {_quoted(option.values)}" if option.values else " -r -F" if option.takes_value else ""
            lines.append(f"{after} {flags}{value} -d {shlex.quote(option.help)}")
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[Sequence[Described]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _valued(commands: Sequence[Described]) -> list[tuple[str, Sequence[str]]]:
    """Patterns of `COMMAND OPTION` that a value follows, and the values."""
    return [
        ("|".join(f'"{command.name} {flag}"' for flag in option.flags), option.values)
        for command in commands
        for option in command.options
        if option.takes_value
    ]


def _all_words(command: Described) -> list[str]:
    return [*command.words, *(flag for option in command.options for flag in option.flags)]


def _zsh_items(command: Described) -> str:
    words = [_zsh_item(word, "") for word in command.words]
    return " ".join(words + [_zsh_item(flag, option.help) for option in command.options for flag in option.flags])


def _zsh_item(word: str, help: str) -> str:
    """A colon parts a word from what it means."""
    return shlex.quote(f"{word.replace(':', chr(92) + ':')}:{help}" if help else word)


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))
