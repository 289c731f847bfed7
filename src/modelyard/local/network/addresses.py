"""Addresses in 127.0.0.0/8: a /16 for each cluster, chosen once and held while it runs; in it, one address a pod."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_FIRST, _LAST = 64, 253


class RangeTaken(Exception):
    """The range that a cluster's objects already use is held by another process."""


@dataclass(frozen=True, slots=True)
class ClusterRange:
    """127.N.0.0/16, cut in two: the lower half for Services, the upper one for pods."""

    number: int
    _lock: socket.socket | None = field(default=None, compare=False, repr=False)

    @property
    def services(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"127.{self.number}.0.0/17")

    @property
    def pods(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"127.{self.number}.128.0/17")

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()


def claim(directory: Path) -> ClusterRange:
    """The range of the cluster in `directory`: the one it has, or a free one, now taken. Held until this process ends."""
    directory.mkdir(parents=True, exist_ok=True)
    record = directory / "network.json"
    if record.exists():
        number = int(json.loads(record.read_text())["range"])
        lock = hold(f"range-{number}")
        if lock is None:
            raise RangeTaken(
                f"the addresses 127.{number}.0.0/16 of the cluster in {directory} are in use by another cluster; "
                "stop that one (`modelyard down`), or reset this one"
            )
        return ClusterRange(number, lock)
    start = int.from_bytes(hashlib.sha256(os.path.realpath(directory).encode()).digest()[:4], "big")
    count = _LAST - _FIRST + 1
    for step in range(count):
        number = _FIRST + (start + step) % count
        lock = hold(f"range-{number}")
        if lock is not None:
            temporary = record.with_suffix(".tmp")
            temporary.write_text(json.dumps({"range": number}))
            temporary.rename(record)
            return ClusterRange(number, lock)
    raise RangeTaken("every address range of the loopback is held by a cluster; stop one (`modelyard down`)")


def hold(name: str) -> socket.socket | None:
    """A lock of this machine, or None where another process has it. It cannot be left behind: it is an abstract socket name,
    which the kernel drops with the process."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0modelyard-{name}")
    except OSError:
        lock.close()
        return None
    return lock


class PodAddresses:
    """Gives every pod an address of its own; one that was given up is the last to be given again."""

    def __init__(self, network: ipaddress.IPv4Network) -> None:
        self._network = network
        self._held: dict[str, str] = {}
        self._next = 1

    def hold(self, uid: str, address: str) -> bool:
        """Keep an address that a pod already has; False if it is not ours to give or is taken."""
        with contextlib.suppress(ValueError):
            if ipaddress.IPv4Address(address) in self._network and address not in self._held.values():
                self._held[uid] = address
                offset = int(ipaddress.IPv4Address(address)) - int(self._network.network_address)
                self._next = max(self._next, offset + 1)
                return True
        return self._held.get(uid) == address

    def give(self, uid: str) -> str:
        if uid in self._held:
            return self._held[uid]
        used = set(self._held.values())
        for _ in range(self._network.num_addresses):
            # The last octets 0 and 255 look like network addresses to people and to some programs.
            candidate = self._network[self._next]
            self._next = self._next + 1 if self._next + 2 < self._network.num_addresses else 1
            if str(candidate) not in used and candidate.packed[3] not in (0, 255):
                self._held[uid] = str(candidate)
                return str(candidate)
        raise RangeTaken(f"no free pod address in {self._network}")

    def take_back(self, uid: str) -> None:
        self._held.pop(uid, None)

    def held(self) -> Iterable[str]:
        return self._held.values()
