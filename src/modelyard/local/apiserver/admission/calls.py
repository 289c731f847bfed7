"""Calls webhooks over HTTPS: by URL, or by service, which is resolved to an address of one of its endpoints."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from modelyard.kube.builtin import Endpoints, EndpointSlice, Service
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.crds.conversion import WebhookFailure
from modelyard.local.apiserver.requests.problems import go_quote
from modelyard.local.apiserver.storage.store import Store

if TYPE_CHECKING:
    import aiohttp

Resolve = Callable[[str, str, int], tuple[str, int]]
"""(namespace, name, port) of a service -> host and port to connect to. Raises WebhookFailure."""

_MOST_BYTES = 4 * 1024 * 1024


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """All of the answer, which may come in many pieces."""
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > _MOST_BYTES:
            raise WebhookFailure(f"the answer is larger than {_MOST_BYTES} bytes")
    return bytes(raw)


class ServiceResolver:
    """Finds a ready endpoint of a service in what is stored."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        stored = self._store.get(Service.resource, namespace, name)
        if stored is None:
            raise WebhookFailure(f"service {go_quote(name)} not found")
        spec = stored.decode()["spec"]
        if spec.get("type") == "ExternalName":
            return spec.get("externalName", ""), port
        wanted = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if wanted is None:
            raise WebhookFailure(f"no service port {port} found for service {go_quote(name)}")
        found = self._slices(namespace, name, wanted.get("name", "")) or self._endpoints(
            namespace, name, wanted.get("name", "")
        )
        if found is None:
            raise WebhookFailure(f"no endpoints available for service {go_quote(name)}")
        return found

    def _slices(self, namespace: str, name: str, port: str) -> tuple[str, int] | None:
        for stored in self._store.items(EndpointSlice.resource, namespace):
            if (stored.labels or {}).get("kubernetes.io/service-name") != name:
                continue
            slice_ = stored.decode()
            number = next((p.get("port") for p in slice_.get("ports") or () if (p.get("name") or "") == port), None)
            for endpoint in slice_.get("endpoints") or ():
                ready = (endpoint.get("conditions") or {}).get("ready") is not False
                if number and ready and endpoint.get("addresses"):
                    return endpoint["addresses"][0], number
        return None

    def _endpoints(self, namespace: str, name: str, port: str) -> tuple[str, int] | None:
        stored = self._store.get(Endpoints.resource, namespace, name)
        for subset in (stored.decode().get("subsets") or ()) if stored is not None else ():
            number = next((p.get("port") for p in subset.get("ports") or () if (p.get("name") or "") == port), None)
            if number and subset.get("addresses"):
                return subset["addresses"][0]["ip"], number
        return None


class WebhookClient:
    """One pool of connections for all webhooks."""

    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, config: Object, review: Object, seconds: float) -> Object:
        """Posts a review and returns the one that comes back. Raises WebhookFailure."""
        # Loaded with the first call: most servers never make one.
        import aiohttp

        wait = f"timeout={int(seconds)}s"
        shown, connect, server_name, host = self._address(config, wait)
        context = self._context(config.get("caBundle") or "")
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*", "Host": host}
        try:
            async with asyncio.timeout(seconds):
                async with self._session.post(
                    connect,
                    data=msgspec.json.encode(review),
                    headers=headers,
                    ssl=context,
                    server_hostname=server_name,
                    allow_redirects=False,
                ) as response:
                    raw = await _whole(response)
                    status = response.status
        except TimeoutError:
            raise WebhookFailure(f"Post {go_quote(shown)}: context deadline exceeded") from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise WebhookFailure(f"Post {go_quote(shown)}: {_why(error)}") from None
        if status != 200:
            raise WebhookFailure(_status_text(status, raw))
        try:
            answer: Object = msgspec.json.decode(raw, type=dict)
        except msgspec.DecodeError as error:
            raise WebhookFailure(f"couldn't get version/kind; json parse error: {error}") from None
        return answer

    def _address(self, config: Object, wait: str) -> tuple[str, str, str | None, str]:
        """The URL as messages show it, the URL to connect to, the name in the certificate, and the Host header."""
        url = config.get("url")
        if url:
            parts = urlsplit(url)
            whole = f"{url}{'&' if parts.query else '?'}{wait}"
            return whole, whole, parts.hostname, parts.netloc
        service = config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port, path = service.get("port") or 443, service.get("path") or ""
        server_name = f"{name}.{namespace}.svc"
        shown = f"https://{server_name}:{port}/{path.lstrip('/')}?{wait}"
        try:
            host, number = self.resolve(namespace, name, port)
        except WebhookFailure as failure:
            raise WebhookFailure(f"Post {go_quote(shown)}: {failure}") from None
        place = f"[{host}]" if ":" in host else host
        return shown, f"https://{place}:{number}/{path.lstrip('/')}?{wait}", server_name, f"{server_name}:{port}"

    @staticmethod
    def _context(bundle: str) -> ssl.SSLContext:
        try:
            return _ssl_context(bundle)
        except (ssl.SSLError, binascii.Error, ValueError) as error:
            raise WebhookFailure(f"unable to load root certificates: {error}") from None


@lru_cache(maxsize=128)
def _ssl_context(bundle: str) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


def _why(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        text = os.strerror(number).lower() if number else str(error.os_error)
        return f"dial tcp {error.host}:{error.port}: connect: {text}"
    return str(error) or type(error).__name__


def _certificate_problem(error: Exception) -> str:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else 0
    if code in (9, 10):
        return "certificate has expired or is not yet valid"
    if code in (62, 64):
        return str(getattr(error, "verify_message", error))
    return "certificate signed by unknown authority"


def _status_text(status: int, raw: bytes) -> str:
    text = raw[:2048].decode(errors="replace").strip()
    if status == 404:
        return "the server could not find the requested resource"
    if status in (401, 403):
        return text or {401: "Unauthorized", 403: "forbidden"}[status]
    if status >= 500:
        return f"an error on the server ({go_quote(text or 'unknown')}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
