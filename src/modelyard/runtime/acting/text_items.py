"""Items of texts in other people's objects: put in, noted on the object, and taken out again. Pure; nothing here acts."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from modelyard.kube.kinds import Object
from modelyard.runtime.acting.ownership import DOMAIN, Owner, digest
from modelyard.runtime.declaring.desired import PathStep, TextItem

PREFIX = f"items.{DOMAIN}/"
"""Annotation with the items of one owner: this plus a digest that names the owner."""


class MissingPlace(Exception):
    """The object has no such place, and it is not ours to make."""


class Noted(msgspec.Struct, frozen=True):
    """An item that an owner has put into an object, or is about to."""

    path: tuple[PathStep, ...]
    item: str
    separator: str
    made: bool = False
    """The text was not there before, or another owner of items made it: it goes with its last item."""
    found: bool = False
    """The item was there before: someone else put it in, and it stays."""

    @property
    def what(self) -> TextItem:
        return TextItem(self.path, self.item, self.separator)


_notes = msgspec.json.Decoder(list[Noted])


def annotation(owner: Owner) -> str:
    """Where the items of an owner are noted."""
    return PREFIX + digest(f"{owner.type_name}/{owner.key}")


def noted(obj: Object, name: str) -> list[Noted]:
    """What the annotation of this name says; nothing where it is missing or unreadable."""
    text = (obj["metadata"].get("annotations") or {}).get(name)
    try:
        return _notes.decode(text) if text else []
    except msgspec.MsgspecError:
        return []


def note_of(obj: Object, items: Sequence[TextItem], before: Sequence[Noted]) -> str:
    """The annotation for these items. What was noted before keeps what it says of the object as it was before us."""
    known = {each.what: each for each in before}
    notes = [known.get(item) or _first_note(obj, item) for item in items]
    return msgspec.json.encode(notes).decode()


def _first_note(obj: Object, item: TextItem) -> Noted:
    text = _at(obj, item.path)
    there = text is not None and item.item in _items(text, item.separator)
    made = text is None or any(note.made and note.path == item.path for note in _all_noted(obj))
    return Noted(item.path, item.item, item.separator, made=made, found=there)


def _all_noted(obj: Object) -> list[Noted]:
    names = sorted(name for name in obj["metadata"].get("annotations") or () if name.startswith(PREFIX))
    return [note for name in names for note in noted(obj, name)]


def with_items(obj: Object, items: Iterable[TextItem]) -> Object:
    """The object with the items in their texts, each behind those that are there. Raises `MissingPlace`."""
    result = copy.deepcopy(obj)
    for item in items:
        holder = _holder(result, item)
        held = _items(_text(holder, item), item.separator)
        if item.item not in held:
            holder[_leaf(item)] = item.separator.join([*held, item.item])
    return result


def without_items(obj: Object, notes: Iterable[Noted]) -> Object:
    """The object without what was put in; a text that was made for it goes too when nothing is left in it."""
    result = copy.deepcopy(obj)
    for note in notes:
        text = _at(result, note.path)
        held = _items(text, note.separator) if text is not None else []
        if note.found or note.item not in held:
            continue
        holder = _at(result, note.path[:-1])
        left = [each for each in held if each != note.item]
        holder[_leaf(note.what)] = note.separator.join(left)
        if note.made and not left:
            _remove_empty(result, note.path)
    return result


def carried(desired: Object, live: Object) -> Object:
    """The desired object with the items that other owners have put into its texts, so that an apply does not drop them."""
    shared = [note.what for note in _all_noted(live) if isinstance(_at(desired, note.path), str)]
    if not shared:
        return desired
    result = with_items(desired, shared)
    for item in shared:
        kept, wanted = _at(live, item.path), _at(result, item.path)
        if kept is not None and set(_items(kept, item.separator)) == set(_items(wanted, item.separator)):
            _holder(result, item)[_leaf(item)] = kept
    return result


def _items(text: str, separator: str) -> list[str]:
    return [item for item in text.split(separator) if item]


def _leaf(item: TextItem) -> str:
    leaf = item.path[-1]
    assert isinstance(leaf, str), "a path ends with the name of a field"
    return leaf


def _text(holder: Object, item: TextItem) -> str:
    text = holder.get(_leaf(item))
    if text is None and set(holder) & {"valueFrom"}:
        raise MissingPlace(f"{path_text(item.path)} gets its value from elsewhere")
    return text or ""


def _at(value: Any, path: Sequence[PathStep]) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            field, wanted = step
            entries = value if isinstance(value, list) else []
            value = next((entry for entry in entries if isinstance(entry, dict) and entry.get(field) == wanted), None)
    return value


def _holder(obj: Object, item: TextItem) -> Object:
    """What holds the text. Of the lists on the way, only the last may lack its entry: that one is made."""
    last = max((i for i, step in enumerate(item.path) if not isinstance(step, str)), default=-1)
    value: Any = obj
    for i, step in enumerate(item.path[:-1]):
        found = _at(value, [step])
        if found is None and i < last - 1:
            raise MissingPlace(f"there is no {path_text(item.path[: i + 1])}")
        if found is None and isinstance(step, str):
            found = value[step] = [] if i + 1 == last else {}
        elif found is None:
            found = {step[0]: step[1]}
            value.append(found)
        value = found
    holder: Object = value
    return holder


def _remove_empty(obj: Object, path: Sequence[PathStep]) -> None:
    """Removes the text at the path, and what is empty without it, up to the list that its entry stands in."""
    last = max((i for i, step in enumerate(path) if not isinstance(step, str)), default=len(path))
    for i in range(len(path) - 1, min(last - 1, len(path) - 1) - 1, -1):
        parent, step = _at(obj, path[:i]), path[i]
        value = _at(parent, [step])
        if i < len(path) - 1 and value and not (not isinstance(step, str) and set(value) == {step[0]}):
            return
        if isinstance(step, str):
            del parent[step]
        else:
            parent.remove(value)


def path_text(path: Sequence[PathStep]) -> str:
    """`spec.containers[name=mm].env`, for people."""
    text = ""
    for step in path:
        text += f".{step}" if isinstance(step, str) else f"[{step[0]}={step[1]}]"
    return text.lstrip(".")
