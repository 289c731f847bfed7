"""Pruning and defaulting of custom resources in one pass: unknown fields go, forbidden nulls go, defaults come."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.structural.nodes import META_FIELDS, NO_DEFAULT, Node

Settle = Callable[[Any], list[str] | None]
"""Changes a container in place and returns the paths, below it, of the unknown fields it dropped; None for none."""

_CONTAINERS = (dict, list)


def compile_settling(root: Node, *, defaults: bool = True, keep_nulls: bool = False) -> Callable[[Object], list[str]]:
    """Drops what the schema does not know and fills in its defaults; returns the sorted paths of dropped fields.

    The root's apiVersion, kind and metadata are left alone. Without defaults it only drops.
    `keep_nulls`: nulls that are not allowed stay, for validation to refuse, as what was applied."""
    settle = _Compiler(defaults, keep_nulls).settle(root, keep_meta=True)

    def run(obj: Object) -> list[str]:
        unknown = settle(obj)
        return sorted(unknown) if unknown else []

    return run


def default_of(node: Node) -> Any:
    """A node's default with the defaults of what is inside it; `NO_DEFAULT` without one."""
    if node.default is NO_DEFAULT:
        return NO_DEFAULT
    value = deepcopy(node.default)
    if type(value) in _CONTAINERS:
        _Compiler().settle(node, keep_meta=node.embedded)(value)
    return value


class _Compiler:
    """Nodes compile when they are first met in data, so a large schema costs little before it is used."""

    def __init__(self, defaults: bool = True, keep_nulls: bool = False) -> None:
        self._defaults = defaults
        self._keep_nulls = keep_nulls

    def settle(self, node: Node, *, keep_meta: bool, preserve: bool = False) -> Settle:
        """`preserve`: the list around it keeps unknown fields of its items."""
        preserve = preserve or node.preserve
        on_object: Callable[[Object], list[str] | None] | None = None

        def run(value: Any) -> list[str] | None:
            nonlocal on_object
            if type(value) is dict:
                if on_object is None:
                    on_object = self._object(node, keep_meta, preserve)
                return on_object(value)
            if type(value) is list and not preserve:
                return strip(value)
            return None

        if node.items is None:
            return run
        item = node.items
        settle_item = self.settle(item, keep_meta=item.embedded, preserve=preserve)
        item_default = _null_default(item)
        fill = self._defaults

        def run_list(value: Any) -> list[str] | None:
            if type(value) is not list:
                return run(value)
            unknown: list[str] | None = None
            for index, element in enumerate(value):
                if element is None and fill and item_default is not NO_DEFAULT:
                    value[index] = deepcopy(item_default)
                elif type(element) in _CONTAINERS and (found := settle_item(element)):
                    unknown = _extend(unknown, f"[{index}]", found)
            return unknown

        return run_list

    def _object(self, node: Node, keep_meta: bool, preserve: bool) -> Callable[[Object], list[str] | None]:
        properties = {
            name: (self.settle(child, keep_meta=child.embedded), child.nullable, default_of(child))
            for name, child in node.properties.items()
            if not (keep_meta and name in META_FIELDS)
        }
        fill = self._defaults
        absent = [(name, d) for name, (_, _, d) in properties.items() if d is not NO_DEFAULT] if fill else []
        additional = node.additional
        settle_additional = self.settle(additional, keep_meta=additional.embedded) if additional else None
        additional_default = _null_default(additional) if additional else NO_DEFAULT
        keep_nulls = self._keep_nulls
        null_goes = additional is not None and not additional.nullable and not keep_nulls
        open_ended = node.additional_allowed

        def run(obj: Object) -> list[str] | None:
            unknown: list[str] | None = None
            gone: list[str] | None = None
            for name, value in obj.items():
                known = properties.get(name)
                if known is not None:
                    if value is None:
                        if not known[1]:
                            if known[2] is NO_DEFAULT:
                                gone = gone if keep_nulls else _with(gone, name)
                            elif fill:
                                obj[name] = deepcopy(known[2])
                    elif type(value) in _CONTAINERS and (found := known[0](value)):
                        unknown = _extend(unknown, name, found)
                elif keep_meta and name in META_FIELDS:
                    continue
                elif settle_additional is not None:
                    if value is None:
                        if additional_default is not NO_DEFAULT:
                            if fill:
                                obj[name] = deepcopy(additional_default)
                        elif null_goes:
                            gone = _with(gone, name)
                    elif type(value) in _CONTAINERS and (found := settle_additional(value)):
                        unknown = _extend(unknown, name, found)
                elif open_ended:
                    # `additionalProperties: true`: the value stays, what is inside it has no schema.
                    if type(value) in _CONTAINERS and (found := strip(value)):
                        unknown = _extend(unknown, name, found)
                elif not preserve:
                    unknown = _with(unknown, name)
                    gone = _with(gone, name)
            if gone is not None:
                for name in gone:
                    del obj[name]
            for name, default in absent:
                if name not in obj:
                    obj[name] = deepcopy(default) if type(default) in _CONTAINERS else default
            return unknown

        return run


def strip(value: Any) -> list[str] | None:
    """Data without schema: lists keep their scalars, objects lose all fields."""
    unknown: list[str] | None = None
    if type(value) is dict:
        unknown = list(value)
        value.clear()
    elif type(value) is list:
        for index, element in enumerate(value):
            if type(element) in _CONTAINERS and (found := strip(element)):
                unknown = _extend(unknown, f"[{index}]", found)
    return unknown or None


def _null_default(node: Node) -> Any:
    """What a null becomes where null is not allowed."""
    return NO_DEFAULT if node.nullable else default_of(node)


def _with(names: list[str] | None, name: str) -> list[str]:
    if names is None:
        return [name]
    names.append(name)
    return names


def _extend(unknown: list[str] | None, prefix: str, found: list[str]) -> list[str]:
    paths = [prefix + path if path.startswith("[") else f"{prefix}.{path}" for path in found]
    if unknown is None:
        return paths
    unknown.extend(paths)
    return unknown
