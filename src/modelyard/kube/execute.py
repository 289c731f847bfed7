"""Runs a command in a pod's container over a WebSocket (`v5.channel.k8s.io`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from modelyard.kube.errors import Unreachable, error_from_status
from modelyard.kube.kinds import Object
from modelyard.kube.transport import Transport, open_websocket

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_STDIN_CHUNK = 32 * 1024


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes


async def run(
    transport: Transport,
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    container: str = "",
    stdin: bytes | None = None,
    timeout: float | None = None,
) -> Result:
    """Runs the command to its end; `TimeoutError` if that takes longer than `timeout` seconds."""
    query = [("command", word) for word in command]
    query += [("stdout", "true"), ("stderr", "true")]
    if container:
        query.append(("container", container))
    if stdin is not None:
        query.append(("stdin", "true"))
    async with asyncio.timeout(timeout):
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        async with open_websocket(transport, path, query=query, protocols=(PROTOCOL,)) as socket:
            if stdin is not None:
                for start in range(0, len(stdin), _STDIN_CHUNK):
                    await socket.send(bytes([STDIN]) + stdin[start : start + _STDIN_CHUNK])
                await socket.send(bytes([CLOSE, STDIN]))
            streams = {STDOUT: bytearray(), STDERR: bytearray(), ERROR: bytearray()}
            async for message in socket.messages():
                if message and message[0] in streams:
                    streams[message[0]] += message[1:]
    if not streams[ERROR]:
        raise Unreachable(f"the connection to pod {namespace}/{pod} ended before the command did")
    return Result(
        _exit_code(msgspec.json.decode(bytes(streams[ERROR]))), bytes(streams[STDOUT]), bytes(streams[STDERR])
    )


def _exit_code(status: Object) -> int:
    """The exit code in the closing Status; raises what the Status says if the command did not run at all."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
    raise error_from_status(status)
