"""Objects seen through their schema: which fields they set, how two differ, what the merge of one into another is."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from modelyard.kube.fieldsets.sets import LEAF, Fields, FieldSet, json_text, union
from modelyard.kube.schema import DEDUCED, Schema


class TypedError(ValueError):
    """A value does not fit its schema; the message names the field."""


class _Missing:
    """Stands for no value at all; never equal to one."""


_MISSING: Final = _Missing()


class _Several(list[Any]):
    """The items of a list that share one identity."""


class Changes(NamedTuple):
    """How one object differs from another, by field."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def element_of(item: Any, schema: Schema) -> str:
    """The path element of an item of an associative list."""
    if not schema.keys:
        if isinstance(item, dict):
            raise TypedError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise TypedError("not supported: associative list with lists as elements")
        if item is None:
            raise TypedError("associative list without keys has an element that's an explicit null")
        return "v:" + json_text(item)
    if type(item) is not dict:
        what = "a null element" if item is None else "non-map elements"
        raise TypedError(f"associative list with keys may not have {what}")
    parts = []
    for name, prefix, default in schema.item_keys:
        value = item.get(name, _MISSING)
        if value is _MISSING:
            if default is None:
                continue
            value = default
        parts.append(prefix + json_text(value))
    if not parts:
        keys = " ".join(json_text(key) for key in schema.keys)
        raise TypedError(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:{" + ",".join(parts) + "}"


def index(items: list[Any], schema: Schema) -> dict[str, Any]:
    """The items by path element, in order; those that share one are gathered in a `_Several`."""
    found: dict[str, Any] = {}
    for position, item in enumerate(items):
        try:
            element = element_of(item, schema)
        except TypedError as error:
            raise TypedError(f"element {position}: {error}") from None
        if element in found:
            before = found[element]
            if type(before) is _Several:
                before.append(item)
            else:
                found[element] = _Several((before, item))
        else:
            found[element] = item
    return found


def fieldset_of(obj: dict[str, Any], schema: Schema) -> FieldSet:
    """The fields that an object sets: leaves, items of associative lists, keys of maps."""
    return FieldSet(_set_of_map(obj, schema, {}))


def _set_of_map(value: dict[str, Any], schema: Schema, out: Fields) -> Fields:
    fields, values = schema.fields, schema.values or DEDUCED
    for key, each in value.items():
        kind = type(each)
        if kind is dict or kind is list:
            child = fields.get(key)
            start: Fields = {}
            if child is None:
                child = values
                start = {".": LEAF}
            if kind is dict:
                node = _set_of_map(each, child, start) if each and child.granular else LEAF
                if not node and each and child.granular:
                    continue
            elif child.associative:
                node = _set_of_list(each, child, start)
                if not node:
                    continue
            else:
                node = LEAF
            out["f:" + key] = LEAF if len(node) == 1 and "." in node else node
        else:
            out["f:" + key] = LEAF
    return out


def _set_of_list(value: list[Any], schema: Schema, out: Fields) -> Fields:
    items = schema.items or DEDUCED
    for element, item in index(value, schema).items():
        if type(item) is dict and item and items.granular:
            out[element] = _set_of_map(item, items, {".": LEAF})
        else:
            out[element] = LEAF
    return out


def everything(value: Any, schema: Schema) -> Fields:
    """The node of a value that appears or disappears as a whole: each field in it, and what holds them."""
    kind = type(value)
    if kind is dict:
        if not value or not schema.granular:
            return LEAF
        out: Fields = {".": LEAF}
        fields, values = schema.fields, schema.values or DEDUCED
        for key, each in value.items():
            inner = type(each)
            if inner is dict or inner is list:
                out["f:" + key] = everything(each, fields.get(key) or values) if each else LEAF
            else:
                out["f:" + key] = LEAF
        return out
    if kind is list:
        if not value or not schema.associative:
            return LEAF
        out = {".": LEAF}
        items = schema.items or DEDUCED
        for element, item in index(value, schema).items():
            out[element] = LEAF if type(item) is _Several else everything(item, items)
        return out
    return LEAF


def compare(old: dict[str, Any], new: dict[str, Any], schema: Schema) -> Changes:
    """What changed between two objects of one kind."""
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    _compare_maps(old, new, schema, added, modified, removed)
    return Changes(FieldSet(added), FieldSet(modified), FieldSet(removed))


def changed(old: dict[str, Any], new: dict[str, Any], schema: Schema) -> tuple[Fields, Fields]:
    """What was added or modified, in one set, and what was removed."""
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    _compare_maps(old, new, schema, added, modified, removed)
    return union(added, modified), removed


def _compare_maps(
    old: dict[str, Any], new: dict[str, Any], schema: Schema, added: Fields, modified: Fields, removed: Fields
) -> None:
    fields, values = schema.fields, schema.values or DEDUCED
    for key, value in new.items():
        before = old.get(key, _MISSING)
        if before is _MISSING:
            kind = type(value)
            if value and (kind is dict or kind is list):
                added["f:" + key] = everything(value, fields.get(key) or values)
            else:
                added["f:" + key] = LEAF
        elif before is not value and (before != value or (type(before) is bool) is not (type(value) is bool)):
            _compare_values("f:" + key, before, value, fields.get(key) or values, added, modified, removed)
    for key, before in old.items():
        if key not in new:
            removed["f:" + key] = everything(before, fields.get(key) or values)


def _compare_values(
    element: str, old: Any, new: Any, schema: Schema, added: Fields, modified: Fields, removed: Fields
) -> None:
    """Two different values at one path."""
    old_kind, new_kind = type(old), type(new)
    if (old or new) and schema.granular and _each_is(dict, old, new):
        more: Fields = {}
        other: Fields = {}
        less: Fields = {}
        _compare_maps(old or {}, new or {}, schema, more, other, less)
    elif (old or new) and schema.associative and _each_is(list, old, new):
        more, other, less = {}, {}, {}
        _compare_lists(old or [], new or [], schema, more, other, less)
    else:
        modified[element] = LEAF
        # Where the schema leaves the type open, a map that turns into something else also loses its keys, and the reverse.
        if schema.granular and old_kind is not new_kind:
            if old_kind is dict and old:
                removed[element] = _below(everything(old, schema))
            if new_kind is dict and new:
                added[element] = _below(everything(new, schema))
        return
    if more:
        added[element] = more
    if other:
        modified[element] = other
    if less:
        removed[element] = less


def _each_is(kind: type, old: Any, new: Any) -> bool:
    return (old is None or type(old) is kind) and (new is None or type(new) is kind)


def _below(node: Fields) -> Fields:
    return {element: each for element, each in node.items() if element != "."}


def _compare_lists(
    old: list[Any], new: list[Any], schema: Schema, added: Fields, modified: Fields, removed: Fields
) -> None:
    items = schema.items or DEDUCED
    before, after = index(old, schema), index(new, schema)
    for element, value in after.items():
        was = before.get(element, _MISSING)
        several = type(value) is _Several
        if was is _MISSING:
            added[element] = LEAF if several else everything(value, items)
        elif was == value and (type(was) is _Several) is several:
            continue
        elif several and type(was) is _Several:
            modified[element] = LEAF
        elif several:
            removed[element] = everything(was, items)
            added[element] = LEAF
        elif type(was) is _Several:
            added[element] = everything(value, items)
            removed[element] = LEAF
        else:
            _compare_values(element, was, value, items, added, modified, removed)
    for element, was in before.items():
        if element not in after:
            removed[element] = LEAF if type(was) is _Several else everything(was, items)


def identical(left: Any, right: Any) -> bool:
    """JSON equality: unlike Python's, true is not 1."""
    if left is right:
        return True
    kind = type(left)
    if kind is dict:
        return (
            type(right) is dict
            and len(left) == len(right)
            and all(key in right and identical(value, right[key]) for key, value in left.items())
        )
    if kind is list:
        return type(right) is list and len(left) == len(right) and all(map(identical, left, right))
    return bool(left == right) and (kind is bool) is (type(right) is bool)


def merge(live: dict[str, Any], config: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """An applied configuration laid over a live object. Parts of both are shared with the result."""
    return _merge_maps(live, config, schema)


def _merge_maps(live: dict[str, Any], config: dict[str, Any], schema: Schema) -> dict[str, Any]:
    out = dict(live)
    fields, values = schema.fields, schema.values or DEDUCED
    for key, value in config.items():
        before = out.get(key, _MISSING)
        # Python takes 1 for true; the configuration's own value is right in any case.
        out[key] = value if before is _MISSING or before == value else _merge(before, value, fields.get(key) or values)
    return out


def _merge(live: Any, config: Any, schema: Schema) -> Any:
    if live and schema.granular and type(live) is dict:
        if type(config) is dict:
            return _merge_maps(live, config, schema)
        if config is None:
            return live
    if live and schema.associative and type(live) is list:
        if type(config) is list:
            return _merge_lists(live, config, schema) if config else live
        if config is None:
            return live
    return config


def _merge_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """The items of both lists; those of the configuration keep its order, those of the live list their place around them."""
    items = schema.items or DEDUCED
    left, right = index(live, schema), index(config, schema)
    left_order = [element_of(item, schema) for item in live]
    right_order = list(right)
    shared = [element for element in right_order if element in left]
    next_shared = 0
    merged: set[str] = set()
    out: list[Any] = []

    def combined(element: str) -> Any:
        merged.add(element)
        before, value = left.get(element, _MISSING), right[element]
        if before is _MISSING or type(before) is _Several or before == value:
            return value
        return _merge(before, value, items)

    at_left = at_right = 0
    while at_left < len(left_order) or at_right < len(right_order):
        if at_left < len(left_order) and at_right < len(right_order):
            element = left_order[at_left]
            if element == right_order[at_right]:
                out.append(combined(element))
                at_left += 1
                at_right += 1
                next_shared += 1
                continue
            if element in right and next_shared < len(shared) and shared[next_shared] != element:
                at_left += 1
                continue
        if at_left < len(left_order):
            element = left_order[at_left]
            if element not in right:
                out.append(live[at_left])
                at_left += 1
                continue
            if element in merged:
                at_left += 1
        if at_right < len(right_order):
            element = right_order[at_right]
            out.append(combined(element))
            at_right += 1
            if next_shared < len(shared) and shared[next_shared] == element:
                next_shared += 1
    return out
