"""What the webhooks answer to what users should not send, without any server."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.config import Settings
from modelyard.operators.codeflare.operator import operator
from modelyard.operators.codeflare.ray_cluster.names import RayCluster
from modelyard.operators.codeflare.ray_cluster.webhooks import check, ray_cluster_webhooks, secure
from modelyard.runtime.testing import FakeWorld
from modelyard.runtime.webhooks import AdmissionRequest, Denied
from tests.cluster.ray_cluster.scenarios.scene import spec

SETTINGS = Settings()
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "template", "spec", "containers", "env", "volumes"]), below, max_size=3
        )
    ),
    max_leaves=8,
)


def request(cluster: Object, operation: Any = "CREATE", *, openshift: bool = False) -> AdmissionRequest:
    reader = FakeWorld(kinds=[RayCluster], served=[builtin.Route] if openshift else [])
    return AdmissionRequest(operation, copy.deepcopy(cluster), kind=RayCluster, namespace="team-a", reader=reader)


def cluster(**fields: Any) -> Object:
    metadata = {"name": "demo", "namespace": "team-a"}
    return {"apiVersion": RayCluster.api_version, "kind": RayCluster.kind, "metadata": metadata, "spec": spec(**fields)}


def refusal(sent: Object) -> str:
    answer = secure(request(sent), SETTINGS)
    assert isinstance(answer, Denied)
    return answer.message


def test_the_webhooks_are_where_the_api_looks_for_them() -> None:
    made = [(hook.name, hook.type, hook.path, hook.operations) for hook in ray_cluster_webhooks(SETTINGS)]
    both = ("CREATE", "UPDATE")
    assert made == [
        ("mraycluster.ray.openshift.ai", "mutating", "/mutate-ray-io-v1-raycluster", both),
        ("vraycluster.ray.openshift.ai", "validating", "/validate-ray-io-v1-raycluster", both),
    ]
    (service,) = [one for one in operator({}).services if one.role == "webhook"]
    assert (service.name, service.port, service.target_port) == ("webhook-service", 443, 9443)


@pytest.mark.parametrize("openshift", [False, True])
def test_what_was_put_in_once_is_put_in_once(openshift: bool) -> None:
    once = secure(request(cluster(), openshift=openshift), SETTINGS)
    assert isinstance(once, dict)
    assert secure(request(once, "UPDATE", openshift=openshift), SETTINGS) == once
    assert check(request(once, "UPDATE", openshift=openshift), SETTINGS) is None


def test_another_platform_gets_another_proxy() -> None:
    before = secure(request(cluster()), SETTINGS)
    assert isinstance(before, dict)
    after = secure(request(before, "UPDATE", openshift=True), SETTINGS)
    assert isinstance(after, dict)
    head = after["spec"]["headGroupSpec"]["template"]["spec"]
    assert [one["name"] for one in head["containers"]] == ["ray-head", "oauth-proxy"]
    assert [one["name"] for one in head["volumes"]] == ["proxy-tls-secret", "ca-vol", "server-cert"]


def test_a_generated_name_is_refused() -> None:
    sent = cluster()
    sent["metadata"] = {"generateName": "demo-", "namespace": "team-a"}
    assert "give it a name instead of generateName" in refusal(sent)


@pytest.mark.parametrize("field", ["containers", "initContainers", "volumes"])
def test_what_is_no_list_is_said(field: str) -> None:
    sent = cluster()
    sent["spec"]["headGroupSpec"]["template"]["spec"][field] = "x"
    assert f"spec.headGroupSpec.template.spec.{field}: Invalid value: use a list of objects" in refusal(sent)


def test_a_cluster_that_ends_is_left_as_it_is() -> None:
    sent = cluster(headGroupSpec={})
    sent["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert secure(request(sent, "UPDATE"), SETTINGS) is None
    assert check(request(sent, "UPDATE"), SETTINGS) is None


GOOD = spec()


@given(head=st.just(GOOD["headGroupSpec"]) | ANYTHING, workers=ANYTHING, volumes=ANYTHING)
def test_no_form_of_a_cluster_is_too_odd_for_an_answer(head: Any, workers: Any, volumes: Any) -> None:
    sent = cluster()
    sent["spec"] = copy.deepcopy({"headGroupSpec": head, "workerGroupSpecs": workers})
    if head == GOOD["headGroupSpec"]:
        sent["spec"]["headGroupSpec"]["template"]["spec"]["volumes"] = volumes
    answer = secure(request(sent), SETTINGS)
    assert isinstance(answer, dict | Denied)
    if isinstance(answer, dict):
        assert check(request(answer), SETTINGS) is None
