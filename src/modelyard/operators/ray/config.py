"""The settings of the Ray operator: read once from the environment, checked, then passed around as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelyard.operators.parts.settings import beside_us, predecessor_setting
from modelyard.runtime.declaring.predecessor import Predecessor
from modelyard.runtime.declaring.settings import matching, read_settings, setting, whole_number

UPSTREAM = Predecessor(
    name="kuberay-operator",
    lease="ray-operator-leader",
    namespaces=(
        "ray-system",
        "kuberay-system",
        "kuberay-operator",
        "default",
        "opendatahub",
        "redhat-ods-applications",
    ),
    managers=("kuberay-operator", "manager"),
    labels={"app.kubernetes.io/created-by": "kuberay-operator"},
    stop="kubectl -n {namespace} scale deployment kuberay-operator --replicas=0",
)
"""Whom we stand in for, and never work beside."""
TOKEN, DISABLED = "token", "disabled"


@dataclass(frozen=True)
class Settings:
    """Everything that an admin may set about the operator. The names of KubeRay's own switches are KubeRay's."""

    cluster_domain: str = setting("CLUSTER_DOMAIN", "cluster.local", "The domain in which Services have their names")
    auth: str = setting(
        "RAY_AUTH",
        TOKEN,
        "Whether clients must show a token where a RayCluster says nothing about it (token or disabled); "
        "a cluster with mutual TLS gets none",
        form=matching(lambda text: text in (TOKEN, DISABLED), f"use {TOKEN} or {DISABLED}"),
    )
    head_address: bool = setting(
        "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", False, "Whether the head's Service has an address of its own"
    )
    wait_for_head: bool = setting(
        "ENABLE_INIT_CONTAINER_INJECTION", True, "Whether workers wait for the head in an init container"
    )
    probes: bool = setting("ENABLE_PROBES_INJECTION", True, "Whether Ray containers without probes get some")
    readiness_delay: int = setting(
        "RAY_READINESS_DELAY",
        10,
        "Seconds after which a Ray container is asked for the first time whether it is ready",
        form=whole_number(0, 600),
    )
    readiness_period: int = setting(
        "RAY_READINESS_PERIOD",
        5,
        "Seconds from one such question to the next",
        form=whole_number(1, 600),
    )
    requeue: int = setting(
        "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV",
        300,
        "Seconds after which a settled RayCluster is looked at again",
        form=whole_number(1),
    )
    gateway: str = setting("RAY_GATEWAY_NAME", "", "Gateway that shows the dashboards of all RayClusters; empty: none")
    gateway_namespace: str = setting("RAY_GATEWAY_NAMESPACE", "", "Namespace of that gateway")
    predecessor_namespaces: tuple[str, ...] = predecessor_setting()

    @property
    def predecessor(self) -> Predecessor:
        """Whom we stand in for, wherever it may run."""
        return UPSTREAM.also_in(*self.predecessor_namespaces)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """A bad value is a `SettingError` that names it."""
        settings = read_settings(cls, environ)
        return replace(settings, predecessor_namespaces=beside_us(environ, settings.predecessor_namespaces))
