"""Sets of field paths, kept in the shape of Kubernetes' FieldsV1, so that reading and writing them costs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from modelyard.kube.schema import Schema

Fields: TypeAlias = dict[str, Any]
"""A node of a set: path element -> node. A node is a member of the set if it is empty or has the entry `.`.

Path elements are FieldsV1's: `f:name`, `k:{"name":"app"}`, `v:"x"`, `i:0`. Nodes are shared and never changed."""

LEAF: Fields = {}


class FieldSet:
    """An immutable set of field paths."""

    __slots__ = ("root",)

    def __init__(self, root: Fields | None = None) -> None:
        self.root: Fields = {} if root is None else root

    @classmethod
    def parse(cls, fields_v1: Mapping[str, Any] | None) -> FieldSet:
        """Read FieldsV1 from outside, in any order and spacing; element types that are not known are left out."""
        return cls(_normal(fields_v1)) if fields_v1 else cls()

    @classmethod
    def fields(cls, *paths: str) -> FieldSet:
        """A set of plain fields by dotted path, such as `metadata.name`."""
        found = cls()
        for path in paths:
            node: Fields = LEAF
            for name in reversed(path.split(".")):
                node = {f"f:{name}": node}
            found = found | cls(node)
        return found

    def to_dict(self) -> Fields:
        """FieldsV1 in Kubernetes' order."""
        return ordered(self.root)

    def __bool__(self) -> bool:
        return bool(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.root == other.root

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict()))

    def __or__(self, other: FieldSet) -> FieldSet:
        return FieldSet(union(self.root, other.root))

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(intersection(self.root, other.root))

    def __sub__(self, other: FieldSet) -> FieldSet:
        """Without exactly these paths; what lies below them stays."""
        return FieldSet(difference(self.root, other.root))

    def without(self, other: FieldSet) -> FieldSet:
        """Without these paths and all that lies below them."""
        return FieldSet(recursive_difference(self.root, other.root))

    def __contains__(self, path: tuple[str, ...]) -> bool:
        node = self.root
        for element in path:
            found = node.get(element)
            if found is None:
                return False
            node = found
        return not node or "." in node

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Each member's path, in Kubernetes' order."""
        return members(self.root)

    def __len__(self) -> int:
        return sum(1 for _ in self.paths())

    def __str__(self) -> str:
        return "\n".join(map(path_text, self.paths()))

    def __repr__(self) -> str:
        return f"FieldSet({self.root!r})"


def union(a: Fields, b: Fields) -> Fields:
    """The union of two roots."""
    if not a or a is b:
        return b
    if not b:
        return a
    out = dict(a)
    for element, node in b.items():
        mine = out.get(element)
        if mine is None:
            out[element] = node
        elif mine is not node:
            out[element] = _union(mine, node)
    return out


def _union(a: Fields, b: Fields) -> Fields:
    if a == b:
        return a
    if not a:
        return b if "." in b else {".": LEAF, **b}
    if not b:
        return a if "." in a else {".": LEAF, **a}
    return union(a, b)


def _node(out: Fields, member: bool) -> Fields | None:
    """A node from its children; nothing where it would be empty."""
    if not out:
        return LEAF if member else None
    return {".": LEAF, **out} if member else out


def intersection(a: Fields, b: Fields) -> Fields:
    out: Fields = {}
    if len(b) < len(a):
        a, b = b, a
    for element, node in a.items():
        other = b.get(element)
        if other is None or element == ".":
            continue
        member = (not node or "." in node) and (not other or "." in other)
        shared = _node(intersection(node, other) if node and other else LEAF, member)
        if shared is not None:
            out[element] = shared
    return out


def difference(a: Fields, b: Fields) -> Fields:
    if not b:
        return a
    out: Fields = {}
    for element, node in a.items():
        if element == ".":
            continue
        other = b.get(element)
        if other is None:
            out[element] = node
            continue
        member = (not node or "." in node) and not (not other or "." in other)
        children = difference(node, other) if node else LEAF
        if "." in children:
            children = {key: each for key, each in children.items() if key != "."}
        left = _node(children, member)
        if left is not None:
            out[element] = left
    return out


def recursive_difference(a: Fields, b: Fields) -> Fields:
    if not b:
        return a
    out: Fields = {}
    for element, node in a.items():
        if element == ".":
            continue
        other = b.get(element)
        if other is None:
            out[element] = node
        elif other and "." not in other:
            left = _node(recursive_difference(node, other), not node or "." in node)
            if left is not None:
                out[element] = left
    return out


def with_named_fields(fields: Fields, schema: Schema | None) -> Fields:
    """The set with every named field on the way to a member made a member too."""
    out: Fields = {}
    for element, node in fields.items():
        if not node or schema is None:
            out[element] = node
            continue
        kind, name = element[0], element[2:]
        child: Schema | None = None
        named = False
        if kind == "f":
            child = schema.fields.get(name)
            named = child is not None
            child = child or schema.values
        elif kind == "k":
            child = schema.items
        below = with_named_fields(node, child)
        out[element] = {".": LEAF, **below} if named and "." not in below else below
    return out


def members(fields: Fields, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    elements = [element for element in _sorted(fields) if element != "."]
    for element in elements:
        node = fields[element]
        if not node or "." in node:
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from members(fields[element], (*prefix, element))


def ordered(fields: Fields) -> Fields:
    """The same node with its entries in Kubernetes' order."""
    if len(fields) == 1:
        for element, node in fields.items():
            return {element: ordered(node) if node else LEAF}
    found: Fields = {}
    for element in _sorted(fields):
        node = fields[element]
        found[element] = ordered(node) if node else LEAF
    return found


def _sorted(fields: Fields) -> list[str]:
    names = sorted(fields)
    # Plain fields sort as text; keys and values sort by what they hold.
    return sorted(names, key=_order) if len(names) > 1 and names[-1][0] in "ikv" else names


@lru_cache(maxsize=4096)
def _order(element: str) -> tuple[int, Any]:
    kind = element[0]
    if kind == "k":
        return 2, [(name, _rank(value)) for name, value in json.loads(element[2:]).items()]
    if kind == "v":
        return 3, _rank(json.loads(element[2:]))
    if kind == "i":
        return 4, int(element[2:])
    return (0, element) if kind == "." else (1, element)


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, json.dumps(value))


def _normal(fields: Mapping[str, Any]) -> Fields:
    out: Fields = {}
    for element, node in fields.items():
        if element == ".":
            out["."] = LEAF
        elif element[:2] in ("f:", "k:", "v:", "i:"):
            below = _normal(node) if node else LEAF
            # A node that says only that it is a member is a leaf.
            out[_canonical(element)] = LEAF if len(below) == 1 and "." in below else below
    return out


def _canonical(element: str) -> str:
    match element[0]:
        case "k":
            keys = json.loads(element[2:])
            return "k:{" + ",".join(f"{json_text(name)}:{json_text(keys[name])}" for name in sorted(keys)) + "}"
        case "v":
            return "v:" + json_text(json.loads(element[2:]))
        case _:
            return element


def json_text(value: object) -> str:
    """JSON as Go writes it."""
    return _string_text(value) if type(value) is str else _escaped(msgspec.json.encode(value).decode())


@lru_cache(maxsize=2048)
def _string_text(value: str) -> str:
    return _escaped(msgspec.json.encode(value).decode())


def _escaped(text: str) -> str:
    if "<" in text or ">" in text or "&" in text or "\u2028" in text or "\u2029" in text:
        for char in "<>&\u2028\u2029":
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def path_text(path: tuple[str, ...]) -> str:
    """A path as Kubernetes' messages show it: `.spec.containers[name="app"].image`."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    kind, rest = element[0], element[2:]
    match kind:
        case "f":
            return "." + rest
        case "k":
            return "[" + ",".join(f"{name}={_shown(value)}" for name, value in json.loads(rest).items()) + "]"
        case "v":
            return f"[={_shown(json.loads(rest))}]"
        case _:
            return f"[{rest}]"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
