"""RayCluster (`ray.io`) as types: KubeRay's kind, defined by us where no KubeRay has brought it. Pure data, no behavior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from modelyard.kube.crd import Column, Definition, Model, Resource, Version, embedded
from modelyard.operators.parts.types import (
    Conditions,
    Data,
    EnvFromSource,
    EnvVar,
    Int32,
    Int64,
    NetworkPolicyEgressRule,
    Quantity,
    ResourceRequirements,
    SecurityContext,
    Timestamp,
)

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "namespace": {"type": "string"},
                "labels": _TEXTS,
                "annotations": _TEXTS,
                "finalizers": {"type": "array", "items": {"type": "string"}},
            },
        }
    }
}
"""What the API keeps of the metadata of an embedded object; without this it would drop all of it."""
PodTemplate: TypeAlias = Annotated[Data, embedded("core.v1.PodTemplateSpec", **_METADATA)]
ServiceObject: TypeAlias = Annotated[Data, embedded("core.v1.Service", **_METADATA)]
VolumeMount: TypeAlias = Annotated[Data, embedded("core.v1.VolumeMount")]
EnvVarSource: TypeAlias = Annotated[Data, embedded("core.v1.EnvVarSource")]
IngressTLS: TypeAlias = Annotated[Data, embedded("networking.v1.IngressTLS")]
NetworkPolicyIngressRule: TypeAlias = Annotated[Data, embedded("networking.v1.NetworkPolicyIngressRule")]
Texts: TypeAlias = dict[str, str]

LARGEST = 2147483647
"""What `maxReplicas` is where nothing is said: as many as there can be."""


def _unchanging(message: str, *more: tuple[str, str]) -> Meta:
    rules = [("self == oldSelf", message), *more]
    validations = [{"rule": rule, "message": text} for rule, text in rules]
    return Meta(extra_json_schema={"x-kubernetes-validations": validations})


class AuthOptions(Model):
    """Whether a client must show a token."""

    mode: Literal["disabled", "token"] | None = None
    secret_name: str | None = None
    enable_k8s_token_auth: bool | None = msgspec.field(default=None, name="enableK8sTokenAuth")


class AutoscalerOptions(Model):
    """The autoscaler's container beside the head."""

    resources: ResourceRequirements | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    idle_timeout_seconds: Int32 | None = None
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] | None = None
    version: Literal["v1", "v2"] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    volume_mounts: list[VolumeMount] | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class RedisCredential(Model):
    """A user name or password, as a text or from elsewhere."""

    value: str | None = None
    value_from: EnvVarSource | None = None


class GcsStorage(Model):
    """The volume of an embedded store."""

    access_modes: list[str] | None = None
    claim_name: str | None = None
    deletion_policy: Literal["DeleteWithCluster", "Retain"] | None = None
    size: Quantity | None = None
    storage_class_name: str | None = None
    sub_path: str | None = None


class GcsFaultTolerance(Model):
    """Where the head keeps its state, so that it survives the head."""

    backend: (
        Annotated[Literal["redis", "rocksdb"], _unchanging("gcsFaultToleranceOptions.backend is immutable")] | None
    ) = None
    external_storage_namespace: str | None = None
    redis_address: str | None = None
    redis_password: RedisCredential | None = None
    redis_username: RedisCredential | None = None
    storage: GcsStorage | None = None


class IngressOptions(Model):
    """How the dashboard's Ingress is made."""

    host: str | None = None
    path: str | None = None
    path_type: Literal["Exact", "Prefix", "ImplementationSpecific"] | None = None
    tls: list[IngressTLS] | None = None


class HeadGroup(Model, kw_only=True):
    """The head: exactly one pod."""

    template: PodTemplate
    ray_start_params: Texts | None = None
    service_type: str | None = None
    head_service: ServiceObject | None = None
    enable_ingress: bool | None = None
    ingress_options: IngressOptions | None = None
    resources: Texts | None = None
    labels: Texts | None = None


class ScaleStrategy(Model):
    """Which workers leave first."""

    workers_to_delete: list[str] | None = None


_NEEDED = ("groupName", "maxReplicas", "minReplicas", "template")


class WorkerGroup(Model, kw_only=True):
    """Workers that are alike."""

    # Both limits have a default and are required all the same, as upstream says it.
    schema_extra: ClassVar[Mapping[str, Any]] = {"required": list(_NEEDED)}

    group_name: str
    template: PodTemplate
    replicas: Int32 = 0
    min_replicas: Int32 = 0
    max_replicas: Int32 = LARGEST
    num_of_hosts: Int32 = 1
    ray_start_params: Texts | None = None
    resources: Texts | None = None
    labels: Texts | None = None
    suspend: bool | None = None
    idle_timeout_seconds: Int32 | None = None
    priority: Int32 = 0
    scale_strategy: ScaleStrategy | None = None


class CollectorOptions(Model):
    """The container that collects logs for the history server."""

    env: list[EnvVar] | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    resources: ResourceRequirements | None = None


class HistoryServerOptions(Model):
    """What is kept for the history server."""

    collector_options: CollectorOptions | None = None


class NetworkRules(Model):
    """Who may be reached, and who may reach."""

    egress_rules: list[NetworkPolicyEgressRule] | None = None
    ingress_rules: list[NetworkPolicyIngressRule] | None = None


class GroupNetworkRules(NetworkRules, kw_only=True):
    """The same for one worker group."""

    group_name: str


class ClusterNetworkPolicy(Model):
    """NetworkPolicies that KubeRay makes."""

    mode: Literal["DenyAll", "DenyAllIngress", "DenyAllEgress"] = "DenyAll"
    head: NetworkRules | None = None
    worker: NetworkRules | None = None
    worker_groups: (
        Annotated[
            list[GroupNetworkRules],
            Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["groupName"]}),
        ]
        | None
    ) = None


class TlsOptions(Model):
    """Whether Ray's own traffic is encrypted."""

    enabled: bool | None = None


class UpgradeStrategy(Model):
    """What a change of the spec does to running pods."""

    type: Literal["Recreate", "None"] | None = None


MANAGERS = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")
"""Who may reconcile a cluster; ours does it where the first is named, or nobody."""


class RayClusterSpec(Model, kw_only=True):
    """A head and groups of workers."""

    head_group_spec: HeadGroup
    worker_group_specs: list[WorkerGroup] | None = None
    ray_version: str | None = None
    suspend: bool | None = None
    managed_by: (
        Annotated[
            str,
            _unchanging(
                "the managedBy field is immutable",
                (
                    f"self in ['{MANAGERS[0]}', '{MANAGERS[1]}']",
                    f"the managedBy field value must be either '{MANAGERS[0]}' or '{MANAGERS[1]}'",
                ),
            ),
        ]
        | None
    ) = None
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: AutoscalerOptions | None = None
    head_service_annotations: Texts | None = None
    upgrade_strategy: UpgradeStrategy | None = None
    auth_options: AuthOptions | None = None
    gcs_fault_tolerance_options: GcsFaultTolerance | None = None
    network_policy: ClusterNetworkPolicy | None = None
    tls_options: TlsOptions | None = None
    history_server_options: HistoryServerOptions | None = None


class HeadInfo(Model):
    """Where the head is."""

    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_name: str | None = None
    service_ip: str | None = msgspec.field(default=None, name="serviceIP")
    service_name: str | None = None


class RayClusterStatus(Model):
    """What is the case."""

    state: str | None = None
    reason: str | None = None
    desired_worker_replicas: Int32 | None = None
    min_worker_replicas: Int32 | None = None
    max_worker_replicas: Int32 | None = None
    available_worker_replicas: Int32 | None = None
    ready_worker_replicas: Int32 | None = None
    desired_cpu: Quantity | None = msgspec.field(default=None, name="desiredCPU")
    desired_memory: Quantity | None = None
    desired_gpu: Quantity | None = msgspec.field(default=None, name="desiredGPU")
    desired_tpu: Quantity | None = msgspec.field(default=None, name="desiredTPU")
    endpoints: Texts | None = None
    head: HeadInfo | None = None
    last_update_time: Annotated[Timestamp, Meta(extra_json_schema={"nullable": True})] | None = None
    state_transition_times: dict[str, Timestamp] | None = None
    observed_generation: Int64 | None = None
    conditions: Conditions | None = None


class RayCluster(Resource, kw_only=True):
    """A Ray cluster: a head and its workers."""

    spec: RayClusterSpec | None = None
    status: RayClusterStatus | None = None


class OldAutoscalerOptions(Model):
    """The autoscaler as v1alpha1 has it."""

    resources: ResourceRequirements | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    idle_timeout_seconds: Int32 | None = None
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    volume_mounts: list[VolumeMount] | None = None


class OldHeadGroup(Model, kw_only=True):
    """The head as v1alpha1 has it."""

    template: PodTemplate
    ray_start_params: Texts
    service_type: str | None = None
    head_service: ServiceObject | None = None
    enable_ingress: bool | None = None


class OldWorkerGroup(Model, kw_only=True):
    """Workers as v1alpha1 has them."""

    schema_extra: ClassVar[Mapping[str, Any]] = {"required": sorted((*_NEEDED, "rayStartParams"))}

    group_name: str
    template: PodTemplate
    ray_start_params: Texts
    replicas: Int32 = 0
    min_replicas: Int32 = 0
    max_replicas: Int32 = LARGEST
    scale_strategy: ScaleStrategy | None = None


class OldRayClusterSpec(Model, kw_only=True):
    """A cluster as v1alpha1 has it."""

    head_group_spec: OldHeadGroup
    worker_group_specs: list[OldWorkerGroup] | None = None
    ray_version: str | None = None
    suspend: bool | None = None
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: OldAutoscalerOptions | None = None
    head_service_annotations: Texts | None = None


class OldHeadInfo(Model):
    """Where the head is, as v1alpha1 says it."""

    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    service_ip: str | None = msgspec.field(default=None, name="serviceIP")


class OldRayClusterStatus(Model):
    """What is the case, as v1alpha1 says it."""

    state: str | None = None
    reason: str | None = None
    desired_worker_replicas: Int32 | None = None
    min_worker_replicas: Int32 | None = None
    max_worker_replicas: Int32 | None = None
    available_worker_replicas: Int32 | None = None
    ready_worker_replicas: Int32 | None = None
    desired_cpu: Quantity | None = msgspec.field(default=None, name="desiredCPU")
    desired_memory: Quantity | None = None
    desired_gpu: Quantity | None = msgspec.field(default=None, name="desiredGPU")
    desired_tpu: Quantity | None = msgspec.field(default=None, name="desiredTPU")
    endpoints: Texts | None = None
    head: OldHeadInfo | None = None
    last_update_time: Annotated[Timestamp, Meta(extra_json_schema={"nullable": True})] | None = None
    observed_generation: Int64 | None = None


class OldRayCluster(Resource, kw_only=True):
    """A Ray cluster as v1alpha1 has it."""

    spec: OldRayClusterSpec | None = None
    status: OldRayClusterStatus | None = None


_COLUMNS = (
    Column("desired workers", ".status.desiredWorkerReplicas", type="integer"),
    Column("available workers", ".status.availableWorkerReplicas", type="integer"),
    Column("cpus", ".status.desiredCPU"),
    Column("memory", ".status.desiredMemory"),
    Column("gpus", ".status.desiredGPU"),
    Column("tpus", ".status.desiredTPU", priority=1),
    Column("status", ".status.state"),
    Column("age", ".metadata.creationTimestamp", type="date"),
    Column("head pod IP", ".status.head.podIP", priority=1),
    Column("head service IP", ".status.head.serviceIP", priority=1),
)

RAY_CLUSTER = Definition(
    group="ray.io",
    kind_name="RayCluster",
    plural="rayclusters",
    categories=["all"],
    versions=[
        Version("v1", RayCluster, columns=_COLUMNS),
        Version(
            "v1alpha1",
            OldRayCluster,
            storage=False,
            deprecated=True,
            deprecation_warning="ray.io/v1alpha1 RayCluster is deprecated; use ray.io/v1, which has every field",
            columns=_COLUMNS,
        ),
    ],
)

__all__ = [
    "LARGEST",
    "MANAGERS",
    "RAY_CLUSTER",
    "HeadGroup",
    "RayCluster",
    "RayClusterSpec",
    "RayClusterStatus",
    "WorkerGroup",
]
