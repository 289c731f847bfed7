"""The names of what is made for one RayCluster."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of, lookup, name_of, namespace_of

RayCluster = Kind("ray.io", "v1", "RayCluster", "rayclusters")
"""Someone else's kind: KubeRay defines it."""
CONTROLLER = "codeflare-raycluster-controller"
FINALIZER = "ray.openshift.ai/oauth-finalizer"
VERSION = "ray.openshift.ai/version"
"""Annotation: a cluster that has it uses names with a digest."""
CLUSTER_NAME = "ray.openshift.ai/cluster-name"
CLUSTER_NAMESPACE = "ray.openshift.ai/cluster-namespace"
RAY_CLUSTER = "ray.io/cluster"
"""Label of every Ray pod: the cluster that it is of."""
NODE_TYPE = "ray.io/node-type"


@dataclass(frozen=True)
class Names:
    cluster: str
    namespace: str
    hashed: bool = True
    head_service: str = ""
    """The Service that KubeRay makes for the head."""

    def __post_init__(self) -> None:
        if not self.head_service:
            object.__setattr__(self, "head_service", f"{self.cluster}-head-svc")

    @classmethod
    def of(cls, cluster: Object, namespace: str = "") -> Names:
        own = lookup(cluster, "spec", "headGroupSpec", "headService", "metadata", "name")
        place = namespace_of(cluster) or namespace
        return cls(name_of(cluster), place, VERSION in annotations_of(cluster), str(own or ""))

    @property
    def old(self) -> Names:
        """As they were before the digests."""
        return replace(self, hashed=False)

    @property
    def new(self) -> Names:
        return replace(self, hashed=True)

    @property
    def binding(self) -> str:
        return self._name(f"{self.cluster}-{self.namespace}-auth")

    @property
    def account(self) -> str:
        return self._name(f"{self.cluster}-oauth-proxy")

    @property
    def oauth_service(self) -> str:
        return self._name(f"{self.cluster}-oauth")

    @property
    def serving_certificate(self) -> str:
        return self._name(f"{self.cluster}-proxy-tls-secret")

    @property
    def oauth_config(self) -> str:
        return self._name(f"{self.cluster}-oauth-config")

    @property
    def ca(self) -> str:
        return self._name(f"{self.cluster}-ca-secret") if self.hashed else f"ca-secret-{self.cluster}"

    @property
    def head_policy(self) -> str:
        return self._name(f"{self.cluster}-head")

    @property
    def workers_policy(self) -> str:
        return self._name(f"{self.cluster}-workers")

    @property
    def dashboard(self) -> str:
        return f"ray-dashboard-{self.cluster}"

    @property
    def client(self) -> str:
        return f"rayclient-{self.cluster}"

    @property
    def labels(self) -> dict[str, str]:
        return {CLUSTER_NAME: self.cluster}

    @property
    def binding_labels(self) -> dict[str, str]:
        return {**self.labels, CLUSTER_NAMESPACE: self.namespace}

    @property
    def head_pods(self) -> dict[str, str]:
        return {RAY_CLUSTER: self.cluster, NODE_TYPE: "head"}

    def host(self, way: str, domain: str) -> str:
        """The host of a way in (`dashboard` or `client` above) below a domain."""
        return f"{way}-{self.namespace}.{domain}"

    def _name(self, text: str) -> str:
        if not self.hashed:
            return text
        return f"{text}-{hashlib.sha256(f'{CONTROLLER}{text}'.encode()).hexdigest()[:8]}"
