"""The transport over sockets (aiohttp): TLS, client certificates, bearer tokens, proxies; failures said for people."""

from __future__ import annotations

import asyncio
import ipaddress
import socket as sockets
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from modelyard.kube.auth import Credential, Credentials, Static
from modelyard.kube.errors import Unreachable, error_from_status

CONNECT_TIMEOUT = 15.0
CONCURRENT_REQUESTS = 64
_USER_AGENT = "modelyard"


@dataclass(frozen=True)
class Endpoint:
    """Where an API server is and how it is trusted."""

    server: str
    ca: str = ""
    """PEM; empty: the system's authorities."""
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""

    @property
    def tls(self) -> bool:
        return self.server.startswith("https://")

    @property
    def loopback(self) -> bool:
        host = urlsplit(self.server).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


class HttpResponse:
    """One aiohttp answer behind the `Response` protocol."""

    def __init__(self, inner: aiohttp.ClientResponse, where: str) -> None:
        self._inner = inner
        self._where = where

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def read(self) -> bytes:
        try:
            return await self._inner.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"the answer of {self._where} was cut off: {error or 'timed out'}") from error
        finally:
            self._inner.release()

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"the stream from {self._where} was cut off: {error or 'timed out'}") from error

    async def close(self) -> None:
        self._inner.close()


class HttpSocket:
    """One aiohttp WebSocket behind the `Socket` protocol."""

    def __init__(self, inner: aiohttp.ClientWebSocketResponse) -> None:
        self._inner = inner

    async def send(self, message: bytes) -> None:
        await self._inner.send_bytes(message)

    async def messages(self) -> AsyncIterator[bytes]:
        async for message in self._inner:
            if message.type is aiohttp.WSMsgType.BINARY:
                yield message.data


class HttpTransport:
    """Sends requests to one API server. Streams do not count against the limit of concurrent requests."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials | None = None,
        *,
        concurrency: int = CONCURRENT_REQUESTS,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self.endpoint = endpoint
        self._credentials: Credentials = credentials or Static()
        self._slots = asyncio.Semaphore(concurrency)
        self._connect_timeout = connect_timeout
        self._base = endpoint.server.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._last_limits: aiohttp.ClientTimeout | None = None
        self._tls: dict[tuple[str, str], ssl.SSLContext] = {}

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> HttpResponse:
        url = URL(self._base + path).with_query(query) if query else URL(self._base + path)
        if timeout is None:
            return await self._authorized(method, url, headers or {}, body, None)
        async with self._slots:
            return await self._authorized(method, url, headers or {}, body, timeout)

    @asynccontextmanager
    async def websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator[HttpSocket]:
        credential = await self._credentials.current()
        try:
            async with self._open().ws_connect(
                URL(self._base + path).with_query(query),
                protocols=protocols,
                headers=credential.headers,
                ssl=self._context(credential),
                server_hostname=self.endpoint.tls_server_name or None,
                proxy=self.endpoint.proxy or None,
                max_msg_size=0,
            ) as inner:
                yield HttpSocket(inner)
        except aiohttp.WSServerHandshakeError as error:
            message = f"{path} could not be opened as a WebSocket: HTTP {error.status} {error.message}"
            raise error_from_status({"code": error.status, "message": message}) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(explain(error, self.endpoint)) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _authorized(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes, timeout: float | None
    ) -> HttpResponse:
        credential = await self._credentials.current()
        response = await self._once(method, url, headers, body, timeout, credential)
        if response.status == 401 and await self._credentials.refused(credential):
            await response.close()
            response = await self._once(method, url, headers, body, timeout, await self._credentials.current())
        return response

    async def _once(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float | None,
        credential: Credential,
    ) -> HttpResponse:
        try:
            inner = await self._open().request(
                method,
                url,
                headers=[*headers.items(), *credential.headers],
                data=body or None,
                timeout=self._limits(timeout),
                ssl=self._context(credential),
                server_hostname=self.endpoint.tls_server_name or None,
                proxy=self.endpoint.proxy or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(explain(error, self.endpoint)) from error
        return HttpResponse(inner, self._base)

    def _limits(self, timeout: float | None) -> aiohttp.ClientTimeout:
        # Nearly all requests have the same ones.
        if self._last_limits is None or self._last_limits.total != timeout:
            self._last_limits = aiohttp.ClientTimeout(total=timeout, sock_connect=self._connect_timeout)
        return self._last_limits

    def _open(self) -> aiohttp.ClientSession:
        # Made on first use: aiohttp binds a session to the running loop.
        if self._session is None:
            headers = {"User-Agent": _USER_AGENT}
            if self.endpoint.loopback:
                # Nothing is gained by packing what never leaves the machine.
                headers["Accept-Encoding"] = "identity"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30),
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=256 * 1024,
            )
        return self._session

    def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        if not self.endpoint.tls:
            return True
        identity = (credential.certificate, credential.key)
        if identity not in self._tls:
            # A rotated certificate needs a context of its own; the old one is of no more use.
            self._tls = {identity: tls_context(self.endpoint, credential)}
        return self._tls[identity]


def tls_context(endpoint: Endpoint, credential: Credential) -> ssl.SSLContext:
    """Trust as the endpoint says, and our certificate if we have one."""
    try:
        context = ssl.create_default_context(cadata=endpoint.ca or None)
    except ssl.SSLError as error:
        raise Unreachable(
            f"the certificate authority given for {endpoint.server} is not a PEM certificate ({error.reason or error}); "
            "check certificate-authority or certificate-authority-data of the cluster in the kubeconfig"
        ) from None
    # Newer Pythons refuse authorities without some optional extensions; clusters made years ago have such ones.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        # ssl reads certificates from files only; these are private to us and gone at once.
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
            certificate.write_text(credential.certificate)
            key.write_text(credential.key)
            try:
                context.load_cert_chain(certificate, key)
            except ssl.SSLError as error:
                raise Unreachable(
                    f"the client certificate for {endpoint.server} and its key do not fit together or are not in PEM format "
                    f"({error.reason or error}); check client-certificate and client-key of the user in the kubeconfig"
                ) from None
    return context


def explain(error: BaseException, endpoint: Endpoint) -> str:
    """Why no answer came, and what to do about it."""
    server = endpoint.server
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            return (
                f"the certificate of {server} is not trusted: {reason}; check certificate-authority-data of the cluster "
                "in the kubeconfig (or tls-server-name, if the certificate is for another name)"
            )
        case aiohttp.ClientHttpProxyError():
            return f"the proxy {endpoint.proxy} refused to connect to {server}: HTTP {error.status} {error.message}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy {endpoint.proxy} for {server} cannot be reached: {error.os_error}; check proxy-url"
        case aiohttp.ClientConnectorDNSError():
            return f"the name of {server} cannot be resolved: {error.os_error}; check the address of the cluster and your network"
        case aiohttp.ClientConnectorSSLError():
            text = str(error.os_error)
            if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
                return f"{server} does not speak TLS; its address may have to begin with http://"
            return f"no TLS connection to {server}: {text}"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
            return (
                f"nothing listens at {server} (connection refused); is the cluster running, and is its address right?"
            )
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, sockets.gaierror):
            return f"the name of {server} cannot be resolved: {error.os_error}; check the address of the cluster and your network"
        case TimeoutError():
            return (
                f"{server} did not answer in time; check the network, a firewall or a VPN between here and the cluster"
            )
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return f"{server} closed the connection before it answered"
        case _:
            return f"{server} cannot be reached: {error}"
