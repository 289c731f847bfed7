"""What is off on a laptop unless a user asks for it, because the program that it needs does not run here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Withheld:
    """One setting of an operator. What a user sets goes before it."""

    operator: str
    setting: str
    value: str
    why: str
    instead: str
    """The value with which a user asks for it all the same."""

    @property
    def sentence(self) -> str:
        return f"{self.why}; start it all the same with {self.setting}={self.instead} before `modelyard up`"


WITHHELD = (
    Withheld(
        "model-registry",
        "ENABLE_MODEL_CATALOG",
        "false",
        "the model catalog is off: its server does not run on a laptop yet",
        "true",
    ),
)
"""Take an entry away once its program runs here."""


def withheld_settings() -> dict[str, str]:
    return {each.setting: each.value for each in WITHHELD}


def what_is_off(operators: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """What these operators do not start, each in one sentence."""
    names = set(operators)
    return [each.sentence for each in WITHHELD if each.operator in names and each.setting not in environ]
