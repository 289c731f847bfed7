"""The RayCluster definition: what a user's YAML can say, and what the API keeps of it."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.crd import definition_of
from modelyard.operators.parts.ray_crd import RAY_CLUSTER, RayCluster

CRD = definition_of(RAY_CLUSTER)
VERSIONS = {version["name"]: version for version in CRD["spec"]["versions"]}


def _spec(version: str) -> dict[str, Any]:
    schema: dict[str, Any] = VERSIONS[version]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def test_v1_is_stored_and_v1alpha1_is_served_with_a_warning() -> None:
    assert [(name, v["served"], v["storage"], v.get("deprecated", False)) for name, v in VERSIONS.items()] == [
        ("v1", True, True, False),
        ("v1alpha1", True, False, True),
    ]


@pytest.mark.parametrize(
    ("version", "required"),
    [
        ("v1", ["groupName", "maxReplicas", "minReplicas", "template"]),
        ("v1alpha1", ["groupName", "maxReplicas", "minReplicas", "rayStartParams", "template"]),
    ],
)
def test_a_worker_group_has_limits_and_a_template(version: str, required: list[str]) -> None:
    group = _spec(version)["properties"]["workerGroupSpecs"]["items"]
    assert group["required"] == required
    defaults = {name: field["default"] for name, field in group["properties"].items() if "default" in field}
    assert defaults.items() >= {"replicas": 0, "minReplicas": 0, "maxReplicas": 2147483647}.items()


@pytest.mark.parametrize("group", ["headGroupSpec", "workerGroupSpecs"])
def test_labels_and_annotations_of_a_template_are_kept(group: str) -> None:
    schema = _spec("v1")["properties"][group]
    template = schema.get("items", schema)["properties"]["template"]
    assert {"labels", "annotations", "namespace"} <= template["properties"]["metadata"]["properties"].keys()


def test_managed_by_is_immutable_and_one_of_two() -> None:
    rules = _spec("v1")["properties"]["managedBy"]["x-kubernetes-validations"]
    assert [rule["message"] for rule in rules] == [
        "the managedBy field is immutable",
        "the managedBy field value must be either 'ray.io/kuberay-operator' or 'kueue.x-k8s.io/multikueue'",
    ]


def test_a_cluster_is_read_and_written_in_the_spelling_of_the_api() -> None:
    cluster = RayCluster.parse(
        {
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {
                "authOptions": {"enableK8sTokenAuth": True},
                "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray"}]}}},
            },
            "status": {"desiredCPU": "3", "head": {"podIP": "10.0.0.1", "serviceIP": "10.0.0.2"}},
        }
    )
    written = cluster.to_dict()
    assert written["spec"]["authOptions"] == {"enableK8sTokenAuth": True}
    assert written["status"] == {"desiredCPU": "3", "head": {"podIP": "10.0.0.1", "serviceIP": "10.0.0.2"}}
