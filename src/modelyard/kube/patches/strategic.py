"""Strategic merge patch: a merge patch that knows, from the kind's schema, which lists are merged and by what key."""

from __future__ import annotations

import json
from typing import Any

from modelyard.kube.gotext import go_text
from modelyard.kube.patches.errors import PatchError
from modelyard.kube.schema import DEDUCED, Schema

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"


def strategic_patch(doc: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The patched document; neither it nor the patch is changed, unchanged parts are shared."""
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch is an object")
    return _merge_map(doc, patch, schema)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    if _PATCH in patch:
        return _by_directive(patch)
    out = dict(original)
    patch = dict(patch)
    _retain_keys(out, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_in_order(out, patch, key, schema)
    # Deletions come first: what a patch both deletes and sets is there afterwards.
    for key, value in sorted(patch.items(), key=lambda item: not item[0].startswith(_DELETE_FROM)):
        name = _target(key, _DELETE_FROM) if key.startswith(_DELETE_FROM) else key
        deleting = name is not key
        if value is None:
            out.pop(name, None)
            continue
        if name not in out:
            if not deleting:
                _put(out, name, _without_nulls(value))
            continue
        child = schema.child(name) or DEDUCED
        before = out[name]
        if isinstance(before, dict) and isinstance(value, dict):
            out[name] = value if "replace" in child.patch_strategy else _merge_map(before, value, child)
        elif isinstance(before, list) and isinstance(value, list):
            out[name] = _merge_list(before, value, child, deleting)
        elif not deleting:
            _put(out, name, value if type(before) is type(value) else _without_nulls(value))
    return out


def _by_directive(patch: dict[str, Any]) -> dict[str, Any]:
    match patch[_PATCH]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case other:
            raise PatchError(f"unknown patch type: {other} in map: {go_text(patch)}")


def _retain_keys(out: dict[str, Any], patch: dict[str, Any]) -> None:
    """`$retainKeys` names all keys that may stay; the patch may set no other."""
    if _RETAIN not in patch:
        return
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise PatchError("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in retained:
            raise PatchError("invalid patch format of retainKeys")
    for key in [key for key in out if key not in retained]:
        del out[key]


def _target(key: str, prefix: str) -> str:
    """The field that a parallel list such as `$setElementOrder/containers` speaks of."""
    mark, slash, name = key.partition("/")
    if mark != prefix or not slash:
        kind = "setElementOrder list" if prefix == _ORDER else "primitive list"
        raise PatchError(f"invalid patch format of {kind}")
    return name


def _merge_in_order(out: dict[str, Any], patch: dict[str, Any], key: str, schema: Schema) -> None:
    order = patch.pop(key)
    name = _target(key, _ORDER)
    before, change = out.get(name, []), patch.get(name, [])
    for value in (order, before, change):
        if not isinstance(value, list):
            raise PatchError(f"expected a []interface {{}}, but received a {_go_type(value)}")
    child = schema.child(name) or DEDUCED
    merge_key = child.merge_key
    _check_order(change, order, merge_key)
    if name in out and name in patch:
        merged = _merge_list(before, change, child, False)
    elif name in patch:
        merged = _without_directives(change)
    elif name in out:
        merged = before
    else:
        return
    if not before and not change:
        raise PatchError("no elements in any of the given slices")
    out[name] = _in_order(merged, order, before, merge_key)
    patch.pop(name, None)


def _check_order(change: list[Any], order: list[Any], merge_key: str) -> None:
    """The items that a patch sets must come in the order that it asks for."""
    if not change or not order:
        return
    items = [item for item in change if not (merge_key and isinstance(item, dict) and item.get(_PATCH) == "delete")]
    at = place = 0
    while at < len(items) and place < len(order):
        if isinstance(items[at], dict) and _PATCH in items[at]:
            at += 1
            continue
        if _identity(items[at], merge_key) == _identity(order[place], merge_key):
            at += 1
        place += 1
    if at < len(items):
        raise PatchError(
            f"The order in patch list:\n{go_text(change)}\n doesn't match {_ORDER} list:\n{go_text(order)}\n"
        )


def _merge_list(original: list[Any], patch: list[Any], schema: Schema, deleting: bool) -> list[Any]:
    if not deleting and "merge" not in schema.patch_strategy:
        return patch
    if not original and not patch:
        return original
    maps = _are_maps(original, patch)
    if not maps:
        if deleting:
            return [item for item in original if item not in patch]
        merged = list(dict.fromkeys([*original, *patch]))
        return _in_order(merged, patch, original, "")
    merge_key = schema.merge_key
    if not merge_key:
        raise PatchError("cannot merge lists without merge key for slice")
    original, patch = _special_items(original, patch, merge_key)
    merged = list(original)
    for item in patch:
        identity = _identity(item, merge_key)
        for position, before in enumerate(merged):
            if merge_key in before and before[merge_key] == identity:
                merged[position] = _merge_map(before, item, schema.items or DEDUCED)
                break
        else:
            merged.append(item)
    return _in_order(merged, patch, original, merge_key)


def _special_items(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Both lists after the patch's items that only say what to delete or replace were obeyed."""
    plain: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(_PATCH)
        match directive:
            case None if _PATCH not in item:
                plain.append(item)
            case "delete":
                identity = _identity(item, merge_key)
                original = [each for each in original if merge_key not in each or each[merge_key] != identity]
            case "replace":
                replace = True
            case "merge":
                raise PatchError("merging lists cannot yet be specified in the patch")
            case _:
                raise PatchError(f"unknown patch type: {directive} in map: {go_text(item)}")
    return (plain, []) if replace else (original, plain)


def _in_order(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Items that the patch names in its order, the others in the live order, put together by the live order."""
    places = _places(order, merge_key)
    live_places = _places(live, merge_key)
    named = sorted(
        (item for item in merged if _text(item, merge_key) in places), key=lambda item: places[_text(item, merge_key)]
    )
    others = [item for item in merged if _text(item, merge_key) not in places]
    others.sort(key=lambda item: live_places.get(_text(item, merge_key), len(live_places)))
    out: list[Any] = []
    at = 0
    for item in others:
        place = live_places.get(_text(item, merge_key))
        while at < len(named):
            other = live_places.get(_text(named[at], merge_key))
            if place is not None and other is not None and place < other:
                break
            out.append(named[at])
            at += 1
        out.append(item)
    return out + named[at:]


def _places(items: list[Any], merge_key: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for position, item in enumerate(items):
        found.setdefault(_text(item, merge_key), position)
    return found


def _text(item: Any, merge_key: str) -> str:
    return json.dumps(_identity(item, merge_key), sort_keys=True)


def _identity(item: Any, merge_key: str) -> Any:
    if not merge_key or not isinstance(item, dict):
        return item
    if merge_key not in item:
        raise PatchError(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _are_maps(*lists: list[Any]) -> bool:
    kinds = {
        dict if isinstance(item, dict) else list if isinstance(item, list) else type(item)
        for each in lists
        for item in each
    }
    if list in kinds:
        raise PatchError("lists of lists are not supported")
    if len(kinds) > 1:
        raise PatchError(f"list element types are not identical: {go_text(list(lists))}")
    return kinds == {dict}


def _put(out: dict[str, Any], name: str, value: Any) -> None:
    """Set a field to a patch's value, unless that value is only a directive."""
    if isinstance(value, dict) and _PATCH in value:
        out.pop(name, None)
    else:
        out[name] = _without_directives(value)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(each)
            for key, each in value.items()
            if not (isinstance(each, dict) and _PATCH in each)
        }
    if isinstance(value, list):
        return [_without_directives(each) for each in value if not (isinstance(each, dict) and _PATCH in each)]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    return {str: "string", bool: "bool", int: "int64", float: "float64"}.get(type(value), "nil")
