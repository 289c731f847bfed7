"""Someone writes over a child: every plain value that its controller owns gets another one, as far as the API takes it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Conflict, NotFound
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of, metadata_of

Place = tuple[Any, Any]
"""A container and the name or index in it."""
_OURS = "modelyard-"
_TEXTS = ("stomped", "7", "Always", "Never", "stomped.example.com")
"""One of them is a value that most fields take."""


async def stomp(client: Client, kind: Kind, obj: Object, *, most: int) -> int:
    """Changes the object with one write, in at most so many places; gives how many fields were changed."""
    changes = 0
    changed = await client.find(kind, *key_of(obj))
    if changed is None:
        return 0
    total = len(list(_places(changed)))
    for number in sorted({index * total // most for index in range(most)}) if total > most else range(total):
        tried = await _with_another_value(client, kind, changed, number)
        if tried is not None:
            changed, changes = tried, changes + 1
    if not changes:
        return 0
    try:
        await client.update(kind, changed, field_manager="someone")
    except (Conflict, NotFound):
        return 0  # It has changed meanwhile: nothing was stomped.
    return changes


async def _with_another_value(client: Client, kind: Kind, obj: Object, number: int) -> Object | None:
    """The object with another value at that place; None if the API takes none that we know."""
    for text in _TEXTS:
        tried = copy.deepcopy(obj)
        container, name = list(_places(tried))[number]
        value = container[name]
        container[name] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else text
        try:
            await client.update(kind, tried, dry_run=True)
        except ApiError:
            if isinstance(value, int):
                return None
            continue
        return tried
    return None


def _places(obj: Object) -> Iterator[Place]:
    """The places of the plain values that controllers have applied: not identities, and not what says whose it is."""
    for entry in metadata_of(obj).get("managedFields") or ():
        if entry.get("operation") == "Apply" and entry["manager"].startswith(_OURS) and not entry.get("subresource"):
            fields = entry["fieldsV1"]
            for name, below in fields.items():
                if name.startswith("f:") and name not in ("f:metadata", "f:status", "f:apiVersion", "f:kind"):
                    yield from _below(obj, name[2:], below)
            labels = fields.get("f:metadata", {}).get("f:labels", {})
            held = metadata_of(obj).get("labels") or {}
            yield from ((held, name[2:]) for name in labels if name[2:] in held and "modelyard.dev" not in name)


def _below(container: Any, name: Any, fields: Object, identity: frozenset[str] = frozenset()) -> Iterator[Place]:
    if name in identity or (isinstance(container, dict) and name not in container):
        return
    value = container[name]
    named = {key: below for key, below in fields.items() if key != "."}
    if not named:
        yield from _plain(container, name)
        return
    for key, below in named.items():
        if key.startswith("f:"):
            yield from _below(value, key[2:], below)
        elif key.startswith("k:"):
            keys = json.loads(key[2:])
            for index, item in enumerate(value):
                if all(item.get(one) == wanted for one, wanted in keys.items()):
                    for part, rest in below.items():
                        if part.startswith("f:"):
                            yield from _below(value[index], part[2:], rest, frozenset(keys))


def _plain(container: Any, name: Any) -> Iterator[Place]:
    """The value itself, or the plain values in one that is owned as a whole."""
    value = container[name]
    if isinstance(value, dict):
        for key in value:
            yield from _plain(value, key)
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from _plain(value, index)
    elif value is not None:
        yield container, name
