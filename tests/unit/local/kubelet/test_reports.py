"""What the kubelet writes to the API: Events that are counted, statuses that keep what others own, the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.kubelet.events import Recorder
from modelyard.local.kubelet.facts import Node
from modelyard.local.kubelet.node import LEASE_NAMESPACE, NodeKeeper
from modelyard.local.kubelet.reporting import StatusWriter
from modelyard.local.kubelet.status import PodFacts, pod_status

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer() as server:
        one = server.client()
        await one.create(builtin.Namespace, {"metadata": {"name": "demo"}})
        yield one


async def make_pod(client: Client) -> Object:
    spec = {"nodeName": "local", "containers": [{"name": "main", "image": "test:1"}]}
    return await client.create(builtin.Pod, {"metadata": {"name": "web", "namespace": "demo"}, "spec": spec})


async def test_repeated_events_are_counted_and_floods_are_cut(client: Client) -> None:
    pod = await make_pod(client)
    recorder = Recorder(client, "local", lambda: NOW)
    recorder.start()
    for _ in range(3):
        recorder.tell(pod, "Warning", "BackOff", "again", container="main")
    for number in range(60):
        recorder.tell(pod, "Warning", "Unhealthy", f"probe {number}")
    await recorder.flush()
    events = (await client.list(builtin.Event, "demo")).items
    counted = next(event for event in events if event["reason"] == "BackOff")
    assert counted["count"] == 3
    assert counted["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert counted["source"] == {"component": "kubelet", "host": "local"}
    assert len(events) == 23
    await recorder.close()


async def test_a_status_keeps_conditions_of_others_and_takes_old_reasons_away(client: Client) -> None:
    pod = await make_pod(client)
    gate = {"type": "example.com/open", "status": "True"}
    await client.patch(builtin.Pod, "demo", "web", {"status": {"conditions": [gate]}}, subresource="status")
    writer = StatusWriter(client)
    facts = PodFacts(reason="DeadlineExceeded", message="late")
    writer.report(pod, pod_status(pod, facts, NOW))
    await writer.flush(pod["metadata"]["uid"])
    writer.report(pod, pod_status(pod, PodFacts(), NOW))
    await writer.flush(pod["metadata"]["uid"])
    found = await client.get(builtin.Pod, "demo", "web")
    kinds = {item["type"]: item for item in found["status"]["conditions"]}
    assert kinds["example.com/open"]["status"] == "True"
    assert kinds["Ready"]["reason"] == "ContainersNotReady"
    assert "reason" not in found["status"]
    await writer.close()


async def test_the_status_of_another_pod_with_the_same_name_is_not_written(client: Client) -> None:
    pod = await make_pod(client)
    await client.delete(builtin.Pod, "demo", "web", grace=0)
    await make_pod(client)
    writer = StatusWriter(client)
    writer.report(pod, pod_status(pod, PodFacts(pod_ip="127.9.9.9"), NOW))
    await writer.flush(pod["metadata"]["uid"])
    assert "podIP" not in (await client.get(builtin.Pod, "demo", "web"))["status"]
    await writer.close()


async def test_the_node_registers_with_its_lease_and_again(client: Client) -> None:
    for _ in range(2):
        keeper = NodeKeeper(client, Node("local"), lambda: NOW, port=1234, described=["files: isolated"])
        await keeper.register()
    node = await client.get(builtin.Node, "", "local")
    ready = next(item for item in node["status"]["conditions"] if item["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 1234}}
    assert node["metadata"]["annotations"]["modelyard.dev/isolation"] == "files: isolated"
    lease = await client.get(builtin.Lease, LEASE_NAMESPACE, "local")
    assert lease["spec"]["holderIdentity"] == "local"
    await keeper.close()
    node = await client.get(builtin.Node, "", "local")
    assert next(item for item in node["status"]["conditions"] if item["type"] == "Ready")["status"] == "False"
