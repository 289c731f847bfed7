"""Rules of Services: addresses and families, ports, and which fields go with which type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.core import endpoint_address
from modelyard.local.apiserver.builtin.rules import BuiltinStrategy, Rules
from modelyard.local.apiserver.builtin.service_network import ServiceNetwork
from modelyard.local.apiserver.builtin.service_warnings import service_warnings
from modelyard.local.apiserver.requests.problems import (
    Cause,
    GoStruct,
    duplicate,
    field_forbidden,
    invalid,
    invalid_value,
    not_supported,
    required,
)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_LB_ONLY = "may only be used when `type` is 'LoadBalancer'"


class ServiceStrategy(BuiltinStrategy):
    """Services need to know which addresses are taken."""

    def __init__(self, network: ServiceNetwork) -> None:
        super().__init__(Rules(builtin.Service, status=True, name=names.dns_label, warn=service_warnings))
        self._network = network

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        self._families(spec, None)
        unaddressed = not spec.get("clusterIPs")
        self._network.allocate(obj, created=True)
        if unaddressed and spec.get("clusterIPs") and not obj["metadata"].get("name"):
            # The address is taken in the Service's name, before the Service is looked at.
            why = f'IPAddress.networking.k8s.io "{spec["clusterIP"]}" is invalid: spec.parentRef.name: Required value'
            cause = invalid_value("spec.clusterIPs", [""], f"failed to allocate IP: {why}")
            raise invalid(builtin.Service, "", [cause])

    def prepare_create_by_status(self, obj: Object) -> None:
        # Who writes a status allots nothing.
        super().prepare_create(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource:
            return
        after, before = new["spec"], old["spec"]
        _keep_allocated(after, before)
        _normalise_addresses(after, before)
        _drop_for_type(new, old)
        self._families(after, before)
        self._network.allocate(new)

    def _families(self, spec: dict[str, Any], before: dict[str, Any] | None) -> None:
        if spec.get("type") == "ExternalName":
            return
        headless = spec.get("clusterIP") == "None" and not spec.get("selector")
        if spec.get("ipFamilyPolicy") is None:
            kept = (before or {}).get("ipFamilyPolicy")
            spec["ipFamilyPolicy"] = kept or ("RequireDualStack" if headless else "SingleStack")
        families = list(spec.get("ipFamilies") or ())
        if not families and before is not None and spec.get("clusterIPs") == before.get("clusterIPs"):
            families = list(before.get("ipFamilies") or ())
        for address in (spec.get("clusterIPs") or ())[len(families) :]:
            if address != "None":
                families.append("IPv6" if checks.is_ipv6(address) else "IPv4")
        families = families or [self._network.family]
        if headless and len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        spec["ipFamilies"] = families

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        if subresource == "status":
            return _service_status(obj) if old is not None else _service(obj)
        found = _address_fields(obj["spec"]) or self._stack(obj["spec"])
        if found:
            return found
        changed = _changed_addresses(obj["spec"], old["spec"]) if old is not None else []
        # What is allocated already stays; only what is new can be out of range or taken.
        return (self._network.problems(obj) if not changed else []) or changed + _service(obj)

    def _stack(self, spec: dict[str, Any]) -> list[Cause]:
        if spec.get("type") == "ExternalName" or (spec.get("clusterIP") == "None" and not spec.get("selector")):
            return []
        found: list[Cause] = []
        if spec.get("ipFamilyPolicy") == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            found.append(invalid_value("spec.ipFamilyPolicy", "RequireDualStack", detail))
        for index, family in enumerate(spec.get("ipFamilies") or ()):
            if family != self._network.family:
                found.append(invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
        return found


def _service_status(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    field = "status.loadBalancer.ingress"
    if ingress and obj["spec"].get("type") != "LoadBalancer":
        return [field_forbidden(field, "may only be used when `spec.type` is 'LoadBalancer'")]
    for index, each in enumerate(ingress):
        if each.get("ip"):
            found += checks.ip_address(each["ip"], f"{field}[{index}].ip")
        if each.get("hostname"):
            name = each["hostname"]
            found += checks.told(f"{field}[{index}].hostname", name, names.dns_subdomain(name))
    return found


def _keep_allocated(after: dict[str, Any], before: dict[str, Any]) -> None:
    """Who sends the same YAML again keeps what was allocated for it."""
    if before.get("type") != "ExternalName" and after.get("type") != "ExternalName":
        if not after.get("clusterIP") and before.get("clusterIP"):
            after["clusterIP"] = before["clusterIP"]
        if not after.get("clusterIPs") and before.get("clusterIPs"):
            after["clusterIPs"] = list(before["clusterIPs"])
    if _uses_node_ports(before) and _uses_node_ports(after):
        old_ports = {port.get("nodePort", 0) for port in before.get("ports") or ()}
        used = old_ports & {port.get("nodePort", 0) for port in after.get("ports") or ()}
        by_name = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            kept = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and kept and kept not in used:
                port["nodePort"] = kept
    if _uses_health_port(before) and _uses_health_port(after) and not after.get("healthCheckNodePort"):
        after["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)


def _normalise_addresses(after: dict[str, Any], before: dict[str, Any]) -> None:
    """Clients that know only `clusterIP` change it alone; the list follows."""
    if after.get("clusterIP") == before.get("clusterIP"):
        return
    if after.get("clusterIP") and after.get("clusterIPs", []) == before.get("clusterIPs", []):
        after["clusterIPs"] = [after["clusterIP"]]


def _drop_for_type(new: Object, old: Object) -> None:
    """What the new type does not have, unless it was changed too: then validation says so."""
    after, before = new["spec"], old["spec"]
    if before.get("type") != "ExternalName" and after.get("type") == "ExternalName":
        if after.get("clusterIP") == before.get("clusterIP") and after.get("clusterIPs") == before.get("clusterIPs"):
            after.pop("clusterIP", None)
            after.pop("clusterIPs", None)
        for name in ("ipFamilies", "ipFamilyPolicy"):
            if after.get(name) == before.get(name):
                after.pop(name, None)
    if _uses_node_ports(before) and not _uses_node_ports(after):
        had = {port.get("nodePort", 0) for port in before.get("ports") or ()}
        if {port["nodePort"] for port in after.get("ports") or () if port.get("nodePort")} <= had:
            for port in after.get("ports") or ():
                port.pop("nodePort", None)
    gone = {
        "healthCheckNodePort": _uses_health_port(before) and not _uses_health_port(after),
        "externalTrafficPolicy": _external(before) and not _external(after),
        "internalTrafficPolicy": after.get("type") == "ExternalName",
    }
    for name, dropped in gone.items():
        if dropped and after.get(name) == before.get(name):
            after.pop(name, None)
    if before.get("type") == "LoadBalancer" and after.get("type") != "LoadBalancer":
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if after.get(name) == before.get(name):
                after.pop(name, None)
    if after.get("type") != "LoadBalancer":
        new["status"] = dict(new.get("status") or {}) | {"loadBalancer": {}}


def _uses_node_ports(spec: dict[str, Any]) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _uses_health_port(spec: dict[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _external(spec: dict[str, Any]) -> bool:
    return _uses_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def _address_fields(spec: dict[str, Any]) -> list[Cause]:
    if spec.get("type") == "ExternalName":
        return []
    found: list[Cause] = []
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if address:
        if not addresses:
            found.append(required("spec.clusterIPs"))
        elif addresses[0] != address:
            found.append(invalid_value("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif addresses:
        detail = "must be empty when `clusterIP` is not specified"
        found.append(invalid_value("spec.clusterIPs", addresses, detail))
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            found.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            found.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        found.append(not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    wrong = False
    for index, item in enumerate(addresses):
        if index == 0 and item == "None":
            if len(addresses) > 1:
                wrong = True
                found.append(invalid_value("spec.clusterIPs", addresses, "'None' must be the first and only value"))
            continue
        bad = checks.ip_address(item, f"spec.clusterIPs[{index}]")
        wrong = wrong or bool(bad)
        found += bad
    if len(addresses) > 2:
        found.append(invalid_value("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    if not wrong and len(addresses) > 1 and len({checks.is_ipv6(item) for item in addresses}) < 2:
        detail = "may specify no more than one IP for each IP family"
        found.append(invalid_value("spec.clusterIPs", addresses, detail))
    return found


def _changed_addresses(after: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    if "ExternalName" in (after.get("type"), before.get("type")):
        return []
    new, old = after.get("clusterIPs") or [], before.get("clusterIPs") or []
    if old and not new:
        return [invalid_value("spec.clusterIPs[0]", new, "primary clusterIP can not be unset")]
    if old and new[0] != old[0]:
        return [invalid_value("spec.clusterIPs[0]", new, "may not change once set")]
    return []


def _service(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    ports, kind = spec.get("ports") or (), spec.get("type", "")
    headless = spec.get("clusterIP") == "None"
    found: list[Cause] = []
    if not ports and not headless and kind != "ExternalName":
        found.append(required("spec.ports"))
    if headless and kind in ("LoadBalancer", "NodePort"):
        detail = f"may not be set to 'None' for {kind} services"
        found.append(invalid_value("spec.clusterIPs[0]", "None", detail))
    if kind == "ExternalName":
        found += _external_name(spec)
    found += _ports(ports)
    found += checks.labels(spec.get("selector"), "spec.selector")
    found += _affinity(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{index}]"
        found += checks.ip_address(address, path) or endpoint_address(address, path, loopback=False)
    if kind not in _TYPES:
        found.append(not_supported("spec.type", kind, _TYPES))
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                found.append(field_forbidden(f"spec.ports[{index}].nodePort", detail))
    found += _duplicate_ports(ports)
    if spec.get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            found.append(field_forbidden("spec.LoadBalancerSourceRanges", _LB_ONLY))
        for index, value in enumerate(spec["loadBalancerSourceRanges"]):
            found += checks.cidr(value.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        found.append(field_forbidden("spec.allocateLoadBalancerNodePorts", _LB_ONLY))
    if spec.get("loadBalancerClass") is not None and kind != "LoadBalancer":
        found.append(field_forbidden("spec.loadBalancerClass", _LB_ONLY))
    return found + _traffic(spec)


def _external_name(spec: dict[str, Any]) -> list[Cause]:
    found = [
        field_forbidden(f"spec.{name}", "may not be set for ExternalName services")
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(name)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    return found + checks.needs_name(name, "spec.externalName", names.dns_subdomain)


def _ports(ports: Sequence[Object]) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            found.append(required(f"{path}.name"))
        elif name:
            found += checks.dns_label(name, f"{path}.name")
            if name in seen:
                found.append(duplicate(f"{path}.name", name))
            seen.add(name)
        found += checks.port_number(port.get("port", 0), f"{path}.port")
        if port.get("protocol") not in checks.PROTOCOLS:
            found.append(not_supported(f"{path}.protocol", port.get("protocol", ""), checks.PROTOCOLS))
        found += checks.port_or_name(port.get("targetPort", 0), f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            found += checks.qualified_name(port["appProtocol"], f"{path}.appProtocol")
    return found


def _duplicate_ports(ports: Sequence[Object]) -> list[Cause]:
    found: list[Cause] = []
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        node = (port.get("protocol", ""), port.get("nodePort", 0))
        if node[1] and node in node_ports:
            found.append(duplicate(f"spec.ports[{index}].nodePort", node[1]))
        node_ports.add(node)
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in numbers:
            shown = GoStruct(Name="", Protocol=key[0], AppProtocol=None, Port=key[1], TargetPort=0, NodePort=0)
            found.append(duplicate(f"spec.ports[{index}]", shown))
        numbers.add(key)
    return found


def _affinity(spec: dict[str, Any]) -> list[Cause]:
    affinity = spec.get("sessionAffinity", "")
    if affinity not in ("ClientIP", "None"):
        return [not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    if affinity == "ClientIP":
        seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < seconds <= 86400:
            field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            return [invalid_value(field, seconds, "must be greater than 0 and less than 86400")]
    return []


def _traffic(spec: dict[str, Any]) -> list[Cause]:
    found: list[Cause] = []
    policy = spec.get("externalTrafficPolicy", "")
    if not _external(spec):
        if policy:
            detail = "may only be set for externally-accessible services"
            found.append(invalid_value("spec.externalTrafficPolicy", policy, detail))
    elif policy not in ("Cluster", "Local"):
        found.append(not_supported("spec.externalTrafficPolicy", policy, ("Cluster", "Local")))
    port = spec.get("healthCheckNodePort", 0)
    if port and not _uses_health_port(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(invalid_value("spec.healthCheckNodePort", port, detail))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in ("Cluster", "Local"):
        found.append(not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local")))
    return found
