"""Raw requests for the API tests: status, body and headers as the server gave them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from modelyard.kube.kinds import Object
from tests.cluster.conftest import Api

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
T = TypeVar("T")


@dataclass
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        return [(cause["field"], cause["message"]) for cause in self.body["details"]["causes"]]


async def call(
    api: Api,
    method: str,
    path: str,
    body: Any = None,
    *,
    type: str = "application/json",
    accept: str = "application/json",
    **query: str,
) -> Answer:
    payload = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Accept": accept} | ({"Content-Type": type} if body is not None else {})
    response = await api.client.transport.send(method, path, query=query, headers=headers, body=payload)
    content = await response.read()
    try:
        value = json.loads(content)
    except ValueError:
        value = content.decode()
    return Answer(response.status, value, response.headers)


async def read_watch(api: Api, path: str, count: int, **query: str) -> list[Object]:
    """The first events of a watch."""
    query = {"watch": "true", "timeoutSeconds": "20"} | query
    response = await api.client.transport.send("GET", path, query=query, headers={"Accept": "application/json"})
    events: list[Object] = []
    rest = b""
    try:
        async with asyncio.timeout(25):
            async for chunk in response.chunks():
                rest += chunk
                *lines, rest = rest.split(b"\n")
                events += [json.loads(line) for line in lines if line]
                if len(events) >= count:
                    break
    finally:
        await response.close()
    return events[:count]


async def eventually(check: Callable[[], Awaitable[T | None]], seconds: float = 30) -> T:
    """The first true value of a check: what the server's own controllers bring about in their time."""
    async with asyncio.timeout(seconds):
        while not (value := await check()):
            await asyncio.sleep(0.05)
    return value


def config_map(namespace: str, name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "data": data or {"a": "1"}}


def deployment(namespace: str, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "img"}]},
            },
            **spec,
        },
    }


def owner(obj: Object, api_version: str, kind: str, **more: Any) -> Object:
    metadata = obj["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **more}
