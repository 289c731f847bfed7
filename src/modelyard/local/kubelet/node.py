"""The local node as an API object: registered at start, kept alive by its Lease, its status renewed now and then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
from collections.abc import Callable
from datetime import datetime

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, ApiError, NotFound, Unreachable
from modelyard.kube.kinds import Object
from modelyard.local.images.recipe import machine_system
from modelyard.local.kubelet.facts import Node
from modelyard.local.kubelet.status import timestamp
from modelyard.version import version

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
_LEASE_EVERY = 10.0
_STATUS_EVERY = 300.0
VERSION = "v1.37.1"
"""The Kubernetes release whose behaviour this kubelet follows."""

_AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"
_METRICS_READER: Object = {
    "metadata": {
        "name": "system:aggregated-metrics-reader",
        "labels": {f"{_AGGREGATED}{role}": "true" for role in ("admin", "edit", "view")},
    },
    "rules": [{"apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
}
"""Whoever may look at the pods of a namespace may see what they use."""


def machine_resources(pods: int = 250) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    usage = os.statvfs("/")
    disk = usage.f_frsize * usage.f_blocks // 1024
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory}Ki",
        "ephemeral-storage": f"{disk}Ki",
        "pods": str(pods),
    }


class NodeKeeper:
    def __init__(
        self, client: Client, node: Node, clock: Callable[[], datetime], *, port: int, described: list[str]
    ) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._port = port
        self._described = described
        self._task: asyncio.Task[None] | None = None

    async def register(self) -> None:
        """Create the Node, or take over the one that is there."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        labels = {
            "kubernetes.io/hostname": self._node.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": machine,
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": machine,
            "node-role.kubernetes.io/control-plane": "",
        }
        annotations = {"modelyard.dev/isolation": "; ".join(self._described)}
        obj: Object = {"metadata": {"name": self._node.name, "labels": labels, "annotations": annotations}}
        try:
            await self._client.create(builtin.Node, obj)
        except AlreadyExists:
            await self._client.patch(builtin.Node, "", self._node.name, {"metadata": obj["metadata"]})
        await self.write_status()
        await self._take_lease()
        await self._client.apply(builtin.ClusterRole, _METRICS_READER, field_manager="kubelet", force=True)

    async def write_status(self, *, ready: bool = True) -> None:
        now = timestamp(self._clock())
        current = await self._client.find(builtin.Node, "", self._node.name) or {}
        old = {item["type"]: item for item in (current.get("status") or {}).get("conditions") or []}

        def condition(kind: str, status: bool, reason: str, message: str) -> Object:
            value = "True" if status else "False"
            before = old.get(kind) or {}
            since = before["lastTransitionTime"] if before.get("status") == value else now
            return {
                "type": kind, "status": value, "reason": reason, "message": message, "lastHeartbeatTime": now,
                "lastTransitionTime": since,
            }  # fmt: skip

        healthy = condition("Ready", True, "KubeletReady", "kubelet is posting ready status")
        if not ready:
            healthy = condition("Ready", False, "KubeletNotReady", "the laptop cluster is stopped")
        machine = str(healthy and platform.machine())
        status: Object = {
            "conditions": [
                condition("MemoryPressure", False, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", False, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", False, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                healthy,
            ],
            "addresses": [
                {"type": "InternalIP", "address": self._node.host_ip},
                {"type": "Hostname", "address": self._node.name},
            ],
            "capacity": dict(self._node.allocatable),
            "allocatable": dict(self._node.allocatable),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": _boot_id(), "kernelVersion": platform.release(),
                "osImage": machine_system(), "containerRuntimeVersion": f"modelyard://{version()}",
                "kubeletVersion": VERSION, "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine),
            },
        }  # fmt: skip
        await self._client.patch(builtin.Node, "", self._node.name, {"status": status}, subresource="status")

    def _lease_spec(self) -> Object:
        moment = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": self._node.name, "leaseDurationSeconds": 40, "renewTime": moment}

    async def _take_lease(self) -> None:
        meta = {"name": self._node.name, "namespace": LEASE_NAMESPACE}
        try:
            await self._client.create(builtin.Lease, {"metadata": meta, "spec": self._lease_spec()})
        except AlreadyExists:
            await self._renew()
        except NotFound:
            log.warning("namespace %s is missing: the node has no Lease", LEASE_NAMESPACE)

    async def _renew(self) -> None:
        await self._client.patch(builtin.Lease, LEASE_NAMESPACE, self._node.name, {"spec": self._lease_spec()})

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="node-heartbeat")

    async def _run(self) -> None:
        since = 0.0
        while True:
            await asyncio.sleep(_LEASE_EVERY)
            since += _LEASE_EVERY
            try:
                await self._renew()
                if since >= _STATUS_EVERY:
                    await self.write_status()
                    since = 0.0
            except NotFound:
                with contextlib.suppress(ApiError, Unreachable):
                    await self.register()
            except (ApiError, Unreachable) as error:
                log.warning("the node's heartbeat was not written: %s", error)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(ApiError, Unreachable, TimeoutError):
            async with asyncio.timeout(2):
                await self.write_status(ready=False)


def _boot_id() -> str:
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""
