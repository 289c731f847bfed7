"""How `modelyard status` sees a cluster: states in a few words, and one sentence that says why something is not ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from greetings_operator.api import GREETING
from modelyard.cli.survey import Node, UnknownKind, reason, state_of, survey, view
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.transport import Around, Response, Sent, Transport
from modelyard.local.apiserver import ApiServer
from modelyard.operators.parts import build
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns
from modelyard.runtime.declaring.desired import Child, Desired
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.manager import Manager
from tests.unit.cli.conftest import greeting


def obj(status: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    return {"metadata": {"name": "x"} | metadata, "spec": spec or {}, "status": status or {}}


def condition(type: str, status: str = "True", reason: str = "Why", message: str = "because") -> Object:
    return {"type": type, "status": status, "reason": reason, "message": message}


def container(**state: Any) -> Object:
    return {"name": "main", "state": state}


@pytest.mark.parametrize(
    ("kind", "made", "expected"),
    [
        (builtin.Deployment, obj({"readyReplicas": 2}, {"replicas": 2}), ("2/2 ready", True, "")),
        (builtin.Deployment, obj({}, {"replicas": 1}), ("0/1 ready", False, "0 of 1 replicas are ready")),
        (builtin.Deployment, obj({}, {"replicas": 0}), ("0/0 ready", True, "")),
        (
            builtin.ReplicaSet,
            obj({"conditions": [condition("ReplicaFailure", message="quota is used up")]}, {"replicas": 1}),
            ("0/1 ready", False, "quota is used up"),
        ),
        (builtin.Job, obj({"conditions": [condition("Complete")]}), ("complete", True, "")),
        (
            builtin.Job,
            obj({"conditions": [condition("Failed", reason="BackoffLimitExceeded", message="too often")]}),
            ("failed", False, "BackoffLimitExceeded: too often"),
        ),
        (builtin.Job, obj(), ("running", False, "the job has not finished yet")),
        (builtin.PersistentVolumeClaim, obj({"phase": "Bound"}), ("Bound", True, "")),
        (builtin.PersistentVolumeClaim, obj(), ("Pending", False, "not bound to a volume yet")),
        (builtin.Pod, obj({"phase": "Succeeded"}), ("completed", True, "")),
        (
            builtin.Pod,
            obj({"containerStatuses": [container(waiting={"reason": "ErrImagePull", "message": "no recipe"})]}),
            ("ErrImagePull", False, "ErrImagePull: no recipe"),
        ),
        (
            builtin.Pod,
            obj({"containerStatuses": [container(terminated={"exitCode": 2, "reason": "Error"})]}),
            ("Error", False, "Error (exit code 2)"),
        ),
        (
            builtin.Pod,
            obj({"conditions": [condition("PodScheduled", "False", "Unschedulable", "no node fits")]}),
            ("Unschedulable", False, "no node fits"),
        ),
        (builtin.Pod, obj({"phase": "Running", "conditions": [condition("Ready")]}), ("running", True, "")),
        (
            builtin.Pod,
            obj({"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ContainerCreating"})]}),
            ("ContainerCreating", False, "ContainerCreating: not ready yet"),
        ),
        (
            builtin.Pod,
            obj({"phase": "Running", "conditions": [condition("Ready", "False", message="unready: [main]")]}),
            ("Running", False, "unready: [main]"),
        ),
        (builtin.ConfigMap, obj(), ("", None, "")),
        (GREETING.kind, obj({"conditions": [condition("Ready")]}), ("ready", True, "")),
        (
            GREETING.kind,
            obj({"conditions": [condition("Available", "False", "Gone", "it went")]}),
            ("not ready", False, "Gone: it went"),
        ),
        (
            GREETING.kind,
            obj(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"]),
            ("being deleted", False, "being deleted; waits for a/b"),
        ),
    ],
)
def test_states_in_a_few_words(kind: Kind, made: Object, expected: tuple[str, bool | None, str]) -> None:
    assert state_of(kind, made) == expected


def test_the_sentence_names_the_deepest_thing_that_is_wrong() -> None:
    def named(kind: Kind, name: str, ready: bool | None, why: str = "", children: tuple[Node, ...] = ()) -> Node:
        return Node(kind, {"metadata": {"name": name}}, why.partition(":")[0], ready, why, list(children))

    pod = named(builtin.Pod, "mlflow-abc", False, "ErrImagePull: no recipe for this image")
    replicas = named(builtin.ReplicaSet, "mlflow-7", False, "0 of 1", (pod,))
    deployment = named(builtin.Deployment, "mlflow", False, "0 of 1", (replicas,))
    root = named(GREETING.kind, "mlflow", False, "not available", (named(builtin.ConfigMap, "c", None), deployment))
    assert reason(root) == "Deployment mlflow: pod mlflow-abc is in ErrImagePull: no recipe for this image"


def test_a_ready_resource_gives_no_sentence_and_a_childless_one_its_own() -> None:
    assert reason(Node(GREETING.kind, {"metadata": {"name": "a"}}, "ready", True)) == ""
    lonely = Node(GREETING.kind, {"metadata": {"name": "a"}}, "not ready", False, "SecretMissing: no secret s")
    assert reason(lonely) == "Greeting a: SecretMissing: no secret s"


async def test_the_tree_of_a_cluster(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    await client.create(GREETING.kind, greeting("held", secretName="missing"))
    async with Manager(client, demo.controllers) as manager:
        await manager.idle(quiet=0.05)
    deployment = await client.get(builtin.Deployment, "default", "hi")
    await client.create(builtin.Pod, _pod(deployment))
    waiting = {"reason": "ErrImagePull", "message": "no recipe for it"}
    status = {
        "phase": "Pending",
        "containerStatuses": [
            {
                "name": "greeting",
                "image": "x",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"waiting": waiting},
            }
        ],
    }
    await client.patch(builtin.Pod, "default", "hi-abc", {"status": status}, subresource="status")
    roots = {root.key.name: root for root in await survey(client, [demo])}
    assert [child.title for child in roots["hi"].children] == [
        "ClusterRole greeting-default-hi", "ConfigMap hi", "Deployment hi", "Secret hi-key", "Service hi",
    ]  # fmt: skip
    assert reason(roots["hi"]) == "Deployment hi: pod hi-abc is in ErrImagePull: no recipe for it"
    assert reason(roots["held"]) == "Greeting held: SecretMissing: secret missing not found in default"
    (one,) = await survey(client, [demo], ("greetings", "held"))
    assert one.key.name == "held"
    assert await survey(client, [demo], ("greeting", "nobody")) == []


def _pod(owner: Object) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hi", "uid": owner["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hi-abc", "namespace": "default", "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "greeting", "image": "x"}]},
    }


def pod(name: str, namespace: str = "default", **status: Any) -> tuple[Object, Object]:
    """A pod that belongs to nothing, and its status."""
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    return made, {"phase": "Pending"} | status


def container_status(state: Object, last: Object | None = None) -> Object:
    return {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 1, "state": state} | (
        {"lastState": last} if last else {}
    )


async def run_pod(client: Client, made: Object, status: Object) -> None:
    await client.create(builtin.Pod, made)
    await client.patch(
        builtin.Pod, made["metadata"]["namespace"], made["metadata"]["name"], {"status": status}, subresource="status"
    )


async def test_a_broken_pod_that_belongs_to_no_resource_is_seen(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no recipe"}}
    await run_pod(client, *pod("lost", containerStatuses=[container_status(waiting)]))
    await run_pod(client, *pod("fine", phase="Running", conditions=[condition("Ready")]))
    seen = await view(client, [demo])
    assert [(stray.title, reason(stray)) for stray in seen.strays] == [
        ("Pod lost", "Pod lost: ImagePullBackOff: no recipe")
    ]
    assert not seen.ready


async def test_what_is_broken_elsewhere_is_seen_on_a_laptop_only(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    await client.create(builtin.Namespace, {"metadata": {"name": "foreign"}})
    await run_pod(client, *pod("lost", "foreign"))
    assert (await view(client, [demo])).strays == []
    assert [stray.title for stray in (await view(client, [demo], everywhere=True)).strays] == ["Pod lost"]


async def test_what_belongs_to_a_resource_is_not_shown_a_second_time(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    async with Manager(client, demo.controllers) as manager:
        await manager.idle(quiet=0.05)
    await client.create(builtin.Pod, _pod(await client.get(builtin.Deployment, "default", "hi")))
    seen = await view(client, [demo], everywhere=True)
    assert (len(seen.roots), seen.strays) == (1, [])


async def test_what_runs_for_no_resource_is_shown_as_well(server: ApiServer) -> None:
    keeper = Controller("keeper", Fixed((Key("default", "box"),)), owns=[Owns(builtin.Deployment)])

    @keeper.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        pods = {"app": "box"}
        pod = {"containers": [{"name": "main", "image": "x"}]}
        return Desired([Child(build.deployment("box", "default", labels=pods, replicas=1, selector=pods, pod=pod))])

    made = Operator("keeper", "Keeper", controllers=[keeper])
    client = server.client()
    assert (await view(client, [made])).roots == []
    async with Manager(client, [keeper]) as manager:
        await manager.idle(quiet=0.05)
    (root,) = (await view(client, [made])).roots
    assert (root.title, root.ready) == ("Deployment box", False)
    assert (await view(client, [made])).strays == []


async def test_a_resource_that_no_controller_has_seen_is_not_ready(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    (root,) = await survey(client, [demo])
    assert (root.state, root.ready) == ("not ready", False)
    assert reason(root) == "Greeting hi: no controller has seen it yet; do the controllers run?"


@pytest.mark.parametrize(
    ("status", "previous"),
    [
        (container_status({"terminated": {"exitCode": 3}}), "false"),
        (container_status({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 3}}), "true"),
        (container_status({"running": {}}, {"terminated": {"exitCode": 0}}), "true"),
    ],
)
async def test_the_last_log_line_of_what_crashed_is_told(
    server: ApiServer, demo: Operator, status: Object, previous: str
) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    await run_pod(client, *pod("crash", containerStatuses=[status]))
    logs = Logs(server.transport(), "starting\nValueError: the key is missing\n\n")
    (stray,) = (await view(Client(logs), [demo])).strays
    assert reason(stray).endswith("; its last log line: ValueError: the key is missing")
    assert logs.asked == [("main", previous)]


async def test_what_a_container_waits_for_before_it_starts_is_told(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    waiting = container_status({"waiting": {"reason": "ContainerCreating"}})
    await run_pod(client, *pod("slow", containerStatuses=[waiting]))
    made = await client.get(builtin.Pod, "default", "slow")
    lack = 'MountVolume.SetUp failed for volume "certificate" : secret "key" not found'
    event = {
        "metadata": {"name": "slow.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "slow", "uid": made["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedMount",
        "message": lack,
    }
    await client.create(builtin.Event, event)
    (stray,) = (await view(client, [demo])).strays
    assert reason(stray) == f"Pod slow: ContainerCreating: {lack}"


async def test_a_pod_whose_log_nobody_may_read_is_shown_without_it(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    ended = container_status({"terminated": {"exitCode": 3, "reason": "Error"}})
    await run_pod(client, *pod("crash", containerStatuses=[ended]))
    (stray,) = (await view(client, [demo])).strays
    assert reason(stray) == "Pod crash: Error (exit code 3)"


async def test_a_kind_that_nobody_knows_is_refused_with_what_was_probably_meant(
    server: ApiServer, demo: Operator
) -> None:
    with pytest.raises(UnknownKind, match=r"called 'greting' \(did you mean greeting\?\); there are: Greeting"):
        await survey(server.client(), [demo], ("greting", ""))


@dataclass(frozen=True)
class Text:
    """An answer with a text."""

    text: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.text.encode()

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.text.encode()

    async def close(self) -> None:
        pass


class Logs(Around):
    """A cluster where every container wrote the same."""

    def __init__(self, inner: Transport, text: str) -> None:
        super().__init__(inner)
        self.text = text
        self.asked: list[tuple[str, str]] = []

    async def pass_on(self, sent: Sent) -> Response:
        if not sent.path.endswith("/log"):
            return await super().pass_on(sent)
        self.asked.append((sent.query["container"], sent.query.get("previous", "false")))
        return Text(self.text)
