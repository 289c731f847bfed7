"""Objects take the shape that Go's types give them: what vanishes, what always appears, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.local.apiserver.builtin.shapes import ShapeError, reader_for


def shaped(name: str, value: dict[str, Any]) -> Any:
    reader = reader_for(name)
    assert reader is not None
    return reader(value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("core/v1.Probe", {"initialDelaySeconds": 0, "timeoutSeconds": 5}, {"timeoutSeconds": 5}),
        ("core/v1.Probe", {"terminationGracePeriodSeconds": 0}, {"terminationGracePeriodSeconds": 0}),
        ("core/v1.Toleration", {"key": "", "value": "x", "unknown": 1}, {"value": "x"}),
        ("core/v1.PodSecurityContext", {"runAsNonRoot": False, "supplementalGroups": []}, {"runAsNonRoot": False}),
        ("core/v1.EnvVar", {"value": ""}, {"name": ""}),
        ("core/v1.ServicePort", {"port": 80}, {"port": 80, "targetPort": 0}),
        ("rbac/v1.Role", {"rules": []}, {"metadata": {}, "rules": []}),
        ("rbac/v1.Role", {}, {"metadata": {}, "rules": None}),
        ("core/v1.ConfigMap", {"data": {"a": None}}, {"metadata": {}, "data": {"a": ""}}),
        ("core/v1.ResourceRequirements", {"limits": {"cpu": "1000m"}}, {"limits": {"cpu": "1"}}),
        ("core/v1.ResourceRequirements", {"limits": {"cpu": 1, "memory": 0.5}}, {"limits": {"cpu": "1", "memory": "500m"}}),
        ("meta/v1.ObjectMeta", {"creationTimestamp": None, "labels": {}}, {}),
        ("meta/v1.ObjectMeta", {"creationTimestamp": "2024-01-01T01:00:00+01:00"}, {"creationTimestamp": "2024-01-01T00:00:00Z"}),
        ("coordination/v1.LeaseSpec", {"renewTime": "2024-01-01T00:00:00.123456Z"}, {"renewTime": "2024-01-01T00:00:00.123456Z"}),
        ("core/v1.EventSeries", {"lastObservedTime": None}, {"lastObservedTime": None}),
        ("core/v1.PodCondition", {"type": "Ready"}, {"type": "Ready", "status": "", "lastProbeTime": None, "lastTransitionTime": None}),
    ],
)  # fmt: skip
def test_values_are_read_as_go_does(name: str, value: dict[str, Any], expected: dict[str, Any]) -> None:
    assert shaped(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "apps/v1.Deployment",
            {"spec": {"replicas": "x"}},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1.Deployment",
            {"spec": {"replicas": 2**40}},
            "json: cannot unmarshal number 1099511627776 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1.Deployment",
            {"spec": {"template": {"spec": {"containers": {}}}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            "core/v1.ConfigMap",
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        ("core/v1.Secret", {"data": {"a": "!!"}}, "illegal base64 data at input byte 0"),
        ("core/v1.Secret", {"data": {"a": "aGk"}}, "illegal base64 data at input byte 0"),
        (
            "meta/v1.ObjectMeta",
            {"creationTimestamp": "x"},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
        (
            "coordination/v1.LeaseSpec",
            {"renewTime": "2024-01-01T00:00:00Z"},
            'parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
    ],
)
def test_wrong_types_are_named(name: str, value: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        shaped(name, value)
    assert caught.value.message == message


def test_reading_twice_changes_nothing() -> None:
    pod = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}], "volumes": [{"name": "v"}]}}
    once = shaped("core/v1.Pod", pod)
    assert shaped("core/v1.Pod", once) == once


def test_unknown_kinds_have_no_shape() -> None:
    assert reader_for("example.com/v1.Widget") is None
