"""Get and list: resource version rules, pages over one consistent snapshot, and the shapes of answers."""

from __future__ import annotations

import asyncio
import base64
import json
from bisect import bisect_left
from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests import problems, rendering
from modelyard.local.apiserver.requests.hooks import Hooks
from modelyard.local.apiserver.requests.messages import Reply, Request
from modelyard.local.apiserver.requests.negotiation import Format
from modelyard.local.apiserver.requests.options import ListOptions, version_problem
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.storage.store import Store, Stored, encode
from modelyard.local.apiserver.testing.faults import Faults
from modelyard.local.apiserver.verbs.selection import Selection

_PATIENCE = 3.0
"""Seconds to wait for a resource version that is not there yet."""
_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)


def encode_token(version: int, last_key: str) -> str:
    """A continue token: the snapshot's version (-1: whatever is there) and the key after which the next page starts."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": last_key + "\0"}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str) -> tuple[int, str]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, TypeError) as error:
        raise problems.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    try:
        value = _tokens.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise problems.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if value.v != "meta.k8s.io/v1" or not value.rv:
        raise problems.bad_request("invalid continue token: continue key is not valid: it is not one of this server's")
    return value.rv, value.start


class _Token(msgspec.Struct):
    v: str
    rv: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
    start: str


_tokens = msgspec.json.Decoder(_Token)


class Lists:
    def __init__(self, store: Store, hooks: Hooks, faults: Faults) -> None:
        self._store = store
        self._hooks = hooks
        self._faults = faults

    async def reach(self, version: int) -> None:
        """Waits a little for a version that others have seen already; 504 when it does not come."""
        store = self._store
        if version <= store.version:
            return
        reached = asyncio.Event()
        end = store.listen(lambda change: reached.set() if change.version >= version else None)
        try:
            async with asyncio.timeout(_PATIENCE):
                await reached.wait()
        except TimeoutError:
            problem = problems.timeout(f"Too large resource version: {version}, current: {store.version}")
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            problem.status["details"] = {"causes": causes, "retryAfterSeconds": 1}
            problem.headers.append(("Retry-After", "1"))
            raise problem from None
        finally:
            end()

    async def get(self, resource: ServedResource, namespace: str, name: str, request: Request, format: Format) -> Reply:
        version = request.param("resourceVersion")
        if version and version != "0":
            if why := version_problem(version):
                raise problems.custom(500, "", why)
            await self.reach(int(version))
        stored = self._store.get(resource.storage, namespace, name)
        stale = self._faults.stale_version(resource.kind.resource)
        if stale is not None:
            stored = self._store.get_at(resource.storage, namespace, name, stale)
        if stored is None:
            raise problems.not_found(resource.kind, name)
        raw = rendering.ready(stored, resource)
        if raw is None:
            raw = await rendering.view(stored, resource)
        if format.plain:
            return Reply(200, raw)
        return self.shaped(resource, raw, request, format)

    def shaped(
        self,
        resource: ServedResource,
        raw: bytes,
        request: Request,
        format: Format,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """One object in the shape that was asked for."""
        if format.shape == "metadata":
            raw = rendering.partial(raw, format.shape_version)
        elif format.shape == "table":
            maker = rendering.TableMaker(self._hooks, resource, request, format.shape_version)
            version = rendering.metadata_of(raw).get("resourceVersion", "")
            raw = maker.table([raw], {"resourceVersion": version} if version else {})
        return rendering.reply(raw, format, status, headers)

    async def list_(
        self, resource: ServedResource, namespace: str, options: ListOptions, request: Request, format: Format
    ) -> Reply:
        selection = Selection(resource, namespace, options)
        items, metadata = await self.select(resource, selection, options)
        raws = await rendering.views(items, resource)
        kind, api_version = resource.list_kind, resource.kind.api_version
        if format.shape in ("table", "metadata") and not metadata.get("continue"):
            metadata.pop("continue", None)
        if format.shape == "table":
            maker = rendering.TableMaker(self._hooks, resource, request, format.shape_version)
            return rendering.reply(maker.table(raws, metadata, listed=True), format)
        if format.shape == "metadata":
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{format.shape_version}"
            raws = [rendering.partial(raw, format.shape_version) for raw in raws]
            if not raws:
                # Kubernetes writes the list that it never made.
                empty = {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": None}
                return rendering.reply(encode(empty), format)
        else:
            prefix = rendering.item_prefix(resource)
            cut = len(prefix)
            if cut:
                raws = [b"{" + raw[cut:] if raw.startswith(prefix) else raw for raw in raws]
        body = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
            kind.encode(), api_version.encode(), encode(metadata), b",".join(raws),
        )  # fmt: skip
        return rendering.reply(body, format)

    async def select(
        self, resource: ServedResource, selection: Selection, options: ListOptions
    ) -> tuple[list[Stored], Object]:
        """The objects of one page, and the list's metadata."""
        store, storage = self._store, resource.storage
        token, limit, given = options.continue_token, max(options.limit, 0), options.resource_version
        start = ""
        if given == "0" and not token:
            # Any state will do, and that is answered whole.
            limit = 0
        if token:
            if given and given != "0":
                raise problems.bad_request("specifying resource version is not allowed when using continue")
            version, start = decode_token(token)
            if version < 0:
                version = store.version
            items = store.items_at(storage, selection.namespace, version)
            if items is None:
                raise self._expired(start)
            items = items[bisect_left([stored.key for stored in items], start) :]
        else:
            exact = options.match == "Exact" or (limit > 0 and given not in ("", "0") and not options.match)
            version = store.version
            stale = self._faults.stale_version(resource.kind.resource)
            if stale is not None:
                version, exact = stale, True
            elif given and given != "0":
                await self.reach(int(given))
                version = int(given) if exact else store.version
            if selection.name and not exact:
                one = None
                if selection.namespace or not resource.kind.namespaced:
                    one = store.get(storage, selection.namespace, selection.name)
                    items = [one] if one is not None else []
                else:
                    items = store.items(storage)
            else:
                found = store.items_at(storage, selection.namespace, version)
                if found is None:
                    raise problems.expired(_TOO_OLD)
                items = found
        metadata: Object = {"resourceVersion": str(version)}
        if resource.custom:
            # Lists of custom resources always have the field.
            metadata["continue"] = ""
        if not selection.selective:
            if limit and len(items) > limit:
                metadata["continue"] = encode_token(version, items[limit - 1].key)
                metadata["remainingItemCount"] = len(items) - limit
                items = items[:limit]
            return items, metadata
        matching: list[Stored] = []
        for index, stored in enumerate(items):
            if selection.matches(stored):
                matching.append(stored)
                if len(matching) == limit:
                    # Whether any of the rest matches is for the next page to see.
                    if index < len(items) - 1:
                        metadata["continue"] = encode_token(version, stored.key)
                    break
        return matching, metadata

    @staticmethod
    def _expired(start: str) -> Problem:
        """410 for a continue token, with another one that goes on without consistency."""
        problem = problems.expired(_TOKEN_TOO_OLD)
        problem.status["metadata"] = {"continue": encode_token(-1, start.removesuffix("\0"))}
        return problem
