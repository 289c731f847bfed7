"""Which sockets are a door to this machine, read from /proc as the kernel writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.local.network.listening import open_listeners

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text("32768\t60999\n")
    return tmp_path


@pytest.mark.parametrize(
    ("table", "address", "state", "found"),
    [
        ("tcp", "00000000:1F90", "0A", ["0.0.0.0:8080"]),
        ("tcp", "0100007F:1F90", "0A", []),
        ("tcp", "0180687F:1F90", "0A", []),
        ("tcp", "00000000:1F90", "01", []),
        ("tcp6", "00000000000000000000000000000000:1F90", "0A", ["[::]:8080"]),
        ("tcp6", "00000000000000000000000001000000:1F90", "0A", []),
        ("tcp6", "0000000000000000FFFF00000100007F:1F90", "0A", []),
        ("udp", "00000000:14E9", "07", ["0.0.0.0:5353"]),
        ("udp", "0100007F:14E9", "07", []),
        ("udp", "00000000:9C40", "07", []),
        ("udp6", "00000000000000000000000000000000:14E9", "07", ["[::]:5353"]),
    ],
    ids=[
        "every address", "loopback", "a pod's address", "a connection", "every address of both kinds", "loopback of IPv6",
        "mapped loopback", "datagrams", "datagrams on loopback", "a client's datagrams", "datagrams on IPv6",
    ],
)  # fmt: skip
def test_only_sockets_that_others_can_reach_are_found(
    proc: Path, table: str, address: str, state: str, found: list[str]
) -> None:
    line = f"   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n"
    (proc / "net" / table).write_text(HEADER + line)
    assert [str(listener) for listener in open_listeners(str(proc))] == found
