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
from modelyard.operators.codeflare.ray_cluster.names import VERSION, Names, RayCluster
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.chaos.subject import Subject
from tests.chaos.sweeps import Step, namespace

NS, HOME = "science", "modelyard"
NAMES = Names("rc", NS, hashed=False)
IMAGE = "docker.io/rayproject/ray:2.47.1"


def group(**fields: Any) -> Object:
    return {"template": {"spec": {"containers": [{"name": "ray", "image": IMAGE}]}}, **fields}


def named(name: str, **fields: Any) -> Object:
    labels = {"ray.openshift.ai/cluster-name": "rc"}
    return {"metadata": {"name": name, "namespace": NS, "labels": labels}, **fields}


def configuration(**kuberay: Any) -> Object:
    metadata = {"name": CONFIG_MAP, "namespace": HOME}
    return {"metadata": metadata, "data": {CONFIG_KEY: yaml.safe_dump({"kuberay": kuberay})}}


def settings(**kuberay: Any) -> Step:
    async def step(client: Client) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", **configuration(**kuberay)}
        await client.apply(builtin.ConfigMap, body, field_manager="admin", force=True)

    return step


def pod(name: str, ip: str, secret: str) -> Step:
    """KubeRay has made a pod, and it has an address."""

    async def step(client: Client) -> None:
        cluster = await client.get(RayCluster, NS, "rc")
        labels = {"ray.io/cluster": "rc", "ray.io/node-type": "worker"}
        metadata = {"name": name, "namespace": NS, "labels": labels, "ownerReferences": [owner_reference(cluster)]}
        volumes = [{"name": "ca-vol", "secret": {"secretName": secret}}]
        containers = [{"name": "ray", "image": IMAGE}]
        spec = {"containers": containers, "volumes": volumes, "automountServiceAccountToken": False}
        made = await client.create(builtin.Pod, {"metadata": metadata, "spec": spec})
        status = {"phase": "Pending", "podIP": ip, "podIPs": [{"ip": ip}]}
        await client.update(builtin.Pod, made | {"status": status}, subresource="status")

    return step


async def renamed(client: Client) -> None:
    """As the webhook marks a cluster from before names had digests."""
    await client.patch(RayCluster, NS, "rc", {"metadata": {"annotations": {VERSION: "1"}}})


def clusters(**changes: Any) -> Subject:
    return Subject(
        operator,
        kind=RayCluster,
        key=Key(NS, "rc"),
        spec={"headGroupSpec": group(), "workerGroupSpecs": [group(groupName="w", minReplicas=0, maxReplicas=2)]},
        foreign=[
            (builtin.Secret, named("rc-oauth-config-1", data={"a": "Yg=="})),
            (builtin.Service, named("rc-head-svc", spec={"ports": [{"port": 1}]})),
            (builtin.NetworkPolicy, named("rc-heads", spec={"podSelector": {}})),
        ],
        generated=[f"Secret {NAMES.ca}", f"Secret {NAMES.new.ca}", f"Secret {NAMES.new.oauth_config}"],
        **changes,
    )


PLAIN = clusters(setup=[namespace(NS), namespace(HOME), (builtin.ConfigMap, configuration())])
OPENSHIFT = clusters(setup=[namespace(NS), namespace(HOME)], served=[builtin.Route])

LIFE = PLAIN.story(
    "the life of a RayCluster",
    PLAIN.made(),
    renamed,
    pod("rc-1", "10.0.0.1", NAMES.new.ca),
    settings(ingressDomain="example.com"),
    PLAIN.made(suspend=True),
    settings(ingressDomain="example.com", rayDashboardOAuthEnabled=False),
    PLAIN.made(),
    pod("rc-2", "10.0.0.2", NAMES.new.ca),
    settings(ingressDomain="other.example.com"),
    definitions=[*operator({}).definitions, RAY_CLUSTER],
)
END = OPENSHIFT.story(
    "the end of a RayCluster",
    OPENSHIFT.made(),
    renamed,
    OPENSHIFT.deleted,
    OPENSHIFT.made(),
    renamed,
    definitions=[*operator({}).definitions, RAY_CLUSTER],
)
PHASES = OPENSHIFT.story(
    "a RayCluster that is suspended, resumed and given other names",
    OPENSHIFT.made(),
    OPENSHIFT.made(suspend=True),
    OPENSHIFT.made(suspend=False),
    renamed,
    definitions=[*operator({}).definitions, RAY_CLUSTER],
)
"""It is deleted in every phase of this."""
