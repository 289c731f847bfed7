"""The pod sets of a component: what follows from its kind, and whether what a user declares agrees with that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.objects import kind_of, lookup
from modelyard.operators.codeflare.appwrapper import paths
from modelyard.operators.codeflare.appwrapper.api import ANNOTATIONS, Component, PodSet

POD_INDEX = f"{ANNOTATIONS}tas-pod-index-label"
SUB_GROUP_INDEX = f"{ANNOTATIONS}tas-sub-group-index-label"
SUB_GROUP_COUNT = f"{ANNOTATIONS}tas-sub-group-count"
_MOST = 2**31 - 1


class PodSetError(ValueError):
    """The pod sets of a component cannot be told; the message says why."""


def definitive(component: Component) -> list[PodSet]:
    """What is declared, else what follows from the kind."""
    return list(component.pod_sets) if component.pod_sets else inferred(component.template)


def inferred(template: Object) -> list[PodSet]:
    """What follows from the kind; nothing where the kind is not known."""
    rule = _RULES.get(kind_of(template))
    found = list(rule(template)) if rule is not None else []
    for each in found:
        try:
            paths.pod_template(template, each.path)
        except paths.BadPath as error:
            raise PodSetError(f"{each.path} does not refer to a v1.PodSpecTemplate: {error}") from None
    return found


def disagreement(declared: Sequence[PodSet], found: Sequence[PodSet]) -> str:
    """Why declared pod sets cannot be those of a component of which these were inferred; empty if they can."""
    by_path: dict[str, PodSet] = {}
    for each in declared:
        if each.path in by_path:
            return f"multiple DeclaredPodSets with path '{each.path}'"
        by_path[each.path] = each
    if not found:
        return ""
    if len(declared) != len(found):
        return f"DeclaredPodSet count {len(declared)} differs from inferred count {len(found)}"
    for each in found:
        if each.path not in by_path:
            return f"PodSet with path '{each.path}' is missing"
        if (count := by_path[each.path].count) != each.count:
            differs = f"replica count {count} differs from inferred count {each.count}"
            return f"{differs} for PodSet at path position '{each.path}'"
    return ""


def _pod(template: Object) -> Iterator[PodSet]:
    yield PodSet(path="template", replicas=1)


def _replicated(template: Object) -> Iterator[PodSet]:
    yield PodSet(path="template.spec.template", replicas=_whole(template, "template", "spec", "replicas"))


def _job(template: Object) -> Iterator[PodSet]:
    hints = {POD_INDEX: "batch.kubernetes.io/job-completion-index"}
    yield PodSet(path="template.spec.template", replicas=_job_pods(template), annotations=hints)


def _job_pods(job: Any) -> int:
    """How many pods of a Job run at once."""
    parallelism, completions = lookup(job, "spec", "parallelism"), lookup(job, "spec", "completions")
    count = parallelism if _is_count(parallelism) else 1
    return min(count, completions) if _is_count(completions) else count


def _job_set(template: Object) -> Iterator[PodSet]:
    for index, group in enumerate(_list(template, "spec", "replicatedJobs")):
        if not isinstance(group, dict) or not isinstance(group.get("template"), dict):
            continue
        at = f"template.spec.replicatedJobs[{index}]"
        replicas = _count(group, "replicas", at)
        hints = {
            POD_INDEX: "batch.kubernetes.io/job-completion-index",
            SUB_GROUP_INDEX: "jobset.sigs.k8s.io/job-index",
            SUB_GROUP_COUNT: str(replicas),
        }
        pods = min(replicas * _job_pods(group["template"]), _MOST)
        yield PodSet(path=f"{at}.template.spec.template", replicas=pods, annotations=hints)


def _pytorch_job(template: Object) -> Iterator[PodSet]:
    hints = {POD_INDEX: "training.kubeflow.org/replica-index"}
    for role in ("Master", "Worker"):
        group = lookup(template, "spec", "pytorchReplicaSpecs", role)
        if isinstance(group, dict) and group.get("template") is not None:
            at = f"template.spec.pytorchReplicaSpecs.{role}"
            yield PodSet(path=f"{at}.template", replicas=_count(group, "replicas", at), annotations=hints)


def _ray_cluster(template: Object) -> Iterator[PodSet]:
    yield from _ray(template.get("spec"), "template.spec")


def _ray_job(template: Object) -> Iterator[PodSet]:
    spec = lookup(template, "spec", "rayClusterSpec")
    if spec is None and lookup(template, "spec", "clusterSelector"):
        return  # It runs on a cluster that is there already, and has no pods of its own.
    yield from _ray(spec, "template.spec.rayClusterSpec")


def _ray(spec: Any, at: str) -> Iterator[PodSet]:
    """With autoscaling the least number counts: more may come, but the cluster is whole without them."""
    yield PodSet(path=f"{at}.headGroupSpec.template", replicas=1)
    grows = bool(lookup(spec or {}, "enableInTreeAutoscaling"))
    for index, group in enumerate(_list(spec or {}, "workerGroupSpecs")):
        if not isinstance(group, dict) or group.get("template") is None:
            continue
        here = f"{at}.workerGroupSpecs[{index}]"
        least, most = _count(group, "minReplicas", here, 0), _count(group, "maxReplicas", here, _MOST)
        wanted = least if grows else min(max(_count(group, "replicas", here, 0), least), most)
        pods = 0 if group.get("suspend") is True else min(wanted * _count(group, "numOfHosts", here), _MOST)
        yield PodSet(path=f"{here}.template", replicas=pods)


def _list(value: Any, *path: str) -> list[Any]:
    found = lookup(value, *path) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(group: Mapping[str, Any], name: str, at: str, otherwise: int = 1) -> int:
    found = group.get(name)
    if found is None:
        return otherwise
    if not _is_count(found):
        raise PodSetError(f"at path position '{at}.{name}' non-int value {found}")
    return int(found)


def _whole(template: Object, *path: str) -> int:
    *_, name = path
    found = template.get("spec")
    return _count(found if isinstance(found, dict) else {}, name, ".".join(path[:-1]))


_RULES: Mapping[tuple[str, str], Callable[[Object], Iterator[PodSet]]] = MappingProxyType(
    {
        ("v1", "Pod"): _pod,
        ("apps/v1", "Deployment"): _replicated,
        ("apps/v1", "StatefulSet"): _replicated,
        ("batch/v1", "Job"): _job,
        ("jobset.x-k8s.io/v1alpha2", "JobSet"): _job_set,
        ("kubeflow.org/v1", "PyTorchJob"): _pytorch_job,
        ("ray.io/v1", "RayCluster"): _ray_cluster,
        ("ray.io/v1", "RayJob"): _ray_job,
    }
)


def pods_to_succeed(template: Object, sets: Sequence[PodSet]) -> int:
    """How many pods must have succeeded until a component has: a Job may need more than run at once."""
    count = sum(each.count for each in sets)
    completions = lookup(template, "spec", "completions")
    is_job = kind_of(template) == ("batch/v1", "Job")
    return max(count, completions) if is_job and _is_count(completions) else count
