"""What `modelyard up --apply` waits for: pods that run, not what a resource said of itself before the cluster was stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.cli.laptop.progress import _not_started
from modelyard.cli.offline import offline_server
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import uid_of
from modelyard.operators.demo.api import GREETING
from modelyard.operators.demo.operator import operator
from tests.unit.cli.conftest import greeting

_KEY = Key("default", "hi")
_MAIN: Object = {"name": "main", "image": "any"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with offline_server([operator({})]) as server:
        client = server.client()
        yield client
        await client.close()


async def owned(client: Client, kind: Kind, owner: Object, spec: Object) -> Object:
    reference = {"apiVersion": GREETING.kind.api_version, "kind": "Greeting", "name": "hi", "uid": uid_of(owner)}
    metadata = {"name": "hi-1", "namespace": "default", "ownerReferences": [reference]}
    return await client.create(kind, {"metadata": metadata, "spec": spec})


async def not_started(client: Client) -> dict[tuple[Kind, Key], str]:
    return await _not_started(client, [operator({})], [(GREETING.kind, _KEY)])


async def test_a_resource_whose_pod_does_not_run_is_waited_for(client: Client) -> None:
    resource = await client.create(GREETING.kind, greeting())
    pod = await owned(client, builtin.Pod, resource, {"containers": [_MAIN]})
    assert await not_started(client) == {(GREETING.kind, _KEY): "Greeting hi is not ready: Pod hi-1: not ready yet"}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.update(builtin.Pod, pod | {"status": ready}, subresource="status")
    assert await not_started(client) == {}


async def test_a_job_under_way_is_not_waited_for(client: Client) -> None:
    resource = await client.create(GREETING.kind, greeting())
    template = {"spec": {"containers": [_MAIN], "restartPolicy": "Never"}}
    await owned(client, builtin.Job, resource, {"template": template})
    assert await not_started(client) == {}
