"""What the type of `self` is to CEL: property names as rules spell them, which fields exist, and data made ready for evaluation."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from cel_expr_python import cel

from modelyard.local.apiserver.cel.syntax import Expr, Syntax, walk
from modelyard.local.apiserver.structural.nodes import Node, read_schema

RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL = re.compile(r"__|[-./]")


def escape(name: str) -> str | None:
    """A property's name in a rule; None for a name that no rule can use."""
    if name in RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", name, re.ASCII):
        return None
    return _SPECIAL.sub(lambda match: _ESCAPED[match[0]], name)


def rule_type(node: Node) -> Any:
    """The CEL type of a value, as far as the library can be told: an object is dynamic, its fields are checked by
    `undefined_fields`; so are dates inside of others, which are text until the expression converts them."""
    if node.int_or_string:
        return cel.Type.DYN
    if node.type == "array" and node.items is not None:
        return cel.Type.List(_inner_type(node.items))
    if node.type == "object" and node.additional is not None:
        return cel.Type.Map(cel.Type.STRING, _inner_type(node.additional))
    if node.type == "string":
        return _FORMAT_TYPES.get(node.raw.get("format") or "", cel.Type.STRING)
    return _TYPES.get(node.type, cel.Type.DYN)


def _inner_type(node: Node) -> Any:
    return cel.Type.DYN if node.type == "string" and node.raw.get("format") in _FORMAT_TYPES else rule_type(node)


_TYPES = {"boolean": cel.Type.BOOL, "number": cel.Type.DOUBLE, "integer": cel.Type.INT}
_FORMAT_TYPES = {
    "byte": cel.Type.BYTES, "duration": cel.Type.DURATION, "date": cel.Type.TIMESTAMP, "date-time": cel.Type.TIMESTAMP,
}  # fmt: skip


def is_typed(node: Node | None) -> bool:
    """Whether CEL sees a value of this schema at all."""
    if node is None:
        return False
    if node.int_or_string:
        return True
    if node.type == "array":
        return is_typed(node.items)
    if node.type == "object" and node.additional is not None:
        return is_typed(node.additional)
    return bool(node.type)


def resource_root(node: Node) -> Node:
    """The node of a resource as rules see it: with kind, apiVersion and the metadata that rules may read."""
    string = read_schema({"type": "string"})
    metadata = read_schema({"type": "object"})
    metadata.properties = {"name": string, "generateName": string}
    root = copy(node)
    root.properties = node.properties | {"kind": string, "apiVersion": string, "metadata": metadata}
    return root


def undefined_fields(text: str, syntax: Syntax, variables: Mapping[str, Node]) -> list[str]:
    """The uses of fields that the schema does not have, each worded as the compiler words its findings."""
    found: list[tuple[int, str]] = []
    _shape(syntax.root, dict(variables), syntax.positions, found)
    return [_located(text, position, problem) for position, problem in dict.fromkeys(found)]


_CONVERSIONS = {"byte": "base64.decode", "duration": "duration", "date": "dateToTimestamp", "date-time": "timestamp"}


def conversions(syntax: Syntax, variables: Mapping[str, Node]) -> dict[int, str]:
    """Which sub-expressions give text where the schema says date, duration or bytes, and the function that converts it.

    A variable that is such a value itself is converted before the evaluation."""
    shapes: dict[int, Node] = {}
    _shape(syntax.root, dict(variables), syntax.positions, [], shapes)
    found = {}
    for expr in walk(syntax.root):
        node = shapes.get(expr.id)
        if node is None or node.type != "string" or expr.test_only or (expr.kind == "ident" and expr.name in variables):
            continue
        if function := _CONVERSIONS.get(node.raw.get("format") or ""):
            found[expr.id] = function
    return found


def _located(text: str, position: int, problem: str) -> str:
    before = text[:position]
    line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1)
    source = text.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {problem}\n | {source}\n | {'.' * column}^"


def _shape(
    expr: Expr,
    variables: dict[str, Node | None],
    positions: Mapping[int, int],
    out: list[tuple[int, str]],
    shapes: dict[int, Node] | None = None,
) -> Node | None:
    """The schema of an expression's value where it is known; None elsewhere, which allows everything."""
    node = _shape_of(expr, variables, positions, out, shapes)
    # Of a choice only the branches hold a field's text.
    if shapes is not None and node is not None and expr.name != "_?_:_":
        shapes[expr.id] = node
    return node


def _shape_of(
    expr: Expr,
    variables: dict[str, Node | None],
    positions: Mapping[int, int],
    out: list[tuple[int, str]],
    shapes: dict[int, Node] | None,
) -> Node | None:
    match expr.kind:
        case "ident":
            return variables.get(expr.name)
        case "select":
            operand = _shape(expr.parts[0], variables, positions, out, shapes)
            return _field(operand, expr.name, positions.get(expr.id, 0), out)
        case "comprehension":
            over = _shape(expr.parts[0], variables, positions, out, shapes)
            inner = dict(variables)
            inner[expr.variables[0]] = over.items if over is not None and over.type == "array" else None
            inner[expr.variables[1]] = None
            _shape(expr.parts[1], variables, positions, out, shapes)
            for part in expr.parts[2:]:
                _shape(part, inner, positions, out, shapes)
            return None
    inner_shapes = [_shape(part, variables, positions, out, shapes) for part in expr.parts]
    if expr.kind == "call":
        if expr.name == "_?_:_":
            return inner_shapes[1] or inner_shapes[2]
        if expr.name in ("_[_]", "_[?_]") and inner_shapes[0] is not None:
            return inner_shapes[0].items or inner_shapes[0].additional if expr.name == "_[_]" else None
        if expr.name == "_?._" and inner_shapes[0] is not None:
            _field(inner_shapes[0], expr.parts[1].name, positions.get(expr.id, 0), out)
    return None


def _field(node: Node | None, name: str, position: int, out: list[tuple[int, str]]) -> Node | None:
    if node is None or node.int_or_string:
        return None
    if node.type != "object":
        if node.type in ("string", "integer", "number", "boolean", "array"):
            out.append((position, f"type '{type_name(node)}' does not support field selection"))
        return None
    if node.additional is not None:
        return node.additional
    for property_name, child in node.properties.items():
        if escape(property_name) == name and is_typed(child):
            return child
    out.append((position, f"undefined field '{name}'"))
    return None


def type_name(node: Node) -> str:
    """A type as the compiler prints it."""
    if node.type == "array":
        return f"list({type_name(node.items)})" if node.items else "list(dyn)"
    names = {"integer": "int", "number": "double", "boolean": "bool", "object": "object", "string": "string"}
    return names.get(node.type, "dyn")


Uses = dict[str, "Uses"]
"""Which fields of a value a rule reads, as a tree; None in its place: all of it."""


def uses_of(variable: str, syntax: Syntax) -> Uses | None:
    """What an expression reads of a variable: evaluation copies only that."""
    uses: Uses = {}
    return uses if _collect(syntax.root, variable, uses) else None


def _collect(expr: Expr, variable: str, uses: Uses) -> bool:
    """Adds the fields read; false when the variable is used as a whole."""
    if expr.kind == "ident":
        return expr.name != variable
    if expr.kind == "select":
        chain = [expr]
        while chain[-1].parts[0].kind == "select":
            chain.append(chain[-1].parts[0])
        bottom = chain[-1].parts[0]
        if bottom.kind == "ident" and bottom.name == variable:
            _mark([link.name for link in reversed(chain)], uses, whole=not expr.test_only)
            return True
    return all(_collect(part, variable, uses) for part in expr.parts)


_WHOLE: Uses = {"": {}}
"""Marks a field of which everything is read."""


def _mark(path: list[str], uses: Uses, *, whole: bool) -> None:
    for name in path:
        uses = uses.setdefault(name, {})
    if whole:
        uses.update(_WHOLE)


def merged(first: Uses | None, second: Uses | None) -> Uses | None:
    """What two expressions read together."""
    if first is None or second is None:
        return None
    return {name: merged(first.get(name, {}), second.get(name, {})) or {} for name in {**first, **second}}


View = Callable[[Any], Any]


def compile_view(node: Node, uses: Uses | None) -> View | None:
    """How a value is made ready for CEL: only what is read, names escaped, whole numbers of `number` as floats. None: as it is."""
    if node.type == "string":
        # Only the value itself: the library takes no dates inside of others; there the expression converts.
        return _SCALAR_VIEWS.get(node.raw.get("format") or "")
    return _inner_view(node, uses)


def _inner_view(node: Node, uses: Uses | None) -> View | None:
    if uses is not None and "" not in uses and node.type == "object" and node.additional is None:
        return _object_view(node, uses)
    return _whole_view(node)


def _object_view(node: Node, uses: Uses | None) -> View:
    fields: list[tuple[str, str, View | None]] = []
    for name, child in node.properties.items():
        escaped = escape(name)
        if escaped is None or not is_typed(child) or (uses is not None and escaped not in uses):
            continue
        below = None if uses is None else uses[escaped]
        view = _whole_view(child) if below is None or "" in below else _inner_view(child, below)
        fields.append((name, escaped, view))

    def view_object(value: Any) -> Any:
        if type(value) is not dict:
            return value
        # A null counts as absent: `has()` is false for it.
        return {
            escaped: value[name] if view is None else view(value[name])
            for name, escaped, view in fields
            if value.get(name) is not None
        }

    return view_object


def _whole_view(node: Node) -> View | None:
    if node.int_or_string:
        return None
    match node.type:
        case "number":
            return lambda value: float(value) if type(value) is int else value
        case "array":
            item = _whole_view(node.items) if node.items else None
            return None if item is None else lambda value: [None if v is None else item(v) for v in value]
        case "object" if node.additional is not None:
            child = _whole_view(node.additional)
            return (
                None if child is None else lambda value: {k: None if v is None else child(v) for k, v in value.items()}
            )
        case "object":
            plain = all(
                escape(name) == name
                and is_typed(child)
                and not child.raw.get("nullable")
                and _whole_view(child) is None
                for name, child in node.properties.items()
            )
            return None if plain and not node.preserve else _object_view(node, None)
    return None


def _moment(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def _span(value: Any) -> Any:
    parts = re.findall(r"([0-9.]+)(ns|us|µs|ms|s|m|h)", str(value))
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return timedelta(seconds=-seconds if str(value).startswith("-") else seconds)


def _bytes(value: Any) -> Any:
    return base64.b64decode(value)


_SCALAR_VIEWS: dict[str, View] = {"byte": _bytes, "duration": _span, "date": _moment, "date-time": _moment}
