"""Endpoints and EndpointSlices: which pods stand behind a Service, and which of them are ready."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube.builtin import Endpoints, EndpointSlice, Pod, Service
from modelyard.kube.kinds import Key, Object
from modelyard.local.workloads import pods as podlib
from modelyard.runtime.declaring.controller import Controller, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired
from modelyard.runtime.declaring.world import World

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"


def endpoints_controller() -> Controller:
    controller = Controller(
        "endpoints",
        Service,
        owns=[Owns(EndpointSlice, labels={MANAGED_BY: "modelyard"}), Owns(Endpoints, labels={MANAGED_BY: "modelyard"})],
        watches=[Watch(Pod, to=services_of)],
        concurrency=8,
    )
    controller.reconcile(reconcile)
    return controller


def services_of(pod: Object, reader: Reader) -> Iterable[Key]:
    """The Services whose selector the pod's labels fit."""
    namespace = pod["metadata"]["namespace"]
    labels = (pod["metadata"].get("labels") or {}).items()
    for service in reader.list(Service, namespace):
        selector = (service.get("spec") or {}).get("selector")
        if selector and selector.items() <= labels:
            yield Key(namespace, service["metadata"]["name"])


def reconcile(service: Object, world: World) -> Desired:
    spec, meta = service["spec"], service["metadata"]
    selector = spec.get("selector")
    if not selector or spec.get("type") == "ExternalName":
        return Desired()
    pods = sorted(
        (
            p
            for p in world.list(Pod, meta["namespace"], selector)
            if not podlib.is_finished(p) and (p.get("status") or {}).get("podIP")
        ),
        key=lambda p: p["metadata"]["name"],
    )
    return Desired(children=[Child(_slice(service, pods)), Child(_endpoints(service, pods))])


def _ready(service: Object, pod: Object) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses")) or (
        podlib.is_ready(pod) and not podlib.is_deleting(pod)
    )


def _slice(service: Object, pods: list[Object]) -> Object:
    meta = service["metadata"]
    slice_: Object = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{meta['name'][:57]}-{podlib.safe_text(meta['uid'])}",
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), MANAGED_BY: "modelyard", SERVICE_NAME: meta["name"]},
        },
        "addressType": "IPv4",
        "endpoints": [_endpoint(service, pod) for pod in pods],
        "ports": [port for port in (_port(p, pods) for p in service["spec"].get("ports") or []) if port],
    }
    if service["spec"].get("clusterIP") == "None":
        slice_["metadata"]["labels"]["service.kubernetes.io/headless"] = ""
    return slice_


def _endpoint(service: Object, pod: Object) -> Object:
    meta, spec = pod["metadata"], pod["spec"]
    serving = podlib.is_ready(pod)
    endpoint: Object = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": _ready(service, pod), "serving": serving, "terminating": podlib.is_deleting(pod)},
        "targetRef": {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
    }
    if spec.get("nodeName"):
        endpoint["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = spec["hostname"]
    return endpoint


def _port(port: Object, pods: list[Object]) -> Object | None:
    target = port.get("targetPort", port["port"])
    number = _named_port(target, pods) if isinstance(target, str) else target
    if number is None:
        return None
    made: Object = {"name": port.get("name") or "", "port": number, "protocol": port.get("protocol", "TCP")}
    if port.get("appProtocol"):
        made["appProtocol"] = port["appProtocol"]
    return made


def _named_port(name: str, pods: list[Object]) -> int | None:
    for pod in pods:
        for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
            for port in container.get("ports") or []:
                if port.get("name") == name:
                    return int(port["containerPort"])
    return None


def _endpoints(service: Object, pods: list[Object]) -> Object:
    """The older form of the same; kubectl and some clients still read it."""
    meta = service["metadata"]
    ports = [port for port in (_port(p, pods) for p in service["spec"].get("ports") or []) if port]
    subset: Object = {}
    for field, wanted in (("addresses", True), ("notReadyAddresses", False)):
        found = [_address(service, pod) for pod in pods if _ready(service, pod) is wanted]
        if found:
            subset[field] = found
    if subset and ports:
        subset["ports"] = [{k: v for k, v in port.items() if v or k != "name"} for port in ports]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), MANAGED_BY: "modelyard"},
        },
        "subsets": [subset] if subset else [],
    }


def _address(service: Object, pod: Object) -> Object:
    endpoint = _endpoint(service, pod)
    address: Object = {"ip": pod["status"]["podIP"], "targetRef": endpoint["targetRef"]}
    for field in ("nodeName", "hostname"):
        if field in endpoint:
            address[field] = endpoint[field]
    return address
