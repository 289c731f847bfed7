"""The local HTTPS gateway: serves Ingress, HTTPRoute and Route objects on localhost, with login for browsers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind
from modelyard.local.network import pages
from modelyard.local.network.disconnects import quiet_disconnects
from modelyard.local.network.doors import Access, Doors, NoAccess, entry_path
from modelyard.local.network.login import sets_session, without_session
from modelyard.local.network.origins import HOME, Origins, host_name, is_local, service_label
from modelyard.local.network.pages import OWN
from modelyard.local.network.published import Published, Settled
from modelyard.local.network.routes import Backend, Route, Table
from modelyard.local.network.serving import Serving
from modelyard.programs.reverse_proxy import forward, upstream_session
from modelyard.runtime.caching.caches import CacheSet

_FILE = "gateway.json"
_HOLD = 5.0
_LOOK_AGAIN = 5
_NOT_FROM_BACKENDS = frozenset(("strict-transport-security", "alt-svc", "public-key-pins"))
"""Headers that a browser keeps for the whole host, and for other programs on it."""
_NOT_ON_LOCALHOST = frozenset(("service-worker-allowed", "clear-site-data"))
"""Headers that reach beyond the path of a service, where several share an origin."""


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
    """`access` makes the token that a logged-in browser's requests carry to a service; `entry` says where a person begins there;
    `options` is what a command line needs to mean this cluster."""

    def __init__(
        self,
        client: Client,
        caches: CacheSet,
        directory: Path,
        tls: ssl.SSLContext,
        access: Access,
        *,
        port: int = 0,
        options: str = "",
        entry: Callable[[Published], str] = entry_path,
    ) -> None:
        self._directory = directory
        self._tls = tls
        self._access = access
        self._port = port
        self._options = options
        self._entry = entry
        self._serving = Serving(client, caches)
        self._doors: Doors | None = None
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> str:
        """Open the socket on localhost; returns the URL."""
        self._session = upstream_session()
        app = web.Application(client_max_size=0, middlewares=[quiet_disconnects])
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
        self._port = sock.getsockname()[1]
        self.url = f"https://localhost:{self._port}"
        secret = secrets.token_urlsafe(32)
        self._doors = Doors(
            self._serving, Origins(self._port), self._access, secret, options=self._options, entry=self._entry
        )
        self._serving.start(self._port)
        await web.SockSite(self._runner, sock, ssl_context=self._tls).start()
        Control(self.url, secret).write(self._directory)
        return self.url

    def serve(self, kinds: Iterable[Kind]) -> None:
        """Follow these kinds (those that the API has). They may come one by one, as they are defined."""
        self._serving.serve(kinds)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()
        await self._serving.stop()
        with contextlib.suppress(FileNotFoundError):
            (self._directory / _FILE).unlink()

    @property
    def doors(self) -> Doors:
        assert self._doors is not None, "the gateway was not started"
        return self._doors

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        name = host_name(request.host)
        label = service_label(name)
        found = self._serving.at_label(label) if label else None
        if label and found is None:
            return pages.answer(
                request, 404, "There is no such service", "It may have been deleted.", code=self._home()
            )
        if request.path.startswith(f"{OWN}/"):
            return await self.doors.answer(request, found[0] if found else None)
        if name == HOME:
            return self.doors.start_page(request)
        if found:
            return await self._at_service(request, *found)
        return await self._at_localhost(request, name)

    def _home(self) -> str:
        return f"modelyard url{self._options}"

    async def _at_localhost(self, request: web.Request, name: str) -> web.StreamResponse:
        """For programs, and for pages that need no login."""
        table = self._serving.table
        if not is_local(name) and not any(route.host and _names(route.host, name) for route in table.routes):
            # A name that somebody else leads to this machine: a page of theirs must not become one of ours.
            return pages.answer(request, 421, "This host is not served here", f"Use {self.url} instead.")
        route = _find(table, request)
        looks = _looks(request)
        if route is None:
            if request.path == "/" and looks:
                return _go_to(f"{Origins(self._port).home}/")
            return self._nothing(request)
        settled = self._serving.of_source(route.source)
        assert settled is not None
        if looks and settled.published.from_controller:
            origin = Origins(self._port).of(settled.published.label)
            return _go_to(origin + request.rel_url.raw_path_qs)
        return await self._pass_on(request, route, settled, {})

    async def _at_service(self, request: web.Request, settled: Settled, table: Table) -> web.StreamResponse:
        """The service's own origin: here its login counts."""
        route = _find(table, request)
        if route is None:
            if request.path == "/" and _looks(request):
                return _go_to(settled.published.path)
            return self._nothing(request)
        try:
            login = await self.doors.token(request, settled.published)
        except NoAccess as problem:
            return pages.answer(request, 503, "The login does not work just now", str(problem), wait=_LOOK_AGAIN)
        if isinstance(login, web.Response):
            return login
        if login is None and settled.published.from_controller and _looks(request):
            return self.doors.login_needed(request, settled.published)
        changes: dict[str, str | None] = {}
        if login is not None and "Authorization" not in request.headers:
            changes["Authorization"] = f"Bearer {login}"
        origins = Origins(self._port)
        own, public = origins.of(settled.published.label), self._public(route)
        # The service has one address, whichever origin a browser uses: its own checks of hosts and origins hold.
        changes["Host"] = public.partition("://")[2]
        if request.headers.get("Origin") == own:
            changes["Origin"] = public
        if (referrer := request.headers.get("Referer", "")).startswith(f"{own}/"):
            changes["Referer"] = public + referrer.removeprefix(own)
        return await self._pass_on(request, route, settled, changes, (public, own))

    def _public(self, route: Route) -> str:
        return f"https://{route.host}" if route.host and not route.host.startswith("*") else self.url

    def _nothing(self, request: web.Request) -> web.Response:
        return pages.answer(
            request, 404, "Nothing is served here", "The start page shows what there is.", code=self._home()
        )

    async def _pass_on(
        self,
        request: web.Request,
        route: Route,
        settled: Settled,
        changes: dict[str, str | None],
        moved: tuple[str, str] | None = None,
    ) -> web.StreamResponse:
        """`moved`: the service's address, and the origin under which this browser knows it."""
        if route.rewrite.redirect is not None:
            return redirect(request, route)
        chosen = _weighted(route.backends)
        if chosen is not None and not chosen.permitted:
            said = f"{route.source} leads to namespace {chosen.namespace}, which has no ReferenceGrant for it."
            return pages.answer(request, 500, "This backend is not permitted", said)
        where = await self._endpoint(chosen) if chosen is not None else None
        if where is None:
            said = self._serving.problem(settled) or "It has no ready endpoint."
            return pages.answer(request, 503, f"{settled.published.name} is not ready", said, wait=_LOOK_AGAIN)
        if header := request.headers.get("Cookie"):
            changes["Cookie"] = without_session(header)
        path = route.target_path(request.rel_url.raw_path)
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        changes |= dict(route.rewrite.set_headers)
        changes |= dict.fromkeys(route.rewrite.remove_headers)
        if route.rewrite.host:
            changes["Host"] = route.rewrite.host
        dropped = _NOT_FROM_BACKENDS if moved else _NOT_FROM_BACKENDS | _NOT_ON_LOCALHOST

        def screen(name: str, value: str) -> str | None:
            name = name.lower()
            if name in dropped or (name == "set-cookie" and sets_session(value)):
                return None
            if moved and name == "location" and value.startswith((moved[0] + "/", moved[0] + "?")):
                return moved[1] + value.removeprefix(moved[0])
            return value

        def instead(status: int) -> web.Response | None:
            stranger = status == 401 and _looks(request) and not changes.get("Authorization")
            return self.doors.login_needed(request, settled.published) if stranger else None

        assert self._session is not None
        return await forward(
            request,
            self._session,
            f"{where}{path}{query}",
            changes,
            dict(route.rewrite.response_headers),
            edge=True,
            screen=screen,
            instead=instead,
        )

    async def _endpoint(self, backend: Backend) -> str | None:
        """A ready endpoint; waits a moment for one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HOLD
        while (found := self._serving.endpoint(backend)) is None and loop.time() < deadline:
            await asyncio.sleep(0.1)
        return found


def _go_to(place: str) -> web.Response:
    return web.Response(status=302, headers={"Location": place, "Cache-Control": "no-store"})


def _looks(request: web.Request) -> bool:
    """Whether a person opens a page."""
    return (
        request.method in ("GET", "HEAD")
        and pages.wants_html(request)
        and request.headers.get("Sec-Fetch-Dest", "document") == "document"
        and "Authorization" not in request.headers
    )


def _find(table: Table, request: web.Request) -> Route | None:
    return table.find(request.host, request.method, request.path, request.headers, request.query)


def _names(wanted: str, name: str) -> bool:
    return wanted == name or (wanted.startswith("*.") and name.endswith(wanted[1:]))


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
