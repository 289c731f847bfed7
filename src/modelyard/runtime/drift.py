"""Does a live object still carry what we want of it, and nothing of ours that we no longer want? Pure."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from modelyard.kube import quantities
from modelyard.kube.kinds import Kind, Object

_IDENTITY = ("apiVersion", "kind", "status")
_MERGE_KEYS = ("name", "containerPort", "mountPath", "uid", "port", "key", "type", "ip", "devicePath")


def differences(kind: Kind, desired: Object, live: Object, managed: Object | None) -> tuple[str, ...]:
    """The paths where the live object is not as desired, and (with a minus) those we own but no longer want."""
    found: list[str] = []
    want = {k: v for k, v in desired.items() if k not in _IDENTITY}
    want["metadata"] = {k: v for k, v in want["metadata"].items() if k not in ("name", "namespace", "uid")}
    _compare("", want, live, found)
    if managed is not None:
        _leftover("", managed, desired, found)
    return tuple(found)


def stored(kind: Kind, obj: Object) -> Object:
    """An object the way the API stores it, where that differs from what one may write: so it is applied and compared."""
    if kind.group == "" and kind.kind == "Secret" and obj.get("stringData"):
        data = dict(obj.get("data") or {})
        for name, text in obj["stringData"].items():
            data[name] = base64.b64encode(str(text).encode()).decode()
        return {k: v for k, v in obj.items() if k != "stringData"} | {"data": data}
    return obj


def _compare(path: str, want: Any, have: Any, found: list[str]) -> None:
    if isinstance(want, dict):
        if not isinstance(have, dict):
            if have is not None or any(v not in (None, {}, []) for v in want.values()):
                found.append(path)
            return
        for name, value in want.items():
            _compare(f"{path}.{name}", value, have.get(name), found)
    elif isinstance(want, list):
        _compare_lists(path, want, have, found)
    elif not _same(want, have):
        found.append(path)


def _compare_lists(path: str, want: list[Any], have: Any, found: list[str]) -> None:
    if not want and not have:
        return
    if not isinstance(have, list):
        found.append(path)
        return
    key = merge_key(want, have)
    if key is None:
        if len(want) != len(have):
            found.append(path)
            return
        for position, (a, b) in enumerate(zip(want, have, strict=True)):
            _compare(f"{path}[{position}]", a, b, found)
        return
    by_key = {item[key]: item for item in have}
    for item in want:
        if item[key] in by_key:
            _compare(f"{path}[{key}={item[key]}]", item, by_key[item[key]], found)
        else:
            found.append(f"{path}[{key}={item[key]}]")


def merge_key(want: list[Any], have: list[Any]) -> str | None:
    """The field that tells the items of a list apart, if there is one."""
    items = [*want, *have]
    if not all(isinstance(item, dict) for item in items):
        return None
    for key in _MERGE_KEYS:
        named = all(isinstance(item.get(key), str | int) for item in items)
        if named and all(len({item[key] for item in side}) == len(side) for side in (want, have)):
            return key
    return None


def _same(want: Any, have: Any) -> bool:
    if want == have:
        return type(want) is type(have) or not (isinstance(want, bool) or isinstance(have, bool))
    if have is None:
        return want is None or want == "" or want is False or want == 0
    return quantities.same(want, have)


def _leftover(path: str, managed: Object, want: Any, found: list[str]) -> None:
    """What FieldsV1 says is ours, but the desired object does not have."""
    for step, below in managed.items():
        if step == ".":
            continue
        mark, _, name = step.partition(":")
        if mark == "f":
            if path == "" and name in ("apiVersion", "kind"):
                continue
            if not isinstance(want, dict) or name not in want:
                found.append(f"-{path}.{name}")
            else:
                _leftover(f"{path}.{name}", below, want[name], found)
        elif mark == "k" and isinstance(want, list):
            item = _item_with(want, name)
            if item is None:
                found.append(f"-{path}[{name}]")
            else:
                _leftover(f"{path}[{name}]", below, item, found)


def _item_with(items: list[Any], key_text: str) -> Any:
    keys: Object = msgspec.json.decode(key_text)
    for item in items:
        # A key that the API defaults (a port's protocol) may be missing in what we wrote.
        if isinstance(item, dict) and all(item.get(k, v) == v for k, v in keys.items()):
            return item
    return None
