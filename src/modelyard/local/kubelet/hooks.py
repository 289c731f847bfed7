"""Lifecycle hooks: postStart and preStop, by command, HTTP request or sleep."""

from __future__ import annotations

import asyncio

import aiohttp

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.probes import Target, port_of


class HookFailed(Exception):
    """The hook did not succeed; the text is the kubelet's."""


async def run(handler: Object, target: Target, container: str, pod_key: str, timeout: float) -> None:
    """Run one handler to its end."""
    if handler.get("exec"):
        command = handler["exec"].get("command") or []
        prefix = f'Exec lifecycle hook ([{" ".join(command)}]) for Container "{container}" in Pod "{pod_key}" failed'
        try:
            code, output = await target.execute(command, timeout)
        except TimeoutError:
            raise HookFailed(f'{prefix} - error: command timed out, message: ""') from None
        except Exception as error:
            raise HookFailed(f'{prefix} - error: {error}, message: ""') from error
        if code != 0:
            raise HookFailed(
                f"{prefix} - error: command '{' '.join(command)}' exited with {code}: {output}, message: {output!r}"
            )
    elif handler.get("httpGet"):
        action = handler["httpGet"]
        path = str(action.get("path") or "/")
        try:
            port = port_of(action.get("port") or 80, target)
            scheme = str(action.get("scheme") or "HTTP").lower()
            url = f"{scheme}://{action.get('host') or target.host}:{port}/{path.lstrip('/')}"
            headers = {item["name"]: item["value"] for item in action.get("httpHeaders") or []}
            limits = aiohttp.ClientTimeout(total=timeout)
            async with target.session.get(url, headers=headers, timeout=limits, ssl=False) as response:
                await response.read()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise HookFailed(
                f'HTTP lifecycle hook ({path}) for Container "{container}" in Pod "{pod_key}" failed - error: {error}'
            ) from error
    elif handler.get("sleep"):
        await asyncio.sleep(min(float(handler["sleep"].get("seconds") or 0), timeout))
