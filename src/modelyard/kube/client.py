"""The Kubernetes API for any kind, over any transport. Objects are plain data; refusals are the exceptions of `kube.errors`."""

from __future__ import annotations

import asyncio
import builtins
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from modelyard.kube import discovery, execute
from modelyard.kube.errors import Gone, NotFound, Unreachable, error_from_response
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.streams import lines
from modelyard.kube.transport import Response, Transport

PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["Foreground", "Background", "Orphan"]

REQUEST_TIMEOUT = 60.0
RETRIES = 5
LONGEST_RETRY_AFTER = 30.0
_LONG_LIST = 100_000

_PATCH_TYPES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class ObjectList:
    """All objects of a list, and the resource version they were read at."""

    items: builtins.list[Object] = field(default_factory=list)
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, undecoded; `continue_` is empty on the last one."""

    items: builtins.list[bytes]
    resource_version: str
    continue_: str


class WatchEvent(NamedTuple):
    """`ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`, with the object as the API sent it."""

    type: str
    raw: bytes

    @property
    def object(self) -> Object:
        data: Object = msgspec.json.decode(self.raw)
        return data


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct, rename="camel"):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: builtins.list[msgspec.Raw] | None = None


class _List(msgspec.Struct, rename="camel"):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: builtins.list[Object] | None = None


class _WatchLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


_object = msgspec.json.Decoder(dict[str, Any])
_list = msgspec.json.Decoder(_List)
_raw_list = msgspec.json.Decoder(_RawList)
_watch_line = msgspec.json.Decoder(_WatchLine)


class Client:
    """A client of one API server. `namespace=""` means cluster scope, or all namespaces."""

    def __init__(self, transport: Transport, *, timeout: float = REQUEST_TIMEOUT, retries: int = RETRIES) -> None:
        self.transport = transport
        self._timeout = timeout
        self._retries = retries

    def through(self, wrap: Callable[[Transport], Transport]) -> Client:
        """The same client, with its requests taken through a transport around its own."""
        return Client(wrap(self.transport), timeout=self._timeout, retries=self._retries)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

    async def get(self, kind: Kind, namespace: str, name: str, *, subresource: str = "") -> Object:
        return await self.object("GET", kind.path(namespace, _named(kind, name), subresource))

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Like `get`, but None if the object does not exist."""
        try:
            return await self.get(kind, namespace, name)
        except NotFound:
            return None

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> ObjectList:
        """Every object that matches; `limit` is the size of the pages it is read in."""
        items: builtins.list[Object] = []
        version = continue_ = ""
        while True:
            try:
                body = await self._list_body(kind, namespace, labels, fields, limit, continue_)
            except Gone:
                if not continue_:
                    raise
                # The snapshot behind the pages has expired: one request for all is consistent and cannot expire.
                items, continue_, limit = [], "", 0
                continue
            page = _objects(kind, body)
            items += [typed(kind, obj) for obj in page.items or ()]
            version, continue_ = page.metadata.resource_version, page.metadata.continue_
            if not continue_:
                return ObjectList(items, version)

    async def list_page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> Page:
        """One page of a list, its items undecoded (built-in kinds come without `apiVersion` and `kind`)."""
        accept = f"{_METADATA_ONLY_LIST},application/json" if metadata_only else "application/json"
        body = await self._list_body(kind, namespace, labels, fields, limit, continue_, resource_version, accept)
        try:
            raw = _raw_list.decode(body)
        except msgspec.MsgspecError as error:
            raise _no_list(kind, error) from None
        # Copies: a view into the whole answer would keep all of it in memory.
        items = [bytes(item) for item in raw.items or ()]
        return Page(items, raw.metadata.resource_version, raw.metadata.continue_)

    async def _list_body(
        self,
        kind: Kind,
        namespace: str,
        labels: str,
        fields: str,
        limit: int,
        continue_: str,
        resource_version: str = "",
        accept: str = "application/json",
    ) -> bytes:
        query = _selection(labels, fields)
        if limit:
            query["limit"] = str(limit)
        if continue_:
            query["continue"] = continue_
        elif resource_version:
            query["resourceVersion"] = resource_version
        return await self.request("GET", kind.path(namespace), query=query, accept=accept)

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        timeout: float | None = None,
        send_initial_events: bool = False,
        metadata_only: bool = False,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version`, until the server ends the stream (after `timeout` seconds, if given).

        An ERROR event is raised as the exception of its Status (`Gone` when the version is too old).
        `on_open` is called when the server has accepted the watch, which may be long before the first event.
        """
        query = {"watch": "true"} | _selection(labels, fields)
        if resource_version:
            query["resourceVersion"] = resource_version
        if bookmarks or send_initial_events:
            query["allowWatchBookmarks"] = "true"
        if timeout is not None:
            query["timeoutSeconds"] = str(max(1, round(timeout)))
        if send_initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        accept = f"{_METADATA_ONLY},application/json" if metadata_only else "application/json"
        async with self.stream("GET", kind.path(namespace), query=query, accept=accept) as response:
            if on_open is not None:
                on_open()
            async for line in lines(response.chunks()):
                try:
                    event = _watch_line.decode(line)
                except msgspec.MsgspecError as error:
                    raise Unreachable(
                        f"the watch of {kind.resource} was cut off or is not a Kubernetes watch: {error}"
                    ) from None
                raw = bytes(event.object)
                if event.type == "ERROR":
                    raise error_from_response(500, raw, "GET", kind.path(namespace))
                yield WatchEvent(event.type, raw)

    async def create(
        self,
        kind: Kind,
        obj: Object,
        *,
        dry_run: bool = False,
        field_manager: str | None = None,
        subresource: str = "",
    ) -> Object:
        """`subresource` (`token`, `eviction`, `binding`) is created on the object that `obj` names."""
        metadata = obj.get("metadata") or {}
        name = metadata.get("name", "") if subresource else ""
        path = kind.path(metadata.get("namespace", ""), name, subresource)
        return await self.object("POST", path, query=_write_query(dry_run, field_manager), body=obj)

    async def update(
        self,
        kind: Kind,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str | None = None,
    ) -> Object:
        """Replaces the object (or its `status`, `scale`); fails with `Conflict` when it changed since it was read."""
        path = _path_of(kind, obj, subresource)
        return await self.object("PUT", path, query=_write_query(dry_run, field_manager), body=obj)

    async def apply(
        self,
        kind: Kind,
        obj: Object,
        *,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        """Server-side apply: creates the object, or makes our fields of it as given."""
        query = _write_query(dry_run, field_manager) | {"force": "true" if force else "false"}
        full = {"apiVersion": kind.api_version, "kind": kind.kind} | obj
        path = _path_of(kind, obj, subresource)
        return await self.object("PATCH", path, query=query, body=full, content_type=_PATCH_TYPES["apply"])

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Object | Sequence[Object],
        *,
        type: PatchType = "merge",
        subresource: str = "",
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        path = kind.path(namespace, _named(kind, name), subresource)
        query = _write_query(dry_run, field_manager)
        return await self.object("PATCH", path, query=query, body=body, content_type=_PATCH_TYPES[type])

    async def scale(self, kind: Kind, namespace: str, name: str, replicas: int) -> Object:
        """Sets the replicas through the `scale` subresource."""
        return await self.patch(kind, namespace, name, {"spec": {"replicas": replicas}}, subresource="scale")

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        propagation: Propagation | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Deletes one object; with `uid` or `resource_version` only if it is still that one (else `Conflict`).

        Gives what the API answers: the object while it is being deleted, or a Status once it is gone.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = _delete_options(propagation, grace, dry_run, preconditions)
        return await self.object("DELETE", kind.path(namespace, _named(kind, name)), body=options)

    async def delete_collection(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        options = _delete_options(propagation, grace, dry_run, {})
        await self.object("DELETE", kind.path(namespace), query=_selection(labels, fields), body=options)

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        previous: bool = False,
        timestamps: bool = False,
        tail: int | None = None,
        since: int | None = None,
        limit_bytes: int | None = None,
    ) -> str:
        """What a container has written so far."""
        query = _log_query(container, previous, timestamps, tail, since, limit_bytes)
        body = await self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query=query, accept="*/*")
        return body.decode(errors="replace")

    async def follow_logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        timestamps: bool = False,
        tail: int | None = None,
        since: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """A container's lines, without their line ends, as they are written, until it ends."""
        query = _log_query(container, False, timestamps, tail, since, None) | {"follow": "true"}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        async with self.stream("GET", path, query=query, accept="*/*") as response:
            async for line in lines(response.chunks()):
                yield line.decode(errors="replace")

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
        timeout: float | None = None,
    ) -> execute.Result:
        """Runs a command in a container and gives its exit code and what it wrote. Needs the HTTP transport."""
        return await execute.run(
            self.transport, namespace, pod, command, container=container, stdin=stdin, timeout=timeout
        )

    async def discover(self) -> set[Kind]:
        """Every kind that the API serves, in every served version."""
        return (await self.survey()).kinds

    async def survey(self) -> discovery.Discovery:
        """The same, and which groups do not say what they serve."""
        return await discovery.discover(self)

    async def version(self) -> Object:
        return await self.object("GET", "/version")

    async def object(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """A request whose answer is one JSON object."""
        raw = await self.request(method, path, query=query, body=body, content_type=content_type, accept=accept)
        try:
            data: Object = _object.decode(raw)
        except msgspec.MsgspecError as error:
            raise Unreachable(
                f"{method} {path}: the answer is not a JSON object ({error}); is this a Kubernetes API?"
            ) from None
        return data

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        """Any request; gives the body of the answer. `body` is bytes, or data that is sent as JSON."""
        response = await self._send(method, path, query, body, content_type, accept, timeout or self._timeout)
        return await response.read()

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> AbstractAsyncContextManager[Response]:
        """A request whose answer is read in chunks, without a time limit."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[Response]:
            response = await self._send(method, path, query, None, "", accept, None)
            try:
                yield response
            finally:
                await response.close()

        return opened()

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        accept: str,
        timeout: float | None,
    ) -> Response:
        headers = {"Accept": accept}
        payload = b""
        if body is not None:
            payload = body if isinstance(body, bytes) else msgspec.json.encode(body)
            headers["Content-Type"] = content_type
        attempt = 0
        while True:
            response = await self.transport.send(
                method, path, query=query, headers=headers, body=payload, timeout=timeout
            )
            if response.status < 400:
                return response
            content = await response.read()
            error = error_from_response(response.status, content, method, path, response.headers)
            # With Retry-After the server says that it did not act on the request, so any method may be sent again.
            if response.status not in (429, 503) or error.retry_after is None or attempt >= self._retries:
                raise error
            attempt += 1
            await asyncio.sleep(min(error.retry_after, LONGEST_RETRY_AFTER))


def typed(kind: Kind, obj: Object) -> Object:
    """The object with its `apiVersion` and `kind`, which lists of built-in kinds leave out."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": kind.api_version, "kind": kind.kind} | obj


def _objects(kind: Kind, body: bytes) -> _List:
    # Nothing that is made here is garbage, but the collector would look at all of it again and again: most of the time of a long list.
    pausing = len(body) >= _LONG_LIST and gc.isenabled()
    if pausing:
        gc.disable()
    try:
        return _list.decode(body)
    except msgspec.MsgspecError as error:
        raise _no_list(kind, error) from None
    finally:
        if pausing:
            gc.enable()


def _no_list(kind: Kind, error: msgspec.MsgspecError) -> Unreachable:
    return Unreachable(f"the list of {kind.resource} is not a Kubernetes list: {error}")


def _named(kind: Kind, name: str) -> str:
    # An empty name would silently address the whole collection.
    if not name:
        raise ValueError(f"a {kind.kind} was addressed without a name")
    return name


def _path_of(kind: Kind, obj: Object, subresource: str) -> str:
    metadata = obj.get("metadata") or {}
    return kind.path(metadata.get("namespace", ""), _named(kind, metadata.get("name", "")), subresource)


def _selection(labels: str, fields: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in query.items() if value}


def _write_query(dry_run: bool, field_manager: str | None) -> dict[str, str]:
    query = {"dryRun": "All" if dry_run else "", "fieldManager": field_manager or ""}
    return {name: value for name, value in query.items() if value}


def _delete_options(
    propagation: Propagation | None, grace: int | None, dry_run: bool, preconditions: Mapping[str, str | None]
) -> Object:
    guards = {name: value for name, value in preconditions.items() if value}
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if guards:
        options["preconditions"] = guards
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _log_query(
    container: str, previous: bool, timestamps: bool, tail: int | None, since: int | None, limit_bytes: int | None
) -> dict[str, str]:
    query = {
        "container": container,
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": "" if tail is None else str(tail),
        "sinceSeconds": "" if since is None else str(since),
        "limitBytes": "" if limit_bytes is None else str(limit_bytes),
    }
    return {name: value for name, value in query.items() if value}
