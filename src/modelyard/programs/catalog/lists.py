"""List answers over rows in memory: order, pages, tokens. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from modelyard.programs.paging import decode_token, encode_token, list_digest, page_size
from modelyard.programs.web import ApiError, Query

T = TypeVar("T")
Keyed = Sequence[tuple[Any, T]]
"""Rows with their sort keys, in order; the key None comes last in both directions."""
DEFAULT_SIZE = 10


def is_descending(query: Query) -> bool:
    direction = (query.get("sortOrder") or "ASC").upper()
    if direction not in ("ASC", "DESC"):
        raise ApiError(400, f"invalid sortOrder {query.get('sortOrder')!r}: expected ASC or DESC")
    return direction == "DESC"


def size_of(query: Query) -> int:
    return page_size(query.get("pageSize"), default=DEFAULT_SIZE, least=1)


def is_true(query: Query, name: str) -> bool:
    word = (query.get(name) or "false").lower()
    if word not in ("true", "false"):
        raise ApiError(400, f"invalid {name} {word!r}: expected true or false")
    return word == "true"


def words(query: Query, *names: str) -> list[str]:
    """A parameter that may be repeated and may be a comma list, under any of its names."""
    return [word.strip() for name in names for value in query.all(name) for word in value.split(",") if word.strip()]


def body(items: list[Any], token: str, size: int) -> dict[str, Any]:
    return {"items": items, "nextPageToken": token, "pageSize": size, "size": len(items)}


def page(
    rows: Keyed[T],
    query: Query,
    *about: object,
    descending: bool,
    identity: Callable[[T], int],
    show: Callable[[T], Any],
) -> dict[str, Any]:
    """One page of rows that are sorted by key and identity. `about` is all that the list depends on."""
    size = size_of(query)
    digest = list_digest(*about, descending)
    token = query.get("nextPageToken")
    start = 0
    if token:
        after = decode_token(token, digest)
        if len(after) != 2 or not isinstance(after[1], int):
            raise ApiError(400, "invalid nextPageToken: it is not a token that this server gave out")
        place = _place(after[0], after[1])
        try:
            start = _after([_place(key, identity(row)) for key, row in rows], place, descending)
        except TypeError:
            raise ApiError(400, "invalid nextPageToken: it is not a token that this server gave out") from None
    shown = rows[start : start + size]
    more = start + size < len(rows)
    key, last = shown[-1] if shown else (None, None)
    following = encode_token(digest, (key, identity(last))) if more and last is not None else ""
    return body([show(row) for _, row in shown], following, size)


def _place(key: Any, identity: int) -> tuple[bool, Any, int]:
    return key is None, 0 if key is None else key, identity


def _after(places: Sequence[tuple[bool, Any, int]], last: tuple[bool, Any, int], descending: bool) -> int:
    """The number of rows up to and with that one, which may be gone by now."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        absent, key, identity = places[middle]
        if absent != last[0]:
            before = not absent
        elif descending:
            before = (key, identity) >= last[1:]
        else:
            before = (key, identity) <= last[1:]
        low, high = (middle + 1, high) if before else (low, middle)
    return low


def name_key(name: str) -> str:
    """People's order: case does not count, until everything else is equal."""
    return f"{name.casefold()}\0{name}"
