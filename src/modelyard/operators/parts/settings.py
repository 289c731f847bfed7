"""Reading settings from environment variables, with errors that name the variable and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

_Choice = TypeVar("_Choice", bound=Enum)
_TRUE = frozenset(("1", "t", "true", "yes", "on"))
_FALSE = frozenset(("0", "f", "false", "no", "off", ""))


class SettingError(ValueError):
    """A setting has a value that cannot be used."""

    def __init__(self, name: str, value: str, remedy: str) -> None:
        super().__init__(f"setting {name}={value!r} cannot be used: {remedy}")
        self.name = name


class Environ:
    """Typed reads of environment variables. An empty variable counts as unset."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def text(self, name: str, default: str = "") -> str:
        return self._variables.get(name, "").strip() or default

    def words(self, name: str) -> tuple[str, ...]:
        """A comma-separated list."""
        return tuple(word for part in self.text(name).split(",") if (word := part.strip()))

    def flag(self, name: str, default: bool = False) -> bool:
        if name not in self._variables:
            return default
        value = self._variables[name].strip().lower()
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise SettingError(name, self._variables[name], "use true or false")

    def choice(self, name: str, choices: type[_Choice], default: _Choice) -> _Choice:
        value = self.text(name)
        if not value:
            return default
        try:
            return choices(value.lower())
        except ValueError:
            raise SettingError(name, value, f"use one of {', '.join(str(one.value) for one in choices)}") from None
