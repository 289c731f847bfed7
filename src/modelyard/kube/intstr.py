"""Values that are a number or a percentage (`IntOrString`): `maxUnavailable: 25%`."""

from __future__ import annotations

from typing import TypeAlias

IntOrString: TypeAlias = int | str


def scaled(value: IntOrString, total: int, *, round_up: bool) -> int:
    """The number that a value stands for, where a percentage counts of `total`."""
    if isinstance(value, int):
        return value
    number = value.removesuffix("%")
    if number == value or not number.removeprefix("-").isdecimal():
        raise ValueError(f'{value!r} is neither a number nor a percentage; write it like 1 or "25%"')
    product = int(number) * total
    return -(-product // 100) if round_up else product // 100


def number_or_name(value: IntOrString) -> IntOrString:
    """A port as written in YAML: digits in quotes mean the number."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value
