"""Whole statuses over time as text, compared with what was written down: each story's file block is the table's row.

A block lists every status of its story, one part a line: conditions by type, containers by name, other fields by name. After
the first status only the parts that changed are listed; `-` stands for a part that is gone. `TIMELINES=write` writes the blocks
again; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from modelyard.kube.kinds import Object

_CONTAINERS = ("initContainerStatuses", "containerStatuses")


def timeline(statuses: Iterable[tuple[float, Mapping[str, Object]]], zero: datetime) -> str:
    """The statuses of named objects at moments; an object named "" needs no name in the text."""
    lines: list[str] = []
    before: dict[str, str] = {}
    for at, objects in statuses:
        now = {
            f"{name} {part}".strip(): text
            for name, status in objects.items()
            for part, text in parts(status, zero).items()
        }
        changed = [f"{part} {text}".rstrip() for part, text in now.items() if before.get(part) != text]
        changed += [f"{part} -" for part in before if part not in now]
        lines += [f"{f'{at:g}':>8}  {line}" if number == 0 else f"{line:>{len(line) + 10}}" for number, line in enumerate(changed)]  # fmt: skip
        before = now
    return "\n".join(lines)


def parts(status: Object, zero: datetime) -> dict[str, str]:
    settled = ("observedGeneration", "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "qosClass")
    still = {k: status[k] for k in settled if k in status}
    found: dict[str, str] = {"is": _plain(still, zero)} if still else {}
    for name, value in status.items():
        if name == "conditions":
            for item in value:
                found[item["type"]] = _condition(item, zero)
        elif name in _CONTAINERS:
            for item in value:
                found |= _container(item, zero)
        elif name not in settled:
            found[name] = _plain(value, zero)
    return found


def _condition(item: Object, zero: datetime) -> str:
    rest = {k: v for k, v in item.items() if k not in ("type", "status", "reason", "message", "lastTransitionTime")}
    why = f" {item['reason']}" if item.get("reason") else ""
    what = f": {item['message']}" if item.get("message") else ""
    since = f" since {_plain(item['lastTransitionTime'], zero)}" if item.get("lastTransitionTime") else ""
    more = {k: v for k, v in rest.items() if v is not None and k != "observedGeneration"}
    return f"{item['status']}{since}{why}{what}{' ' + _plain(more, zero) if more else ''}"


def _container(item: Object, zero: datetime) -> dict[str, str]:
    name = item["name"]
    moving = ("name", "state", "lastState", "ready", "started", "restartCount")
    marks = [mark for mark in ("started", "ready") if item.get(mark)]
    return {
        name: " ".join([_state(item["state"], zero), *marks, f"restarts={item['restartCount']}"]),
        f"{name} before": _state(item["lastState"], zero) if item.get("lastState") else "nothing",
        f"{name} is": _plain({k: v for k, v in item.items() if k not in moving}, zero),
    }


def _state(state: Object, zero: datetime) -> str:
    ((kind, detail),) = state.items()
    detail = dict(detail)
    reason, code = detail.pop("reason", ""), detail.pop("exitCode", None)
    words = [kind, reason, "" if code is None else f"exit={code}"]
    words += [f"{k}={_plain(v, zero)}" for k, v in sorted(detail.items())]
    return " ".join(word for word in words if word)


def _plain(value: Any, zero: datetime) -> str:
    """JSON without quotes around keys, times as seconds since the story's beginning."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_plain(v, zero)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(v, zero) for v in value) + "]"
    if isinstance(value, str):
        try:
            return f"{(datetime.fromisoformat(value) - zero).total_seconds():g}s" if value[10:11] == "T" else value
        except ValueError:
            return value
    return json.dumps(value)


class Book:
    """The file of a table of stories: a block for each, headed by its name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        if not self.path.exists():
            return {}
        blocks = ("\n" + self.path.read_text()).split("\n# ")[1:]
        return {name: text.rstrip() for name, _, text in (block.partition("\n") for block in blocks)}

    def check(self, name: str, text: str) -> None:
        known = self.read()
        if os.environ.get("TIMELINES") == "write":
            known[name] = text
            self.path.write_text("\n\n".join(f"# {title}\n{block}" for title, block in sorted(known.items())) + "\n")
            return
        assert text.splitlines() == known.get(name, "").splitlines(), f"the story of {name} in {self.path.name}"
