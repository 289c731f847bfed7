"""A registry's contents as JSON lines, out of one server and into another, through the API: upstream's server works on either side."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any, TextIO

import aiohttp

PREFIX = "/api/model_registry/v1alpha3"
_PAGE = 200
_CONTEXTS = (
    "registered_models",
    "model_versions",
    "serving_environments",
    "inference_services",
    "experiments",
    "experiment_runs",
)
_SERVER_MADE = ("id", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch", "experimentRunId")
_FIXED = ("name", "experimentId", "experimentRunId")
_REFERENCES = ("registeredModelId", "modelVersionId", "servingEnvironmentId", "experimentId")

Json = dict[str, Any]


class TransferError(Exception):
    """The registry or the file said something that ends the transfer; the message says which object."""


class _Client:
    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._base = address.rstrip("/") + PREFIX

    async def list(self, path: str) -> AsyncIterator[Json]:
        token = ""
        while True:
            page = await self._ask("GET", f"{path}?pageSize={_PAGE}&nextPageToken={token}")
            for item in page["items"]:
                yield item
            token = page["nextPageToken"]
            if not token:
                return

    async def post(self, path: str, body: Json) -> Json:
        return await self._ask("POST", path, body)

    async def patch(self, path: str, body: Json) -> Json:
        return await self._ask("PATCH", path, body)

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            async with self._session.request(method, f"{self._base}/{path}", json=body) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransferError(f"{self._base} does not answer: {error}") from None
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if answer.status >= 300 or not isinstance(value, dict):
            said = value.get("message", "") if isinstance(value, dict) else text[:200]
            what = f" of {body.get('name', 'an object without name')!r}" if body is not None else ""
            raise TransferError(f"{method} {path}{what}: {answer.status} {said}")
        return value


def _session(token: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"} if token else {})


async def export_registry(address: str, out: TextIO, *, token: str = "") -> int:
    """Writes a line for each object, parents before children; gives their number."""
    count = 0

    def write(path: str, parent: str | None, value: Json) -> None:
        nonlocal count
        count += 1
        out.write(json.dumps({"path": path, "parent": parent, "object": value}) + "\n")

    async with _session(token) as session:
        client = _Client(session, address)
        parents: dict[str, list[str]] = {}
        for path in _CONTEXTS:
            async for value in client.list(path):
                write(path, None, value)
                parents.setdefault(path, []).append(value["id"])
        for service in parents.get("inference_services", []):
            async for value in client.list(f"inference_services/{service}/serves"):
                write("serves", service, value)
        for run in parents.get("experiment_runs", []):
            async for value in client.list(f"experiment_runs/{run}/metric_history"):
                write("metric_history", run, value)
        seen: set[str] = set()
        for path in ("model_versions", "experiment_runs"):
            for parent in parents.get(path, []):
                async for value in client.list(f"{path}/{parent}/artifacts"):
                    write(f"{path}/artifacts", parent, value)
                    seen.add(value["id"])
        async for value in client.list("artifacts"):
            if value["id"] not in seen:
                write("artifacts", None, value)
    return count


async def import_registry(address: str, lines: Iterable[str], *, token: str = "") -> int:
    """Creates every object of an export. Ids are the target's own; references follow them. Gives the number of objects."""
    contexts: dict[str, str] = {}
    artifacts: dict[str, str] = {}
    count = 0
    async with _session(token) as session:
        client = _Client(session, address)
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            path, parent, value = _read(number, line)
            body = _body(value, contexts, number)
            under = None if parent is None else _mapped(contexts, parent, number)
            if path in _CONTEXTS:
                contexts[value["id"]] = (await client.post(path, body))["id"]
            elif path == "serves":
                await client.post(f"inference_services/{under}/serves", body)
            elif path == "metric_history":
                await client.post(f"experiment_runs/{under}/artifacts", body)
            elif path.endswith("/artifacts"):
                await _artifact(client, f"{path.partition('/')[0]}/{under}/artifacts", value, body, artifacts)
            else:
                await client.post("artifacts", body)
            count += 1
    return count


async def _artifact(client: _Client, path: str, value: Json, body: Json, made: dict[str, str]) -> None:
    """An artifact of several parents is created under the first and linked to the others. History has made a run's metrics already."""
    if value["id"] in made:
        body = {"id": made[value["id"]], "artifactType": body["artifactType"]}
    elif path.startswith("experiment_runs/") and body["artifactType"] == "metric":
        async for existing in client.list(path):
            if existing["artifactType"] == "metric" and existing["name"] == body["name"]:
                made[value["id"]] = existing["id"]
                # History says neither what a PATCH changed later, nor the external id.
                changes = {name: given for name, given in body.items() if name not in _FIXED}
                await client.patch(f"artifacts/{existing['id']}", changes)
                return
    made[value["id"]] = (await client.post(path, body))["id"]


def _read(number: int, line: str) -> tuple[str, str | None, Json]:
    try:
        found = json.loads(line)
        path, parent, value = found["path"], found["parent"], found["object"]
        value["id"]
    except (ValueError, KeyError, TypeError):
        raise TransferError(f"line {number} is not a line of an export") from None
    return path, parent, value


def _body(value: Json, contexts: dict[str, str], number: int) -> Json:
    body = {name: given for name, given in value.items() if name not in _SERVER_MADE}
    if "artifactType" in body:
        body.pop("experimentId", None)
    for name in _REFERENCES:
        if body.get(name):
            body[name] = _mapped(contexts, body[name], number)
    return body


def _mapped(known: dict[str, str], old: str, number: int) -> str:
    if old not in known:
        raise TransferError(f"line {number} refers to the object {old}, which no earlier line has")
    return known[old]
