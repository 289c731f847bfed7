"""Sources of type `hf`: models of the Hugging Face hub, asked for by name, again and again. Where the hub is, no source says."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from modelyard.programs.catalog.config import Source
from modelyard.programs.catalog.hub_models import hub_model
from modelyard.programs.catalog.items import Json
from modelyard.programs.catalog.library import Library

ENDPOINT = "https://huggingface.co"
_KEY = re.compile(r"HF_API_KEY(_[A-Za-z0-9_]+)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_PREFIX = re.compile(r"(?P<author>[A-Za-z0-9][A-Za-z0-9._-]*)/(?P<prefix>[A-Za-z0-9._-]*)\*")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_MOST_MODELS, _DAY, _LEAST_PAUSE, _RETRY = 500, 24 * 3600.0, 1.0, 300.0
_PAGE, _AT_ONCE, _MOST_BYTES = 100, 8, 16 * 1024 * 1024
log = logging.getLogger("modelyard.programs.catalog")


class HubError(Exception):
    """The hub does not give what was asked for; the message says why."""


class BadSource(Exception):
    """A source of the hub is defined wrongly."""


@dataclass(frozen=True)
class Plan:
    """What a source asks of the hub."""

    names: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...]
    """Author, and how the names go on."""
    most: int
    pause: float
    key_variable: str

    @classmethod
    def of(cls, source: Source) -> Plan:
        properties = source.properties or {}
        names, prefixes = [], []
        for pattern in source.patterns:
            if found := _PREFIX.fullmatch(pattern):
                prefixes.append((found["author"], found["prefix"]))
            elif _NAME.fullmatch(pattern):
                names.append(pattern)
            else:
                raise BadSource(f"includedModels: {pattern!r} is neither org/name nor org/prefix*")
        if not names and not prefixes:
            raise BadSource(
                "includedModels is missing: a source of type hf lists what it names, as org/name or org/prefix*"
            )
        organization = properties.get("allowedOrganization")
        for author in [name.partition("/")[0] for name in names] + [author for author, _ in prefixes]:
            if organization and author != organization:
                raise BadSource(f"includedModels: {author!r} is not the allowedOrganization {organization!r}")
        variable = properties.get("apiKeyEnvVar") or "HF_API_KEY"
        if not isinstance(variable, str) or not _KEY.fullmatch(variable):
            raise BadSource("properties.apiKeyEnvVar: expected HF_API_KEY or a name that begins with HF_API_KEY_")
        return cls(tuple(names), tuple(prefixes), _most(properties), _pause(properties), variable)


def _most(properties: Mapping[str, Any]) -> int:
    value = properties.get("maxModels", _MOST_MODELS)
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= 100_000:
        raise BadSource(f"properties.maxModels: expected a number from 1 to 100000, found {text[:40]!r}")
    return int(text[:9])


def _pause(properties: Mapping[str, Any]) -> float:
    text = str(properties.get("syncInterval") or "24h")
    if not re.fullmatch(rf"(?:{_DURATION.pattern})+", text) or len(text) > 40:
        raise BadSource(f"properties.syncInterval: expected a duration such as 24h or 30m, found {text[:40]!r}")
    return max(_LEAST_PAUSE, sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text)))


@dataclass
class _Synced:
    source: Source
    next: float


@dataclass
class Hub:
    """Keeps the sources of the hub fresh. One that cannot be reached keeps what it had."""

    library: Library
    environ: Mapping[str, str]
    _synced: dict[str, _Synced] = field(default_factory=dict)
    _client: aiohttp.ClientSession | None = None

    @property
    def endpoint(self) -> str:
        return (self.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")

    async def follow(self, tick: float) -> None:
        while True:
            for source in await asyncio.to_thread(self.library.hub_sources):
                known = self._synced.get(source.id)
                if known is None or known.source != source or time.monotonic() >= known.next:
                    try:
                        pause = await self.sync(source)
                    except Exception:
                        log.exception("source %s: asking the hub failed", source.id)
                        pause = _RETRY
                    self._synced[source.id] = _Synced(source, time.monotonic() + pause)
            await asyncio.sleep(tick)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def sync(self, source: Source) -> float:
        """Asks for all that a source names; gives the seconds until the next time."""
        try:
            plan = Plan.of(source)
        except BadSource as error:
            await asyncio.to_thread(self.library.take, source, None, (str(error),))
            return _DAY
        headers = await self._authorization(plan)
        problems: list[str] = []
        found: dict[str, Json] = {}
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> None:
            async with limit:
                try:
                    self._add(found, await self._get(f"{self.endpoint}/api/models/{quote(name)}", headers))
                except HubError as error:
                    problems.append(f"{name}: {error}")

        await asyncio.gather(*(one(name) for name in plan.names))
        for author, prefix in plan.prefixes:
            try:
                await self._list(found, author, prefix, plan.most, headers)
            except HubError as error:
                problems.append(f"{author}/{prefix}*: {error}")
        content = {"models": [found[name] for name in sorted(found)]} if found or not problems else None
        said = (f"Failed to fetch models: {', '.join(sorted(problems))}",) if problems else ()
        if said:
            log.warning("source %s: %s", source.id, said[0])
        await asyncio.to_thread(self.library.take, source, content, said)
        return min(plan.pause, _RETRY) if problems else plan.pause

    async def _list(
        self, found: dict[str, Json], author: str, prefix: str, most: int, headers: Mapping[str, str]
    ) -> None:
        query = {"author": author, "limit": str(min(most, _PAGE)), "full": "true", "config": "true"}
        if prefix:
            query["search"] = prefix
        address: str | None = str(URL(f"{self.endpoint}/api/models").with_query(query))
        taken = 0
        while address is not None and taken < most:
            listed, address = await self._get_page(address, headers)
            for raw in listed:
                name = raw.get("id") if isinstance(raw, dict) else None
                if isinstance(name, str) and name.lower().startswith(f"{author}/{prefix}".lower()) and taken < most:
                    taken += 1
                    self._add(found, raw)

    def _add(self, found: dict[str, Json], raw: Any) -> None:
        model = hub_model(raw, time.time())
        if model is None:
            raise HubError("the answer is not a model")
        found[model["name"]] = model

    async def _authorization(self, plan: Plan) -> dict[str, str]:
        """A key that the hub does not know is left out: public models can be read without one."""
        key = self.environ.get(plan.key_variable, "")
        if not key:
            return {}
        headers = {"Authorization": f"Bearer {key}"}
        if key.startswith("hf_"):
            try:
                await self._get(f"{self.endpoint}/api/whoami-v2", headers)
            except HubError as error:
                log.warning("the key in %s is not used: %s", plan.key_variable, error)
            else:
                return headers
        else:
            log.warning("the key in %s is not used: it does not begin with hf_", plan.key_variable)
        return {}

    async def _get(self, address: str, headers: Mapping[str, str]) -> Any:
        value, _ = await self._ask(address, headers)
        return value

    async def _get_page(self, address: str, headers: Mapping[str, str]) -> tuple[list[Any], str | None]:
        value, following = await self._ask(address, headers)
        if not isinstance(value, list):
            raise HubError("the answer is not a list of models")
        # Only ever the hub itself, whatever it answers.
        return value, following if following is not None and following.startswith(f"{self.endpoint}/") else None

    async def _ask(self, address: str, headers: Mapping[str, str]) -> tuple[Any, str | None]:
        if self._client is None:
            self._client = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=30, connect=5), trust_env=True, cookie_jar=aiohttp.DummyCookieJar()
            )
        try:
            async with self._client.get(URL(address, encoded=True), headers=headers, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise HubError(_STATUS.get(answer.status, f"the hub answered {answer.status}"))
                raw = await _bounded(answer.content)
                following = answer.links.get("next")
                return json.loads(raw), str(following["url"]) if following is not None else None
        except TimeoutError:
            raise HubError("the hub does not answer") from None
        except (aiohttp.ClientError, OSError) as error:
            raise HubError(f"the hub cannot be reached: {error}") from None
        except (ValueError, RecursionError):
            raise HubError("the answer is not JSON") from None


_STATUS = {401: "not found, or the key may not read it", 403: "the key may not read it", 404: "not found"}


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    chunks, size = [], 0
    async for chunk in content.iter_any():
        size += len(chunk)
        if size > _MOST_BYTES:
            raise HubError("the answer is too large")
        chunks.append(chunk)
    return b"".join(chunks)
