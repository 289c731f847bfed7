"""Network policies, HTTPRoutes and Routes: how pods are reached and what they may reach."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Literal

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.parts.build import Labels, config_map, filled, obj, present
from modelyard.runtime.declaring.controller import Permission

BackendTLSPolicy = Kind("gateway.networking.k8s.io", "v1", "BackendTLSPolicy", "backendtlspolicies")

OWN_HOSTS = Permission((builtin.Route.group,), ("routes/custom-host",), ("create", "update", "patch"))
"""What it takes on OpenShift to choose the host of a Route."""
DNS_PORTS: tuple[Object, ...] = (
    {"protocol": "UDP", "port": 53},
    {"protocol": "TCP", "port": 53},
    {"protocol": "UDP", "port": 5353},
    {"protocol": "TCP", "port": 5353},
)
"""Where cluster DNS listens, on Kubernetes and on OpenShift."""


def tcp(*ports: int | str) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def to_ports(ports: Sequence[Object]) -> Object:
    """An egress rule: these ports, anywhere."""
    return {"ports": [dict(port) for port in ports]}


def network_policy(
    name: str,
    namespace: str,
    *,
    pods: Labels,
    labels: Labels | None = None,
    ingress: Sequence[Object] | None = None,
    egress: Sequence[Object] | None = None,
    types: Sequence[str] = ("Ingress", "Egress"),
) -> Object:
    """A policy on the pods with these labels. A direction that is in `types` and has no rules is closed."""
    spec = present(
        podSelector={"matchLabels": dict(pods)},
        policyTypes=list(types),
        ingress=None if ingress is None else list(ingress),
        egress=None if egress is None else list(egress),
    )
    return obj(builtin.NetworkPolicy, name, namespace, labels, spec=spec)


def path_rule(prefix: str, service: str, port: int, *, rewrite: str | None = None) -> Object:
    """An HTTPRoute rule: everything below `prefix` goes to a Service, with the prefix replaced by `rewrite` if given."""
    rule: Object = {"matches": [{"path": {"type": "PathPrefix", "value": prefix}}]}
    if rewrite is not None:
        path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": rewrite}
        rule["filters"] = [{"type": "URLRewrite", "urlRewrite": {"path": path}}]
    rule["backendRefs"] = [{"group": "", "kind": "Service", "name": service, "port": port, "weight": 1}]
    return rule


def http_route(
    name: str,
    namespace: str,
    *,
    gateway: str,
    gateway_namespace: str,
    rules: Sequence[Object],
    hostnames: Sequence[str] = (),
    labels: Labels | None = None,
) -> Object:
    parent = {
        "group": builtin.Gateway.group,
        "kind": builtin.Gateway.kind,
        "name": gateway,
        "namespace": gateway_namespace,
    }
    spec = filled(parentRefs=[parent], hostnames=list(hostnames), rules=list(rules))
    return obj(builtin.HTTPRoute, name, namespace, labels, spec=spec)


def backend_tls(service: str, namespace: str, *, host: str, ca: str, bundle: str, labels: Labels) -> list[Object]:
    """How a gateway checks a Service's certificate, where we know who signed it: `ca` in base64, kept as ConfigMap `bundle`."""
    trusted = config_map(bundle, namespace, {"ca.crt": b64decode(ca).decode()}, labels)
    reference = {"group": "", "kind": builtin.ConfigMap.kind, "name": bundle}
    spec = {
        "targetRefs": [{"group": "", "kind": builtin.Service.kind, "name": service}],
        "validation": {"caCertificateRefs": [reference], "hostname": host},
    }
    return [trusted, obj(BackendTLSPolicy, service, namespace, labels, spec=spec)]


def route(
    name: str,
    namespace: str,
    *,
    service: str,
    port: str | int,
    termination: Literal["edge", "passthrough", "reencrypt"] | None = None,
    host: str | None = None,
    path: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    insecure: str | None = None,
) -> Object:
    """An OpenShift Route to a Service."""
    spec = present(
        host=host,
        path=path,
        to={"kind": "Service", "name": service, "weight": 100},
        port={"targetPort": port},
        tls=None if termination is None else present(termination=termination, insecureEdgeTerminationPolicy=insecure),
        wildcardPolicy="None",
    )
    return obj(builtin.Route, name, namespace, labels, annotations, spec=spec)
