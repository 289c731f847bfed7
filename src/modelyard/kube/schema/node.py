"""One node of a schema. Nodes are shared and never change once their schema is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType

NO_DEFAULT: Final = UNSET
"""The default of a field that has none (null may be a default)."""


class ListType(StrEnum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class ItemKey(NamedTuple):
    """One key field of a list's items: its name, its JSON text with a colon, and what an item without it counts as having."""

    name: str
    prefix: str
    default: object


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """What a value may be and how it is merged. An empty `type` allows any value."""

    type: str = ""
    format: str = ""
    fields: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    """The named fields of an object."""
    values: Schema | None = field(default=None, repr=False)
    """The schema of fields that have no name here: a map's values; none where unknown fields are not allowed."""
    items: Schema | None = field(default=None, repr=False)
    list_type: ListType = ListType.ATOMIC
    keys: tuple[str, ...] = ()
    """The fields that identify an item of a list of type map."""
    atomic: bool = False
    """An object or map that is owned and replaced as a whole."""
    required: frozenset[str] = frozenset()
    enum: tuple[object, ...] = ()
    default: object = NO_DEFAULT
    nullable: bool = False
    int_or_string: bool = False
    quantity: bool = False
    preserve_unknown: bool = False
    embedded_resource: bool = False
    patch_strategy: frozenset[str] = frozenset()
    merge_key: str = ""
    zero: Mapping[str, object] | None = field(default=None, repr=False)
    """Of a built-in kind: an object of it in which nothing was set; its structs are there all the same."""

    granular: bool = field(init=False)
    """A map here is owned key by key."""
    associative: bool = field(init=False)
    """A list here is owned item by item."""
    scalar: str = field(init=False)
    """What a plain value here must be: string, numeric, boolean, untyped, or nothing where none may be."""
    item_keys: tuple[ItemKey, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        typeless = not self.type
        set_ = object.__setattr__
        set_(self, "granular", not self.atomic and (self.type == "object" or (typeless and not self.is_plain)))
        set_(self, "associative", self.type == "array" and self.list_type is not ListType.ATOMIC)
        set_(self, "scalar", self._scalar())
        set_(self, "item_keys", self._item_keys() if self.list_type is ListType.MAP else ())

    @property
    def is_plain(self) -> bool:
        """Only a plain value may be here, though its type is open."""
        return self.int_or_string or self.quantity

    @property
    def has_default(self) -> bool:
        return not isinstance(self.default, UnsetType)

    def child(self, name: str) -> Schema | None:
        """The schema of a field, named or not."""
        return self.fields.get(name) or self.values

    def _scalar(self) -> str:
        match self.type:
            case "integer" | "number":
                return "numeric"
            case "string":
                return "string" if self.format in ("", "byte") and not self.is_plain else "untyped"
            case "boolean":
                return "boolean"
            case "object" | "array":
                return ""
            case _:
                return "untyped"

    def _item_keys(self) -> tuple[ItemKey, ...]:
        fields = self.items.fields if self.items else {}
        found = []
        for name in sorted(self.keys):
            key = fields.get(name)
            default = key.default if key else NO_DEFAULT
            found.append(ItemKey(name, f'"{name}":', None if isinstance(default, UnsetType) else default))
        return tuple(found)


ANYTHING: Final = Schema(atomic=True, preserve_unknown=True)
"""Any value, owned as a whole."""


def _deduced() -> Schema:
    schema = Schema(preserve_unknown=True, items=ANYTHING)
    object.__setattr__(schema, "values", schema)
    return schema


DEDUCED: Final = _deduced()
"""Any value where no schema says more: maps are owned key by key, lists as a whole."""
