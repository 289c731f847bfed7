"""Liveness, readiness and start-up probes of one container run, with the kubelet's timing and its messages."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import aiohttp

from modelyard.kube.kinds import Object

_BODY = 10 * 1024


class ProbeKind(StrEnum):
    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"


@dataclass(frozen=True, slots=True)
class Outcome:
    success: bool
    output: str = ""
    error: bool = False
    """The probe itself could not be made; counted as a failure."""


class Execute(Protocol):
    """Runs a command in the container: its exit code and output. Raises `TimeoutError` when the time is up."""

    def __call__(self, command: Sequence[str], timeout: float) -> Awaitable[tuple[int, str]]: ...


@dataclass(frozen=True, slots=True)
class Target:
    """What a probe needs to know of the container."""

    host: str
    ports: dict[str, int]
    execute: Execute
    session: aiohttp.ClientSession


class Prober(Protocol):
    def __call__(self, probe: Object, target: Target) -> Awaitable[Outcome]: ...


async def check(probe: Object, target: Target) -> Outcome:
    """Make one probe."""
    timeout = float(probe.get("timeoutSeconds") or 1)
    try:
        if probe.get("httpGet"):
            return await http_get(probe["httpGet"], target, timeout)
        if probe.get("tcpSocket"):
            action = probe["tcpSocket"]
            return await tcp(action.get("host") or target.host, port_of(action["port"], target), timeout)
        if probe.get("exec"):
            return await execute(probe["exec"].get("command") or [], target, timeout)
        if probe.get("grpc"):
            # No gRPC library is at hand: an open port is taken for health.
            return await tcp(target.host, int(probe["grpc"]["port"]), timeout)
    except ValueError as error:
        return Outcome(False, str(error), error=True)
    return Outcome(False, "missing probe handler", error=True)


def port_of(port: object, target: Target) -> int:
    if isinstance(port, int):
        return port
    text = str(port)
    if text in target.ports:
        return target.ports[text]
    if text.isdigit():
        return int(text)
    raise ValueError(f"couldn't find port: {text}")


async def http_get(action: Object, target: Target, timeout: float) -> Outcome:
    scheme = str(action.get("scheme") or "HTTP").lower()
    host = action.get("host") or target.host
    port = port_of(action["port"], target)
    path = str(action.get("path") or "/")
    url = f"{scheme}://{host}:{port}{path if path.startswith('/') else '/' + path}"
    headers = {"User-Agent": "kube-probe/1.37", "Accept": "*/*", "Connection": "close"}
    headers |= {item["name"]: item["value"] for item in action.get("httpHeaders") or []}
    limits = aiohttp.ClientTimeout(total=timeout)
    try:
        async with target.session.get(
            url, headers=headers, timeout=limits, ssl=_no_verification(), allow_redirects=False
        ) as response:
            body = (await response.content.read(_BODY)).decode(errors="replace")
            if 200 <= response.status < 400:
                return Outcome(True, body)
            return Outcome(False, f"HTTP probe failed with statuscode: {response.status}")
    except TimeoutError:
        return Outcome(
            False, f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
        )
    except aiohttp.ClientConnectorError as error:
        return Outcome(False, f'Get "{url}": {_dial(host, port, error.os_error)}')
    except aiohttp.ServerDisconnectedError:
        return Outcome(False, f'Get "{url}": EOF')
    except (aiohttp.ClientError, OSError) as error:
        return Outcome(False, f'Get "{url}": {error}')


def _no_verification() -> ssl.SSLContext | bool:
    return False


def _dial(host: str, port: int, error: OSError) -> str:
    reason = (
        "connection refused" if isinstance(error, ConnectionRefusedError) else (error.strerror or str(error)).lower()
    )
    return f"dial tcp {host}:{port}: connect: {reason}"


async def tcp(host: str, port: int, timeout: float) -> Outcome:
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Outcome(False, f"dial tcp {host}:{port}: i/o timeout")
    except OSError as error:
        return Outcome(False, _dial(host, port, error))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return Outcome(True)


async def execute(command: Sequence[str], target: Target, timeout: float) -> Outcome:
    try:
        code, output = await target.execute(command, timeout)
    except TimeoutError:
        return Outcome(False, f'command timed out: "{" ".join(command)}" timed out after {timeout:g}s')
    except Exception as error:
        return Outcome(False, str(error), error=True)
    return Outcome(code == 0, output)


class ProbeLoop:
    """One probe of one run of a container, from its start to its end."""

    def __init__(
        self,
        kind: ProbeKind,
        probe: Object,
        target: Target,
        *,
        on_result: Callable[[ProbeKind, bool], None],
        on_failure: Callable[[ProbeKind, Outcome], None],
        prober: Prober = check,
        may_run: Callable[[], bool] = lambda: True,
    ) -> None:
        self._kind = kind
        self._probe = probe
        self._target = target
        self._on_result = on_result
        self._on_failure = on_failure
        self._prober = prober
        self._may_run = may_run

    async def run(self, running_for: float = 0.0) -> None:
        """Probe until cancelled; `running_for` is how long the container runs already (after a kubelet restart)."""
        period = float(self._probe.get("periodSeconds") or 10)
        enough = {
            True: int(self._probe.get("successThreshold") or 1),
            False: int(self._probe.get("failureThreshold") or 3),
        }
        await asyncio.sleep(max(0.0, float(self._probe.get("initialDelaySeconds") or 0) - running_for))
        streak, last = 0, None
        told: bool | None = None
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if self._may_run():
                outcome = await self._prober(self._probe, self._target)
                if not outcome.success:
                    self._on_failure(self._kind, outcome)
                streak = streak + 1 if outcome.success is last else 1
                last = outcome.success
                if streak >= enough[outcome.success] and told is not outcome.success:
                    told = outcome.success
                    self._on_result(self._kind, outcome.success)
                    if self._kind is ProbeKind.STARTUP or (self._kind is ProbeKind.LIVENESS and not outcome.success):
                        return
            await asyncio.sleep(max(0.01, period - (loop.time() - began)))
