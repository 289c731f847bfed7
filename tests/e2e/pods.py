"""A laptop cluster in one process, without workload controllers: an API server on TLS and a kubelet with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.kubelet.processes import keeper
from modelyard.local.kubelet.processes.runtime import scope
from modelyard.local.kubelet.processes.sandbox import Isolation
from modelyard.local.kubelet.service import Kubelet, Settings
from modelyard.local.network.addresses import ClusterRange

NAMESPACE = "demo"


class Plane:
    def __init__(self, server: ApiServer, url: str, directory: Path, isolation: Isolation | None = None) -> None:
        self.server = server
        self.url = url
        self.client: Client = server.client()
        self.directory = directory
        self.range = range_of(directory)
        where = urlsplit(url)
        self.settings = Settings(
            directory / "kubelet", ipaddress.IPv4Network(self.range.pods), directory / "volumes", isolation=isolation,
            api_host=where.hostname or "", api_port=where.port or 0, linger=3.0,
        )  # fmt: skip
        self.kubelet = Kubelet(server.client(), self.settings)

    async def pod(self, name: str, container: Object, **spec: Any) -> Object:
        body: Object = {
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
            "spec": {"nodeName": "local", "containers": [{"name": "main", **container}], **spec},
        }
        return await self.client.create(builtin.Pod, body)

    async def service(self, name: str, port: int, *, ready: list[str] | None = None) -> str:
        """A Service on one port, and its endpoints (the workload controllers would make them)."""
        spec: Object = {"ports": [{"name": "main", "port": port, "protocol": "TCP"}]}
        made = await self.client.create(
            builtin.Service, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        )
        if ready is not None:
            await self.endpoints(name, port, ready)
        return str(made["spec"]["clusterIP"])

    async def endpoints(self, service: str, port: int, addresses: list[str]) -> None:
        obj: Object = {
            "metadata": {
                "name": f"{service}-1",
                "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "main", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        }
        await self.client.apply(builtin.EndpointSlice, obj, field_manager="test", force=True)

    async def get(self, name: str) -> Object:
        return await self.client.get(builtin.Pod, NAMESPACE, name)

    async def until(self, name: str, condition: Callable[[Object], bool], within: float = 60) -> Object:
        """Follow a pod's status until it is as wanted."""
        found = await self.client.list(builtin.Pod, NAMESPACE, fields=f"metadata.name={name}")
        last: Object = {}
        for pod in found.items:
            last = pod
            if condition(pod):
                return pod
        try:
            async with asyncio.timeout(within):
                async for event in self.client.watch(
                    builtin.Pod, NAMESPACE, resource_version=found.resource_version, fields=f"metadata.name={name}"
                ):
                    if event.type in ("ADDED", "MODIFIED"):
                        last = event.object
                        if condition(last):
                            return last
        except TimeoutError:
            pass
        raise AssertionError(f"pod {name} did not get there within {within} s: {last.get('status')}")

    async def ready(self, name: str, within: float = 60) -> Object:
        return await self.until(name, is_ready, within)

    async def finished(self, name: str, within: float = 60) -> Object:
        return await self.until(name, lambda pod: pod.get("status", {}).get("phase") in ("Succeeded", "Failed"), within)

    async def gone(self, name: str, within: float = 60) -> None:
        async with asyncio.timeout(within):
            while await self.client.find(builtin.Pod, NAMESPACE, name) is not None:
                await asyncio.sleep(0.05)

    async def execute(self, pod: str, *command: str, container: str = "main") -> tuple[int, str]:
        for worker in self.kubelet.workers.values():
            if worker.pod["metadata"]["name"] == pod:
                return await worker.workers[container].execute(command, 30)
        raise AssertionError(f"no pod {pod}")

    async def log(self, pod: str, container: str = "main", **options: Any) -> str:
        from modelyard.local.kubelet.logs import LogOptions

        pieces = [piece async for piece in self.kubelet.log(NAMESPACE, pod, container, LogOptions(**options))]
        return b"".join(pieces).decode()

    async def events(self, pod: str) -> list[tuple[str, str]]:
        await self.kubelet.recorder.flush()
        found = await self.client.list(builtin.Event, NAMESPACE)
        return [(item["reason"], item["message"]) for item in found.items if item["involvedObject"]["name"] == pod]

    async def renewed(self) -> None:
        """The next renewal of the node's lease."""
        async for event in self.client.watch(builtin.Lease, "kube-node-lease", resource_version="0"):
            if event.type == "MODIFIED":
                return

    async def token(self, account: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = builtin.ServiceAccount.path(NAMESPACE, account, "token")
        answer = await self.client.object("POST", path, body=body)
        return str(answer["status"]["token"])


def range_of(directory: Path) -> ClusterRange:
    return ClusterRange(64 + int(hashlib.sha256(str(directory).encode()).hexdigest(), 16) % 180)


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


@contextlib.asynccontextmanager
async def plane(directory: Path, isolation: Isolation | None = None) -> AsyncIterator[Plane]:
    addresses = range_of(directory)
    async with ApiServer(services=str(addresses.services), kubelet=directory / "kubelet") as server:
        url = await server.listen()
        one = Plane(server, url, directory, isolation)
        await one.client.create(builtin.Namespace, {"metadata": {"name": NAMESPACE}})
        await one.kubelet.start()
        try:
            yield one
        finally:
            await one.kubelet.stop(grace=2)


def processes_of(plane: Plane) -> list[int]:
    """Every process of this machine that belongs to a container of the cluster."""
    mark = f"{keeper.MARKER}={scope(str(plane.settings.directory))}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if any(item.startswith(mark) for item in (entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
    return found
