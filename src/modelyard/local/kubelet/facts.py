"""What the kubelet knows beside the pod itself: the node's addresses and size, and a view of other API objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from modelyard.kube.kinds import Kind, Object


class Objects(Protocol):
    """A read-only view of the cluster, kept current by watches."""

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None: ...

    def list(self, kind: Kind, namespace: str = "") -> Iterable[Object]: ...


@dataclass(frozen=True, slots=True)
class Node:
    """The one local node."""

    name: str
    host_ip: str = "127.0.0.1"
    allocatable: Mapping[str, str] = field(default_factory=lambda: {"cpu": "2", "memory": "4Gi", "pods": "250"})
    api_host: str = ""
    """Where containers reach the API server; empty: at the address of the `kubernetes` Service."""
    api_port: int = 0


def pod_key(pod: Object) -> str:
    """`name_namespace(uid)`, as a kubelet writes a pod in its messages."""
    meta = pod["metadata"]
    return f"{meta['name']}_{meta['namespace']}({meta['uid']})"


def containers(pod: Object) -> list[Object]:
    """Init containers first, then the others, in the order of the spec."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def container_named(pod: Object, name: str) -> Object | None:
    return next((container for container in containers(pod) if container["name"] == name), None)


def is_sidecar(container: Object) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def is_init(pod: Object, name: str) -> bool:
    return any(container["name"] == name for container in pod["spec"].get("initContainers") or [])
