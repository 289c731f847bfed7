"""Which processes listen beyond loopback, read from /proc: a pod that does is a door to this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

_LISTEN, _UNCONNECTED = "0A", "07"


@dataclass(frozen=True, slots=True)
class Listener:
    address: str
    port: int
    inode: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def open_listeners(proc: str = "/proc") -> list[Listener]:
    """Sockets of this machine that take connections or datagrams on other addresses than loopback."""
    found = []
    for name, decode, state in (
        ("tcp", _ipv4, _LISTEN),
        ("tcp6", _ipv6, _LISTEN),
        ("udp", _ipv4, _UNCONNECTED),
        ("udp6", _ipv6, _UNCONNECTED),
    ):
        with contextlib.suppress(OSError), open(f"{proc}/net/{name}") as file:
            # A client's datagram socket looks like a server's, but the system chose its port.
            passing = _given_ports(proc) if state == _UNCONNECTED else range(0)
            next(file)
            for line in file:
                fields = line.split()
                raw, _, text = fields[1].partition(":")
                address, port = decode(raw), int(text, 16)
                if fields[3] != state or port in passing:
                    continue
                if address == "::1" or address.startswith(("127.", "::ffff:127.")):
                    continue
                found.append(Listener(address, port, int(fields[9])))
    return found


def _given_ports(proc: str) -> range:
    """The ports that the system gives to sockets that ask for none."""
    with open(f"{proc}/sys/net/ipv4/ip_local_port_range") as file:
        first, last = map(int, file.read().split())
    return range(first, last + 1)


def _ipv4(raw: str) -> str:
    return ".".join(str(byte) for byte in bytes.fromhex(raw)[::-1])


def _ipv6(raw: str) -> str:
    import ipaddress

    data = bytes.fromhex(raw)
    words = b"".join(data[i : i + 4][::-1] for i in range(0, 16, 4))
    address = ipaddress.IPv6Address(words)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def held_by(pids: Iterable[int], listeners: Iterable[Listener]) -> Listener | None:
    """The first of these listeners that one of the processes holds."""
    by_inode = {listener.inode: listener for listener in listeners}
    if not by_inode:
        return None
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(entry.path)
                    if target.startswith("socket:["):
                        listener = by_inode.get(int(target[8:-1]))
                        if listener is not None:
                            return listener
    return None
