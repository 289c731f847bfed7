"""The local HTTPS gateway: serves Ingress, HTTPRoute and Route objects on localhost, with login for browsers."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import random
import secrets
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.local.network import routes
from modelyard.local.network.forwarder import targets
from modelyard.local.network.login import COOKIE, Logins, same_site, without_session
from modelyard.local.network.reverse_proxy import forward, upstream_session
from modelyard.local.network.routes import Backend, Route, Table
from modelyard.runtime.cache import CacheSet, Entry, Selection

log = logging.getLogger(__name__)

OWN = "/_modelyard"
CONTROLLER = "modelyard.dev/gateway"
_FILE = "gateway.json"
_HOLD = 5.0
_READERS: dict[Kind, Callable[[Object], list[Route]]] = {
    builtin.Ingress: routes.from_ingress,
    builtin.HTTPRoute: routes.from_http_route,
    builtin.Route: routes.from_openshift,
}


@dataclass(frozen=True, slots=True)
class Control:
    """How other commands of the user reach the gateway: its URL and the secret for making login links."""

    url: str
    secret: str

    @classmethod
    def read(cls, directory: Path) -> Control | None:
        try:
            data = json.loads((directory / _FILE).read_text())
            return cls(data["url"], data["secret"])
        except (OSError, ValueError, KeyError):
            return None

    def write(self, directory: Path) -> None:
        temporary = directory / f"{_FILE}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"url": self.url, "secret": self.secret}, file)
        temporary.replace(directory / _FILE)


class Gateway:
    """`kinds` are the route kinds that the API serves; they may be started and stopped as CRDs come and go."""

    def __init__(
        self, client: Client, caches: CacheSet, directory: Path, tls: ssl.SSLContext, *, port: int = 0
    ) -> None:
        self._client = client
        self._caches = caches
        self._directory = directory
        self._tls = tls
        self._port = port
        self._secret = secrets.token_urlsafe(32)
        self._table = Table([])
        self._stale = True
        self._kinds: set[Kind] = set()
        self._logins: Logins | None = None
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._told: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def start(self) -> str:
        """Open the socket on localhost; returns the URL."""
        self._logins = Logins()
        self._session = upstream_session()
        for kind in (builtin.Service, builtin.EndpointSlice):
            self._caches.cache(Selection(kind)).start()
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, auto_decompress=False, shutdown_timeout=1, max_line_size=65536, max_field_size=65536
        )
        await self._runner.setup()
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", self._port))
        except OSError as error:
            sock.close()
            raise OSError(
                error.errno, f"the gateway cannot listen on localhost:{self._port}: {error.strerror}"
            ) from None
        await web.SockSite(self._runner, sock, ssl_context=self._tls).start()
        self._port = sock.getsockname()[1]
        self.url = f"https://localhost:{self._port}"
        Control(self.url, self._secret).write(self._directory)
        return self.url

    def serve(self, kinds: Iterable[Kind]) -> None:
        """Follow these route kinds (those that the API has)."""
        for kind in set(kinds) & set(_READERS) - self._kinds:
            self._kinds.add(kind)
            cache = self._caches.cache(Selection(kind))
            cache.subscribe(self._changed(kind))
            cache.start()

    def _changed(self, kind: Kind) -> Callable[[Entry | None, Entry | None], None]:
        def changed(old: Entry | None, new: Entry | None) -> None:
            self._stale = True
            if new is not None:
                task = asyncio.create_task(self._report(kind, new))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        return changed

    async def _report(self, kind: Kind, entry: Entry) -> None:
        """Say in the object's status that it is served, once a generation."""
        key = (kind.kind, entry.uid)
        mark = f"{entry.generation}"
        if self._told.get(key) == mark:
            return
        self._told[key] = mark
        status = served_status(kind, entry.object, self._port)
        if status is None:
            return
        with contextlib.suppress(ApiError, Unreachable):
            await self._client.patch(
                kind, entry.key.namespace, entry.key.name, {"status": status}, subresource="status"
            )

    def table(self) -> Table:
        if self._stale:
            self._stale = False
            found = []
            for kind in self._kinds:
                for entry in self._caches.list(kind):
                    found += _READERS[kind](entry.object)
            self._table = Table(found)
        return self._table

    def login_link(self, token: str, path: str = "/") -> str:
        """A URL that opens `path` in a browser, logged in with this bearer token. It works once."""
        assert self._logins is not None
        return f"{self.url}{OWN}/login?code={self._logins.issue(token)}&next={quote(path)}"

    # --- requests --------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(f"{OWN}/"):
            return await self._own(request)
        route = self.table().find(request.host, request.method, request.path, request.headers, request.query)
        if route is None:
            return web.Response(status=404, text=self._index(request))
        if route.rewrite.redirect is not None:
            return redirect(request, route)
        changes, refusal = self._authorise(request)
        if refusal is not None:
            return refusal
        where = await self._backend(route)
        if where is None:
            return web.Response(status=503, text=f"no ready endpoint behind {route.source}\n")
        path = route.target_path(request.rel_url.raw_path)
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        changes |= dict(route.rewrite.set_headers)
        changes |= dict.fromkeys(route.rewrite.remove_headers)
        if route.rewrite.host:
            changes["Host"] = route.rewrite.host
        assert self._session is not None
        return await forward(
            request, self._session, f"{where}{path}{query}", changes, dict(route.rewrite.response_headers)
        )

    def _authorise(self, request: web.Request) -> tuple[dict[str, str | None], web.Response | None]:
        """What to change in the headers: our cookie goes, the token it stands for comes."""
        changes: dict[str, str | None] = {}
        header = request.headers.get("Cookie")
        session = request.cookies.get(COOKIE)
        if header is None or session is None:
            return changes, None
        changes["Cookie"] = without_session(header)
        if "Authorization" in request.headers:
            return changes, None
        assert self._logins is not None
        token = self._logins.token(session)
        if token is None:
            return changes, None
        origin = request.headers.get("Origin")
        unsafe = (
            request.method not in ("GET", "HEAD", "OPTIONS")
            or request.headers.get("Upgrade", "").lower() == "websocket"
        )
        if unsafe and origin is not None and not same_site(origin, request.host):
            return changes, web.Response(status=403, text=f"a page of {origin} may not use your login here\n")
        changes["Authorization"] = f"Bearer {token}"
        return changes, None

    async def _backend(self, route: Route) -> str | None:
        """The base URL of a ready endpoint; waits a moment for one."""
        chosen = _weighted(route.backends)
        if chosen is None:
            return None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HOLD
        while True:
            found = self._find(chosen)
            if found is not None:
                return found
            if loop.time() >= deadline:
                return None
            await asyncio.sleep(0.1)

    def _find(self, backend: Backend) -> str | None:
        entry = self._caches.get(builtin.Service, Key(backend.namespace, backend.service))
        if entry is None:
            return None
        port = routes.service_port(entry.object, backend.port)
        if port is None:
            return None
        labels = f"kubernetes.io/service-name={backend.service}"
        slices = [item.object for item in self._caches.list(builtin.EndpointSlice, backend.namespace, labels)]
        found = targets(slices).get((backend.namespace, backend.service, port.get("name") or ""))
        if not found:
            return None
        address, number = random.choice(found)
        https = routes.speaks_https(port) if backend.https is None else backend.https
        return f"{'https' if https else 'http'}://{address}:{number}"

    def _index(self, request: web.Request) -> str:
        paths = sorted({f"  {self.url}{route.path}   ({route.source})" for route in self.table().routes})
        known = "\n".join(paths) or "  (no Ingress, HTTPRoute or Route exists)"
        return f"nothing is served at {request.path}; there is:\n{known}\n"

    # --- our own pages ---------------------------------------------------------------------------------------------

    async def _own(self, request: web.Request) -> web.StreamResponse:
        assert self._logins is not None
        match request.path.removeprefix(OWN):
            case "/login":
                session = self._logins.redeem(request.query.get("code", ""))
                if session is None:
                    return web.Response(
                        status=403, text="this link was used already or is too old; `modelyard url` prints a new one\n"
                    )
                wanted = request.query.get("next", "/")
                # Only a path of this gateway: `//host` would lead elsewhere.
                safe = wanted if wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted else "/"
                response = web.Response(status=303, headers={"Location": safe, "Cache-Control": "no-store"})
                response.set_cookie(COOKIE, session, httponly=True, secure=True, samesite="Lax", path="/")
                return response
            case "/logout":
                self._logins.end(request.cookies.get(COOKIE, ""))
                response = web.Response(text="logged out\n")
                response.del_cookie(COOKIE, path="/")
                return response
            case "/links" if request.method == "POST":
                given = request.headers.get("Authorization", "").removeprefix("Bearer ")
                if not hmac.compare_digest(given.encode(), self._secret.encode()):
                    return web.Response(status=401, text="Unauthorized\n")
                try:
                    asked = await request.json()
                    link = self.login_link(str(asked["token"]), str(asked.get("next") or "/"))
                except (ValueError, KeyError, TypeError):
                    return web.Response(status=400, text='send {"token": "...", "next": "/path"}\n')
                return web.json_response({"url": link})
            case "/healthz":
                return web.Response(text="ok\n")
        return web.Response(status=404, text="404\n")

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            (self._directory / _FILE).unlink()


def _weighted(backends: tuple[Backend, ...]) -> Backend | None:
    usable = [backend for backend in backends if backend.weight > 0]
    return random.choices(usable, [backend.weight for backend in usable])[0] if usable else None


def redirect(request: web.Request, route: Route) -> web.Response:
    asked = route.rewrite.redirect or {}
    change = asked.get("path") or {}
    path = request.path
    if change.get("replaceFullPath") is not None:
        path = change["replaceFullPath"]
    elif change.get("replacePrefixMatch") is not None:
        path = change["replacePrefixMatch"].rstrip("/") + path[len(route.path.rstrip("/")) :]
    host = asked.get("hostname") or request.host
    if asked.get("port"):
        host = f"{host.partition(':')[0]}:{asked['port']}"
    location = f"{asked.get('scheme') or 'https'}://{host}{path}"
    return web.Response(status=int(asked.get("statusCode") or 302), headers={"Location": location})


def served_status(kind: Kind, obj: Object, port: int) -> Object | None:
    """The status that says: this is served. None if nothing needs to be said."""
    spec, meta = obj.get("spec") or {}, obj["metadata"]
    if kind == builtin.Ingress:
        ports = [{"port": port, "protocol": "TCP"}]
        return {"loadBalancer": {"ingress": [{"hostname": "localhost", "ports": ports}]}}
    now = meta.get("creationTimestamp")
    if kind == builtin.HTTPRoute:
        conditions = [
            {"type": name, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now,
             "observedGeneration": meta.get("generation") or 0}
            for name, reason in (("Accepted", "Accepted"), ("ResolvedRefs", "ResolvedRefs"))
        ]  # fmt: skip
        parents = [
            {"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions}
            for parent in spec.get("parentRefs") or []
        ]
        return {"parents": parents} if parents else None
    conditions = [{"type": "Admitted", "status": "True", "lastTransitionTime": now}]
    host = spec.get("host") or "localhost"
    return {"ingress": [{"host": host, "routerName": "default", "wildcardPolicy": "None", "conditions": conditions}]}
