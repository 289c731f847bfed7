"""The life of a RayCluster and of what is around it: suspended, resumed, given other settings, scaled, and deleted."""

from __future__ import annotations

from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import owner_reference
from modelyard.operators.codeflare.config import CONFIG_KEY, CONFIG_MAP
from modelyard.operators.codeflare.operator import operator
from modelyard.operators.codeflare.ray_cluster.names import Names, RayCluster
from tests.chaos.subject import Subject
from tests.chaos.sweeps import Step, namespace

NS, HOME = "science", "modelyard"
NAMES = Names("rc", NS)
IMAGE = "docker.io/rayproject/ray:2.47.1"


def group(**fields: Any) -> Object:
    return {"template": {"spec": {"containers": [{"name": "ray", "image": IMAGE}]}}, **fields}


def named(name: str, **fields: Any) -> Object:
    labels = {"ray.openshift.ai/cluster-name": "rc"}
    return {"metadata": {"name": name, "namespace": NS, "labels": labels}, **fields}


def settings(**kuberay: Any) -> Step:
    async def step(client: Client) -> None:
        data = {CONFIG_KEY: yaml.safe_dump({"kuberay": kuberay})}
        metadata = {"name": CONFIG_MAP, "namespace": HOME}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await client.apply(builtin.ConfigMap, body, field_manager="admin", force=True)

    return step


def pod(name: str, ip: str) -> Step:
    """KubeRay has made a pod, and it has an address."""

    async def step(client: Client) -> None:
        cluster = await client.get(RayCluster, NS, "rc")
        labels = {"ray.io/cluster": "rc", "ray.io/node-type": "worker"}
        metadata = {"name": name, "namespace": NS, "labels": labels, "ownerReferences": [owner_reference(cluster)]}
        volumes = [{"name": "ca-vol", "secret": {"secretName": NAMES.ca}}]
        spec = {"containers": [{"name": "ray", "image": IMAGE}], "volumes": volumes}
        made = await client.create(builtin.Pod, {"metadata": metadata, "spec": spec})
        status = {"phase": "Pending", "podIP": ip, "podIPs": [{"ip": ip}]}
        await client.update(builtin.Pod, made | {"status": status}, subresource="status")

    return step


def masked(*names: str) -> dict[tuple[str, str], str]:
    return dict.fromkeys(((f"Secret {name}", field) for name in names for field in ()), "")


CLUSTERS = Subject(
    operator,
    kind=RayCluster,
    key=Key(NS, "rc"),
    spec={"headGroupSpec": group(), "workerGroupSpecs": [group(groupName="w", minReplicas=0, maxReplicas=2)]},
    setup=[namespace(NS), namespace(HOME)],
    foreign=[
        (builtin.Secret, named("rc-ca-secret", data={"a": "Yg=="})),
        (builtin.Service, named("rc-head-svc", spec={"ports": [{"port": 1}]})),
        (builtin.NetworkPolicy, named("rc-head", spec={"podSelector": {}})),
    ],
)
