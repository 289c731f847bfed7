"""List answers: parameters, pages, and answers of any length that never hold all rows in memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohttp import web

from modelyard.programs.database import Database
from modelyard.programs.database.session import Session
from modelyard.programs.filter_query import parse
from modelyard.programs.paging import decode_token, encode_token, list_digest, page_size
from modelyard.programs.registry import operations
from modelyard.programs.registry.kinds import Kind
from modelyard.programs.registry.operations import Wanted
from modelyard.programs.registry.store import Order, Row
from modelyard.programs.web import JSON, ApiError, Query, bytes_response

_CHUNK = 500
_ORDERS = {"ID": "id", "CREATE_TIME": "created", "LAST_UPDATE_TIME": "updated"}
_LARGEST = 2**63
_STEP = re.compile(r"[+-]?[0-9]{1,18}")


def wanted(query: Query, kinds: Sequence[Kind], parent: tuple[Kind, int] | None = None) -> Wanted:
    """What a list's parameters ask for."""
    order_by = query.get("orderBy") or "ID"
    if order_by not in _ORDERS:
        raise ApiError(400, f"invalid orderBy {order_by!r}: expected one of {', '.join(_ORDERS)}")
    direction = (query.get("sortOrder") or "ASC").upper()
    if direction not in ("ASC", "DESC"):
        raise ApiError(400, f"invalid sortOrder {query.get('sortOrder')!r}: expected ASC or DESC")
    return Wanted(
        kinds=tuple(kinds),
        order=Order(_ORDERS[order_by], descending=direction == "DESC"),
        query=parse(query.get("filterQuery") or ""),
        name=query.get("name") if parent is not None else None,
        external_id=query.get("externalId") if parent is not None else None,
        parent=parent,
    )


def steps(text: str | None) -> tuple[int, ...]:
    """The `stepIds` parameter."""
    found = []
    for word in (text or "").split(","):
        if word.strip():
            if not _STEP.fullmatch(word.strip()):
                raise ApiError(400, f"invalid step ID '{word.strip()[:40]}': must be a valid integer")
            found.append(int(word))
    return tuple(found)


async def answer(
    request: web.BaseRequest,
    database: Database,
    query: Query,
    asked: Wanted,
    *,
    text_steps: bool,
    headers: dict[str, str],
) -> web.StreamResponse:
    """One page; without a page size, all rows, sent as they are read."""
    size = page_size(query.get("pageSize"), default=0)
    digest = list_digest(
        asked.kinds, asked.parent and asked.parent[1], asked.order, query.get("filterQuery"), asked.steps
    )
    token = query.get("nextPageToken")
    after: tuple[Any, ...] = decode_token(token, digest) if token else ()
    if token and not (len(after) == 2 and all(type(value) is int and abs(value) < _LARGEST for value in after)):
        raise ApiError(400, "invalid nextPageToken: it is not a token that this server gave out")

    def first(session: Session) -> list[tuple[Row, int]]:
        operations.check_parent(session, asked)
        return operations.listed(session, asked, after, min(size or _CHUNK, _CHUNK) + 1)

    rows = await database.read(first)
    if len(rows) <= _CHUNK or 0 < size <= _CHUNK:
        page = rows[:size] if size else rows
        ending = _ending(page, digest, size, len(page), more=len(rows) > len(page))
        return bytes_response(b'{"items":[%b],%b' % (_joined(page, text_steps), ending), 200, headers)
    return await _stream(request, database, asked, rows, size, digest, text_steps=text_steps, headers=headers)


async def _stream(
    request: web.BaseRequest,
    database: Database,
    asked: Wanted,
    rows: list[tuple[Row, int]],
    size: int,
    digest: str,
    *,
    text_steps: bool,
    headers: dict[str, str],
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON, **headers})
    await response.prepare(request)
    await response.write(b'{"items":[')
    sent = 0
    while True:
        room = min(_CHUNK, size - sent) if size else _CHUNK
        page, more = rows[:room], len(rows) > room
        await response.write((b"," if sent and page else b"") + _joined(page, text_steps))
        sent += len(page)
        if not more or (size and sent >= size):
            break
        rows = await database.read(partial(_next, asked=asked, after=_place(page)))
    await response.write(b"]," + _ending(page, digest, size, sent, more=more) + b"\n")
    await response.write_eof()
    return response


def _next(session: Session, *, asked: Wanted, after: tuple[int, int]) -> list[tuple[Row, int]]:
    return operations.listed(session, asked, after, _CHUNK + 1)


def _joined(rows: Sequence[tuple[Row, int]], text_steps: bool) -> bytes:
    return b",".join([row.answer(text_steps=text_steps) for row, _ in rows])


def _place(rows: Sequence[tuple[Row, int]]) -> tuple[int, int]:
    row, value = rows[-1]
    return value, row.id


def _ending(page: Sequence[tuple[Row, int]], digest: str, size: int, sent: int, *, more: bool) -> bytes:
    token = encode_token(digest, _place(page)) if more else ""
    return b'"nextPageToken":"%b","pageSize":%d,"size":%d}' % (token.encode(), size, sent)
