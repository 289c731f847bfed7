"""The ports and addresses of laptop clusters on one machine."""

from __future__ import annotations

import socket
from pathlib import Path

from modelyard.local.laptop.addresses import choose
from modelyard.local.laptop.layout import Layout


def layout(directory: Path) -> Layout:
    made = Layout(directory)
    made.create()
    return made


def test_clusters_that_start_at_the_same_moment_take_different_ports_and_addresses(tmp_path: Path) -> None:
    first, second = choose(layout(tmp_path / "one")), choose(layout(tmp_path / "two"))
    assert first.gateway_port != second.gateway_port
    assert first.range != second.range
    first.release()
    second.release()


def test_a_cluster_keeps_its_port_over_restarts(tmp_path: Path) -> None:
    where = layout(tmp_path / "one")
    first = choose(where)
    port = first.gateway_port
    first.release()
    again = choose(where)
    assert (again.gateway_port, again.moved) == (port, "")
    again.release()


def test_a_port_that_someone_else_took_meanwhile_is_replaced(tmp_path: Path) -> None:
    where = layout(tmp_path / "one")
    first = choose(where)
    port = first.gateway_port
    first.release()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        again = choose(where)
        assert again.gateway_port != port
        assert again.moved.startswith(f"the gateway is on port {again.gateway_port} now: another program uses {port}.")
        again.release()
