from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.network.forwarder import Forwarder, fronts, targets

ADDRESS = "127.69.3.7"


def service(port: int, name: str = "web", address: str = ADDRESS) -> Object:
    return {
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"clusterIP": address, "ports": [{"name": "http", "port": port, "protocol": "TCP"}]},
    }


def endpoints(*pairs: tuple[str, int], ready: bool = True, **conditions: bool) -> Object:
    return {
        "metadata": {"name": "web-1", "namespace": "demo", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "port": pairs[0][1]}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready, **conditions}} for address, _ in pairs],
    }


class Backend:
    """Answers every line with its own name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0

    async def start(self, address: str) -> Backend:
        self._server = await asyncio.start_server(self._serve, address, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(f"{self.name}:".encode() + line)
        writer.write(b"end\n")
        writer.close()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
async def forwarder() -> AsyncIterator[Forwarder]:
    one = Forwarder(hold=2.0)
    yield one
    await one.close()


@pytest.fixture
def port(unused_tcp_port: int) -> int:
    return unused_tcp_port


async def ask(port: int, text: str = "hi\n") -> str:
    reader, writer = await asyncio.open_connection(ADDRESS, port)
    writer.write(text.encode())
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_connections_reach_a_ready_endpoint_and_half_closes_are_kept(forwarder: Forwarder, port: int) -> None:
    backend = await Backend("a").start("127.69.4.1")
    await forwarder.update([service(port)], [endpoints(("127.69.4.1", backend.port))])
    assert await ask(port) == "a:hi\nend\n"
    backend.close()


async def test_connections_are_spread_over_endpoints(forwarder: Forwarder, port: int) -> None:
    first = await Backend("a").start("127.69.4.1")
    second = Backend("b")
    second.port = first.port
    await second.start("127.69.4.2")
    await forwarder.update([service(port)], [endpoints(("127.69.4.1", first.port), ("127.69.4.2", first.port))])
    assert {(await ask(port))[0] for _ in range(10)} == {"a", "b"}
    first.close()
    second.close()


async def test_a_service_listens_before_it_has_endpoints_and_holds_connections(forwarder: Forwarder, port: int) -> None:
    await forwarder.update([service(port)], [])
    asking = asyncio.create_task(ask(port))
    backend = await Backend("late").start("127.69.4.1")
    await asyncio.sleep(0)
    forwarder.set_targets([endpoints(("127.69.4.1", backend.port))])
    assert await asyncio.wait_for(asking, 2) == "late:hi\nend\n"
    backend.close()


async def test_a_connection_nobody_serves_is_refused_after_the_hold(port: int) -> None:
    forwarder = Forwarder(hold=0.1)
    await forwarder.update([service(port)], [])
    with pytest.raises(ConnectionError):
        assert await ask(port) == "never"
    await forwarder.close()


async def test_an_endpoint_that_does_not_answer_yet_is_tried_again(forwarder: Forwarder, port: int) -> None:
    backend = await Backend("a").start("127.69.4.1")
    backend.close()
    await forwarder.update([service(port)], [endpoints(("127.69.4.1", backend.port))])
    asking = asyncio.create_task(ask(port))
    await asyncio.sleep(0.05)
    again = Backend("again")
    again.port = backend.port
    await again.start("127.69.4.1")
    assert await asyncio.wait_for(asking, 2) == "again:hi\nend\n"
    again.close()


async def test_a_large_body_passes_whole(forwarder: Forwarder, port: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.69.4.9", 0)
    number = server.sockets[0].getsockname()[1]
    await forwarder.update([service(port)], [endpoints(("127.69.4.9", number))])
    text = "0123456789abcdef" * 500_000
    assert await ask(port, text) == text
    server.close()


async def test_a_deleted_service_stops_listening(forwarder: Forwarder, port: int) -> None:
    await forwarder.update([service(port)], [])
    assert forwarder.listening()
    await forwarder.update([], [])
    assert not forwarder.listening()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(ADDRESS, port)


async def test_a_taken_port_is_told_once(port: int) -> None:
    told: list[tuple[str, str]] = []
    forwarder = Forwarder(complain=lambda service, reason, message: told.append((reason, message)))
    taken = await asyncio.start_server(lambda r, w: None, ADDRESS, port)
    await forwarder.update([service(port)], [])
    await forwarder.update([service(port)], [])
    assert [reason for reason, _ in told] == ["PortNotAvailable"]
    assert f"{ADDRESS}:{port}" in told[0][1]
    taken.close()
    await forwarder.close()


def test_only_loopback_tcp_ports_of_services_with_an_address_are_served() -> None:
    headless = service(80, address="None")
    foreign = service(80, address="10.96.0.1")
    udp = service(53)
    udp["spec"]["ports"][0]["protocol"] = "UDP"
    assert [fronts(item) for item in (headless, foreign, udp)] == [[], [], []]


def test_endpoints_that_end_serve_only_while_no_other_is_ready() -> None:
    key = ("demo", "web", "http")
    ending = endpoints(("127.1.1.1", 80), ready=False, serving=True, terminating=True)
    assert targets([ending]) == {key: [("127.1.1.1", 80)]}
    assert targets([ending, endpoints(("127.1.1.2", 80))]) == {key: [("127.1.1.2", 80)]}
    assert targets([endpoints(("127.1.1.1", 80), ready=False)]) == {}
