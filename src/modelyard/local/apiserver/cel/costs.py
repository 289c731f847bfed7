"""What a CEL expression can cost at most, in the units and by the reckoning of Kubernetes' own interpreter. Pure.

Nothing is evaluated: sizes come from the limits in the schema, so a rule that may take too long is refused when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from modelyard.local.apiserver.cel.sizes import STRING, Size
from modelyard.local.apiserver.cel.syntax import Expr

MOST = 2**64 - 1
"""What is not known to have an end."""
_TRAVERSAL = 0.1
_REGEX = 0.25
_BASE_OF_LIST, _BASE_OF_MAP = 10, 30
_ACCUMULATORS = ("__result__", "@result")
_LONGEST_FORMAT = 128
_SCALARS = frozenset(("bool", "int", "double", "duration", "timestamp"))
_DYN = Size("dyn")
_UNTYPED = Size("other")
Path = tuple[str, ...]
"""How a value is reached: a variable, then fields, `@items`, `@values` and `@keys`. Empty: it is computed."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What is known of the value of an expression."""

    cost: int
    type: Size
    path: Path = ()
    size: int | None = None
    """Where the expression itself tells; else the path or the type may."""
    inner: int | None = None
    """The size of each element, where that is known."""


@dataclass(slots=True)
class _Reckoning:
    root: Size
    variables: dict[str, _Value] = field(default_factory=dict)

    def along(self, path: Path) -> Size | None:
        found: Size | None = self.root
        for name in path[1:]:
            found = found.at(name) if found is not None else None
        return found

    def size(self, value: _Value) -> int:
        """Of a value in characters, items or entries."""
        known = self.known_size(value)
        return MOST if known is None else known

    def known_size(self, value: _Value) -> int | None:
        if value.size is not None:
            return value.size
        if value.path and value.path[0] not in _ACCUMULATORS and (found := self.along(value.path)) is not None:
            return found.most
        return 1 if value.type.type in _SCALARS else None


def most_cost(root: Expr, of_self: Size) -> int:
    """Of evaluating an expression once. `of_self` is what `self` and `oldSelf` are."""
    return _value(root, _Reckoning(of_self)).cost


def _value(expr: Expr, reckoning: _Reckoning) -> _Value:
    match expr.kind:
        case "const":
            return _constant(expr)
        case "ident":
            return _identifier(expr.name, reckoning)
        case "select":
            return _selection(expr, reckoning)
        case "call":
            return _call(expr, reckoning)
        case "list":
            return _list(expr, reckoning)
        case "struct":
            parts = [_value(part, reckoning) for part in expr.parts]
            return _Value(_sum(parts) + _BASE_OF_MAP, Size("map", element=_DYN), size=len(parts) // 2)
    return _binding(expr, reckoning) if _is_binding(expr) else _loop(expr, reckoning)


def _sum(values: Iterable[_Value]) -> int:
    return min(MOST, sum(value.cost for value in values))


def _constant(expr: Expr) -> _Value:
    if expr.type in ("string", "bytes"):
        return _Value(0, Size(expr.type), size=len(expr.name))
    return _Value(0, Size(expr.type), size=1)


def _identifier(name: str, reckoning: _Reckoning) -> _Value:
    if (known := reckoning.variables.get(name)) is not None:
        size = known.size
        if known.path and known.path[0] not in _ACCUMULATORS and (found := reckoning.along(known.path)) is not None:
            size = found.most
        return replace(known, cost=1, size=size)
    return _Value(1, reckoning.root if name in ("self", "oldSelf") else _UNTYPED, (name,))


def _selection(expr: Expr, reckoning: _Reckoning) -> _Value:
    operand = _value(expr.parts[0], reckoning)
    if expr.test_only:
        return _Value(min(MOST, operand.cost + 1), Size("bool"))
    below = operand.type.element if operand.type.type == "map" else operand.type.fields.get(expr.name)
    priced = operand.type.type in ("map", "object")
    return _Value(min(MOST, operand.cost + priced), below or _DYN, (*operand.path, expr.name))


def _list(expr: Expr, reckoning: _Reckoning) -> _Value:
    parts = [_value(part, reckoning) for part in expr.parts]
    inner = max((reckoning.size(part) for part in parts), default=0)
    element = parts[0].type if parts else _DYN
    return _Value(_sum(parts) + _BASE_OF_LIST, Size("list", element=element), size=len(parts), inner=inner)


# Comprehensions


def _is_binding(expr: Expr) -> bool:
    """`cel.bind`: a loop over nothing whose accumulator is the variable."""
    over, _, condition, _, _ = expr.parts
    nothing = over.kind == "list" and not over.parts
    return nothing and condition.kind == "const" and expr.variables[1] not in _ACCUMULATORS


def _binding(expr: Expr, reckoning: _Reckoning) -> _Value:
    over, initial, _, _, result = expr.parts
    spent, bound = _value(over, reckoning), _value(initial, reckoning)
    with_it = _with(reckoning, {expr.variables[1]: replace(bound, size=reckoning.known_size(bound))})
    made = _value(result, with_it)
    return replace(made, cost=min(MOST, spent.cost + bound.cost + made.cost), path=(), size=reckoning.known_size(made))


def _loop(expr: Expr, reckoning: _Reckoning) -> _Value:
    over, initial, condition, step, result = expr.parts
    spanned, begun = _value(over, reckoning), _value(initial, reckoning)
    accumulator = replace(begun, size=reckoning.known_size(begun))
    of_list = spanned.type.type == "list"
    element = (spanned.type.element or _DYN) if of_list else STRING if spanned.type.type == "map" else _DYN
    each = _Value(1, element, (*spanned.path, "@items" if of_list else "@keys"), size=spanned.inner)
    outer = _with(reckoning, {expr.variables[1]: accumulator})
    inner = _with(outer, {expr.variables[0]: each})
    round_ = _value(condition, inner), _value(step, inner)
    ended = _value(result, outer)
    count = reckoning.size(spanned)
    cost = min(MOST, _sum((spanned, begun, ended)) + min(MOST, count * _sum(round_)))
    if initial.kind == "list":
        return _Value(cost, round_[1].type, size=count, inner=round_[1].inner)
    return _Value(cost, ended.type, size=accumulator.size)


def _with(reckoning: _Reckoning, variables: Mapping[str, _Value]) -> _Reckoning:
    return _Reckoning(reckoning.root, {**reckoning.variables, **variables})


# Calls


@dataclass(frozen=True, slots=True)
class _Made:
    """What a call takes beside its arguments, and the size of its result."""

    cost: int
    size: int | None = None


def _call(expr: Expr, reckoning: _Reckoning) -> _Value:
    args = [_value(part, reckoning) for part in expr.parts]
    spent = _sum(args)
    name = expr.name
    if name == "dyn":
        return replace(args[0], cost=min(MOST, spent + 1), type=_DYN, path=(), size=reckoning.known_size(args[0]))
    if name == "_?_:_":
        return _choice(args, reckoning)
    if name == "_[_]" and args:
        over = args[0].type.type
        path = (*args[0].path, "@items" if over == "list" else "@values") if over in ("list", "map") else ()
        return _Value(min(MOST, spent + 1), args[0].type.element or _DYN, path, size=args[0].inner)
    sizes = [reckoning.size(arg) for arg in args]
    made = _made(name, args, sizes)
    inner = None
    if name == "_+_" and args[0].inner is not None and args[1].inner is not None:
        inner = max(args[0].inner, args[1].inner)
    return _Value(min(MOST, spent + made.cost), _type_of(name, args), size=made.size, inner=inner)


def _choice(args: Sequence[_Value], reckoning: _Reckoning) -> _Value:
    test, yes, no = args
    cost = min(MOST, test.cost + max(yes.cost, no.cost))
    inner = max(yes.inner, no.inner) if yes.inner is not None and no.inner is not None else None
    type = yes.type if yes.type.type not in ("dyn", "null") else no.type
    return _Value(cost, type, size=max(reckoning.size(yes), reckoning.size(no)), inner=inner)


def _made(name: str, args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    if name in _FREE:
        return _Made(0)
    if name in _OF_ONE and args:
        factor, keeps_size = _OF_ONE[name]
        return _Made(_scaled(sizes[0], factor), sizes[0] if keeps_size else None)
    if name in _OF_ELEMENTS and args:
        return _Made(_of_elements(name, args[0], sizes[0]))
    if (reckon := _OTHERS.get(name)) is not None and len(args) > 1:
        return reckon(args, sizes)
    if name in _CONVERSIONS and args and args[0].type.type in (_CONVERSIONS[name][0], "dyn", "other"):
        return _Made(_scaled(sizes[0], _TRAVERSAL), min(MOST, sizes[0] * _CONVERSIONS[name][1]))
    return _Made(1)


def _scaled(size: int, factor: float) -> int:
    return MOST if size >= MOST else min(MOST, ceil(size * factor))


def _of_elements(name: str, target: _Value, size: int) -> int:
    if target.type.type != "list":
        return size if name == "includes" else _scaled(size, _TRAVERSAL)
    texts = target.type.element is not None and target.type.element.type in ("string", "bytes")
    return min(MOST, size * (1 + (_scaled(_of_each(target), _TRAVERSAL) if texts else 0)))


def _of_each(target: _Value) -> int:
    """The size of an element. Of a list that is made on the way nothing is known."""
    return target.type.element.most if target.path and target.type.element is not None else MOST


def _both(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    """A comparison ends with the shorter of the two."""
    return _Made(_scaled(min(sizes), _TRAVERSAL))


def _order(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    types = {arg.type.type for arg in args}
    if types & _SCALARS:
        return _Made(1)
    return _Made(max(1 if "dyn" in types else 0, _both(args, sizes).cost))


def _plus(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    types = {arg.type.type for arg in args}
    if types & _SCALARS:
        return _Made(1)
    together = min(MOST, sizes[0] + sizes[1])
    return _Made(1 if "list" in types else max(1 if "dyn" in types else 0, _scaled(together, _TRAVERSAL)), together)


def _contained(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    return _Made(1 if args[1].type.type == "map" else sizes[1])


def _matched(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    text, regex = _scaled(min(MOST, sizes[0] + 1), _TRAVERSAL), _scaled(sizes[1], _REGEX)
    return _Made(min(MOST, text * regex))


def _found(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    return replace(_matched(args, sizes), size=sizes[0])


def _contains(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    return _Made(min(MOST, _scaled(sizes[0], _TRAVERSAL) * _scaled(sizes[1], _TRAVERSAL)))


def _replaced(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    text, new = sizes[0], sizes[2] if len(sizes) > 2 else 0
    shortest_old = args[1].size if args[1].size is not None and not args[1].path else 0
    if shortest_old == 0:
        made = min(MOST, min(MOST, text + 1) * new + text)
    elif new <= shortest_old:
        made = text
    else:
        made = min(MOST, ceil(text / shortest_old) * new)
    return _Made(_scaled(text, 2 * _TRAVERSAL), made)


def _split(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    return _Made(_scaled(sizes[0], 2 * _TRAVERSAL), sizes[0])


def _in_range(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    """Whether a network holds an address or a network: those have at most sixteen bytes; a text is read first."""
    return _Made(7 + (_scaled(sizes[1], _TRAVERSAL) if args[1].type.type in ("string", "dyn") else 0))


def _joined(args: Sequence[_Value], sizes: Sequence[int]) -> _Made:
    each = _of_each(args[0])
    between = sizes[1] * max(0, sizes[0] - 1) if len(sizes) > 1 else 0
    made = min(MOST, sizes[0] * each + between)
    return _Made(_scaled(made, _TRAVERSAL), made)


_FREE = ("_&&_", "_||_")
_OF_ONE = {
    # function: (cost of each character of the first argument, whether the result is as long)
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), (_TRAVERSAL, True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), (_TRAVERSAL, True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), (_TRAVERSAL, False)),
    "ip.isCanonical": (2 * _TRAVERSAL, False),
    "format": (_TRAVERSAL, False),
}  # fmt: skip
_OF_ELEMENTS = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes")
_CONVERSIONS = {"bytes": ("string", 4), "string": ("bytes", 1)}
"""From what type, and how many times as long the result can be."""
_OTHERS: dict[str, Callable[[Sequence[_Value], Sequence[int]], _Made]] = {
    **dict.fromkeys(("_==_", "_!=_"), _both),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_+_": _plus,
    **dict.fromkeys(("@in", "_in_", "in"), _contained),
    "matches": _matched,
    **dict.fromkeys(("find", "findAll"), _found),
    "contains": _contains,
    **dict.fromkeys(("startsWith", "endsWith"), lambda args, sizes: _Made(_scaled(sizes[1], _TRAVERSAL))),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    **dict.fromkeys(("containsIP", "containsCIDR"), _in_range),
    "validate": lambda args, sizes: _Made(_scaled(_scaled(sizes[1], _TRAVERSAL), _LONGEST_FORMAT * _REGEX)),
}
_RESULTS = {
    **dict.fromkeys(("size", "int", "uint", "indexOf", "lastIndexOf"), Size("int")),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "replace", "join", "find", "string", "charAt", "format"), STRING),
    **dict.fromkeys(("split", "findAll"), Size("list", element=STRING)),
    "bytes": Size("bytes"), "double": Size("double"), "duration": Size("duration"), "timestamp": Size("timestamp"),
    **dict.fromkeys(
        ("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "@in", "matches", "contains", "startsWith",
         "endsWith", "isSorted", "includes", "@not_strictly_false", "isIP", "isCIDR", "isQuantity", "isSemver"),
        Size("bool"),
    ),
}  # fmt: skip


def _type_of(name: str, args: Sequence[_Value]) -> Size:
    if name in _RESULTS:
        return _RESULTS[name]
    if name in ("sum", "max", "min") and args:
        return args[0].type.element or _DYN
    if name == "_+_" and args:
        dynamic = args[0].type.type == "dyn" or (args[0].type.type == "list" and args[0].size == 0)
        return args[1].type if dynamic else args[0].type
    if name in ("_-_", "_*_", "_/_", "_%_", "-_") and args:
        return args[0].type
    return _UNTYPED
