"""Resource quantities (`500m`, `1Gi`, `2e3`): parsing, Kubernetes' canonical text, comparison and sums."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, total_ordering

_NANO = 9
_PER_UNIT = 1_000_000_000
_MAX_BINARY = (2**63 - 1) * _PER_UNIT
_INT64 = 2**63 - 1
# Beyond these no one means a quantity, and the arithmetic would only cost memory.
_MAX_EXPONENT = 1000
_MAX_DIGITS = 1000

_shape = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)").fullmatch

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_TEXT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_TEXT = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}


class QuantityError(ValueError):
    """The text is not a quantity; the message is Kubernetes' own."""


class Format(Enum):
    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount, kept in billionths (finer input is rounded up), with the format it was written in."""

    nanos: int
    format: Format = Format.DECIMAL
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text or _canonical(self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nanos * factor, self.format)

    @property
    def value(self) -> int:
        """The amount as a whole number, rounded away from zero."""
        return _scaled(self.nanos, _PER_UNIT)

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return _scaled(self.nanos, 10**6)

    def __float__(self) -> float:
        return float(self.nanos) / _PER_UNIT


def _scaled(nanos: int, unit: int) -> int:
    return -(-nanos // unit) if nanos >= 0 else nanos // unit


def parse(value: str | int | float) -> Quantity:
    """Read a quantity as the API does, from a string or a JSON number."""
    return _parse(value.strip() if isinstance(value, str) else _number_text(value))


def canonical(value: str | int | float) -> str:
    """The text under which the API stores this quantity (`1000m` becomes `1`, `1024Mi` becomes `1Gi`)."""
    return str(parse(value))


def compare(left: str | int | float, right: str | int | float) -> int:
    """-1, 0 or 1, as `left` is less than, equal to or more than `right`."""
    a, b = parse(left).nanos, parse(right).nanos
    return (a > b) - (a < b)


def same(left: object, right: object) -> bool:
    """Whether two values are the same amount; other values are the same only when equal."""
    if left == right:
        return True
    if isinstance(left, str | int | float) and isinstance(right, str | int | float):
        try:
            return parse(left) == parse(right)
        except QuantityError:
            return False
    return False


def _number_text(value: int | float) -> str:
    if isinstance(value, bool):
        raise QuantityError("unable to parse numeric part of quantity")
    return str(value)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _shape(text) if text else None
    if match is None:
        raise QuantityError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, whole, fraction, suffix = match.groups()
    exponent, form = _suffix(suffix)
    if not whole and not fraction and "0" not in text and form is Format.BINARY and exponent > 40:
        # A quantity without any digit counts as zero, but not in the largest units: a quirk that is kept.
        raise QuantityError("unable to parse numeric part of quantity")
    whole, fraction = whole or "0", fraction or ""
    digits = whole + fraction
    if len(digits) > _MAX_DIGITS:
        raise QuantityError("unable to parse numeric part of quantity")
    number = int(digits)

    if form is Format.BINARY:
        numerator, denominator = number * 2**exponent * _PER_UNIT, 10 ** len(fraction)
    else:
        power = exponent - len(fraction) + _NANO
        numerator, denominator = (number * 10**power, 1) if power >= 0 else (number, 10**-power)
    nanos = -(-numerator // denominator)
    if form is Format.BINARY:
        nanos = min(nanos, _MAX_BINARY)
        if 0 < nanos < _PER_UNIT:
            form = Format.DECIMAL
    if sign == "-":
        nanos = -nanos
    kept = _is_kept(digits, whole, fraction, exponent, form)
    return Quantity(nanos, form, text if kept else _canonical(nanos, form))


def _suffix(suffix: str) -> tuple[int, Format]:
    if (exponent := _DECIMAL.get(suffix)) is not None:
        return exponent, Format.DECIMAL
    if (exponent := _BINARY.get(suffix)) is not None:
        return exponent, Format.BINARY
    if suffix[0] in "eE" and suffix[1:].lstrip("+-").isdigit() and len(suffix) < 8:
        exponent = int(suffix[1:])
        if abs(exponent) <= _MAX_EXPONENT:
            return exponent, Format.EXPONENT
    raise QuantityError("unable to parse quantity's suffix")


def _is_kept(digits: str, whole: str, fraction: str, exponent: int, form: Format) -> bool:
    """Whether the API keeps the text as written: it does where its fast parser sees that the text is canonical enough."""
    number = int(digits)
    if form is Format.BINARY:
        room = 15 - len(whole) - exponent * 3 // 10 - 1
        return not fraction and room >= 0 and number << exponent <= _INT64 and number & 7 != 0
    scale = exponent - len(fraction)
    return len(digits) <= 18 and scale >= -_NANO and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _canonical(nanos: int, form: Format) -> str:
    if nanos == 0:
        return "0"
    if form is Format.BINARY and (abs(nanos) < 1024 * _PER_UNIT or nanos % _PER_UNIT):
        form = Format.DECIMAL
    negative, amount = nanos < 0, abs(nanos)
    if form is Format.BINARY:
        amount //= _PER_UNIT
        exponent = 0
        while amount % 1024 == 0:
            amount //= 1024
            exponent += 10
        suffix = _BINARY_TEXT.get(exponent, "")
    else:
        exponent = -_NANO
        while amount % 1000 == 0:
            amount //= 1000
            exponent += 3
        plain = form is Format.DECIMAL or exponent == 0
        suffix = _DECIMAL_TEXT.get(exponent, "") if plain else f"e{exponent}"
    return f"{'-' if negative else ''}{amount}{suffix}"
