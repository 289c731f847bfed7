"""The addresses and node ports that Services hold: given out, taken as asked for, and free again when a Service is gone."""

from __future__ import annotations

import ipaddress
import random
from collections import OrderedDict
from typing import Any

import msgspec

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.problems import Cause, invalid_value
from modelyard.local.apiserver.storage.store import Change, Store, Stored

_REMEMBERED = 256


class _Port(msgspec.Struct, rename="camel"):
    node_port: int = 0
    protocol: str = "TCP"


class _Spec(msgspec.Struct, rename="camel"):
    cluster_ips: list[str] = msgspec.field(default_factory=list, name="clusterIPs")
    ports: list[_Port] = msgspec.field(default_factory=list)
    health_check_node_port: int = 0


class _Service(msgspec.Struct):
    spec: _Spec


_services = msgspec.json.Decoder(_Service)


class ServiceNetwork:
    """What is taken is learned from the stored Services; what was just given out is remembered until it is stored."""

    def __init__(
        self, cidr: str = "10.96.0.0/16", node_ports: tuple[int, int] = (30000, 32767), *, seed: int | None = None
    ) -> None:
        self.network = ipaddress.ip_network(cidr)
        self.first_port, self.last_port = node_ports
        self._random = random.Random(seed)
        self._addresses: dict[str, str] = {}
        self._ports: dict[tuple[int, str], str] = {}
        self._given: OrderedDict[str, str] = OrderedDict()

    def attach(self, store: Store) -> None:
        """Learns what is taken, and keeps up with changes."""
        for stored in store.items("services"):
            self._hold(stored)
        store.listen(self._changed, "services")

    def _changed(self, change: Change) -> None:
        if change.old is not None:
            self._release(change.old)
        if change.new is not None:
            self._hold(change.new)

    def _hold(self, stored: Stored) -> None:
        spec = _services.decode(stored.raw).spec
        for address in spec.cluster_ips:
            self._addresses[address] = stored.key
        for port in spec.ports:
            if port.node_port:
                self._ports[port.node_port, port.protocol] = stored.key
        if spec.health_check_node_port:
            self._ports[spec.health_check_node_port, "TCP"] = stored.key

    def _release(self, stored: Stored) -> None:
        spec = _services.decode(stored.raw).spec
        for address in spec.cluster_ips:
            self._addresses.pop(address, None)
            self._given.pop(address, None)
        for port in spec.ports:
            self._ports.pop((port.node_port, port.protocol), None)
        self._ports.pop((spec.health_check_node_port, "TCP"), None)

    @property
    def family(self) -> str:
        return "IPv6" if self.network.version == 6 else "IPv4"

    def allocate(self, obj: Object, *, created: bool = False) -> None:
        """Fills in the addresses and ports that the Service needs and did not name."""
        spec, key = obj["spec"], _key(obj)
        if spec.get("type") == "ExternalName":
            return
        if not spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIP"] = self._free_address(key)
            spec["clusterIPs"] = [spec["clusterIP"]]
        wanted = spec.get("type") == "NodePort" or (
            spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
        )
        if wanted:
            self._allocate_ports(spec, key, created=created)
        local = spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
        if local and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._free_port("TCP", key, set())

    def _allocate_ports(self, spec: dict[str, Any], key: str, *, created: bool) -> None:
        used = {
            (port["nodePort"], port.get("protocol", "TCP")) for port in spec.get("ports") or () if port.get("nodePort")
        }
        shared: dict[int, int] = {}
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                shared.setdefault(port.get("port", 0), port["nodePort"])
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                continue
            protocol = port.get("protocol", "TCP")
            # In a new Service the same port gets the same node port: in another protocol that is right, and else it is refused.
            twin = shared.get(port.get("port", 0)) if created else None
            if twin is not None and self._ports.get((twin, protocol), key) == key:
                port["nodePort"] = twin
            else:
                port["nodePort"] = self._free_port(protocol, key, {number for number, _ in used})
            used.add((port["nodePort"], protocol))
            shared.setdefault(port.get("port", 0), port["nodePort"])

    def _free_address(self, key: str) -> str:
        size = self.network.num_addresses
        start = self._random.randrange(1, max(2, size - 1))
        for step in range(size - 2):
            offset = 1 + (start - 1 + step) % (size - 2)
            address = str(self.network[offset])
            # The first address belongs to the API's own service.
            if offset > 1 and address not in self._addresses and address not in self._given:
                self._remember(address, key)
                return address
        return ""

    def _free_port(self, protocol: str, key: str, avoided: set[int]) -> int:
        count = self.last_port - self.first_port + 1
        start = self._random.randrange(count)
        for step in range(count):
            port = self.first_port + (start + step) % count
            if (port, protocol) not in self._ports and port not in avoided and f"{port}/{protocol}" not in self._given:
                self._remember(f"{port}/{protocol}", key)
                return port
        return 0

    def _remember(self, thing: str, key: str) -> None:
        self._given[thing] = key
        while len(self._given) > _REMEMBERED:
            self._given.popitem(last=False)

    def problems(self, obj: Object) -> list[Cause]:
        """What cannot be had: addresses and ports that are outside of the range or taken by another Service."""
        spec, key = obj["spec"], _key(obj)
        if spec.get("type") == "ExternalName":
            return []
        addresses = spec.get("clusterIPs") or []
        for address in addresses:
            if address == "None":
                continue
            why = self._address_problem(address, key)
            if why:
                return [invalid_value("spec.clusterIPs", addresses, f"failed to allocate IP {address}: {why}")]
        if not addresses:
            return [invalid_value("spec.clusterIPs", [], "failed to allocate IP: range is full")]
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort", 0)
            if not number or spec.get("type") == "ClusterIP":
                continue
            field = f"spec.ports[{index}].nodePort"
            if not self.first_port <= number <= self.last_port:
                detail = (
                    "provided port is not in the valid range. The range of valid ports is "
                    f"{self.first_port}-{self.last_port}"
                )
                return [invalid_value(field, number, detail)]
            if self._ports.get((number, port.get("protocol", "TCP")), key) != key:
                return [invalid_value(field, number, "provided port is already allocated")]
        return []

    def _address_problem(self, address: str, key: str) -> str:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return "not a valid address"
        inside = parsed in self.network and parsed != self.network.network_address
        if self.network.version == 4:
            inside = inside and parsed != self.network.broadcast_address
        if not inside:
            return "the provided network does not match the current range"
        holder = self._addresses.get(address) or self._given.get(address) or key
        return "provided IP is already allocated" if holder != key else ""


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
