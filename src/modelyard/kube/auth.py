"""Who we are to the API server: credentials that may change while we run, from files or from a plugin."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from modelyard.kube.errors import Unreachable
from modelyard.kube.kinds import Object
from modelyard.kube.times import parse_time, utc_now

REREAD_AFTER = 10.0
PLUGIN_TIMEOUT = 120.0
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True)
class Credential:
    """What one request is sent with: an `Authorization` header, a client certificate (PEM), both or none."""

    authorization: str = ""
    certificate: str = ""
    key: str = ""
    impersonation: tuple[tuple[str, str], ...] = ()
    """`Impersonate-*` headers."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        own = [("Authorization", self.authorization)] if self.authorization else []
        return [*own, *self.impersonation]


class Credentials(Protocol):
    """Gives the credential to use now."""

    async def current(self) -> Credential: ...

    async def refused(self, used: Credential) -> bool:
        """The server answered 401 to `used`: fetch again. True if it is worth trying again."""
        ...


@dataclass(frozen=True)
class Static:
    """Credentials that never change."""

    credential: Credential = Credential()

    async def current(self) -> Credential:
        return self.credential

    async def refused(self, used: Credential) -> bool:
        return False


class Files:
    """A token, or a certificate and its key, in files that someone else renews."""

    def __init__(self, base: Credential, *, token: str = "", certificate: str = "", key: str = "") -> None:
        self._base = base
        self._token = token
        self._certificate = certificate
        self._key = key
        self._held: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        now = asyncio.get_running_loop().time()
        if self._held is None or now - self._read_at > REREAD_AFTER:
            self._read_at = now
            self._held = self._read()
        return self._held

    async def refused(self, used: Credential) -> bool:
        self._held = self._read()
        return self._held != used

    def _read(self) -> Credential:
        try:
            held = self._base
            if self._token:
                held = replace(held, authorization=bearer(Path(self._token).read_text()))
            if self._certificate:
                held = replace(held, certificate=Path(self._certificate).read_text())
            if self._key:
                held = replace(held, key=Path(self._key).read_text())
        except OSError as error:
            if self._held is not None:
                # In the middle of a renewal: the old one is still good, or the server will say that it is not.
                return self._held
            raise Unreachable(f"our credentials cannot be read: {error.filename}: {error.strerror}") from None
        return held


@dataclass(frozen=True)
class Plugin:
    """A credential plugin, as the `exec` part of a kubeconfig's user describes it."""

    user: str
    command: str
    api_version: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: Object | None = None
    """What the plugin is told about the cluster, if it asks for that."""

    def said(self, what: str, remedy: str = "") -> Unreachable:
        return Unreachable(f"the credential plugin {self.command} of user {self.user} {what}{remedy and '; '}{remedy}")


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _PluginAnswer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _PluginStatus | None = None


class PluginCredentials:
    """Runs a plugin when there is no credential, when it has expired, or when the server refused it."""

    def __init__(
        self, plugin: Plugin, base: Credential = Credential(), clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._plugin = plugin
        self._base = base
        self._clock = clock
        self._held: Credential | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._running:
            expired = self._expires is not None and self._clock() >= self._expires
            if self._held is None or expired:
                await self._fetch()
            assert self._held is not None
            return self._held

    async def refused(self, used: Credential) -> bool:
        async with self._running:
            # Many requests may be refused at once; the plugin runs for the first of them.
            if self._held == used:
                await self._fetch()
            return True

    async def _fetch(self) -> None:
        status = _read_answer(self._plugin, await _run(self._plugin))
        self._held = replace(
            self._base,
            authorization=bearer(status.token) if status.token else self._base.authorization,
            certificate=status.client_certificate_data or self._base.certificate,
            key=status.client_key_data or self._base.key,
        )
        self._expires = parse_time(status.expiration_timestamp) if status.expiration_timestamp else None


async def _run(plugin: Plugin) -> bytes:
    if plugin.api_version not in PLUGIN_VERSIONS:
        raise plugin.said(
            f"speaks {plugin.api_version or 'no apiVersion'}", f"set its apiVersion to {PLUGIN_VERSIONS[0]}"
        )
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise plugin.said("asks questions, but there is no terminal to answer at")
    interactive = terminal and plugin.interactive_mode != "Never"
    spec: Object = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **(plugin.env or {}), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    if shutil.which(plugin.command, path=environment.get("PATH")) is None:
        raise plugin.said("is not installed", plugin.install_hint.strip())
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise plugin.said(f"cannot be run: {error.strerror}", plugin.install_hint.strip()) from None
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise plugin.said(f"did not end within {PLUGIN_TIMEOUT:g} s") from None
    if process.returncode != 0:
        raise plugin.said(
            f"failed with exit code {process.returncode}: {errors.decode(errors='replace').strip()[-500:]}"
        )
    return output


def _read_answer(plugin: Plugin, output: bytes) -> _PluginStatus:
    try:
        answer = msgspec.json.decode(output, type=_PluginAnswer)
    except msgspec.MsgspecError as error:
        raise plugin.said(f"did not write an ExecCredential: {error}") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise plugin.said(
            f"wrote {answer.kind or 'no kind'} in {answer.api_version or 'no apiVersion'}, not ExecCredential in {plugin.api_version}"
        )
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise plugin.said("gave neither a token nor a client certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise plugin.said("gave a client certificate without its key, or a key without its certificate")
    return status


def bearer(token: str) -> str:
    return f"Bearer {token.strip()}"
