"""Pods: quality of service, pull policies, and warnings about specs that hide something."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.local.apiserver.builtin.pods.behavior import quality_of_service
from modelyard.local.apiserver.builtin.pods.defaults import pull_policy
from modelyard.local.apiserver.builtin.pods.warnings import pod_warnings

SMALL = {"cpu": "100m", "memory": "64Mi"}


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container()], "BestEffort"),
        ([container(limits={"nvidia.com/gpu": "1"})], "BestEffort"),
        ([container(limits=SMALL, requests=SMALL)], "Guaranteed"),
        ([container(limits=SMALL)], "Guaranteed"),
        ([container(limits=SMALL, requests={"cpu": "0.1", "memory": "64Mi"})], "Guaranteed"),
        ([container(limits=SMALL, requests={"cpu": "50m", "memory": "64Mi"})], "Burstable"),
        ([container(requests=SMALL)], "Burstable"),
        ([container(limits={"cpu": "1"})], "Burstable"),
        ([container(limits=SMALL, requests=SMALL), container()], "Burstable"),
    ],
)
def test_quality_of_service(containers: list[dict[str, Any]], expected: str) -> None:
    assert quality_of_service({"containers": containers}) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry.example:5000/team/app", "Always"),
        ("registry.example:5000/team/app:1", "IfNotPresent"),
        ("app@sha256:" + "0" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
        ("UPPER", "IfNotPresent"),
        ("HOST/app", "Always"),
        ("a//b", "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, expected: str) -> None:
    assert pull_policy(image) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]},
         ['spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply']),
        ({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}]}, []),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "TCP"}]}]},
         ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"]),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]},
         ['spec.imagePullSecrets[1].name: duplicate name "a"', 'spec.imagePullSecrets[2].name: invalid empty name ""']),
        ({"containers": [{"name": "c", "resources": {"limits": {"memory": "100m"}}}]},
         ['spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer']),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]},
         ["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"]),
        ({"volumes": [{"name": "v", "gitRepo": {}}]}, ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"]),
    ],
)  # fmt: skip
def test_warnings(spec: dict[str, Any], expected: list[str]) -> None:
    assert pod_warnings({"metadata": {}, "spec": spec}, None) == expected
