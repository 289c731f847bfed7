"""The server as one request handler: health, both API versions, everything around an operation."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import format_datetime
from urllib.parse import unquote_to_bytes

from aiohttp import web

from modelyard.programs.database import Database, DatabaseDown, Session
from modelyard.programs.registry import operations, schema
from modelyard.programs.registry.kinds import ARTIFACT_KINDS, PLAIN_KINDS
from modelyard.programs.registry.openapi import document
from modelyard.programs.registry.operations import Wanted
from modelyard.programs.registry.routes import Call, Operation, operations_table
from modelyard.programs.web import (
    ApiError,
    Cors,
    Handler,
    Query,
    answering,
    error_response,
    json_response,
    raw_path,
)

ALPHA = "/api/model_registry/v1alpha3"
STABLE = "/api/model_registry/v1"
DOWN = "Datastore service is down or unavailable. Please check that the database is reachable and try again later."
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass
class Registry:
    """What the handler needs; `database` is None until the tables are there."""

    cors: Cors = field(default_factory=Cors)
    alpha_sunset: date | None = None
    database: Database | None = None
    waiting_for: str = "model registry service not yet initialized"

    def __post_init__(self) -> None:
        self._routes = _Routes(operations_table())
        self._openapi = {prefix: document(prefix, alpha=prefix == ALPHA) for prefix in (ALPHA, STABLE)}
        self._alpha_headers = _sunset_headers(self.alpha_sunset)

    def handler(self) -> Handler:
        return self.cors.around(answering(self._answer))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, query_text = raw_path(request)
        if path.endswith(("/readyz/isDirty", "/readyz/health")):
            if request.method != "GET":
                return _wrong_method(["GET"])
            return await self._health(Query(query_text), everything=path.endswith("/health"))
        if self.database is None:
            return web.Response(status=503, text=DOWN)
        if path == "/openapi.json":
            return json_response(self._openapi[STABLE if Query(query_text).get("version") == "v1" else ALPHA])
        for prefix in (ALPHA, STABLE):
            if path.startswith(f"{prefix}/"):
                return await self._operation(request, prefix, path, query_text)
        return error_response(404, f"404 page not found: the API is under {ALPHA}/ and {STABLE}/")

    async def _operation(self, request: web.BaseRequest, prefix: str, path: str, query_text: str) -> web.StreamResponse:
        if _BAD_ESCAPE.search(path):
            raise ApiError(400, "malformed percent escape in the path")
        rest = unquote_to_bytes(path[len(prefix) :]).decode(errors="replace")
        methods, row_id = self._routes.find(rest, alpha=prefix == ALPHA)
        if not methods:
            return error_response(404, f"404 page not found: {rest[:200]}")
        operation = methods.get(request.method)
        if operation is None:
            return _wrong_method(sorted(methods))
        assert self.database is not None
        return await operation.handler(
            Call(
                request,
                self.database,
                Query(query_text),
                row_id,
                text_steps=prefix == STABLE,
                headers={
                    **(self._alpha_headers if prefix == ALPHA else {}),
                    **self.cors.answer_headers(request),
                },
            )
        )

    async def _health(self, query: Query, *, everything: bool) -> web.Response:
        start = time.perf_counter()
        checks = {"database": await self._check_database()}
        if everything:
            checks["model-registry"] = await self._check_lists()
        failed = next((check for check in checks.values() if check["Status"] != "pass"), None)
        status = 200 if failed is None else 503
        if query.get("format") != "json":
            return web.Response(status=status, text="OK" if failed is None else str(failed["Message"]))
        checks["meta"] = _check(
            "meta",
            "",
            check_duration_ms=round((time.perf_counter() - start) * 1000),
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return json_response({"status": "pass" if failed is None else "fail", "checks": checks}, status)

    async def _check_database(self) -> dict[str, object]:
        if self.database is None:
            return _check("database", self.waiting_for)
        try:
            async with asyncio.timeout(4):
                version, dirty = await self.database.read(schema.state)
        except (DatabaseDown, TimeoutError) as error:
            return _check("database", f"schema_migrations query error: {error or 'the database does not answer'}")
        problem = "database schema is in dirty state" if dirty else ""
        return _check("database", problem, schema_version=version, schema_dirty=dirty)

    async def _check_lists(self) -> dict[str, object]:
        if self.database is None:
            return _check("model-registry", self.waiting_for)
        try:
            async with asyncio.timeout(4):
                counts = await self.database.read(_one_of_each)
        except (DatabaseDown, TimeoutError) as error:
            return _check("model-registry", f"cannot list: {error or 'the database does not answer'}")
        return _check("model-registry", "", **counts)


def _one_of_each(session: Session) -> dict[str, object]:
    found: dict[str, object] = {
        f"{kind.path}_count": len(operations.listed(session, Wanted((kind,)), (), 1)) for kind in PLAIN_KINDS
    }
    found["artifacts_count"] = len(operations.listed(session, Wanted(ARTIFACT_KINDS), (), 1))
    return found


def _check(name: str, problem: str, **details: object) -> dict[str, object]:
    return {"Name": name, "Status": "fail" if problem else "pass", "Message": problem or "OK", "Details": details}


class _Routes:
    def __init__(self, table: list[Operation]) -> None:
        self._by_path: dict[str, dict[str, Operation]] = {}
        for operation in table:
            self._by_path.setdefault(operation.path, {})[operation.method] = operation

    def find(self, path: str, *, alpha: bool) -> tuple[dict[str, Operation], str]:
        """The operations of a path by method, and the id in it. A path without placeholder goes first."""
        methods, row_id = self._by_path.get(path), ""
        if methods is None:
            parts = path.split("/")
            if len(parts) < 3 or not parts[2] or parts[2].startswith("{"):
                return {}, ""
            row_id, parts[2] = parts[2], "{id}"
            methods = self._by_path.get("/".join(parts), {})
        if not alpha:
            methods = {name: operation for name, operation in methods.items() if not operation.alpha_only}
        return methods, row_id


def _wrong_method(allowed: list[str]) -> web.Response:
    return error_response(405, f"Method not allowed: use {' or '.join(allowed)}", {"Allow": ", ".join(allowed)})


def _sunset_headers(day: date | None) -> dict[str, str]:
    if day is None:
        return {}
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return {
        "Deprecation": "true",
        "Sunset": format_datetime(moment, usegmt=True),
        "Link": f'<{STABLE}/>; rel="successor-version"',
    }
