"""The ports and addresses of one laptop cluster: chosen once, kept, so that links and kubeconfigs stay valid."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path

from modelyard.failure import Failed
from modelyard.local.laptop.layout import Layout
from modelyard.local.network.addresses import ClusterRange, RangeTaken, claim, hold

_GATEWAY = 8443
"""Tried first; it is the port in the docs."""


@dataclass(frozen=True)
class Network:
    """Held until this process ends, so that a cluster that starts at the same moment takes other ones."""

    range: ClusterRange
    gateway_port: int
    moved: str
    """What to tell a person whose links name another port; empty if there are none."""
    _lock: socket.socket = field(compare=False, repr=False)

    @property
    def gateway_url(self) -> str:
        return f"https://localhost:{self.gateway_port}"

    def release(self) -> None:
        self.range.release()
        self._lock.close()

    def environment(self) -> dict[str, str]:
        """What the parts need to know."""
        return {
            "MODELYARD_SERVICES": str(self.range.services),
            "MODELYARD_PODS": str(self.range.pods),
            "MODELYARD_GATEWAY_PORT": str(self.gateway_port),
        }


def choose(layout: Layout) -> Network:
    try:
        held = claim(layout.kubelet)
    except RangeTaken as error:
        raise Failed(str(error)) from None
    record = layout.directory / "ports.json"
    recorded = _recorded(record)
    for port in (*([recorded] if recorded else []), *range(_GATEWAY, _GATEWAY + 40), *_any_free(10)):
        if (lock := _hold(port)) is not None:
            if port != recorded:
                record.write_text(json.dumps({"gateway": port}))
            return Network(held, port, _moved(recorded, port), lock)
    raise Failed(f"no port of localhost is free for the gateway; {_GATEWAY} to {_GATEWAY + 39} are all in use")


def _moved(before: int | None, now: int) -> str:
    if before in (None, now):
        return ""
    return (
        f"the gateway is on port {now} now: another program uses {before}. Links and settings with the old port do not work; "
        "get new ones from `modelyard url` and `modelyard env`"
    )


def _hold(port: int) -> socket.socket | None:
    """The gateway opens the port only later; until then a lock keeps it."""
    lock = hold(f"gateway-{port}")
    if lock is not None and not _is_free(port):
        lock.close()
        return None
    return lock


def _recorded(record: Path) -> int | None:
    try:
        return int(json.loads(record.read_text())["gateway"])
    except (OSError, ValueError, KeyError):
        return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _any_free(count: int) -> list[int]:
    found = []
    for _ in range(count):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            found.append(int(probe.getsockname()[1]))
    return found
