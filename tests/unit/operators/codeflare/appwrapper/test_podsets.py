"""Which pod sets follow from a kind, and which declared ones agree with that."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.appwrapper import paths
from modelyard.operators.codeflare.appwrapper.api import PodSet
from modelyard.operators.codeflare.appwrapper.podsets import PodSetError, disagreement, inferred
from tests.cluster.appwrapper.scenarios.admission import job_set, pytorch_job, ray
from tests.cluster.appwrapper.scenarios.scene import deployment, job, pod, pod_spec


def group(**fields: Any) -> Object:
    return {"groupName": "w", "template": {"spec": pod_spec()}, **fields}


def ray_cluster(*groups: Object, **spec: Any) -> Object:
    body = {"headGroupSpec": {"template": {"spec": pod_spec()}}, "workerGroupSpecs": list(groups), **spec}
    return ray("RayCluster", body)


@pytest.mark.parametrize(
    ("component", "counts"),
    [
        (pod(), [1]),
        (deployment(replicas=0), [0]),
        (job(parallelism=8, completions=4), [4]),
        (job(parallelism=2, completions=None), [2]),
        (job_set(), [1]),
        (pytorch_job(3), [1, 3]),
        (ray_cluster(group(replicas=3, maxReplicas=2)), [1, 2]),
        (ray_cluster(group(minReplicas=2)), [1, 2]),
        (ray_cluster(group()), [1, 0]),
        (ray_cluster(group(replicas=2, numOfHosts=4)), [1, 8]),
        (ray_cluster(group(replicas=5, minReplicas=1, maxReplicas=9), enableInTreeAutoscaling=True), [1, 1]),
        (ray_cluster(group(replicas=2, suspend=True)), [1, 0]),
        (ray("RayJob", {"clusterSelector": {"ray.io/cluster": "mine"}}), []),
        ({"template": {"apiVersion": "example.com/v1", "kind": "Unknown"}}, []),
    ],
)
def test_pods_that_follow_from_the_kind(component: Object, counts: list[int]) -> None:
    assert [each.count for each in inferred(component["template"])] == counts


def test_a_replica_count_that_is_no_number_is_refused() -> None:
    component = deployment()
    component["template"]["spec"]["replicas"] = "two"
    with pytest.raises(PodSetError, match="non-int value two"):
        inferred(component["template"])


def test_a_pod_template_with_a_field_that_there_is_not_is_refused() -> None:
    component = deployment()
    component["template"]["spec"]["template"]["spec"]["contianers"] = []
    with pytest.raises(PodSetError, match=r'not parseable as a v1\.PodSpec: unknown field "contianers"'):
        inferred(component["template"])


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ([("a", 1), ("a", 1)], "multiple DeclaredPodSets with path 'a'"),
        ([("a", 1)], "DeclaredPodSet count 1 differs from inferred count 2"),
        ([("a", 1), ("c", 2)], "PodSet with path 'b' is missing"),
        ([("b", 3), ("a", 1)], "replica count 3 differs from inferred count 2 for PodSet at path position 'b'"),
        ([("b", 2), ("a", None)], ""),
    ],
)
def test_declared_pod_sets_agree_with_those_that_follow(declared: list[tuple[str, int | None]], said: str) -> None:
    known = [PodSet(path="a", replicas=1), PodSet(path="b", replicas=2)]
    assert disagreement([PodSet(path=path, replicas=count) for path, count in declared], known) == said


def test_without_anything_to_compare_with_declared_pod_sets_stand() -> None:
    assert disagreement([PodSet(path="template.spec.any", replicas=7)], []) == ""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("spec", "first element of the path must be 'template'"),
        ("template.spec.template.spec.containers.name", "non-map value"),
        ("template.spec.template.spec.containers[7]", "out of bounds index '7'"),
        ("template.spec[0]", "found non-array value"),
        ("template.spec.template.spec.containers[x]", "invalid array index 'x'"),
        ("template.spec.template.spec.containers[0", r"invalid index expression '\[0'"),
        ("template.spec.template.spec.containers[0]]", r"invalid path element '\]'"),
        ("template.spec.nothing", "missing field 'nothing'"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path: str, said: str) -> None:
    with pytest.raises(paths.BadPath, match=said):
        paths.find(deployment()["template"], path)
