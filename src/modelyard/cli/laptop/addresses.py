"""The ports and addresses of one laptop cluster: chosen once, kept, so that links and kubeconfigs stay valid."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path

from modelyard.cli.laptop.layout import Layout
from modelyard.cli.output import Failed
from modelyard.local.network.addresses import ClusterRange, RangeTaken, claim

_GATEWAY = 8443
"""Tried first; it is the port in the docs."""


@dataclass(frozen=True)
class Network:
    range: ClusterRange
    gateway_port: int

    @property
    def gateway_url(self) -> str:
        return f"https://localhost:{self.gateway_port}"

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
    port = _recorded(record)
    if port is None or not _is_free(port):
        port = next((p for p in (_GATEWAY, *range(_GATEWAY + 1, _GATEWAY + 40)) if _is_free(p)), 0) or _any_free()
        record.write_text(json.dumps({"gateway": port}))
    return Network(held, port)


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


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
