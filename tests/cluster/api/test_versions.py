"""Kinds that are served in two ways and stored in one."""

from __future__ import annotations

from modelyard.kube.builtin import Event, HorizontalPodAutoscaler
from modelyard.kube.kinds import Kind
from tests.cluster.api.calls import call, read_watch
from tests.cluster.conftest import Api

NewEvent = Kind("events.k8s.io", "v1", "Event", "events")
OldAutoscaler = Kind("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")


async def test_event_is_the_same_in_both_groups(api: Api) -> None:
    namespace = await api.namespace()
    event = {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "reason": "Started", "message": "it runs", "type": "Normal", "source": {"component": "me"}, "count": 2,
    }  # fmt: skip
    made = await api.client.create(Event, event)
    new = await api.client.get(NewEvent, namespace, "e")
    assert new["metadata"]["uid"] == made["metadata"]["uid"]
    assert new["apiVersion"] == "events.k8s.io/v1"
    assert (new["note"], new["deprecatedCount"]) == ("it runs", 2)
    assert new["regarding"]["name"] == "p"
    found = await api.client.list(Event, namespace, fields="involvedObject.name=p,reason=Started")
    assert len(found.items) == 1
    events = await read_watch(api, NewEvent.path(namespace), 1)
    assert events[0]["object"]["note"] == "it runs"


async def test_autoscaler_of_version_one_reads_as_version_two(api: Api) -> None:
    namespace = await api.namespace()
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "targetCPUUtilizationPercentage": 50,
    }
    await api.client.create(OldAutoscaler, {"metadata": {"name": "h", "namespace": namespace}, "spec": spec})
    new = await api.client.get(HorizontalPodAutoscaler, namespace, "h")
    target = {"type": "Utilization", "averageUtilization": 50}
    assert new["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    changed = await api.client.patch(HorizontalPodAutoscaler, namespace, "h", {"spec": {"maxReplicas": 5}})
    assert changed["spec"]["maxReplicas"] == 5
    old = await api.client.get(OldAutoscaler, namespace, "h")
    assert old["spec"] == spec | {"maxReplicas": 5, "minReplicas": 1}


async def test_body_of_another_version_is_refused(api: Api) -> None:
    namespace = await api.namespace()
    body = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    answer = await call(api, "POST", HorizontalPodAutoscaler.path(namespace), body)
    assert (answer.status, answer.message) == (
        400,
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)",
    )
