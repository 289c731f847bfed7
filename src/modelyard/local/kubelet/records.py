"""What the kubelet remembers of a pod across its own restarts: one small file a pod, replaced whole."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.facts import containers
from modelyard.local.kubelet.status import Attempt, ContainerRecord, PodFacts, Waiting


def save(path: Path, facts: PodFacts) -> None:
    data = {
        "podIP": facts.pod_ip,
        "startTime": _text(facts.start_time),
        "terminal": facts.terminal,
        "reason": facts.reason,
        "message": facts.message,
        "containers": [
            {
                "name": record.name,
                "current": _attempt(record.current),
                "previous": _attempt(record.previous),
                "earlier": _attempt(record.earlier),
                "waiting": asdict(record.waiting) if record.waiting else None,
                "imageID": record.image_id,
                "started": record.started,
                "ready": record.ready,
            }
            for record in facts.records.values()
        ],
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data))
    os.replace(temporary, path)


def load(path: Path) -> PodFacts | None:
    """None if there is nothing, or nothing that can be read (the pod then starts from the beginning)."""
    try:
        data = json.loads(path.read_text())
        facts = PodFacts(
            pod_ip=data["podIP"], start_time=_time(data["startTime"]), terminal=data["terminal"], reason=data["reason"],
            message=data["message"],
        )  # fmt: skip
        for item in data["containers"]:
            waiting = item["waiting"]
            facts.records[item["name"]] = ContainerRecord(
                item["name"], _read_attempt(item["current"]), _read_attempt(item["previous"]), _read_attempt(item["earlier"]),
                Waiting(**waiting) if waiting else None, item["imageID"], item["started"], item["ready"],
            )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return facts


def from_status(pod: Object) -> PodFacts:
    """What the API still knows of a pod whose file is gone: how often its containers were restarted."""
    status = pod.get("status") or {}
    facts = PodFacts(pod_ip=status.get("podIP") or "", start_time=_time(status.get("startTime")))
    known = {
        item["name"]: item
        for item in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    }
    for container in containers(pod):
        record = ContainerRecord(container["name"])
        item = known.get(container["name"]) or {}
        state = item.get("state") or {}
        ended = state.get("terminated")
        if ended:
            record.current = Attempt(
                item.get("restartCount", 0), item.get("containerID", ""), _time(ended.get("startedAt")),
                _time(ended.get("finishedAt")) or facts.start_time, ended.get("exitCode", 0), 0, ended.get("reason", ""),
                ended.get("message", ""),
            )  # fmt: skip
        elif state.get("running"):
            record.current = Attempt(
                item.get("restartCount", 0), item.get("containerID", ""), _time(state["running"]["startedAt"])
            )
        facts.records[container["name"]] = record
    return facts


def _attempt(attempt: Attempt | None) -> dict[str, Any] | None:
    if attempt is None:
        return None
    return asdict(attempt) | {"started": _text(attempt.started), "finished": _text(attempt.finished)}


def _read_attempt(data: dict[str, Any] | None) -> Attempt | None:
    if data is None:
        return None
    return Attempt(**{**data, "started": _time(data["started"]), "finished": _time(data["finished"])})


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
