"""Rules of networking and discovery: Ingress, IngressClass, NetworkPolicy, EndpointSlice."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.core import endpoint_address
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
    too_many,
)

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES = ("/..", "/.")
IP_ADDRESS = Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", namespaced=False)
SERVICE_CIDR = Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", namespaced=False)


def ingress(obj: Object) -> list[Cause]:
    found = _ingress(obj)
    value = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    name = obj["spec"].get("ingressClassName")
    if value is not None and name is not None and value != name:
        detail = "must match `ingressClassName` when both are specified"
        found.append(invalid_value(f"annotations.{_CLASS_ANNOTATION}", value, detail))
    return found


def ingress_update(new: Object, old: Object) -> list[Cause]:
    return _ingress(new)


def _ingress(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    found: list[Cause] = []
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        found.append(invalid_value("spec", None, detail))
    if backend is not None:
        found += _backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        path = f"spec.rules[{index}]"
        found += _host(rule.get("host", ""), f"{path}.host")
        http = rule.get("http")
        if http is not None:
            if not http.get("paths"):
                found.append(required(f"{path}.http.paths"))
            for place, item in enumerate(http.get("paths") or ()):
                found += _path(item, f"{path}.http.paths[{place}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for place, host in enumerate(tls.get("hosts") or ()):
            check = names.wildcard_subdomain if "*" in host else names.dns_subdomain
            found += checks.told(f"spec.tls[{index}].hosts[{place}]", host, check(host))
        name = tls.get("secretName", "")
        if name:
            found += checks.told(f"spec.tls[{index}].secretName", name, names.dns_subdomain(name))
    if spec.get("ingressClassName") is not None:
        name = spec["ingressClassName"]
        found += checks.told("spec.ingressClassName", name, names.dns_subdomain(name))
    return found


def _host(host: str, field: str) -> list[Cause]:
    if not host:
        return []
    found: list[Cause] = []
    if not checks.ip_address(host, field):
        found.append(invalid_value(field, host, "must be a DNS name, not an IP address"))
    check = names.wildcard_subdomain if "*" in host else names.dns_subdomain
    return found + checks.told(field, host, check(host))


def _path(item: Object, field: str) -> list[Cause]:
    kind, path = item.get("pathType"), item.get("path", "")
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    found: list[Cause] = []
    if kind in ("Exact", "Prefix"):
        if not path.startswith("/"):
            found.append(invalid_value(f"{field}.path", path, "must be an absolute path"))
        for sequence in _BAD_SEQUENCES:
            if sequence in path:
                found.append(invalid_value(f"{field}.path", path, f"must not contain '{sequence}'"))
        for suffix in _BAD_SUFFIXES:
            if path.endswith(suffix):
                found.append(invalid_value(f"{field}.path", path, f"cannot end with '{suffix}'"))
    elif kind == "ImplementationSpecific":
        if path and not path.startswith("/"):
            found.append(invalid_value(f"{field}.path", path, "must be an absolute path"))
    else:
        found.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    return found + _backend(item.get("backend") or {}, f"{field}.backend")


def _backend(backend: Object, field: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid_value(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, f"{field}.resource")
    if service is None:
        return [invalid_value(field, "", "resource or service backend is required")]
    found = checks.needs_name(service.get("name", ""), f"{field}.service.name", names.dns_label)
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        found.append(invalid_value(field, "", "cannot set both port name & port number"))
    elif port.get("name"):
        found += checks.told(f"{field}.service.port.name", port["name"], names.port_name(port["name"]))
    elif port.get("number"):
        found += checks.port_number(port["number"], f"{field}.service.port.number")
    else:
        found.append(required(field, "port name or number is required"))
    return found


def _reference(reference: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    if reference.get("apiGroup") is not None:
        group = reference["apiGroup"]
        found += checks.told(f"{field}.apiGroup", group, names.dns_subdomain(group))
    for name in ("kind", "name"):
        found += checks.needs_name(reference.get(name, ""), f"{field}.{name}", names.path_segment)
    return found


def ingress_class(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    return _controller(spec.get("controller", "")) + _parameters(spec.get("parameters"))


def _parameters(parameters: Object | None) -> list[Cause]:
    if parameters is None:
        return []
    field = "spec.parameters"
    found = _reference(parameters, field)
    scope, namespace = parameters.get("scope", ""), parameters.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        found.append(not_supported(f"{field}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace":
        if namespace is None:
            found.append(required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            found += checks.dns_label(namespace, f"{field}.namespace")
    elif namespace is not None:
        found.append(field_forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return found


def _controller(controller: str) -> list[Cause]:
    if len(controller) > 250:
        return [Cause("spec.controller", "FieldValueTooLong", "Too long: may not be more than 250 bytes")]
    if not controller:
        return [required("spec.controller")]
    prefix, slash, rest = controller.partition("/")
    if not slash or not rest:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid_value("spec.controller", controller, detail)]
    return checks.told("spec.controller", prefix, names.dns_subdomain(prefix))


def ingress_class_update(new: Object, old: Object) -> list[Cause]:
    after, before = (new.get("spec") or {}).get("controller"), (old.get("spec") or {}).get("controller")
    return checks.immutable(after, before, "spec.controller") + ingress_class(new)


def network_policy(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = checks.label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for place, port in enumerate(rule.get("ports") or ()):
                found += _policy_port(port, f"{path}.ports[{place}]")
            for place, peer in enumerate(rule.get(peers) or ()):
                found += _policy_peer(peer, f"{path}.{peers}[{place}]")
    types = spec.get("policyTypes") or ()
    if len(types) > 2:
        detail = "may not specify more than two policyTypes"
        return [*found, invalid_value("spec.policyTypes", list(types), detail)]
    for index, kind in enumerate(types):
        found += checks.one_of(kind, f"spec.policyTypes[{index}]", ("Ingress", "Egress"))
    return found


def _policy_port(port: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    if port.get("protocol") is not None:
        found += checks.one_of(port["protocol"], f"{field}.protocol", ("TCP", "UDP", "SCTP"))
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        found += checks.port_number(number, f"{field}.port")
        if end is not None:
            if end < number:
                found.append(invalid_value(f"{field}.endPort", end, "must be greater than or equal to `port`"))
            found += checks.port_number(end, f"{field}.endPort")
    elif number is not None:
        if end is not None:
            detail = "may not be specified when `port` is non-numeric"
            found.append(invalid_value(f"{field}.endPort", end, detail))
        found += checks.told(f"{field}.port", number, names.port_name(number))
    elif end is not None:
        found.append(invalid_value(f"{field}.endPort", end, "may not be specified when `port` is not specified"))
    return found


def _policy_peer(peer: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    for name in ("podSelector", "namespaceSelector"):
        found += checks.label_selector(peer.get(name), f"{field}.{name}")
    block = peer.get("ipBlock")
    if block is not None:
        found += _ip_block(block, f"{field}.ipBlock")
        if len(peer) > 1:
            found.append(field_forbidden(field, "may not specify both ipBlock and another peer"))
    if not peer:
        found.append(required(field, "must specify a peer"))
    return found


def _ip_block(block: Object, field: str) -> list[Cause]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{field}.cidr")]
    found = checks.cidr(cidr, f"{field}.cidr")
    if found:
        return found
    network = ipaddress.ip_network(cidr)
    for index, item in enumerate(block.get("except") or ()):
        path = f"{field}.except[{index}]"
        wrong = checks.cidr(item, path)
        found += wrong
        if wrong:
            continue
        excepted = ipaddress.ip_network(item)
        inside = excepted.version == network.version and excepted.network_address in network
        if not inside or network.prefixlen >= excepted.prefixlen:
            found.append(invalid_value(path, item, "must be a strict subset of `cidr`"))
    return found


def endpoint_slice(obj: Object, old: Object | None = None) -> list[Cause]:
    """Endpoints that an update leaves as they were are not looked at again."""
    kind = obj.get("addressType", "")
    found: list[Cause] = []
    if not kind:
        found.append(required("addressType"))
    elif kind not in ("FQDN", "IPv4", "IPv6"):
        found.append(not_supported("addressType", kind, ("FQDN", "IPv4", "IPv6")))
    found += _slice_ports(obj.get("ports") or ())
    endpoints = obj.get("endpoints") or []
    if old is None or endpoints != (old.get("endpoints") or []):
        found += _slice_endpoints(endpoints, kind)
    return found


def _slice_ports(ports: Sequence[Object]) -> list[Cause]:
    if len(ports) > 20000:
        return [too_many("ports", len(ports), 20000)]
    found: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name", "")
        if name:
            found += checks.dns_label(name, f"{path}.name")
        if name in seen:
            found.append(duplicate(f"{path}.name", name))
        seen.add(name)
        if port.get("protocol") not in checks.PROTOCOLS:
            found.append(not_supported(f"{path}.protocol", port.get("protocol", ""), checks.PROTOCOLS))
        if port.get("appProtocol") is not None:
            found += checks.qualified_name(port["appProtocol"], f"{path}.appProtocol")
    return found


def _slice_endpoints(endpoints: Sequence[Object], kind: str) -> list[Cause]:
    if len(endpoints) > 1000:
        return [too_many("endpoints", len(endpoints), 1000)]
    found: list[Cause] = []
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            found.append(required(f"{path}.addresses"))
        elif len(addresses) > 100:
            found.append(too_many(f"{path}.addresses", len(addresses), 100))
        for place, address in enumerate(addresses):
            field = f"{path}.addresses[{place}]"
            if kind == "FQDN":
                found += checks.told(field, address, names.dns_subdomain(address))
            elif kind in ("IPv4", "IPv6"):
                if wrong := checks.ip_address(address, field):
                    found += wrong
                    continue
                if checks.is_ipv6(address) != (kind == "IPv6"):
                    found.append(invalid_value(f"{path}.addresses", address, f"must be an {kind} address"))
                found += endpoint_address(address, field)
        if endpoint.get("nodeName") is not None:
            name = endpoint["nodeName"]
            found += checks.told(f"{path}.nodeName", name, names.dns_subdomain(name))
        if endpoint.get("hostname") is not None:
            found += checks.dns_label(endpoint["hostname"], f"{path}.hostname")
    return found


def endpoint_slice_update(new: Object, old: Object) -> list[Cause]:
    return endpoint_slice(new, old) + checks.immutable_declared(
        new.get("addressType"), old.get("addressType"), "addressType"
    )


def ingress_status(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    for index, each in enumerate(((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()):
        path, name = f"status.loadBalancer.ingress[{index}]", each.get("hostname")
        if each.get("ip"):
            found += checks.ip_address(each["ip"], f"{path}.ip")
        if name:
            found += checks.told(f"{path}.hostname", name, names.dns_subdomain(name))
            if not checks.ip_address(name, ""):
                found.append(invalid_value(f"{path}.hostname", name, "must be a DNS name, not an IP address"))
    return found


RULES = (
    Rules(builtin.Ingress, ingress, ingress_update, ingress_status, generation="spec", status=True),
    Rules(builtin.IngressClass, ingress_class, ingress_class_update, generation="spec"),
    Rules(builtin.NetworkPolicy, network_policy, generation="spec", prefix_always=False),
    Rules(builtin.EndpointSlice, endpoint_slice, endpoint_slice_update, generation="content and labels"),
    Rules(IP_ADDRESS),
    Rules(SERVICE_CIDR, status=True),
)
