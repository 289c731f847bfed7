"""What one manager owns in an object, and whether that still is what it wants."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from modelyard.kube import quantities
from modelyard.kube.fieldsets.parts import extract
from modelyard.kube.fieldsets.sets import LEAF, Fields, FieldSet, difference
from modelyard.kube.fieldsets.typed import TypedError, element_of, fieldset_of, index
from modelyard.kube.kinds import Object
from modelyard.kube.quantities import QuantityError
from modelyard.kube.schema import DEDUCED, Schema


class Drift(NamedTuple):
    """How a live object differs from what a manager wants, in its own fields alone."""

    changed: FieldSet
    """Wanted fields that are missing or hold another value."""
    stale: FieldSet
    """Fields that the manager owns and no longer wants."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.stale)


def owned_fields(obj: Object, manager: str, *, operation: str = "Apply", subresource: str = "") -> FieldSet:
    """The fields that a manager owns by the object's managedFields."""
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == operation
            and (entry.get("subresource") or "") == subresource
        ):
            return FieldSet.parse(entry.get("fieldsV1"))
    return FieldSet()


def owned_values(obj: Object, fields: FieldSet, schema: Schema) -> Object:
    """The values of these fields, as an object."""
    return extract(obj, fields, schema)


def owned_digest(obj: Object, fields: FieldSet, schema: Schema) -> str:
    """A digest of the values of these fields that is the same for values that mean the same."""
    meant = _meant(extract(obj, fields, schema), schema)
    return hashlib.blake2b(msgspec.json.encode(meant, order="sorted"), digest_size=16).hexdigest()


def drift(live: Object, desired: Object, schema: Schema, owned: FieldSet | None = None) -> Drift:
    """What must be written to make the live object hold what is desired; `owned` is what the desirer owns in it.

    Values are compared by meaning: `1` is `1000m`, an empty map or list is an absent one, a null too, and the order of items
    that have an identity does not matter.
    """
    changed: Fields = {}
    _changed_maps(live, desired, schema, changed)
    stale: Fields = LEAF
    if owned:
        stale = _present(difference(owned.root, fieldset_of(desired, schema).root), live, schema)
    return Drift(FieldSet(changed), FieldSet(stale))


def agrees(live: Object, desired: Object, schema: Schema, owned: Fields) -> bool:
    """Whether the live object plainly holds all that is desired, and all that is owned of it is desired too.

    `owned` is FieldsV1 as the API gives it. One walk and no sets: False says only that `drift` must be asked.
    """
    try:
        return _map_agrees(live, desired, schema, owned)
    except TypedError:
        return False


def _map_agrees(live: dict[str, Any], desired: dict[str, Any], schema: Schema, owned: Fields) -> bool:
    left = len(owned) - ("." in owned)
    fields, values = schema.fields, schema.values or DEDUCED
    for key, wanted in desired.items():
        node, found = owned.get("f:" + key), live.get(key)
        if node is None:
            # Names and versions belong to nobody.
            if found != wanted:
                return False
            continue
        left -= 1
        if not _value_agrees(found, wanted, fields.get(key) or values, node):
            return False
    return left == 0


def _value_agrees(found: Any, wanted: Any, schema: Schema, owned: Fields) -> bool:
    kind = type(wanted)
    if kind is dict and wanted and schema.granular:
        return type(found) is dict and _map_agrees(found, wanted, schema, owned)
    if kind is list and wanted and schema.associative:
        return type(found) is list and _list_agrees(found, wanted, schema, owned)
    if owned and set(owned) != {"."}:
        return False
    return bool(found == wanted) or (schema.quantity and same_meaning(found, wanted, schema))


def _list_agrees(live: list[Any], desired: list[Any], schema: Schema, owned: Fields) -> bool:
    if len(live) != len(desired):
        return False
    left = len(owned) - ("." in owned)
    items = schema.items or DEDUCED
    for found, wanted in zip(live, desired, strict=True):
        element = element_of(wanted, schema)
        if element != element_of(found, schema):
            return False
        node = owned.get(element)
        if node is None:
            if found != wanted:
                return False
            continue
        left -= 1
        if not _value_agrees(found, wanted, items, node):
            return False
    return left == 0


def same_meaning(left: Any, right: Any, schema: Schema) -> bool:
    """Whether two values of one schema mean the same."""
    return left == right or bool(_meant(left, schema) == _meant(right, schema))


def _changed_maps(live: dict[str, Any], desired: dict[str, Any], schema: Schema, out: Fields) -> None:
    for key, wanted in desired.items():
        found = live.get(key)
        if found == wanted:
            continue
        child = schema.child(key) or DEDUCED
        node = _changed(found, wanted, child)
        if node is not None:
            out["f:" + key] = node


def _changed(found: Any, wanted: Any, schema: Schema) -> Fields | None:
    """The node of what differs, or nothing."""
    if type(wanted) is dict and schema.granular and (found is None or type(found) is dict):
        below: Fields = {}
        _changed_maps(found or {}, wanted, schema, below)
        return below or None
    if type(wanted) is list and schema.associative and (found is None or type(found) is list):
        items = schema.items or DEDUCED
        before = index(found or [], schema)
        below = {}
        for element, item in index(wanted, schema).items():
            if element not in before:
                below[element] = LEAF
            elif before[element] != item:
                node = _changed(before[element], item, items)
                if node is not None:
                    below[element] = node
        return below or None
    return None if same_meaning(found, wanted, schema) else LEAF


def _meant(value: Any, schema: Schema) -> Any:
    """The value in the one form that stands for all forms that mean the same; nothing for an empty one."""
    kind = type(value)
    if kind is dict:
        kept = {}
        for key, each in value.items():
            meant = _meant(each, schema.child(key) or DEDUCED)
            if meant is not None:
                kept[key] = meant
        return kept or None
    if kind is list:
        items = schema.items or DEDUCED
        if schema.associative:
            value = sorted(value, key=lambda item: element_of(item, schema))
        # An item counts even when it is empty: its place in the list says something.
        return [_meant(item, items) for item in value] or None
    if schema.quantity and value is not None:
        try:
            return str(quantities.parse(value).nanos)
        except QuantityError:
            return value
    return value


def _present(fields: Fields, value: Any, schema: Schema) -> Fields:
    """Those of these fields that the value has: one that is gone already needs no write."""
    out: Fields = {}
    by_element = index(value, schema) if type(value) is list and schema.associative else {}
    for element, node in fields.items():
        if element == ".":
            continue
        if element[0] == "f":
            name = element[2:]
            if type(value) is not dict or name not in value:
                continue
            each, child = value[name], schema.child(name) or DEDUCED
        elif element in by_element:
            each, child = by_element[element], schema.items or DEDUCED
        else:
            continue
        below = _present(node, each, child) if node else LEAF
        if below or not node or "." in node:
            out[element] = {".": LEAF, **below} if below and "." in node else below
    return out
