"""What is wrong with a RayCluster: the reason and the words of the Warning. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelyard.kube.names import dns_1035_label
from modelyard.operators.parts.ray_crd import HeadGroup, RayCluster, RayClusterSpec, WorkerGroup
from modelyard.operators.ray.groups import wanted_replicas

LONGEST_NAME = 53
METADATA, SPEC = "InvalidRayClusterMetadata", "InvalidRayClusterSpec"


@dataclass(frozen=True)
class Problem:
    reason: str
    message: str


def first_problem(cluster: RayCluster) -> Problem | None:
    name = cluster.metadata.name
    if len(name) > LONGEST_NAME:
        text = f"metadata.name: {name} has {len(name)} characters; its pods and Services need names too: at most {LONGEST_NAME}"
        return Problem(METADATA, text)
    if wrong := dns_1035_label(name):
        return Problem(METADATA, f"metadata.name: {name}: {wrong[0]}")
    if cluster.spec is None:
        return Problem(SPEC, "spec: it is missing; headGroupSpec is needed at least")
    return next((Problem(SPEC, text) for text in _of_spec(cluster.spec)), None)


def unused_fields(spec: RayClusterSpec) -> list[str]:
    """What KubeRay would act on, and this operator does not."""
    asked = {
        "spec.gcsFaultToleranceOptions": spec.gcs_fault_tolerance_options,
        "spec.networkPolicy": spec.network_policy,
        "spec.tlsOptions": spec.tls_options if spec.tls_options and spec.tls_options.enabled else None,
        "spec.historyServerOptions": spec.history_server_options,
        "spec.authOptions.enableK8sTokenAuth": (spec.auth_options.enable_k8s_token_auth if spec.auth_options else None)
        or None,
    }
    return [field for field, value in asked.items() if value is not None]


def _of_spec(spec: RayClusterSpec) -> Iterator[str]:
    yield from _of_group("spec.headGroupSpec", spec.head_group_spec)
    autoscaling = spec.enable_in_tree_autoscaling is True
    seen: set[str] = set()
    for index, group in enumerate(spec.worker_group_specs or []):
        place = f"spec.workerGroupSpecs[{index}]"
        yield from _of_group(place, group)
        yield from _of_limits(place, group)
        if group.suspend and autoscaling:
            yield f"{place}.suspend: a group cannot be suspended while enableInTreeAutoscaling is true; turn one of them off"
        if group.group_name in seen:
            yield f"{place}.groupName: {group.group_name} is the name of another group too; give each its own"
        seen.add(group.group_name)


def _of_group(place: str, group: HeadGroup | WorkerGroup) -> Iterator[str]:
    if not (group.template.get("spec") or {}).get("containers"):
        yield f"{place}.template.spec.containers: the first one runs Ray, and there is none"
    params = group.ray_start_params or {}
    if group.resources and (both := sorted(params.keys() & {"num-cpus", "num-gpus", "memory", "resources"})):
        yield f"{place}: resources are given, and {both[0]} in rayStartParams too; keep one of them"
    if "labels" in params:
        yield f"{place}.rayStartParams: labels is not allowed there; use {place}.labels"


def _of_limits(place: str, group: WorkerGroup) -> Iterator[str]:
    if group.min_replicas < 0 or group.max_replicas < 0:
        yield f"{place}: minReplicas {group.min_replicas} and maxReplicas {group.max_replicas} may not be negative"
    if group.min_replicas > group.max_replicas:
        yield f"{place}: minReplicas {group.min_replicas} is more than maxReplicas {group.max_replicas}"
    if group.num_of_hosts < 1:
        yield f"{place}.numOfHosts: {group.num_of_hosts} is too few; a replica has at least one pod"
    if wanted_replicas(group) < 0:
        yield f"{place}.replicas: {group.replicas} may not be negative"
