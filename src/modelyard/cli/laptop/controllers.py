"""The controllers' part of a laptop cluster: what makes it a cluster (workloads, claims, scheduling) and the operators."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from modelyard.cli import installation
from modelyard.cli.plane import Plane, PlaneOptions
from modelyard.cli.run import stopped
from modelyard.kube.builtin import ClusterRole, CustomResourceDefinition, Gateway, Namespace, Pod, StorageClass
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Conflict, NotFound, Unreachable
from modelyard.kube.kinds import Kind, Object
from modelyard.local.laptop.directories import VolumeDirectories
from modelyard.local.laptop.layout import Layout
from modelyard.local.laptop.link import link
from modelyard.local.laptop.supervisor import notify_ready
from modelyard.local.platform import platform_crds
from modelyard.local.workloads import Bind, workload_controllers
from modelyard.local.workloads.volumes import PROVISIONER
from modelyard.operators.registry import load, shared
from modelyard.pins import pins
from modelyard.runtime.webhooks import ServiceAddress

log = logging.getLogger(__name__)

HOME = "modelyard"
APPLICATIONS = "opendatahub"
MANAGER = "modelyard-up"


async def run(layout: Layout) -> None:
    client = await link(layout)
    try:
        names = [name for name in os.environ.get("MODELYARD_OPERATORS", "").split(",") if name]
        settings = {**laptop_settings(os.environ), **os.environ}
        operators = load(names or None, settings)
        operators += shared(settings, operators)
        await install(client, os.environ.get("MODELYARD_PLATFORM", "kubernetes"))
        more = workload_controllers(VolumeDirectories(layout.volumes), _binder(client))
        options = PlaneOptions(
            home=HOME, webhook_host="127.0.0.1", webhook_port=0, webhook_names=["127.0.0.1", "localhost"], health=None
        )
        # The definitions come first, without conversion: the plane waits for them, and conversion needs its port.
        for crd in installation.crds(operators, ServiceAddress()):
            crd["spec"].pop("conversion", None)
            await ensure(client, CustomResourceDefinition, crd)
        for role in (role for operator in operators for role in operator.roles):
            await ensure(client, ClusterRole, role)
        async with Plane(client, operators, options, more=more) as plane:
            if plane.serves_webhooks:
                address = ServiceAddress(url=f"https://127.0.0.1:{plane.webhook_port}")
                await plane.trust(address)
            await plane.wait_ready()
            notify_ready()
            log.info("controllers are ready")
            await stopped()
    finally:
        await client.close()


def laptop_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The operators' settings on a laptop: versions that recipes run, and the local gateway. The user's own go before them."""
    mlflow = pins()["mlflow"]
    port = environ.get("MODELYARD_GATEWAY_PORT", "8443")
    return {
        "MLFLOW_NAMESPACE": APPLICATIONS,
        "MLFLOW_IMAGE": f"{mlflow.image}:{mlflow.local}",
        "MLFLOW_VERSION": mlflow.local,
        "MLFLOW_URL": f"https://localhost:{port}",
        "GATEWAY_NAME": "modelyard",
        "GATEWAY_NAMESPACE": HOME,
        # Also with OpenShift's kinds: its service CA does not run here.
        "SERVING_CERTIFICATES": "own",
        # Browsers lead every name below it to this machine.
        "RAY_INGRESS_DOMAIN": "localhost",
        "APPWRAPPER_ENABLED": "true",
        "REGISTRIES_NAMESPACE": APPLICATIONS,
        "GATEWAY_DOMAIN": f"localhost:{port}",
        # Also with OpenShift's kinds, whose own namespace for routes is not there.
        "HTTPROUTE_NAMESPACE": APPLICATIONS,
        "RAY_GATEWAY_NAME": "modelyard",
        "RAY_GATEWAY_NAMESPACE": HOME,
        # Ray comes up in a few seconds; a cluster's images need longer.
        "RAY_READINESS_DELAY": "1",
        "RAY_READINESS_PERIOD": "2",
    }


async def install(client: Client, platform: str) -> None:
    """What a fresh cluster needs before any controller: namespaces, kinds, a storage class, the gateway."""
    for name in (HOME, APPLICATIONS):
        await ensure(client, Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for crd in platform_crds(platform):
        await ensure(client, CustomResourceDefinition, crd)
    await ensure(client, StorageClass, _STORAGE_CLASS)
    await ensure(client, Gateway, _GATEWAY)


async def ensure(client: Client, kind: Kind, obj: Object) -> None:
    """Applies; a kind that was defined a moment ago may not be served yet, and the API server may be restarting."""
    for _ in range(600):
        try:
            await client.apply(kind, obj, field_manager=MANAGER, force=True)
            return
        except (NotFound, Unreachable, Conflict):
            await asyncio.sleep(0.05)
        except ApiError as error:
            if error.code < 500:
                raise
            await asyncio.sleep(0.05)
    raise TimeoutError(f"{kind.kind} {obj['metadata']['name']} could not be applied within 30 s")


def _binder(client: Client) -> Bind:
    async def bind(namespace: str, pod: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": target,
        }
        try:
            await client.create(Pod, body, subresource="binding")
        except (Conflict, NotFound) as error:
            # Bound already, or gone: the watch tells.
            log.debug("pod %s/%s was not bound: %s", namespace, pod, error)

    return bind


_STORAGE_CLASS: Object = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}
_GATEWAY: Object = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "modelyard", "namespace": HOME},
    "spec": {"gatewayClassName": "modelyard", "listeners": [{"name": "https", "port": 443, "protocol": "HTTPS"}]},
}
