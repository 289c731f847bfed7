"""A program's settings from flags, variables, a YAML file and defaults, in this order: how upstream's servers take theirs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

from modelyard.programs import bounded_yaml

PREFIX = "MR_"


@dataclass(frozen=True)
class Flag:
    name: str
    default: str = ""
    help: str = ""
    short: str = ""
    boolean: bool = False
    repeated: bool = False


LOGGING = (
    Flag("logtostderr", boolean=True, default="true"),
    Flag("alsologtostderr", boolean=True),
    Flag("v", "0", "how much to log: 0 warnings, 1 and more a line for each request", short="v"),
    Flag("vmodule"),
    Flag("stderrthreshold"),
    Flag("log_dir"),
    Flag("log_link"),
    Flag("logbuflevel"),
    Flag("log_backtrace_at"),
)
"""Flags that upstream's servers take; of these only `--v` means something here."""


class UsageError(Exception):
    """The command line, a variable or the configuration file is wrong; the message says which."""


class Settings:
    """The values of a program's flags."""

    def __init__(self, values: Mapping[str, list[str]], given: frozenset[str]) -> None:
        self._values = values
        self._given = given

    def text(self, name: str) -> str:
        return self._values[name][-1] if self._values[name] else ""

    def all(self, name: str) -> list[str]:
        """The values of a repeated flag; each may be a comma list."""
        return [word for value in self._values[name] for word in value.split(",") if word]

    def is_true(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "1", "t", "yes")

    def was_given(self, name: str) -> bool:
        return name in self._given

    def number(self, name: str) -> int:
        text = self.text(name)
        if not text.isascii() or not text.isdigit():
            raise UsageError(f"--{name}: expected a number, found {text!r}")
        return int(text)


def read_settings(flags: Sequence[Flag], argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    known = {flag.name: flag for flag in (*flags, Flag("config", short="c"))}
    given = _parse(known, argv)
    file = _file(given, environ)
    values: dict[str, list[str]] = {}
    found = set()
    for name, flag in known.items():
        variable = PREFIX + name.upper().replace("-", "_")
        if name in given:
            values[name] = given[name]
        elif variable in environ:
            values[name] = [environ[variable]]
        elif name in file:
            values[name] = file[name]
        else:
            values[name] = [flag.default] if flag.default else []
            continue
        found.add(name)
    return Settings(values, frozenset(found))


def _parse(known: Mapping[str, Flag], argv: Sequence[str]) -> dict[str, list[str]]:
    short = {flag.short: flag for flag in known.values() if flag.short}
    given: dict[str, list[str]] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        flag = known.get(name) if word.startswith("--") else short.get(name) if word.startswith("-") else None
        if flag is None:
            raise UsageError(f"unknown flag or argument: {word}")
        if not equals:
            if flag.boolean:
                value = "true"
            elif not words:
                raise UsageError(f"flag needs a value: {word}")
            else:
                value = words.pop(0)
        given.setdefault(flag.name, []).append(value)
    return given


def _file(given: Mapping[str, list[str]], environ: Mapping[str, str]) -> dict[str, list[str]]:
    named = given.get("config") or ([environ[f"{PREFIX}CONFIG"]] if environ.get(f"{PREFIX}CONFIG") else [])
    path = Path(named[-1]) if named else Path(environ.get("HOME", "/")) / ".model-registry.yaml"
    if not named and not path.is_file():
        return {}
    try:
        content = bounded_yaml.load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read the configuration file {path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"the configuration file {path} must map flag names to values")
    return {str(name): _texts(value) for name, value in content.items()}


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def fail(program: str, problem: str, flags: Sequence[Flag]) -> NoReturn:
    """The usage on standard error, and exit code 1, as upstream's servers do."""
    print(f"Error: {problem}\nUsage:\n  {program} [flags]\n\nFlags:", file=sys.stderr)
    for flag in flags:
        if flag.help:
            short = f"-{flag.short}, " if flag.short else "    "
            default = f" (default {flag.default!r})" if flag.default else ""
            print(f"  {short}--{flag.name}  {flag.help}{default}", file=sys.stderr)
    sys.exit(1)
