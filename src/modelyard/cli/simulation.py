"""Plans without a cluster: the controllers run on an API server of their own until all is ready, and what they wrote is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

import msgspec

from modelyard.cli.offline import offline_server
from modelyard.cli.playing import play_workloads
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of, name_of, namespace_of, status_of, uid_of
from modelyard.kube.transport import Around, Response, Sent, Transport
from modelyard.local.platform import crd_of
from modelyard.runtime.acting.ownership import Owner, belongs_to
from modelyard.runtime.acting.plan import Change, Plan, field_changes, masked
from modelyard.runtime.declaring.controller import Fixed
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.process.manager import Manager

_APPLY = "application/apply-patch+yaml"
_ROUNDS = 12
"""More steps one after the other than any operator has."""


class Recorder(Around):
    """A transport that remembers what was applied and deleted."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.applied: dict[str, Object] = {}
        """The last object applied at each path; a path that was deleted since is not there."""

    async def pass_on(self, sent: Sent) -> Response:
        response = await super().pass_on(sent)
        place = sent.path.partition("?")[0]
        if response.status < 300 and sent.method == "DELETE":
            self.applied.pop(place, None)
        elif response.status < 300 and sent.headers.get("Content-Type") == _APPLY:
            self.applied[place] = msgspec.json.decode(sent.body)
        elif response.status == HTTPStatus.CREATED and sent.method == "POST":
            made: Object = msgspec.json.decode(sent.body)
            if name := name_of(made):
                self.applied[f"{place}/{name}"] = made
        return response


async def simulate(
    operators: Sequence[Operator],
    resources: Sequence[tuple[Kind, Object]],
    others: Sequence[Object],
    platform: str,
    left_out: Callable[[Object], None] = lambda obj: None,
) -> list[Plan]:
    """One plan a resource: everything that would exist once its workloads are ready. `left_out` takes what has no kind here."""
    async with offline_server(operators, platform) as server:
        client = server.client()
        await _namespaces(client, operators, [*others, *(obj for _, obj in resources)])
        served = {(kind.api_version, kind.kind): kind for kind in await client.discover()}
        for obj in others:
            kind = served.get((obj["apiVersion"], obj["kind"]))
            if kind is None:
                left_out(obj)
            else:
                placed = {"namespace": "default"} if kind.namespaced else {}
                obj = obj | {"metadata": placed | obj["metadata"]}
                await client.apply(kind, obj, field_manager="modelyard-plan", force=True)
        await server.settle()
        for missing in {kind for kind, _ in resources} - await client.discover():
            await client.create(builtin.CustomResourceDefinition, crd_of(missing))
            await server.settle()
        made = [await client.apply(k, obj, field_manager="modelyard-plan", force=True) for k, obj in resources]
        recorder = Recorder(server.transport())
        controllers = [controller for operator in operators for controller in operator.controllers]
        async with Manager(Client(recorder), controllers) as manager:
            for _ in range(_ROUNDS):
                await manager.idle(quiet=0.05, timeout=60.0)
                if not await play_workloads(client):
                    break
        after = [await client.get(kind, *key_of(obj)) for (kind, _), obj in zip(resources, made, strict=True)]
        written = [(served.get((obj["apiVersion"], obj["kind"])), obj) for obj in recorder.applied.values()]
        return [
            _plan(kind, obj, [(k, o) for k, o in written if k is not None])
            for (kind, _), obj in zip(resources, after, strict=True)
        ]


def _plan(kind: Kind, resource: Object, written: Sequence[tuple[Kind, Object]]) -> Plan:
    owner = Owner("", key_of(resource), kind, uid_of(resource))
    ours = [(k, obj) for k, obj in written if belongs_to(obj, owner)]
    changes = [
        Change("create", k, key_of(obj), tuple(field_changes({}, obj)), masked(k, obj), masked(k, obj))
        for k, obj in ours
    ]
    status = status_of(resource)
    return Plan(tuple(changes), status=tuple(field_changes({}, status)), resulting=status)


async def _namespaces(client: Client, operators: Sequence[Operator], objects: Sequence[Object]) -> None:
    """On a cluster someone made them before: those of the objects, and those that the controllers write to."""
    names = {namespace_of(obj) for obj in objects}
    for operator in operators:
        for controller in operator.controllers:
            names |= {owned.namespace or "" for owned in controller.owns}
            names |= {key.namespace for key in controller.for_.keys} if isinstance(controller.for_, Fixed) else set()
    for name in sorted(names - {"", "default"}):
        namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await client.create(builtin.Namespace, namespace)
        except AlreadyExists:
            continue
