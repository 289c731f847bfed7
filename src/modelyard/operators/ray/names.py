"""What the objects of a RayCluster are called, and the labels by which Ray's own programs find its pods. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from modelyard.operators.parts.ray_crd import RayCluster

CLUSTER = "ray.io/cluster"
NODE_TYPE = "ray.io/node-type"
GROUP = "ray.io/group"
IDENTIFIER = "ray.io/identifier"
IS_NODE = "ray.io/is-ray-node"
REPLICA_INDEX = "ray.io/worker-group-replica-index"
REPLICA_NAME = "ray.io/worker-group-replica-name"
HOST_INDEX = "ray.io/replica-host-index"
APP, CREATOR = "app.kubernetes.io/name", "app.kubernetes.io/created-by"
HEAD, WORKER, HEAD_GROUP = "head", "worker", "headgroup"

SERVE_SERVICE = "ray.io/enable-serve-service"
"""Annotation of a RayCluster: a Service for Ray Serve is wanted."""
OWN_COMMAND = "ray.io/overwrite-container-cmd"
"""Annotation of a RayCluster: the containers' commands are left as they are."""
FAULT_TOLERANT = "ray.io/ft-enabled"
SPEC_HASH = "ray.io/upgrade-strategy-recreate-hash"
MADE_BY = "ray.io/kuberay-version"
"""Annotation of a pod: who wrote the digest of the spec beside it."""
SECURED = "ray.openshift.ai/version"
"""Annotation of a RayCluster: CodeFlare gives access to it."""
US = "modelyard"

GCS_PORT, DASHBOARD_PORT, CLIENT_PORT, METRICS_PORT, SERVE_PORT, AGENT_PORT = 6379, 8265, 10001, 8080, 8000, 52365


@dataclass(frozen=True)
class Names:
    """The names for one cluster."""

    cluster: str
    namespace: str
    own_head_service: str = ""
    domain: str = "cluster.local"

    @classmethod
    def of(cls, cluster: RayCluster, domain: str) -> Names:
        head = cluster.spec.head_group_spec if cluster.spec else None
        own = ((head.head_service if head else None) or {}).get("metadata") or {}
        return cls(cluster.metadata.name, cluster.metadata.namespace, str(own.get("name") or ""), domain)

    @property
    def head_service(self) -> str:
        return self.own_head_service or f"{self.cluster}-head-svc"

    @property
    def workers_service(self) -> str:
        return f"{self.cluster}-headless"

    @property
    def serve_service(self) -> str:
        return f"{self.cluster}-serve-svc"

    @property
    def ingress(self) -> str:
        return f"{self.cluster}-head-ingress"

    @property
    def head_address(self) -> str:
        """The head's name in the whole cluster."""
        return f"{self.head_service}.{self.namespace}.svc.{self.domain}"

    def pod_prefix(self, group: str | None = None) -> str:
        """What the names of the head, or of a group's pods, begin with."""
        if group is None:
            return f"{self.cluster[:50]}-{HEAD}".lower()
        return f"{f'{self.cluster}-{group}'[:50]}-{WORKER}".lower()

    def labels(self, node_type: str, group: str) -> dict[str, str]:
        """The labels of a pod, before those of its template."""
        return {
            IS_NODE: "yes",
            CLUSTER: self.cluster,
            NODE_TYPE: node_type,
            GROUP: group,
            IDENTIFIER: f"{self.cluster}-{node_type}",
            APP: "kuberay",
            CREATOR: "kuberay-operator",
        }
