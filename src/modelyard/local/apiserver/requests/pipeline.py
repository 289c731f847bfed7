"""What happens to a request: who asks, whether they may, which resource and verb, and the answer in the shape that was asked for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.documents import health, metrics
from modelyard.local.apiserver.requests import bodies, negotiation, options, paths, problems, rendering
from modelyard.local.apiserver.requests.hooks import Attributes
from modelyard.local.apiserver.requests.messages import ANONYMOUS, Reply, Request, UserInfo
from modelyard.local.apiserver.requests.negotiation import Format
from modelyard.local.apiserver.requests.paths import Target
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Call, Handler, ServedResource, Subresource
from modelyard.local.apiserver.storage.store import decode, encode
from modelyard.local.apiserver.verbs import patching, scale
from modelyard.local.apiserver.verbs.deletion import Deletion
from modelyard.local.apiserver.verbs.selection import Selection
from modelyard.local.apiserver.verbs.writes import Write, Written

if TYPE_CHECKING:
    from modelyard.local.apiserver.server import ApiServer

log = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
_NAMED_ONLY = frozenset(("update", "patch"))
"""Verbs that a whole collection does not have."""


@dataclass(slots=True)
class Exchange:
    """One request on its way, as the steps of the pipeline see it."""

    request: Request
    user: UserInfo
    target: Target
    resource: ServedResource
    format: Format
    warnings: list[str]

    def write(self, write_options: options.WriteOptions, name: str | None = None) -> Write:
        target = self.target
        agent = self.request.headers.get("user-agent", "")
        return Write(
            self.resource, target.namespace if self.resource.kind.namespaced else "", target.name if name is None else name, self.user,
            write_options, target.subresource, write_options.field_manager or _agent_name(agent), self.warnings,
            len(self.request.body) > bodies.LARGE,
        )  # fmt: skip


class Pipeline:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def handle(self, request: Request) -> Reply:
        """Answers every request; nothing in it can make this raise, but for the caller's own cancellation."""
        entry = self._server.journal.open(request)
        status = 499
        try:
            reply = await self._answer(request, entry)
            status = reply.status
            return reply
        finally:
            # A client that went away before its answer leaves 499 behind.
            self._server.journal.close(entry, status)

    async def _answer(self, request: Request, entry: Object) -> Reply:
        try:
            return await self._handle(request, entry)
        except Problem as problem:
            return _status_reply(problem, request)
        except Exception:
            # Names the fault in the log; the client learns no more than that there was one.
            log.exception("the request %s %s failed", request.method, request.path)
            return _status_reply(problems.internal_error("the server failed, see its log"), request)

    async def _handle(self, request: Request, entry: Object) -> Reply:
        server = self._server
        user = await server.hooks.authenticator.authenticate(request)
        if (turn := server.turns.take(user.name)) is not None:
            await turn
        target = paths.parse(request)
        entry["user"] = user.name
        if user is not ANONYMOUS:
            request.asked_by = user.name
        if target is None:
            await self._authorize(Attributes(user, request.method.lower(), request.path))
            return await self._document(request)
        entry.update(
            verb=target.verb, group=target.group, version=target.version, resource=target.resource, subresource=target.subresource,
            namespace=target.namespace, name=target.name,
        )  # fmt: skip
        if server.faults.active:
            await server.faults.before(target, server)
        await self._authorize(attributes_of(request, user, target))
        resource = server.registry.lookup(target.group, target.version, target.resource)
        if resource is None or not _addressed(resource, target):
            if server.registry.is_builtin(target.group):
                raise problems.no_such_path()
            return Reply(404, b"404 page not found\n", _TEXT)
        if not target.verb:
            raise problems.method_not_served()
        # Only what is served is counted: a client cannot make up names that the server would have to remember.
        if not target.subresource or target.subresource in resource.subresources:
            entry["scope"] = "resource" if target.name else "namespace" if target.namespace else "cluster"
        warnings = [resource.deprecation] if resource.deprecation else []
        exchange = Exchange(request, user, target, resource, negotiation.negotiate(request), warnings)
        try:
            reply = await self._dispatch(exchange)
        except Problem as problem:
            # What was seen before the refusal is told with it.
            problem.headers += rendering.warning_headers(exchange.warnings)
            raise
        if exchange.warnings:
            reply.headers += rendering.warning_headers(exchange.warnings)
        return reply

    async def _authorize(self, attributes: Attributes) -> None:
        decision = await self._server.hooks.authorizer.authorize(attributes)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)

    async def _document(self, request: Request) -> Reply:
        reply = await self._server.hooks.documents.reply(request)
        if reply is not None:
            return reply
        if request.path == "/metrics":
            server = self._server
            return metrics.reply(server.journal, server.store, server.registry)
        return health.reply(request, self._server.store.failure) or Reply(404, b"404 page not found\n", _TEXT)

    async def _dispatch(self, exchange: Exchange) -> Reply:
        target, resource = exchange.target, exchange.resource
        if target.subresource:
            subresource = resource.subresources.get(target.subresource)
            if subresource is None:
                if resource.custom:
                    raise problems.not_found(resource.kind, target.name)
                raise problems.no_such_path()
            if target.verb not in subresource.verbs:
                raise problems.method_not_served()
            if subresource.handler is not None:
                return await self._call(exchange, subresource.handler)
            if subresource.scale_paths is not None:
                return await self._scale(exchange)
            return await self._verb(exchange, subresource)
        if target.verb not in resource.verbs or (target.verb == "create" and target.name):
            raise problems.method_not_served()
        if not target.name and target.verb in _NAMED_ONLY:
            raise problems.method_not_served()
        if resource.handler is not None:
            return await self._call(exchange, resource.handler)
        return await self._verb(exchange, None)

    async def _verb(self, exchange: Exchange, subresource: Subresource | None) -> Reply:
        server, target, resource = self._server, exchange.target, exchange.resource
        request, format = exchange.request, exchange.format
        namespace = target.namespace if resource.kind.namespaced else ""
        match target.verb:
            case "get":
                return await server.lists.get(resource, namespace, target.name, request, format)
            case "list":
                return await server.lists.list_(
                    resource, namespace, options.list_options(request, watch=False), request, format
                )
            case "watch":
                wanted = options.list_options(request, watch=True)
                watch = server.watches.open(resource, namespace, target.name, wanted, request, format)
                return Reply(200, watch.frames())
            case "create":
                return await self._create(exchange)
            case "update":
                return await self._update(exchange)
            case "patch":
                return await self._patch(exchange)
            case "delete":
                return await self._delete(exchange)
            case "deletecollection":
                return await self._delete_collection(exchange)
        raise problems.method_not_served()

    # Writes.

    async def _body(self, exchange: Exchange, kind: str) -> tuple[Object, list[str]]:
        request = exchange.request
        bodies.check_size(request.body)
        try:
            content_type = request.headers.get("content-type", "")
            if len(request.body) > bodies.LARGE:
                decode = partial(bodies.decode_body, request.body, content_type)
                value, duplicates = await self._server.long_work.do(exchange.user.name, decode)
            else:
                value, duplicates = bodies.decode_body(request.body, content_type)
        except bodies.Unreadable as error:
            raise problems.bad_request(
                f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {error} "
                f"({bodies.summary(request.body)})"
            ) from None
        if value is None:
            value = {}
        if why := bodies.untyped(value):
            raise problems.bad_request(
                f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
                f"{why} ({bodies.summary(request.body)})"
            )
        if exchange.resource.custom and not exchange.target.subresource and not value.get("kind"):
            raise problems.bad_request(
                f"the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in "
                f"'{request.body.decode(errors='replace')}' ({bodies.summary(request.body)})"
            )
        return value, duplicates

    async def _create(self, exchange: Exchange) -> Reply:
        write = exchange.write(options.write_options(exchange.request, "CreateOptions"), "")
        writes = self._server.writes
        body, duplicates = await self._body(exchange, exchange.resource.kind.kind)
        obj = await writes.aside(write, lambda: writes.accept(write, body, duplicates))
        return self._written(exchange, await writes.create(write, obj))

    async def _update(self, exchange: Exchange) -> Reply:
        write = exchange.write(options.write_options(exchange.request, "UpdateOptions"))
        body, duplicates = await self._body(exchange, exchange.resource.kind.kind)
        writes = self._server.writes
        obj = await writes.aside(write, lambda: writes.accept(write, body, duplicates))
        writes.check_name(write, obj)
        return self._written(exchange, await writes.update(write, obj))

    async def _patch(self, exchange: Exchange) -> Reply:
        server = self._server
        patch_type = self._patch_type(exchange)
        write = exchange.write(options.write_options(exchange.request, "PatchOptions", patch_type))
        applying = patch_type == options.APPLY
        if applying:
            body = exchange.request.body
            bodies.check_size(body)
            read = await server.writes.aside(write, lambda: patching.read_apply(body))
            transform = server.patches.apply(write, *read)
        else:
            transform = server.patches.transform(write, exchange.request.body, patch_type)
        done = await server.writes.change(write, transform, options_kind="PatchOptions", applying=applying)
        return self._written(exchange, done)

    @staticmethod
    def _patch_type(exchange: Exchange) -> str:
        request = exchange.request
        patch_type = bodies.media_type(request.headers.get("content-type", ""))
        accepted = patching.accepted_types(exchange.resource)
        if patch_type not in accepted:
            if exchange.resource.custom:
                raise bodies.unsupported(accepted, patch_type)
            raise problems.custom(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        bodies.check_size(request.body)
        return patch_type

    def _written(self, exchange: Exchange, written: Written) -> Reply:
        if exchange.format.plain:
            return Reply(written.status, written.raw)
        return self._server.lists.shaped(
            exchange.resource, written.raw, exchange.request, exchange.format, written.status
        )

    async def _scale(self, exchange: Exchange) -> Reply:
        server, target, resource, request = self._server, exchange.target, exchange.resource, exchange.request
        namespace = target.namespace if resource.kind.namespaced else ""
        if target.verb == "get":
            stored = server.store.get(resource.storage, namespace, target.name)
            if stored is None:
                raise problems.not_found(resource.kind, target.name)
            raw, status = await rendering.view(stored, resource), 200
        else:
            applies = False
            if target.verb == "update":
                write = exchange.write(options.write_options(request, "UpdateOptions"))
                body, _ = await self._body(exchange, "Scale")
                change = scale.replacing(resource, body)
                options_kind = "UpdateOptions"
            else:
                patch_type = self._patch_type(exchange)
                write = exchange.write(options.write_options(request, "PatchOptions", patch_type))
                applies = patch_type == options.APPLY
                if applies:
                    change = scale.applying(write, request.body, server.ownership, server.clock())
                else:
                    change = scale.patching(server.patches, resource, request.body, patch_type)
                options_kind = "PatchOptions"
            transform = scale.scaling(write, change, server.ownership, server.clock(), applies=applies)
            done = await server.writes.change(write, transform, options_kind=options_kind, applying=True)
            raw, status = done.raw, done.status
        body_raw = encode(scale.scale_of(resource, decode(raw)))
        return server.lists.shaped(scale.RESOURCE, body_raw, request, exchange.format, status)

    # Deletes.

    async def _delete(self, exchange: Exchange) -> Reply:
        target, resource = exchange.target, exchange.resource
        namespace = target.namespace if resource.kind.namespaced else ""
        wanted = options.delete_options(exchange.request)
        deletion = Deletion(resource, namespace, target.name, exchange.user, wanted, exchange.warnings)
        deleted = await self._server.deletions.delete(deletion)
        status = deleted.status(wanted)
        if exchange.format.plain:
            return Reply(status, deleted.raw)
        if deleted.is_status:
            return rendering.reply(deleted.raw, exchange.format, status)
        return self._server.lists.shaped(resource, deleted.raw, exchange.request, exchange.format, status)

    async def _delete_collection(self, exchange: Exchange) -> Reply:
        server, target, resource, request = self._server, exchange.target, exchange.resource, exchange.request
        listed = options.list_options(request, watch=False)
        wanted = options.delete_options(request)
        selection = Selection(resource, target.namespace, listed)
        items, _ = await server.lists.select(resource, selection, listed)
        reply = await server.lists.list_(resource, target.namespace, listed, request, exchange.format)
        deletion = Deletion(resource, target.namespace, "", exchange.user, wanted, exchange.warnings)
        await server.deletions.delete_all(deletion, items)
        return reply

    async def _call(self, exchange: Exchange, handler: Handler) -> Reply:
        """Hands over to a resource or subresource with a handler of its own."""
        target, request = exchange.target, exchange.request
        if exchange.format.shape != "object" and target.verb == "create":
            # A review is not an object with a name: it has no row and no metadata to show.
            raise problems.not_acceptable(negotiation.OFFERED)
        call = Call(
            self._server, request, exchange.user, exchange.resource, target.verb,
            target.namespace, target.name, target.subresource, target.rest, warnings=exchange.warnings,
        )  # fmt: skip
        if (
            request.body
            and request.method in ("POST", "PUT")
            and "upgrade" not in request.headers.get("connection", "").lower()
        ):
            subresource = exchange.resource.subresources.get(target.subresource)
            call.body, _ = await self._body(exchange, subresource.kind if subresource else exchange.resource.kind.kind)
            _check_namespace(call.body, target.namespace)
        answer = await handler(call)
        if isinstance(answer, Reply):
            return answer
        status = 201 if target.verb == "create" else 200
        return rendering.reply(encode(answer), exchange.format, status)


def _check_namespace(body: Object, namespace: str) -> None:
    """A body that names a namespace must name that of its path, for which the request was authorized."""
    metadata = body.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, dict) else None
    if namespace and named and named != namespace:
        raise problems.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _status_reply(problem: Problem, request: Request) -> Reply:
    try:
        format = negotiation.negotiate(request, shapes=False)
    except Problem:
        format = negotiation.PLAIN
    return rendering.reply(encode(problem.status), format, problem.code, problem.headers)


def _addressed(resource: ServedResource, target: Target) -> bool:
    """Whether the path's form fits the resource's scope."""
    if resource.kind.namespaced:
        if not target.namespace and not target.name and target.verb in ("create", "deletecollection"):
            # All namespaces at once can be read, never written.
            raise problems.method_not_served()
        return bool(target.namespace) or not target.name
    return not target.within


def attributes_of(request: Request, user: UserInfo, target: Target) -> Attributes:
    """What is authorized for a request to a resource."""
    name = target.name
    if not name and target.verb in ("list", "watch", "deletecollection"):
        # A selector for one name is a request for that name.
        for term in request.param("fieldSelector").split(","):
            if term.startswith("metadata.name="):
                name = term.removeprefix("metadata.name=").removeprefix("=")
    return Attributes(
        user, target.verb, request.path, True, target.group, target.version, target.resource, target.subresource,
        target.namespace, name,
    )  # fmt: skip


def forbidden(attributes: Attributes, reason: str) -> Problem:
    """403 in the words of Kubernetes' authorization."""
    user = problems.go_quote(attributes.user.name)
    if not attributes.is_resource:
        message = f"User {user} cannot {attributes.verb} path {problems.go_quote(attributes.path)}"
        return problems.forbidden(None, "", f"{message}: {reason}" if reason else message)
    resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    message = f'User {user} cannot {attributes.verb} resource "{resource}" in API group "{attributes.group}"'
    message += f' in the namespace "{attributes.namespace}"' if attributes.namespace else " at the cluster scope"
    kind = Kind(attributes.group, attributes.version, "", attributes.resource)
    return problems.forbidden(kind, attributes.name, f"{message}: {reason}" if reason else message)


def _agent_name(agent: str) -> str:
    """The field manager of a client that names none: its user agent up to the first slash."""
    name = agent.partition("/")[0]
    if name.isascii() and name.isprintable() and len(name) <= 128:
        return name
    return "".join(char for char in name if char.isprintable()).encode()[:128].decode(errors="ignore")
