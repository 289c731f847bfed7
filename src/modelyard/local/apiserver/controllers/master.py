"""The Service `kubernetes`, by which programs in a cluster find the API server."""

from __future__ import annotations

from modelyard.kube.builtin import Endpoints, EndpointSlice, Service
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests.messages import LOOPBACK
from modelyard.local.apiserver.requests.options import WriteOptions
from modelyard.local.apiserver.served.resources import Registry
from modelyard.local.apiserver.storage.store import Store, decode
from modelyard.local.apiserver.verbs.writes import Write, Writes

_NAME = "kubernetes"
_NAMESPACE = "default"


async def publish(store: Store, registry: Registry, writes: Writes, host: str, port: int) -> None:
    """Creates the Service and its endpoints where they are missing, and points them at an address."""
    metadata = {"name": _NAME, "namespace": _NAMESPACE, "labels": {"component": "apiserver", "provider": "kubernetes"}}
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    await _ensure(
        store, registry, writes, Service, {"metadata": metadata, "spec": {"type": "ClusterIP", "ports": ports}}
    )
    mirrored = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    subsets = [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]
    endpoints = {"metadata": {"name": _NAME, "namespace": _NAMESPACE, "labels": mirrored}, "subsets": subsets}
    await _ensure(store, registry, writes, Endpoints, endpoints)
    slice_ = {
        "metadata": {"name": _NAME, "namespace": _NAMESPACE, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv6" if ":" in host else "IPv4",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
    }
    await _ensure(store, registry, writes, EndpointSlice, slice_)


async def _ensure(store: Store, registry: Registry, writes: Writes, kind: Kind, wanted: Object) -> None:
    resource = registry.lookup(kind.group, kind.version, kind.plural)
    assert resource is not None
    found = store.get(resource.storage, _NAMESPACE, _NAME)
    if found is None:
        write = Write(resource, _NAMESPACE, "", LOOPBACK, WriteOptions(), manager="kube-apiserver")
        await writes.create(write, writes.accept(write, wanted, []))
        return
    write = Write(resource, _NAMESPACE, _NAME, LOOPBACK, WriteOptions(), manager="kube-apiserver")

    async def pointed(raw: bytes | None) -> Object:
        assert raw is not None
        obj = decode(raw)
        if kind == Service:
            obj["spec"]["ports"] = wanted["spec"]["ports"]
        else:
            obj |= {name: value for name, value in wanted.items() if name != "metadata"}
        return writes.accept(write, obj, [])

    await writes.change(write, pointed, options_kind="UpdateOptions")
