"""How Ray is started in a container: the flags, the command, and what is asked whether it works. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from modelyard.kube import quantities
from modelyard.kube.kinds import Object
from modelyard.operators.parts.build import probe
from modelyard.operators.ray.names import AGENT_PORT, DASHBOARD_PORT, GCS_PORT, METRICS_PORT

SHELL = ("/bin/bash", "-c", "--")
ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"
_SWITCHES = frozenset({"log-color", "include-dashboard", "include-log-monitor"})
"""Flags that want a value also where it is false."""
_GPU = re.compile(r"gpu$|^nvidia\.com/mig-")
_HEALTHZ_SINCE = (2, 53)
"""From this version on one path of the agent says all about a node."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


def is_gpu(resource: str) -> bool:
    return _GPU.search(resource) is not None


def start_params(given: Mapping[str, str], container: Object, address: str = "") -> dict[str, str]:
    """The flags of `ray start`: the user's, and what is left open. `address`: the head that a worker joins."""
    found = {"dashboard-host": "0.0.0.0"} if not address else {"address": address}
    found |= {"metrics-export-port": str(METRICS_PORT), "dashboard-agent-listen-port": str(AGENT_PORT)}
    limits = (container.get("resources") or {}).get("limits") or {}
    cpu = limits.get("cpu", ((container.get("resources") or {}).get("requests") or {}).get("cpu"))
    if cpu is not None:
        found["num-cpus"] = str(math.ceil(quantities.parse(cpu).milli / 1000))
    if "memory" in limits:
        found["memory"] = str(quantities.parse(limits["memory"]).value)
    gpus = [quantities.parse(amount).value for name, amount in sorted(limits.items()) if is_gpu(name)]
    if any(gpus):
        found["num-gpus"] = str(sum(gpus))
    return found | dict(given) | {"block": "true"}


def head_port(params: Mapping[str, str] | None) -> str:
    return (params or {}).get("port", str(GCS_PORT))


def start_command(params: Mapping[str, str], *, head: bool) -> str:
    words = ["ray start", *(["--head"] if head else [])]
    for name, value in sorted(params.items()):
        if value == "true" and name not in _SWITCHES:
            words.append(f"--{name}")
        elif value != "false" or name in _SWITCHES:
            words.append(f"--{name}={value}")
    return " ".join(words)


def container_command(container: Object, start: str) -> Object:
    """Command and args of the Ray container: the user's own first, then Ray; theirs alone if they start Ray themselves."""
    own = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
    if "ray start" in own:
        return {}
    ray = f"{ULIMIT}; {start}"
    return {"command": list(SHELL), "args": [f"{own} && {ray}" if own else ray]}


def wait_script(address: str) -> str:
    """Until the head answers. A port that is closed costs nothing to find out; Ray's own check starts a whole interpreter."""
    host, _, port = address.rpartition(":")
    return (
        'trap "exit 143" TERM; '
        f"until (exec 3<>/dev/tcp/{host}/{port}) 2>/dev/null; do sleep 1; done; "
        f'until ray health-check --address "{address}"; do '
        f'echo "waiting for the head at {address}"; sleep "${{WAIT_SECONDS:-5}}"; done'
    )


def probes(ray_version: str, *, head: bool, delay: int, period: int) -> dict[str, Object]:
    """Readiness and liveness of the Ray container."""
    timeout = 5 if head else 2
    asked = _asked(ray_version, head=head, timeout=timeout)
    return {
        "readinessProbe": {
            **asked,
            "initialDelaySeconds": delay,
            "periodSeconds": period,
            "timeoutSeconds": timeout,
            "failureThreshold": 10,
        },
        "livenessProbe": {
            **asked,
            "initialDelaySeconds": 30,
            "periodSeconds": 5,
            "timeoutSeconds": timeout,
            "failureThreshold": 120,
        },
    }


def _asked(ray_version: str, *, head: bool, timeout: int) -> Object:
    version = _VERSION.match(ray_version)
    if version is not None and (int(version[1]), int(version[2])) >= _HEALTHZ_SINCE:
        return probe("/api/healthz", AGENT_PORT)
    urls = [f"http://localhost:{AGENT_PORT}/api/local_raylet_healthz"]
    urls += [f"http://localhost:{DASHBOARD_PORT}/api/gcs_healthz"] if head else []
    checks = [f"wget --tries 1 -T {timeout} -q -O- {url} | grep success" for url in urls]
    return {"exec": {"command": ["bash", "-c", " && ".join(checks)]}}
