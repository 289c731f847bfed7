"""The `filterQuery` language of the registry and the catalog: text in, a tree of comparisons out. Knows no kinds and no database."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

MAX_TEXT = 16 * 1024
MAX_TERMS = 1000
MAX_NESTING = 20
"""Groups of AND in OR in AND: SQLite's parser knows no more. Further parentheses around one term or one group cost nothing."""

Scalar: TypeAlias = str | int | float | bool
Stored: TypeAlias = Scalar | Sequence[Scalar]
"""A value that an object has, as the evaluator sees it."""

VALUE_TYPES = ("string_value", "double_value", "int_value", "bool_value", "array_value")


class FilterError(Exception):
    """The text is not a filter, or it compares what cannot be compared. The message is for the caller of the API."""


class Operator(Enum):
    EQUAL = "="
    NOT_EQUAL = "!="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    LIKE = "LIKE"
    ILIKE = "ILIKE"
    IN = "IN"

    @property
    def is_pattern(self) -> bool:
        return self in (Operator.LIKE, Operator.ILIKE)


class FieldType(Enum):
    """What a known field holds; says which literals may stand beside it."""

    STRING = "text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    ID = "an id"
    """A number that callers may also write as text: `'45'`."""


@dataclass(frozen=True, slots=True)
class Property:
    """`parts` are the names between the dots; a part in backticks is one part whatever it contains."""

    parts: tuple[str, ...]
    type: str | None = None

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    def __str__(self) -> str:
        return self.name if self.type is None else f"{self.name}.{self.type}"

    def without(self, prefix: str) -> Property | None:
        """The rest of `prefix.rest`, or None when the property does not start with that name."""
        if len(self.parts) < 2 or self.parts[0] != prefix:
            return None
        return replace(self, parts=self.parts[1:])


@dataclass(frozen=True, slots=True)
class Comparison:
    """`subject operator values`; only IN has a number of values other than one."""

    subject: Property
    operator: Operator
    values: tuple[Scalar, ...]

    @property
    def value(self) -> Scalar:
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Both:
    terms: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Either:
    terms: tuple[Query, ...]


Query: TypeAlias = Comparison | Both | Either


class _Kind(Enum):
    NAME = "a property name"
    ESCAPED = "a property name in backticks"
    STRING = "a string"
    NUMBER = "a number"
    SIGN = "an operator"
    END = "the end"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str
    offset: int

    def word(self) -> str:
        return self.text.upper() if self.kind is _Kind.NAME else ""


_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*)
    |(?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<NUMBER>[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z0-9_]))
    |(?P<STRING>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<ESCAPED>`(?:[^`\\]|\\.)*`)
    |(?P<SIGN><>|!=|>=|<=|=|>|<|\(|\)|,|\.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_OPERATORS = {operator.value: operator for operator in Operator} | {"<>": Operator.NOT_EQUAL}
_WORD_OPERATORS = ("LIKE", "ILIKE", "IN")
# Texts compare by code points, which is also the order of their UTF-8 bytes in every database.
_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: eq,
    Operator.NOT_EQUAL: ne,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
}


def parse(text: str) -> Query | None:
    """The tree of a filter; None for a blank one. Raises `FilterError` with line, column and what was expected."""
    if len(text.encode()) > MAX_TEXT:
        raise FilterError(f"invalid filter query: it is longer than {MAX_TEXT} bytes")
    return _Parser(text).query()


def comparisons(query: Query) -> Iterator[Comparison]:
    """Every comparison of a tree."""
    waiting: list[Query] = [query]
    while waiting:
        term = waiting.pop()
        if isinstance(term, Comparison):
            yield term
        else:
            waiting.extend(reversed(term.terms))


class _Parser:
    """Keeps its own stack of open parentheses, so that deep nesting cannot exhaust the interpreter's."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._lex(text)
        self._next = 0
        self._terms = 0

    def _lex(self, text: str) -> list[_Token]:
        tokens, offset = [], 0
        while offset < len(text):
            found = _TOKEN.match(text, offset)
            if found is None or found.lastgroup is None:
                raise self._problem(offset, f"unexpected {text[offset]!r}")
            if found.lastgroup != "skip":
                tokens.append(_Token(_Kind[found.lastgroup], found.group(), offset))
            offset = found.end()
        tokens.append(_Token(_Kind.END, "", len(text)))
        return tokens

    def _problem(self, offset: int, said: str) -> FilterError:
        before = self._text[:offset]
        line = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1) + 1
        return FilterError(f"invalid filter query syntax: {line}:{column}: {said}")

    def _unexpected(self, token: _Token, expected: str) -> FilterError:
        shown = repr(token.text) if token.text else "the end"
        return self._problem(token.offset, f"expected {expected}, found {shown}")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind is not _Kind.END:
            self._next += 1
        return token

    def _accept(self, sign: str) -> bool:
        if self._peek().kind is _Kind.SIGN and self._peek().text == sign:
            self._next += 1
            return True
        return False

    def query(self) -> Query | None:
        if self._peek().kind is _Kind.END:
            return None
        # One level per open parenthesis: finished alternatives, and the terms of the one being read.
        levels: list[tuple[list[Query], list[Query]]] = [([], [])]
        opened: list[_Token] = []
        while True:
            token = self._peek()
            if self._accept("("):
                opened.append(token)
                levels.append(([], []))
                continue
            levels[-1][1].append(self._comparison())
            while True:
                token = self._peek()
                if token.word() == "AND":
                    self._next += 1
                    break
                if token.word() == "OR":
                    self._next += 1
                    alternatives, terms = levels[-1]
                    alternatives.append(_joined(Both, terms))
                    levels[-1] = (alternatives, [])
                    break
                if opened and self._accept(")"):
                    opened.pop()
                    group = _closed(levels.pop())
                    levels[-1][1].append(group)
                    continue
                if token.kind is _Kind.END and not opened:
                    whole = _closed(levels.pop())
                    if _nesting(whole) > MAX_NESTING:
                        raise FilterError(f"invalid filter query: groups are nested deeper than {MAX_NESTING} levels")
                    return whole
                raise self._unexpected(token, "AND, OR or ')'" if opened else "AND, OR or the end")

    def _comparison(self) -> Comparison:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise FilterError(f"invalid filter query: it has more than {MAX_TERMS} comparisons")
        subject = self._property()
        operator = self._operator()
        if self._accept("("):
            if operator is not Operator.IN:
                token = self._tokens[self._next - 1]
                raise self._problem(token.offset, f"a list can only follow IN, not {operator.value}")
            return Comparison(subject, operator, self._list())
        return Comparison(subject, operator, (self._scalar(),))

    def _property(self) -> Property:
        parts = [self._part()]
        while self._accept("."):
            parts.append(self._part())
        names = [name for name, _ in parts]
        if len(parts) > 1 and names[-1] in VALUE_TYPES and not parts[-1][1]:
            return Property(tuple(names[:-1]), names[-1])
        return Property(tuple(names))

    def _part(self) -> tuple[str, bool]:
        token = self._take()
        if token.kind is _Kind.ESCAPED:
            return _ESCAPE.sub(r"\1", token.text[1:-1]), True
        if token.kind is not _Kind.NAME or token.word() in ("AND", "OR"):
            raise self._unexpected(token, "a property name")
        return token.text, False

    def _operator(self) -> Operator:
        token = self._take()
        if token.word() in _WORD_OPERATORS:
            return Operator[token.word()]
        if token.kind is _Kind.SIGN and token.text in _OPERATORS:
            return _OPERATORS[token.text]
        raise self._unexpected(token, "an operator (=, !=, >, >=, <, <=, LIKE, ILIKE, IN)")

    def _list(self) -> tuple[Scalar, ...]:
        if self._accept(")"):
            return ()
        values = [self._scalar()]
        while not self._accept(")"):
            if not self._accept(","):
                raise self._unexpected(self._peek(), "',' or ')'")
            values.append(self._scalar())
        return tuple(values)

    def _scalar(self) -> Scalar:
        token = self._take()
        if token.kind is _Kind.STRING:
            return _pattern_text(token.text) if self._follows_like() else _ESCAPE.sub(r"\1", token.text[1:-1])
        if token.kind is _Kind.NUMBER:
            return self._number(token)
        if token.word() in ("TRUE", "FALSE"):
            return token.word() == "TRUE"
        if token.kind is _Kind.NAME:
            raise self._unexpected(token, "a value; text must stand in quotes: 'text'")
        raise self._unexpected(token, "a value ('text', a number, true or false)")

    def _follows_like(self) -> bool:
        return self._tokens[self._next - 2].word() in ("LIKE", "ILIKE")

    def _number(self, token: _Token) -> int | float:
        if len(token.text) > 400:
            raise self._problem(token.offset, "the number is too long")
        if token.text.lstrip("+-").isdigit():
            return int(token.text)
        number = float(token.text)
        if math.isinf(number):
            raise self._problem(token.offset, "the number is too large")
        return number


def _pattern_text(text: str) -> str:
    """An escaped quote becomes the quote; every other escape (`\\%`, `\\_`) belongs to the pattern and stays."""
    return _ESCAPE.sub(lambda found: found[1] if found[1] in "'\"" else found[0], text[1:-1])


def _joined(join: type[Both] | type[Either], terms: list[Query]) -> Query:
    if len(terms) == 1:
        return terms[0]
    flat: list[Query] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, join) else (term,))
    return join(tuple(flat))


def _closed(level: tuple[list[Query], list[Query]]) -> Query:
    alternatives, terms = level
    return _joined(Either, [*alternatives, _joined(Both, terms)])


def _nesting(query: Query) -> int:
    deepest, waiting = 0, [(query, 0)]
    while waiting:
        term, depth = waiting.pop()
        deepest = max(deepest, depth)
        if not isinstance(term, Comparison):
            waiting.extend((inner, depth + 1) for inner in term.terms)
    return deepest


def typed(comparison: Comparison, field: FieldType) -> Comparison:
    """The comparison with literals of the field's type, or a `FilterError` that names the property and its type."""
    name = comparison.subject
    if comparison.subject.type is not None:
        wanted = {"string_value": FieldType.STRING, "bool_value": FieldType.BOOLEAN}.get(comparison.subject.type)
        if (wanted or FieldType.NUMBER) is not (FieldType.NUMBER if field is FieldType.ID else field):
            raise _mismatch(f"{name.name} is {field.value}, not a {comparison.subject.type}")
    if comparison.operator.is_pattern and field is not FieldType.STRING:
        raise _mismatch(f"{comparison.operator.value} needs text, but {name.name} is {field.value}")
    values = tuple(_literal(name, value, field) for value in comparison.values)
    return replace(comparison, values=values)


def _literal(name: Property, value: Scalar, field: FieldType) -> Scalar:
    if field is FieldType.ID and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
        return int(value)
    if field is FieldType.STRING:
        fits = isinstance(value, str)
    elif field is FieldType.BOOLEAN:
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits:
        shown = f"'{value}'" if isinstance(value, str) else str(value).lower()
        raise _mismatch(f"{name.name} is {field.value} and cannot be compared with {shown}")
    return value


def _mismatch(detail: str) -> FilterError:
    return FilterError(f"invalid filter query, type mismatch or invalid value in comparison: {detail}")


def check_custom(comparison: Comparison) -> None:
    """Whether the literals of a comparison with a free property can be compared with its type suffix at all."""
    suffix = comparison.subject.type
    if comparison.operator.is_pattern and not isinstance(comparison.value, str):
        raise _mismatch(f"{comparison.operator.value} needs text, for example '{comparison.value}%'")
    if suffix is None or suffix == "array_value":
        return
    field = {"string_value": FieldType.STRING, "bool_value": FieldType.BOOLEAN}.get(suffix, FieldType.NUMBER)
    if comparison.operator.is_pattern and field is not FieldType.STRING:
        raise _mismatch(f"{comparison.operator.value} needs text, but {comparison.subject} is {field.value}")
    for value in comparison.values:
        _literal(comparison.subject, value, field)


class PatternPart(Enum):
    """The two wild cards of a pattern."""

    ANY = "%"
    ONE = "_"


def pattern_parts(pattern: str) -> list[str | PatternPart]:
    """A LIKE pattern as literal characters and wild cards. A backslash makes the next character literal; a last one is itself."""
    parts: list[str | PatternPart] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            parts.append(next(characters, "\\"))
        elif character in "%_":
            parts.append(PatternPart(character))
        else:
            parts.append(character)
    return parts


def pattern_regex(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    """The pattern as a regular expression for a whole text.

    A piece between two `%` may always match where it first can, so it is never tried elsewhere: else a pattern with many `%` would take
    longer than anybody waits."""
    pieces = [""]
    for part in pattern_parts(pattern):
        if part is PatternPart.ANY:
            pieces.append("")
        else:
            pieces[-1] += "." if part is PatternPart.ONE else re.escape(str(part))
    first, *middle = pieces
    text = first
    if middle:
        text += "".join(f"(?>.*?{piece})" for piece in middle[:-1] if piece) + f".*{middle[-1]}"
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def evaluate(query: Query, values: Callable[[Property], Sequence[Stored]]) -> bool:
    """Whether an object matches. `values` gives what the object has under a property: nothing, one value, or several."""
    if isinstance(query, Comparison):
        return any(holds(query, value) for value in values(query.subject))
    if isinstance(query, Both):
        return all(evaluate(term, values) for term in query.terms)
    return any(evaluate(term, values) for term in query.terms)


def holds(comparison: Comparison, stored: Stored) -> bool:
    """Whether one stored value satisfies a comparison; a value of another type than the literal never does."""
    if not isinstance(stored, str | int | float):
        return comparison.subject.type in (None, "array_value") and any(holds(comparison, item) for item in stored)
    suffix = comparison.subject.type
    if suffix not in (None, "array_value") and suffix != _suffix(stored):
        return False
    operator = comparison.operator
    if operator is Operator.IN:
        return any(_comparable(value, stored) and value == stored for value in comparison.values)
    value = comparison.value
    if operator.is_pattern:
        if not isinstance(stored, str) or not isinstance(value, str):
            return False
        return pattern_regex(value, ignore_case=operator is Operator.ILIKE).fullmatch(stored) is not None
    return _comparable(value, stored) and _COMPARE[operator](stored, value)


def _suffix(stored: Scalar) -> str:
    names = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    return names[type(stored)]


def _comparable(value: Scalar, stored: Scalar) -> bool:
    def group(scalar: Scalar) -> type:
        return float if isinstance(scalar, int | float) and not isinstance(scalar, bool) else type(scalar)

    return group(value) is group(stored)
