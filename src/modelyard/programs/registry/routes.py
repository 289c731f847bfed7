"""The API's operations, made from the table of kinds: which path and method does what. The OpenAPI document reads the same list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from aiohttp import web

from modelyard.programs.database import Database
from modelyard.programs.database.session import Session
from modelyard.programs.registry import lists, operations
from modelyard.programs.registry.bodies import (
    Body,
    artifact_kind,
    create_body,
    object_of,
    parsed_id,
    patch_body,
    union_body,
)
from modelyard.programs.registry.kinds import (
    ARTIFACT_KINDS,
    BY_ARTIFACT_TYPE,
    BY_PATH,
    METRIC_HISTORY,
    MODEL_ARTIFACT,
    PLAIN_KINDS,
    RUN,
    SERVE,
    SERVICE,
    VERSION,
    Kind,
)
from modelyard.programs.registry.operations import Wanted
from modelyard.programs.registry.store import Row
from modelyard.programs.web import ApiError, Query, bytes_response, read_body

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One request to one operation."""

    request: web.BaseRequest
    database: Database
    query: Query
    id: str
    text_steps: bool
    headers: dict[str, str]

    def row(self, row: Row, status: int = 200) -> web.Response:
        return bytes_response(row.answer(text_steps=self.text_steps), status, self.headers)

    async def list(self, asked: Wanted) -> web.StreamResponse:
        return await lists.answer(
            self.request, self.database, self.query, asked, text_steps=self.text_steps, headers=self.headers
        )

    async def body(self) -> dict[str, object]:
        return object_of(await read_body(self.request))


Handler = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    """After the prefix; `{id}` is the only placeholder."""
    handler: Handler
    verb: str
    kinds: tuple[Kind, ...]
    parent: Kind | None = None

    @property
    def alpha_only(self) -> bool:
        first = self.kinds[0]
        return first.alpha_only or first is METRIC_HISTORY or (self.parent is not None and self.parent.alpha_only)


def operations_table() -> list[Operation]:
    return list(_all())


def _all() -> Iterator[Operation]:
    for kind in PLAIN_KINDS:
        yield from _plain(kind)
    for kind in (*PLAIN_KINDS, SERVE):
        if kind.nested is not None:
            yield from _nested(kind)
    for parent in (VERSION, RUN):
        path = f"/{parent.path}/{{id}}/artifacts"
        yield Operation("GET", path, partial(_list_artifacts, parent=parent), "list", ARTIFACT_KINDS, parent)
        yield Operation("POST", path, partial(_upsert_artifact, parent=parent), "upsert", ARTIFACT_KINDS, parent)
    yield Operation("GET", "/artifacts", partial(_list_artifacts, parent=None), "list", ARTIFACT_KINDS)
    yield Operation("POST", "/artifacts", _create_artifact, "create", ARTIFACT_KINDS)
    yield Operation(
        "GET", "/artifacts/{id}", partial(_get, kinds=ARTIFACT_KINDS, label="artifact"), "get", ARTIFACT_KINDS
    )
    yield Operation("PATCH", "/artifacts/{id}", _patch_artifact, "patch", ARTIFACT_KINDS)
    yield Operation("GET", "/artifact", partial(_find, kinds=ARTIFACT_KINDS), "find", ARTIFACT_KINDS)
    model = (MODEL_ARTIFACT,)
    yield Operation("GET", "/model_artifacts", partial(_list, kind=MODEL_ARTIFACT), "list", model)
    yield Operation("POST", "/model_artifacts", _create_model_artifact, "create", model)
    yield Operation(
        "GET", "/model_artifacts/{id}", partial(_get, kinds=model, label=MODEL_ARTIFACT.label), "get", model
    )
    yield Operation("PATCH", "/model_artifacts/{id}", partial(_patch, kind=MODEL_ARTIFACT), "patch", model)
    yield Operation("GET", "/model_artifact", partial(_find, kinds=model), "find", model)
    service = f"/{SERVICE.path}/{{id}}"
    yield Operation(
        "GET",
        f"{service}/model",
        partial(_of_service, operations.service_model),
        "get",
        (BY_PATH["registered_models"],),
    )
    yield Operation("GET", f"{service}/version", partial(_of_service, operations.service_version), "get", (VERSION,))
    history = (METRIC_HISTORY,)
    yield Operation("GET", "/experiment_runs/metric_history", _history, "list", history)
    yield Operation("GET", "/experiment_runs/{id}/metric_history", _history, "list", history)


def _plain(kind: Kind) -> Iterator[Operation]:
    one = f"/{kind.path}/{{id}}"
    yield Operation("GET", f"/{kind.path}", partial(_list, kind=kind), "list", (kind,))
    yield Operation("POST", f"/{kind.path}", partial(_create, kind=kind), "create", (kind,))
    yield Operation("GET", one, partial(_get, kinds=(kind,), label=kind.label), "get", (kind,))
    yield Operation("PATCH", one, partial(_patch, kind=kind), "patch", (kind,))
    yield Operation("GET", f"/{kind.single}", partial(_find, kinds=(kind,)), "find", (kind,))


def _nested(kind: Kind) -> Iterator[Operation]:
    assert kind.nested is not None
    parent = BY_PATH[kind.nested[0]]
    path = f"/{kind.nested[0]}/{{id}}/{kind.nested[1]}"
    yield Operation("GET", path, partial(_list_nested, kind=kind, parent=parent), "list", (kind,), parent)
    yield Operation("POST", path, partial(_create_nested, kind=kind, parent=parent), "create", (kind,), parent)


async def _get(call: Call, kinds: tuple[Kind, ...], label: str) -> web.StreamResponse:
    row_id = parsed_id(call.id, label)
    return call.row(await call.database.read(lambda session: operations.get(session, kinds, row_id)))


async def _list(call: Call, kind: Kind) -> web.StreamResponse:
    return await call.list(lists.wanted(call.query, (kind,)))


async def _list_nested(call: Call, kind: Kind, parent: Kind) -> web.StreamResponse:
    return await call.list(lists.wanted(call.query, (kind,), (parent, parsed_id(call.id, parent.label))))


async def _create(call: Call, kind: Kind) -> web.StreamResponse:
    body = create_body(kind, await call.body())
    return call.row(await call.database.write(lambda session: operations.create(session, kind, body)), 201)


async def _create_nested(call: Call, kind: Kind, parent: Kind) -> web.StreamResponse:
    parent_id = parsed_id(call.id, parent.label)
    assert kind.parent is not None
    body = create_body(kind, await call.body(), implied=frozenset((kind.parent,)))
    return call.row(await call.database.write(lambda session: operations.create(session, kind, body, parent_id)), 201)


async def _patch(call: Call, kind: Kind) -> web.StreamResponse:
    row_id = parsed_id(call.id, kind.label)
    value = await call.body()
    if kind.artifact_type is not None and value.get("artifactType") is not None:
        return await _patch_artifact(call, kind=kind, value=value)
    body = patch_body(kind, value)
    return call.row(await call.database.write(lambda session: operations.patch(session, (kind,), row_id, body)))


async def _find(call: Call, kinds: tuple[Kind, ...]) -> web.StreamResponse:
    name, external_id = call.query.get("name"), call.query.get("externalId")
    parent_text = call.query.get("parentResourceId")
    nested = not kinds[0].top
    if name is not None and nested and parent_text is None and external_id is None:
        raise ApiError(400, "invalid parameters call, supply either (name and parentResourceId), or externalId")
    if name is None and external_id is None:
        pair = "(name and parentResourceId)" if nested else "name"
        raise ApiError(400, f"invalid parameters call, supply either {pair}, or externalId")
    parent = None
    if nested and parent_text is not None:
        parent = (kinds[0], parsed_id(parent_text, "parent resource"))
    asked = Wanted(kinds, name=name, external_id=external_id, parent=parent)
    return call.row(await call.database.read(lambda session: operations.find(session, asked)))


async def _list_artifacts(call: Call, parent: Kind | None) -> web.StreamResponse:
    kinds: tuple[Kind, ...] = ARTIFACT_KINDS
    if word := call.query.get("artifactType"):
        if word not in BY_ARTIFACT_TYPE:
            known = ", ".join(str(each) for each in BY_ARTIFACT_TYPE)
            raise ApiError(400, f"invalid artifact type {word}: expected one of {known}")
        kinds = (BY_ARTIFACT_TYPE[word],)
    under = None if parent is None else (parent, parsed_id(call.id, parent.label))
    return await call.list(lists.wanted(call.query, kinds, under))


async def _upsert_artifact(call: Call, parent: Kind) -> web.StreamResponse:
    parent_id = parsed_id(call.id, parent.label)
    value = await call.body()
    kind = artifact_kind(value)
    body = union_body(kind, value, with_id=True)
    row, made = await call.database.write(
        lambda session: operations.upsert_artifact(session, parent, parent_id, kind, body)
    )
    return call.row(row, 201 if made else 200)


async def _create_artifact(call: Call) -> web.StreamResponse:
    value = await call.body()
    kind = artifact_kind(value)
    body = union_body(kind, value, with_id=False)
    return call.row(await call.database.write(lambda session: operations.create_artifact(session, kind, body)), 201)


async def _create_model_artifact(call: Call) -> web.StreamResponse:
    body = create_body(MODEL_ARTIFACT, await call.body())
    made = await call.database.write(
        lambda session: operations.create_artifact(session, MODEL_ARTIFACT, body, default_state="UNKNOWN")
    )
    return call.row(made, 201)


async def _patch_artifact(
    call: Call, kind: Kind | None = None, value: dict[str, object] | None = None
) -> web.StreamResponse:
    strict = kind is not None
    label = kind.label if kind is not None else "artifact"
    row_id = parsed_id(call.id, label)
    value = await call.body() if value is None else value
    word = value.get("artifactType")
    asked = BY_ARTIFACT_TYPE.get(word) if isinstance(word, str) else None
    body = Body({}) if asked is None else patch_body(asked, value, strict=strict)

    def work(session: Session) -> Row:
        if kind is not None:
            operations.get(session, (kind,), row_id)
        return operations.patch_artifact(session, row_id, asked, body)

    return call.row(await call.database.write(work))


async def _of_service(find: Callable[[Session, int], Row], call: Call) -> web.StreamResponse:
    service_id = parsed_id(call.id, SERVICE.label)
    return call.row(await call.database.read(lambda session: find(session, service_id)))


async def _history(call: Call) -> web.StreamResponse:
    under = (RUN, parsed_id(call.id, RUN.label)) if call.id else None
    asked = lists.wanted(call.query, (METRIC_HISTORY,), under)
    asked = replace(asked, name=call.query.get("name"), external_id=None, steps=lists.steps(call.query.get("stepIds")))
    return await call.list(asked)
