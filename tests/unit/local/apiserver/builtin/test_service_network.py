"""Addresses and node ports: given out once, free again when a Service is gone."""

from __future__ import annotations

from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin.service_network import ServiceNetwork
from modelyard.local.apiserver.storage.store import Store


def service(name: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "a", "uid": name},
        "spec": {"type": "ClusterIP", "ports": [], **spec},
    }


def attached(cidr: str = "10.0.0.0/29", **more: Any) -> tuple[ServiceNetwork, Store]:
    network, store = ServiceNetwork(cidr, **more), Store()
    network.attach(store)
    return network, store


async def test_every_address_is_given_out_once() -> None:
    network, store = attached()
    addresses = []
    for index in range(5):
        obj = service(f"s{index}")
        network.allocate(obj)
        await store.put("services", obj, None)
        addresses.append(obj["spec"]["clusterIP"])
    # Of eight addresses, the first, the last and the API's own are not given out.
    assert sorted(addresses) == [f"10.0.0.{number}" for number in range(2, 7)]
    obj = service("more")
    network.allocate(obj)
    assert obj["spec"]["clusterIP"] == ""


async def test_deleted_service_frees_its_address() -> None:
    network, store = attached()
    wanted = service("a", clusterIP="10.0.0.5", clusterIPs=["10.0.0.5"])
    stored = await store.put("services", wanted, None)
    other = service("b", clusterIP="10.0.0.5", clusterIPs=["10.0.0.5"])
    assert "provided IP is already allocated" in str(network.problems(other)[0])
    await store.remove(stored)
    assert network.problems(other) == []


def test_addresses_outside_the_range_are_refused() -> None:
    network, _ = attached()
    for address in ("10.0.1.1", "10.0.0.0", "10.0.0.7", "::1"):
        obj = service("a", clusterIP=address, clusterIPs=[address])
        assert "the provided network does not match the current range" in str(network.problems(obj)[0])


def test_same_port_in_two_protocols_shares_a_node_port_in_a_new_service() -> None:
    network, _ = attached()
    ports = [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 54, "protocol": "TCP"}]
    obj = service("dns", type="NodePort", ports=ports)
    network.allocate(obj, created=True)
    first, second, third = (port["nodePort"] for port in obj["spec"]["ports"])
    assert first == second
    assert first != third


def test_external_names_need_nothing() -> None:
    network, _ = attached()
    obj = service("a", type="ExternalName", externalName="x.y")
    network.allocate(obj)
    assert "clusterIP" not in obj["spec"]
    assert network.problems(obj) == []


async def test_what_is_stored_is_known_after_a_restart() -> None:
    _, store = attached()
    await store.put("services", service("a", clusterIP="10.0.0.3", clusterIPs=["10.0.0.3"]), None)
    again = ServiceNetwork("10.0.0.0/29")
    again.attach(store)
    assert again.problems(service("b", clusterIP="10.0.0.3", clusterIPs=["10.0.0.3"]))
