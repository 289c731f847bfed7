"""What `modelyard up --apply` waits for: pods that run, not what a resource said of itself before the cluster was stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from greetings_operator.api import GREETING
from greetings_operator.operator import operator
from modelyard.cli.files import Document
from modelyard.cli.laptop import progress
from modelyard.cli.laptop.progress import _not_started, apply
from modelyard.cli.offline import offline_server
from modelyard.failure import Failed
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import uid_of
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


def document(obj: Object) -> Document:
    return Document("objects.yaml", obj)


def config_map(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": namespace}}


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (
            greeting() | {"kind": "Greting"},
            "objects.yaml: Greting hi was refused: the cluster does not serve demo.modelyard.dev/v1 Greting "
            "(did you mean demo.modelyard.dev/v1 Greeting?)",
        ),
        (
            config_map("nowhere"),
            "objects.yaml: ConfigMap x was refused: there is no namespace nowhere; "
            "make it with: kubectl create namespace nowhere",
        ),
        (greeting(replicas="many"), "objects.yaml: Greeting hi was refused: "),
    ],
)
async def test_what_waiting_cannot_mend_is_told_at_once_with_file_and_object(
    client: Client, obj: Object, said: str
) -> None:
    with pytest.raises(Failed) as told:
        # No second try: with so long a limit only a refusal at once ends this.
        await apply(client, document(obj), seconds=3600)
    assert str(told.value).startswith(said)


async def test_an_object_without_a_namespace_goes_to_default(client: Client) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert await apply(client, document(obj)) == (builtin.ConfigMap, Key("default", "x"))


async def test_a_pod_without_an_image_is_told_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    pod: Object = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"containers": [_MAIN]}}
    await client.create(builtin.Pod, pod)
    waiting = {"reason": "ImagePullBackOff", "message": "the package index cannot be reached: connect to the network"}
    container = {"name": "main", "image": "any", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Pending", "containerStatuses": [container | {"state": {"waiting": waiting}}]}
    await client.patch(builtin.Pod, "default", "x", {"status": status}, subresource="status")
    applied = [(builtin.Pod, Key("default", "x"))]
    with pytest.raises(
        Failed, match="Pod x is not ready: Pod x: ImagePullBackOff: the package index cannot be reached"
    ):
        await progress._until_ready(client, applied, ["mlflow"], 3600, progress.Progress(quiet=True), lambda: "")
