"""The group `metrics.k8s.io` as `kubectl top` asks for it: what pods and the node use now, as the kubelet measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from modelyard.kube.builtin import Node, Pod
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time
from modelyard.local.apiserver.requests.options import list_options
from modelyard.local.apiserver.requests.problems import not_found
from modelyard.local.apiserver.served.resources import Call, ServedResource, Strategy
from modelyard.local.apiserver.storage.store import Store
from modelyard.local.apiserver.subresources.kubelet import Kubelet

NODES = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False)
PODS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")


class UsageResources:
    def __init__(self, store: Store, kubelet: Kubelet) -> None:
        self._store = store
        self._kubelet = kubelet

    def resources(self, strategy_of: Callable[[Kind, bool], Strategy]) -> list[ServedResource]:
        found = ((NODES, self.nodes), (PODS, self.pods))
        return [
            ServedResource(kind, strategy_of(kind, False), verbs=("get", "list"), handler=handler)
            for kind, handler in found
        ]

    async def nodes(self, call: Call) -> Object:
        usage = await self._kubelet.usage()
        found = self._chosen(Node, "", call)
        return _answer(call, NODES, [_measured(NODES, obj, usage) | {"usage": _used(usage["node"])} for obj in found])

    async def pods(self, call: Call) -> Object:
        usage = await self._kubelet.usage()
        containers: dict[tuple[str, str], list[Object]] = {}
        for row in usage["containers"]:
            item = {"name": row["container"], "usage": _used(row)}
            containers.setdefault((row["namespace"], row["pod"]), []).append(item)
        items = []
        for obj in self._chosen(Pod, call.namespace, call):
            key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            if key in containers:
                items.append(_measured(PODS, obj, usage) | {"containers": containers[key]})
        return _answer(call, PODS, items)

    def _chosen(self, kind: Kind, namespace: str, call: Call) -> Iterable[Object]:
        selector = list_options(call.request, watch=False).labels
        for stored in self._store.items(kind.resource, namespace):
            if call.name and stored.name != call.name:
                continue
            obj = stored.decode()
            if selector.matches(obj["metadata"].get("labels") or {}):
                yield obj


def _measured(kind: Kind, obj: Object, usage: Object) -> Object:
    meta = {name: obj["metadata"][name] for name in ("name", "namespace", "labels") if obj["metadata"].get(name)}
    taken = format_time(datetime.fromtimestamp(usage["taken"], UTC))
    meta["creationTimestamp"] = taken
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
    return head | {"timestamp": taken, "window": f"{usage['window']:.3f}s"}


def _used(row: Object) -> Object:
    return {"cpu": f"{round(row['cpu'] * 1e9)}n", "memory": f"{row['memory'] // 1024}Ki"}


def _answer(call: Call, kind: Kind, items: list[Object]) -> Object:
    if not call.name:
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": items}
    if not items:
        raise not_found(kind, call.name)
    return items[0]
