"""Rows of services and of what routes to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.tables.ages import Ages
from modelyard.local.apiserver.tables.labels import NONE, format_labels, format_selector


def _age(obj: Object, ages: Ages) -> str:
    return ages.since(obj["metadata"].get("creationTimestamp"))


def _some(items: Sequence[str], limit: int = 3) -> str:
    shown = ",".join(items[:limit])
    return f"{shown} + {len(items) - limit} more..." if len(items) > limit else shown


def _join(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def service(obj: Object, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or ()
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    return [
        obj["metadata"]["name"], spec.get("type") or "", addresses[0] if addresses else NONE, _external(obj, spec), ports,
        _age(obj, ages), format_labels(spec.get("selector")),
    ]  # fmt: skip


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol') or ''}"


def _external(obj: Object, spec: Object) -> str:
    external = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            return ",".join([*_balancer(obj), *external]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return "<unknown>"


def _balancer(obj: Object) -> list[str]:
    entries: Iterable[Object] = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})


def ingress(obj: Object, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    rules = spec.get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    shown = ",".join(hosts[:3]) or "*"
    if len(hosts) >= 3 and len(rules) > 3:
        shown += f" + {len(rules) - 3} more..."
    return [
        obj["metadata"]["name"], spec.get("ingressClassName") or NONE, shown, ",".join(_balancer(obj)),
        "80, 443" if spec.get("tls") else "80", _age(obj, ages),
    ]  # fmt: skip


def ingress_class(obj: Object, ages: Ages) -> list[Any]:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    default = (metadata.get("annotations") or {}).get("ingressclass.kubernetes.io/is-default-class") == "true"
    parameters = spec.get("parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        shown = f"{parameters.get('kind')}{group}/{parameters.get('name')}"
    name = metadata["name"] + (" (default)" if default else "")
    return [name, spec.get("controller") or "", shown, _age(obj, ages)]


def endpoints(obj: Object, ages: Ages) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        for port in ports:
            found += [_join(address, port.get("port")) for address in addresses]
    shown = _some(found) if obj.get("subsets") else NONE
    return [obj["metadata"]["name"], shown, _age(obj, ages)]


def endpoint_slice(obj: Object, ages: Ages) -> list[Any]:
    ports = []
    for port in obj.get("ports") or ():
        number, name = port.get("port"), port.get("name")
        ports.append(str(number) if number is not None else name if name is not None else "*")
    addresses = [a for endpoint in obj.get("endpoints") or () for a in endpoint.get("addresses") or ()]
    return [
        obj["metadata"]["name"], obj.get("addressType") or "", _some(ports) or "<unset>", _some(addresses) or "<unset>",
        _age(obj, ages),
    ]  # fmt: skip


def network_policy(obj: Object, ages: Ages) -> list[Any]:
    selector = (obj.get("spec") or {}).get("podSelector")
    return [obj["metadata"]["name"], format_selector(selector), _age(obj, ages)]
