"""Runs one hostile request in a child that has little memory and time: whoever needs more of either dies."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping

from modelyard.kube.builtin import ConfigMap
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import Request, UserInfo

ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_MEMORY = 1200 * 1024 * 1024
_SECONDS = 20


def answers(bomb: str, module: str) -> list[int]:
    """The statuses of the requests that `module.bomb()` makes, each sent to a server in a confined child."""
    text = f"from tests.attack.bytes.confined import detonate; from {module} import {bomb}; detonate({bomb})"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, f"the server died of {bomb}: {done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr
    statuses: list[int] = json.loads(done.stdout)
    return statuses


def detonate(bomb: Callable[[], list[Request]]) -> None:
    requests = bomb()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    print(json.dumps(asyncio.run(_send(requests))))


async def _send(requests: list[Request]) -> list[int]:
    async with ApiServer() as server:
        prey = {"metadata": {"name": "prey", "namespace": "default"}, "data": {"a": "x" * 100_000}}
        await server.client().create(ConfigMap, prey)
        return [(await server.handle(request)).status for request in requests]


def request(
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "application/json",
    query: Mapping[str, list[str]] | None = None,
    headers: Mapping[str, str] | None = None,
    user: UserInfo | None = ADMIN,
) -> Request:
    return Request(method, path, query or {}, {"content-type": content_type, **(headers or {})}, body, user)
