"""What a source would list, before it is added: its entry and, if given, its catalog come with the request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from modelyard.programs.catalog import documents
from modelyard.programs.catalog.config import Asset, Source, source_entry
from modelyard.programs.catalog.documents import BadDocument
from modelyard.programs.catalog.entries import names
from modelyard.programs.catalog.library import YAML
from modelyard.programs.catalog.lists import name_key, page, size_of
from modelyard.programs.catalog.snapshot import Snapshot
from modelyard.programs.web import MAX_BODY, ApiError, Query

_STATUSES = ("all", "included", "excluded")
_MOST_PARTS = 10
_WORDS = {Asset.MODELS: "Models"}


@dataclass(frozen=True)
class _Row:
    number: int
    name: str
    included: bool


async def preview(request: web.BaseRequest, query: Query, snapshot: Snapshot) -> dict[str, Any]:
    status = query.get("filterStatus") or "all"
    if status not in _STATUSES:
        raise ApiError(400, f"invalid filterStatus {status[:100]!r}: expected {', '.join(_STATUSES)}")
    size_of(query)
    parts = await _parts(request)
    if "config" not in parts:
        raise ApiError(400, "the part `config`, the entry of a source as YAML, is missing")
    # A large document takes a while; others are answered meanwhile.
    source, rows = await asyncio.to_thread(_rows, parts["config"], parts.get("catalogData"), snapshot)
    shown = [row for row in rows if status == "all" or row.included is (status == "included")]
    shown.sort(key=lambda row: (name_key(row.name), row.number))
    included = sum(row.included for row in rows)
    word = _WORDS.get(source.asset, "Assets")
    listed = page(
        [(name_key(row.name), row) for row in shown], query, status, descending=False, identity=lambda row: row.number,
        show=lambda row: {"name": row.name, "included": row.included},
    )  # fmt: skip
    summary = {f"total{word}": len(rows), f"included{word}": included, f"excluded{word}": len(rows) - included}
    return listed | {"assetType": source.asset.value, "summary": summary}


def _rows(config: bytes, data: bytes | None, snapshot: Snapshot) -> tuple[Source, list[_Row]]:
    source = _source(config)
    content = _content(source, data, snapshot)
    try:
        listed = names(content, source.asset)
        return source, [_Row(number, name, source.admits(name)) for number, name in enumerate(listed)]
    except BadDocument as error:
        raise ApiError(422, f"the catalog cannot be read: {error}") from None


async def _parts(request: web.BaseRequest) -> dict[str, bytes]:
    if not request.content_type.startswith("multipart/"):
        raise ApiError(400, "expected a multipart/form-data body with the part `config`")
    found: dict[str, bytes] = {}
    size = 0
    try:
        reader = await request.multipart()
        for _ in range(_MOST_PARTS):
            part = await reader.next()
            if part is None:
                return found
            if not isinstance(part, BodyPartReader):
                raise ApiError(400, "a part of the body is a multipart body itself")
            chunks = []
            while chunk := await part.read_chunk(1 << 16):
                size += len(chunk)
                if size > MAX_BODY:
                    raise ApiError(413, f"The request body is larger than {MAX_BODY // 2**20} MiB")
                chunks.append(chunk)
            if part.headers.get(hdrs.CONTENT_TRANSFER_ENCODING, "binary").lower() not in ("binary", "7bit", "8bit"):
                raise ApiError(400, "a part of the body has a Content-Transfer-Encoding other than binary")
            found.setdefault(part.name or "", b"".join(chunks))
    except (HttpProcessingError, ValueError, AssertionError, RuntimeError):
        raise ApiError(400, "the body is not multipart/form-data") from None
    raise ApiError(400, f"the body has more than {_MOST_PARTS} parts")


def _source(raw: bytes) -> Source:
    try:
        entry = documents.parse(raw)
        word = entry.get("assetType", Asset.MODELS.value) if isinstance(entry, dict) else Asset.MODELS.value
        if word not in [asset.value for asset in Asset]:
            raise BadDocument(f"config: assetType: unknown {word!r}")
        source = source_entry(entry, Asset(word), Path(), "config", strict=False)
    except BadDocument as error:
        raise ApiError(422, f"invalid config: {error}") from None
    if source.type != YAML:
        said = f"catalog type {source.type!r} not registered" if source.type else "type is missing"
        raise ApiError(422, f"invalid config: {said}; a preview is possible for the type {YAML}")
    return source


def _content(source: Source, data: bytes | None, snapshot: Snapshot) -> Any:
    """The catalog that came with the request, or one beside those that are configured. No other file is ever opened."""
    if data is not None:
        try:
            return documents.parse(data)
        except BadDocument as error:
            raise ApiError(422, f"the catalogData cannot be read: {error}") from None
    name = (source.properties or {}).get("yamlCatalogPath")
    if not isinstance(name, str) or not name or "\0" in name:
        raise ApiError(422, "invalid config: properties.yamlCatalogPath is missing, and no catalogData came with it")
    for directory in _directories(snapshot):
        try:
            path = (directory / name).resolve()
            if path.is_relative_to(directory.resolve()) and path.is_file():
                return documents.read(path)
        except (OSError, ValueError):
            continue
        except BadDocument as error:
            raise ApiError(422, f"the catalog cannot be read: {error}") from None
    raise ApiError(
        422, "yamlCatalogPath is not a file in a directory of the configured sources; send it as catalogData"
    )


def _directories(snapshot: Snapshot) -> list[Path]:
    """Where the catalogs of configured sources are."""
    found = []
    for each in snapshot.sources.values():
        name = (each.source.properties or {}).get("yamlCatalogPath")
        if isinstance(name, str) and name:
            found.append((each.source.directory / name).parent)
    return list(dict.fromkeys(found))
