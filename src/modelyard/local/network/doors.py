"""How a browser gets in: login links, the start page that leads to every service, and logging out."""

from __future__ import annotations

import asyncio
import hmac
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import web

from modelyard.kube.errors import ApiError, Unreachable
from modelyard.local.network import pages
from modelyard.local.network.login import Login, Logins, Target, cookie_name
from modelyard.local.network.origins import HOME, Origins, host_name, safe_path
from modelyard.local.network.pages import OWN
from modelyard.local.network.published import Published, Settled
from modelyard.local.network.serving import Serving

_FORM_BYTES = 8192
_TOKEN_SPARE = 300.0


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """A bearer token that is good at one service, for so many seconds."""

    text: str
    seconds: float


Access = Callable[[Published], Awaitable[ServiceToken]]


def entry_path(one: Published) -> str:
    return one.path


class NoAccess(Exception):
    """No token can be made now; the text says why."""


class Doors:
    """`secret`: whoever knows it may make links."""

    def __init__(
        self,
        serving: Serving,
        origins: Origins,
        access: Access,
        secret: str,
        *,
        options: str = "",
        entry: Callable[[Published], str] = entry_path,
    ) -> None:
        self._serving = serving
        self._origins = origins
        self._access = access
        self._secret = secret
        self._options = options
        self._entry = entry
        self._cookie = cookie_name(origins.port)
        self._logins = Logins()
        self._tokens: dict[str, tuple[str, float]] = {}

    def link(self, source: str = "", path: str = "", person: str = "") -> str | None:
        """A URL that opens a service, or the start page, logged in. It works once. None if there is no such service."""
        if not source:
            return self._login_url(self._origins.home, Target(), "/", person)
        found = self._serving.of_source(source)
        if found is None:
            return None
        one = found.published
        return self._login_url(self._origins.of(one.label), _target(one), safe_path(path or self._entry(one)), person)

    def _login_url(self, origin: str, target: Target, path: str, person: str) -> str:
        return f"{origin}{OWN}/login?code={self._logins.issue(target, person)}&next={quote(path)}"

    def command(self, one: Published | None = None) -> str:
        """What to run for a link."""
        if one is None:
            return f"modelyard url{self._options}"
        twice = sum(each.published.name == one.name for each in self._serving.settled) > 1
        where = f" -n {shlex.quote(one.namespace)}" if twice else ""
        return f"modelyard url {shlex.quote(one.name)}{where}{self._options}"

    def login_needed(self, request: web.Request, one: Published | None = None) -> web.Response:
        return pages.login_needed(request, self.command(one), one.name if one else "")

    async def token(self, request: web.Request, one: Published) -> str | web.Response | None:
        """The token that this request may use at this service, None if it has no login, or a refusal."""
        login = self._login(request, _target(one))
        if login is None:
            return None
        own = self._origins.of(one.label)
        match _trust(request, own):
            case "refuse":
                return pages.answer(request, 403, "A page of another site may not use your login here")
            case "ignore":
                return None
        held = self._tokens.get(one.uid)
        now = asyncio.get_running_loop().time()
        if held is None or held[1] < now:
            try:
                made = await self._access(one)
            except (ApiError, Unreachable) as error:
                raise NoAccess(str(error)) from None
            held = (made.text, now + max(made.seconds - _TOKEN_SPARE, 0.0))
            self._tokens = {uid: each for uid, each in self._tokens.items() if each[1] >= now} | {one.uid: held}
        return held[0]

    def start_page(self, request: web.Request) -> web.Response:
        if request.path != "/" or request.method not in ("GET", "HEAD"):
            return pages.answer(request, 404, "Nothing is served here", "The start page shows what there is.")
        if self._login(request, Target()) is None:
            return self.login_needed(request)
        services = []
        for each in self._serving.settled:
            problem = self._serving.problem(each)
            one = each.published
            services.append(pages.Service(one.source, one.name, one.namespace, not problem, problem or "Ready."))
        services.sort(key=lambda service: (service.namespace, service.name))
        if not pages.wants_html(request):
            said = [{"source": s.source, "ready": s.ready, "state": s.says} for s in services]
            return web.json_response({"services": said}, headers={"Cache-Control": "no-store"})
        return pages.start(services, self._form(request), f"https://*.{HOME}:{self._origins.port}")

    async def answer(self, request: web.Request, settled: Settled | None) -> web.Response:
        """`settled`: the service whose origin this is."""
        one = settled.published if settled else None
        home = host_name(request.host) == HOME
        match request.method, request.path.removeprefix(OWN):
            case "GET", "/login" if one or home:
                return self._redeem(request, one)
            case "GET", "/logout" if home:
                if self._login(request, Target()) is None:
                    return self.login_needed(request)
                return pages.confirm_logout(self._form(request))
            case "POST", "/logout" if home:
                return await self._log_out(request)
            case "POST", "/open" if home:
                return await self._open(request)
            case "POST", "/links" if host_name(request.host) in ("localhost", "127.0.0.1"):
                return await self._links(request)
            case "GET", "/healthz":
                return web.Response(text="ok\n")
        return pages.answer(request, 404, "Nothing is served here")

    def _redeem(self, request: web.Request, one: Published | None) -> web.Response:
        target = _target(one) if one else Target()
        where = {"Location": safe_path(request.query.get("next", "/")), "Cache-Control": "no-store"}
        if "prefetch" in request.headers.get("Sec-Purpose", "") + request.headers.get("Purpose", ""):
            # A browser that only looks ahead must not use up the link.
            return pages.answer(request, 403, "Open this link in a tab")
        session = self._logins.redeem(request.query.get("code", ""), target)
        if session is None:
            if self._login(request, target) is not None:
                return web.Response(status=303, headers=where)
            return pages.used_link(request, self.command(one))
        response = web.Response(status=303, headers={**where, "Referrer-Policy": "no-referrer"})
        response.set_cookie(self._cookie, session, httponly=True, secure=True, samesite="Lax", path="/")
        return response

    async def _log_out(self, request: web.Request) -> web.Response:
        login = self._login(request, Target())
        if login is None or not await self._is_our_form(request):
            return self._not_our_form(request)
        self._logins.end(login.person)
        response = pages.answer(request, 200, "Logged out", "To log in again, run:", code=self.command())
        response.del_cookie(self._cookie, path="/", secure=True, httponly=True, samesite="Lax")
        return response

    async def _open(self, request: web.Request) -> web.Response:
        login = self._login(request, Target())
        if login is None or not await self._is_our_form(request):
            return self._not_our_form(request)
        link = self.link(str((await request.post()).get("to", "")) or "?", person=login.person)
        if link is None:
            return pages.answer(request, 404, "There is no such service", "It may have been deleted.")
        return web.Response(status=303, headers={"Location": link, "Cache-Control": "no-store"})

    async def _is_our_form(self, request: web.Request) -> bool:
        """Whether it comes from a page of ours that this browser was shown. Services are on the same site, so that the cookie
        alone does not tell."""
        length = request.content_length
        if request.headers.get("Origin") != self._origins.home or length is None or length > _FORM_BYTES:
            return False
        given = str((await request.post()).get("form", ""))
        return hmac.compare_digest(given.encode(errors="replace"), self._form(request).encode())

    def _not_our_form(self, request: web.Request) -> web.Response:
        said = "It was not sent from the start page, or the login has ended. Open the start page again:"
        return pages.answer(request, 403, "This did not work", said, code=self.command())

    async def _links(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(errors="replace"), self._secret.encode()):
            return web.Response(status=401, text="Unauthorized\n")
        try:
            asked = await request.json()
            link = self.link(str(asked.get("to") or ""), str(asked.get("next") or ""))
        except (ValueError, AttributeError):
            return web.Response(status=400, text='send {"to": "Kind/namespace/name", "next": "/path"}\n')
        if link is None:
            return web.Response(status=404, text=f"{asked['to']} is not served\n")
        return web.json_response({"url": link})

    def _login(self, request: web.Request, target: Target) -> Login | None:
        session = request.cookies.get(self._cookie)
        return self._logins.find(session, target) if session else None

    def _form(self, request: web.Request) -> str:
        return self._logins.form_token(request.cookies.get(self._cookie, ""))


def _target(one: Published) -> Target:
    return Target(one.source, one.uid)


def _trust(request: web.Request, own: str) -> str:
    """`use` the login for what a page of this service or the person asks for, `ignore` it for what another page reads, and
    `refuse` what another page would change."""
    safe = request.method in ("GET", "HEAD", "OPTIONS") and request.headers.get("Upgrade", "").lower() != "websocket"
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    opened = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.headers.get("Sec-Fetch-Dest") == "document"
    foreign = (origin is not None and origin != own) or (
        site not in (None, "same-origin", "none") and not (safe and opened)
    )
    if not foreign:
        return "use"
    return "ignore" if safe else "refuse"
