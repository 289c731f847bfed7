"""Who may reach the pods of a RayCluster: pure functions from facts to NetworkPolicies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.ray_cluster.names import Names
from modelyard.operators.parts.network import network_policy, tcp

DASHBOARD, CLIENT, METRICS, PROXY = 8265, 10001, 8080, 8443
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class Peers:
    """Namespaces that reach a head beside its own workers and namespace."""

    kuberay: Sequence[str] = ("ray-system",)
    monitoring: Sequence[str] = ("openshift-monitoring",)
    dashboard: Sequence[str] = ()
    """To the dashboard itself: where an Ingress leads to it because nothing guards it."""


def head_policy(names: Names, *, mtls: bool, peers: Peers = Peers()) -> Object:
    """The dashboard itself asks nobody who they are, so neighbors in the namespace reach only its proxy."""
    operator = {"app.kubernetes.io/component": "kuberay-operator"}
    rules: list[Object] = [
        _from_cluster(names),
        {"from": [{"podSelector": {}}], "ports": tcp(CLIENT)},
        {
            "from": [{"podSelector": {"matchLabels": operator}, "namespaceSelector": _in(peers.kuberay)}],
            "ports": tcp(DASHBOARD, CLIENT),
        },
        {"from": [{"namespaceSelector": _in(peers.monitoring)}], "ports": tcp(METRICS)},
        *(
            [{"from": [{"namespaceSelector": _in(peers.dashboard)}], "ports": tcp(DASHBOARD)}]
            if peers.dashboard
            else []
        ),
        {"ports": tcp(PROXY, CLIENT) if mtls else tcp(PROXY)},
    ]
    return _policy(names, names.head_policy, "head", rules)


def workers_policy(names: Names) -> Object:
    return _policy(names, names.workers_policy, "worker", [_from_cluster(names)])


def _policy(names: Names, name: str, node_type: str, rules: Sequence[Object]) -> Object:
    pods = {"ray.io/cluster": names.cluster, "ray.io/node-type": node_type}
    return network_policy(name, names.namespace, pods=pods, labels=names.labels, ingress=rules, types=("Ingress",))


def _from_cluster(names: Names) -> Object:
    return {"from": [{"podSelector": {"matchLabels": {"ray.io/cluster": names.cluster}}}]}


def _in(namespaces: Sequence[str]) -> Object:
    return {"matchExpressions": [{"key": _NAMESPACE_NAME, "operator": "In", "values": list(namespaces)}]}
