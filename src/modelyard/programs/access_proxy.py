"""kube-rbac-proxy in Python: lets a request through when its bearer token is good and its user may do what is asked.

Takes the arguments that operators give the real one. Verdicts are kept for ten seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import os
import re
import signal
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml
from aiohttp import web

from modelyard.programs import bounded_yaml
from modelyard.programs.reverse_proxy import forward, upstream_session
from modelyard.programs.reviews import ClusterReviewer, NoVerdict, Reviewer

log = logging.getLogger("kube-rbac-proxy")

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "OPTIONS": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_KEEP = 10.0
_MOST = 4096


@dataclass(frozen=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = field(default_factory=dict)


class Verdicts:
    """Remembers answers for a short time, the newest only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, keep: float = _KEEP) -> None:
        self._clock = clock
        self._keep = keep
        self._held: OrderedDict[str, tuple[float, Any]] = OrderedDict()

    async def get(self, key: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        held = self._held.get(key)
        if held is not None and self._clock() < held[0]:
            return held[1]
        answer = await ask()
        self._held[key] = (self._clock() + self._keep, answer)
        self._held.move_to_end(key)
        while len(self._held) > _MOST:
            self._held.popitem(last=False)
        return answer


class Gate:
    """Who asks, and may they?"""

    def __init__(self, reviewer: Reviewer, config: dict[str, Any], audiences: Sequence[str]) -> None:
        self._reviewer = reviewer
        self._authorization: dict[str, Any] = config.get("authorization") or {}
        self._audiences = list(audiences)
        self._verdicts = Verdicts()

    async def user(self, token: str) -> User | None:
        key = "token:" + hashlib.sha256(token.encode()).hexdigest()
        found: User | None = await self._verdicts.get(key, lambda: self._review(token))
        return found

    async def _review(self, token: str) -> User | None:
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        status = await self._reviewer.review("TokenReview", spec)
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        return User(
            user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), user.get("extra") or {}
        )

    async def refusal(self, user: User, request: web.Request) -> web.Response | None:
        """Why the user may not; None where nothing speaks against it."""
        asked = self._attributes(request)
        if not asked:
            # With rewrites, what is asked for comes from the request: where it says nothing, there is nothing to allow.
            return web.Response(status=400, text="Bad Request. The request or configuration is malformed.\n")
        for attributes in asked:
            key = f"access:{user.name}:{user.uid}:{user.groups}:{sorted(attributes.items())}"
            if not await self._verdicts.get(key, partial(self._access, user, attributes)):
                resource = attributes.get("resource", "")
                said = (
                    f"verb={attributes['verb']}, resource={resource}, subresource={attributes.get('subresource', '')}"
                )
                return web.Response(status=403, text=f"Forbidden (user={user.name}, {said})\n")
        return None

    def _attributes(self, request: web.Request) -> list[dict[str, str]]:
        verb = _VERBS.get(request.method, "")
        configured = self._authorization.get("resourceAttributes")
        if not configured:
            return [{"verb": verb, "path": request.path}]
        names = {"apiGroup": "group", "apiVersion": "version", "namespace": "namespace", "resource": "resource",
                 "subresource": "subresource", "name": "name"}  # fmt: skip
        attributes = {ours: str(configured[theirs]) for theirs, ours in names.items() if configured.get(theirs)}
        attributes["verb"] = configured.get("verb") or verb
        rewrites = self._authorization.get("rewrites") or {}
        values: list[str] = []
        if (rewrites.get("byQueryParameter") or {}).get("name"):
            values = request.query.getall(rewrites["byQueryParameter"]["name"], [])
        if (rewrites.get("byHttpHeader") or {}).get("name"):
            values = request.headers.getall(rewrites["byHttpHeader"]["name"], []) or values
        if not rewrites:
            return [attributes]
        return [{name: text.replace("{{ .Value }}", value) for name, text in attributes.items()} for value in values]

    async def _access(self, user: User, attributes: dict[str, str]) -> bool:
        which = "nonResourceAttributes" if "path" in attributes else "resourceAttributes"
        spec: dict[str, Any] = {"user": user.name, "groups": list(user.groups), which: attributes}
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = user.extra
        return bool((await self._reviewer.review("SubjectAccessReview", spec)).get("allowed"))


class Proxy:
    def __init__(self, options: argparse.Namespace, gate: Gate, session: aiohttp.ClientSession) -> None:
        self._options = options
        self._gate = gate
        self._session = session
        self._upstream = options.upstream.rstrip("/")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if self._options.allow_paths and not _any(path, self._options.allow_paths):
            return web.Response(status=404, text="404 page not found\n")
        # Who asks is for this proxy to say, also on paths where nobody is asked.
        told = self._options.auth_header_fields_enabled
        headers: dict[str, str | None] = {"x-remote-user": None, "x-remote-groups": None} if told else {}
        if not _any(path, self._options.ignore_paths):
            kind, _, token = request.headers.get("Authorization", "").partition(" ")
            if kind.lower() != "bearer" or not token.strip():
                return web.Response(status=401, text="Unauthorized\n")
            try:
                user = await self._gate.user(token.strip())
                if user is None:
                    return web.Response(status=401, text="Unauthorized\n")
                refused = await self._gate.refusal(user, request)
            except NoVerdict as error:
                log.warning("the API server gave no verdict: %s", error)
                return web.Response(status=500, text="Internal Server Error\n")
            if refused is not None:
                return refused
            if told:
                headers |= {"x-remote-user": user.name, "x-remote-groups": "|".join(user.groups)}
        return await forward(request, self._session, self._upstream + request.path_qs, headers)


def _any(path: str, patterns: Sequence[str]) -> bool:
    """As Go matches paths: a star stands for anything but a slash."""
    return any(re.fullmatch(_pattern(pattern), path) for pattern in patterns)


def _pattern(text: str) -> str:
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)) for char in text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    parser = argparse.ArgumentParser(prog="kube-rbac-proxy", allow_abbrev=False)
    parser.add_argument("--secure-listen-address", default="")
    parser.add_argument("--insecure-listen-address", default="")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--upstream-ca-file", default="")
    parser.add_argument("--config-file", default="")
    parser.add_argument("--tls-cert-file", default="")
    parser.add_argument("--tls-private-key-file", default="")
    parser.add_argument("--proxy-endpoints-port", type=int, default=0)
    parser.add_argument("--ignore-paths", type=words, default=[])
    parser.add_argument("--allow-paths", type=words, default=[])
    parser.add_argument("--auth-token-audiences", type=words, default=[])
    parser.add_argument("--auth-header-fields-enabled", nargs="?", const=True, default=False)
    known, others = parser.parse_known_args(list(arguments))
    if others:
        log.info("ignored: %s", " ".join(others))
    if not known.secure_listen_address and not known.insecure_listen_address:
        parser.error("--secure-listen-address or --insecure-listen-address is needed")
    return known


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    own = os.environ.get("MODELYARD_POD_IP", "127.0.0.1")
    return (own if host in ("", "0.0.0.0", "[::]") else host), int(port)


def server_tls(options: argparse.Namespace) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if not options.tls_cert_file:
        raise SystemExit("kube-rbac-proxy: --tls-cert-file and --tls-private-key-file are needed with a secure address")
    try:
        context.load_cert_chain(options.tls_cert_file, options.tls_private_key_file or None)
    except OSError as error:
        raise SystemExit(f"kube-rbac-proxy: {options.tls_cert_file}: {error}") from None
    return context


async def renew(context: ssl.SSLContext, options: argparse.Namespace) -> None:
    """Take over renewed certificate files; connections made from then on use them."""
    seen = os.stat(options.tls_cert_file).st_mtime_ns
    while True:
        await asyncio.sleep(30)
        try:
            now = os.stat(options.tls_cert_file).st_mtime_ns
            if now != seen:
                context.load_cert_chain(options.tls_cert_file, options.tls_private_key_file or None)
                seen = now
        except (OSError, ssl.SSLError) as error:
            log.warning("certificate not renewed: %s", error)


def read_config(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        return bounded_yaml.load(Path(path).read_bytes()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise SystemExit(f"kube-rbac-proxy: --config-file={path}: {error}") from None


async def serve(options: argparse.Namespace, reviewer: Reviewer) -> None:
    config = read_config(options.config_file)
    session = upstream_session()
    proxy = Proxy(options, Gate(reviewer, config, options.auth_token_audiences), session)
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, auto_decompress=False)
    await runner.setup()
    tasks = []
    if options.secure_listen_address:
        context = server_tls(options)
        host, port = address(options.secure_listen_address)
        await web.TCPSite(runner, host, port, ssl_context=context).start()
        tasks.append(asyncio.create_task(renew(context, options)))
        log.info("listening securely on %s:%s", host, port)
        if options.proxy_endpoints_port:
            health = web.Application()
            health.router.add_get("/healthz", _healthy)
            second = web.AppRunner(health, access_log=None)
            await second.setup()
            await web.TCPSite(second, host, options.proxy_endpoints_port, ssl_context=context).start()
    if options.insecure_listen_address:
        host, port = address(options.insecure_listen_address)
        await web.TCPSite(runner, host, port).start()
        log.info("listening insecurely on %s:%s", host, port)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()
    await session.close()


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def run(options: argparse.Namespace) -> None:
    async with ClusterReviewer.of_this_pod() as reviewer:
        await serve(options, reviewer)


def main(arguments: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    options = parse(arguments)
    if not urlsplit(options.upstream).hostname:
        raise SystemExit(f"kube-rbac-proxy: --upstream={options.upstream} is not a URL with a host")
    try:
        asyncio.run(run(options))
    except NoVerdict as error:
        raise SystemExit(f"kube-rbac-proxy: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
