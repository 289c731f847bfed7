"""Label and field selectors: parsing with Kubernetes' messages, canonical text, matching."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from modelyard.kube import names


class SelectorError(ValueError):
    """The selector is malformed; the message says where."""


class Operator(StrEnum):
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_BINARY_OPERATORS = (
    Operator.IN, Operator.NOT_IN, Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS, Operator.GREATER_THAN,
    Operator.LESS_THAN,
)  # fmt: skip
_TOKEN_OPERATOR = {
    "in": Operator.IN, "notin": Operator.NOT_IN, "=": Operator.EQUALS, "==": Operator.DOUBLE_EQUALS, "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN, "<": Operator.LESS_THAN,
}  # fmt: skip
_OBJECT_OPERATOR = {
    "In": Operator.IN, "NotIn": Operator.NOT_IN, "Exists": Operator.EXISTS, "DoesNotExist": Operator.DOES_NOT_EXIST,
}  # fmt: skip
_MUST_HAVE = frozenset((Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN))
_MUST_NOT_HAVE = frozenset((Operator.NOT_EQUALS, Operator.NOT_IN))
_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        operator = self.operator
        value = labels.get(self.key)
        if operator in _MUST_HAVE:
            return value is not None and value in self.values
        if operator in _MUST_NOT_HAVE:
            return value is None or value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        if value is None or not _INTEGER(value):
            return False
        return (
            int(value) > int(self.values[0]) if operator is Operator.GREATER_THAN else int(value) < int(self.values[0])
        )

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS_THAN:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator.value}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold; without any, everything matches, unless it is the selector of nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def matches_object(self, obj: Mapping[str, Any]) -> bool:
        return self.matches((obj.get("metadata") or {}).get("labels"))

    @property
    def empty(self) -> bool:
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """The one value that the label must have, if the selector says so."""
        for requirement in self.requirements:
            if requirement.key == key:
                return (
                    requirement.values[0]
                    if requirement.operator in _MUST_HAVE and len(requirement.values) == 1
                    else None
                )
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    """Read a label selector such as `app=web,tier in (a,b),!legacy`."""
    return LabelSelector(_sorted(_Parser(text).requirements())) if text else EVERYTHING


def labels_equal(labels: Mapping[str, str]) -> LabelSelector:
    """The selector that asks for each of these labels."""
    return LabelSelector(_sorted(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()))


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Read a LabelSelector object (`matchLabels`, `matchExpressions`); none at all selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    found = [_checked(key, Operator.EQUALS, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATOR.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(f"{_quoted(expression.get('operator', ''))} is not a valid label selector operator")
        found.append(_checked(expression.get("key", ""), operator, tuple(expression.get("values") or ())))
    return LabelSelector(_sorted(found)) if found else EVERYTHING


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))


def _checked(key: str, operator: Operator, values: tuple[str, ...]) -> Requirement:
    wrong: list[str] = []
    if said := names.label_key(key):
        wrong.append(_invalid("key", key, names.joined(said)))
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            wrong.append(_invalid("values", values, "for 'in', 'notin' operators, values set can't be empty"))
        case Operator.EQUALS | Operator.DOUBLE_EQUALS | Operator.NOT_EQUALS if len(values) != 1:
            wrong.append(_invalid("values", values, "exact-match compatibility requires one single value"))
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            wrong.append(_invalid("values", values, "values set must be empty for exists and does not exist"))
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            if len(values) != 1:
                wrong.append(_invalid("values", values, "for 'Gt', 'Lt' operators, exactly one value is required"))
            wrong += [
                _invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
                for index, value in enumerate(values)
                if not _INTEGER(value)
            ]
        case _:
            pass
    wrong += [
        _invalid(f"values[{index}][{key}]", value, names.joined(said))
        for index, value in enumerate(values)
        if (said := names.label_value(value))
    ]
    if wrong:
        raise SelectorError(wrong[0] if len(wrong) == 1 else f"[{', '.join(dict.fromkeys(wrong))}]")
    return Requirement(key, operator, values)


def _invalid(path: str, value: str | tuple[str, ...], detail: str) -> str:
    shown = (
        _quoted(value)
        if isinstance(value, str)
        else json.dumps(list(value), separators=(",", ":"))
        if value
        else "null"
    )
    return f"{path}: Invalid value: {shown}: {detail}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TOKENS = re.compile(r"[ \t\r\n]+|==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_SPECIAL = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""


class _Parser:
    """A recursive-descent reader of label selectors; an empty token is the end."""

    def __init__(self, text: str) -> None:
        self._tokens = [token for token in _TOKENS.findall(text) if token[0] not in " \t\r\n"]
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while (token := self._peek()) != _END:
            if token in _SPECIAL and token != "!":
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._next()
            if token == _END:
                break
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            following = self._peek()
            if following == _END or (following in _SPECIAL and following != "!"):
                raise SelectorError(f"found '{following}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if key == _END or key in _SPECIAL:
            raise SelectorError(f"found '{key}', expected: identifier")
        if said := names.label_key(key):
            raise SelectorError(_invalid("<nil>", key, names.joined(said)))
        if self._peek() in (_END, ","):
            return Requirement(key, Operator.DOES_NOT_EXIST if absent else Operator.EXISTS)
        if absent:
            # Kubernetes takes `!key` followed by anything else as the end of the requirement.
            return Requirement(key, Operator.DOES_NOT_EXIST)
        token = self._next()
        operator = _TOKEN_OPERATOR.get(token)
        if operator is None:
            expected = ", ".join(each.value for each in _BINARY_OPERATORS)
            raise SelectorError(f"found '{token}', expected: {expected}")
        values = self._set() if operator in (Operator.IN, Operator.NOT_IN) else {self._exact()}
        return _checked(key, operator, tuple(sorted(values)))

    def _set(self) -> set[str]:
        if (token := self._next()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        first = self._peek()
        if first == ")":
            self._next()
            return {""}
        if first == _END or (first in _SPECIAL and first != ","):
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            token = self._next()
            if token == ",":
                if not values:
                    values.add("")
                if self._peek() in (")", ","):
                    values.add("")
                if self._peek() == ")":
                    break
            elif token == _END or token in _SPECIAL:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            else:
                values.add(token)
                following = self._peek()
                if following == ")":
                    break
                if following != ",":
                    raise SelectorError(f"found '{following}', expected: ',' or ')'")
        self._next()
        return values

    def _exact(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._next()
        if token in _SPECIAL:
            raise SelectorError(f"found '{token}', expected: identifier")
        return token


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field, named by its path such as `metadata.name`."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions on fields that must all hold; which fields a kind offers is for the API to say."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields, given by path, fulfil the selector; a missing one counts as empty."""
        return all((fields.get(each.field, "") == each.value) is each.equal for each in self.requirements)

    def matches_object(self, obj: Mapping[str, Any]) -> bool:
        """The same, with the values read from an object at each path."""
        return all((field_value(obj, each.field) == each.value) is each.equal for each in self.requirements)

    def exact(self, field: str) -> str | None:
        for each in self.requirements:
            if each.field == field and each.equal:
                return each.value
        return None

    @property
    def empty(self) -> bool:
        return not self.requirements

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def field_value(obj: Mapping[str, Any], path: str) -> str:
    """The value at a dotted path as a field selector sees it: text, and empty where there is none."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            return ""
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    """Read a field selector such as `metadata.name=web,status.phase!=Running`."""
    found: list[FieldRequirement] = []
    for term in sorted(_terms(text)):
        if not term:
            continue
        match = re.search("!=|==|=", term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: match.start()], _unescaped(term[match.end() :])
        # A bare operator asks for nothing.
        if field or value:
            found.append(FieldRequirement(field, value, match[0] != "!="))
    return FieldSelector(tuple(found))


def _terms(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)


def _unescaped(text: str) -> str:
    if not re.search(r"[\\,=]", text):
        return text
    out: list[str] = []
    chars = iter(text)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            out.append(escaped)
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    return "".join(out)
