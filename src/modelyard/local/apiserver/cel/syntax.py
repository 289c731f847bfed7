"""A compiled CEL expression as a tree, read from the library's serialised form, so that rules can be checked against schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from modelyard.local.apiserver.wire import fields_of


@dataclass(slots=True)
class Expr:
    """One node. `kind` is const, ident, select, call, list, struct or comprehension."""

    kind: str
    id: int = 0
    name: str = ""
    """The identifier, the selected field, the called function, or the text of a string constant."""
    parts: list[Expr] = field(default_factory=list)
    """Operand, target and arguments, elements; of a comprehension: range, initial value, condition, step, result."""
    test_only: bool = False
    """A select that is `has(...)`."""
    variables: tuple[str, str] = ("", "")
    """Of a comprehension: the iteration variable and the accumulator."""
    type: str = ""
    """Of a constant."""


@dataclass(frozen=True, slots=True)
class Syntax:
    root: Expr
    positions: dict[int, int]
    """Where each expression is in the text."""

    def names(self) -> set[str]:
        """The free identifiers."""
        return {expr.name for expr in walk(self.root) if expr.kind == "ident"}


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for part in expr.parts:
        yield from walk(part)


def read_syntax(serialised: bytes) -> Syntax:
    """From `Expression.serialize()`: an `Any` message that holds a CheckedExpr."""
    checked = next(value for number, value in fields_of(serialised) if number == 2 and isinstance(value, bytes))
    root, positions = Expr("const"), dict[int, int]()
    for number, value in fields_of(checked):
        if number == 4 and isinstance(value, bytes):
            root = _expr(value)
        elif number == 5 and isinstance(value, bytes):
            positions = _positions(value)
    return Syntax(root, positions)


def _messages(data: bytes) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for number, value in fields_of(data):
        if isinstance(value, bytes):
            found.setdefault(number, []).append(value)
    return found


def _positions(data: bytes) -> dict[int, int]:
    positions = {}
    for number, value in fields_of(data):
        if number == 4 and isinstance(value, bytes):
            entry = {key: item for key, item in fields_of(value) if isinstance(item, int)}
            positions[entry.get(1, 0)] = entry.get(2, 0)
    return positions


def _expr(data: bytes) -> Expr:
    identity, result = 0, Expr("const")
    for number, value in fields_of(data):
        if number == 2 and isinstance(value, int):
            identity = value
        elif isinstance(value, bytes) and number in _READERS:
            result = _READERS[number](value)
    result.id = identity
    return result


def _const(data: bytes) -> Expr:
    for number, value in fields_of(data):
        text = value.decode(errors="replace") if number in (6, 7) and isinstance(value, bytes) else ""
        return Expr("const", name=text, type=_CONSTANTS.get(number, ""))
    return Expr("const")


_CONSTANTS = {
    1: "null", 2: "bool", 3: "int", 4: "int", 5: "double", 6: "string", 7: "bytes", 8: "duration", 9: "timestamp",
}  # fmt: skip


def _ident(data: bytes) -> Expr:
    return Expr("ident", name=_messages(data)[1][0].decode())


def _select(data: bytes) -> Expr:
    fields = _messages(data)
    test_only = any(number == 3 and value for number, value in fields_of(data))
    return Expr("select", name=fields[2][0].decode(), parts=[_expr(fields[1][0])], test_only=test_only)


def _call(data: bytes) -> Expr:
    fields = _messages(data)
    parts = [_expr(item) for number in (1, 3) for item in fields.get(number, ())]
    return Expr("call", name=fields[2][0].decode(), parts=parts)


def _list(data: bytes) -> Expr:
    return Expr("list", parts=[_expr(item) for item in _messages(data).get(1, ())])


def _struct(data: bytes) -> Expr:
    parts = []
    for entry in _messages(data).get(2, ()):
        fields = _messages(entry)
        parts += [_expr(item) for number in (3, 4) for item in fields.get(number, ())]
    return Expr("struct", parts=parts)


def _comprehension(data: bytes) -> Expr:
    fields = _messages(data)
    parts = [_expr(fields[number][0]) if number in fields else Expr("const") for number in (2, 4, 5, 6, 7)]
    variables = (fields.get(1, [b""])[0].decode(), fields.get(3, [b""])[0].decode())
    return Expr("comprehension", parts=parts, variables=variables)


_READERS = {3: _const, 4: _ident, 5: _select, 6: _call, 7: _list, 8: _struct, 9: _comprehension}
