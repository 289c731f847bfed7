"""The kubelet's part of a laptop cluster: pods as processes, Services, and the gateway."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import ssl
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from modelyard.cli.laptop.access import service_token
from modelyard.cli.run import stopped
from modelyard.kube.builtin import HTTPRoute, Ingress, ReferenceGrant, Route
from modelyard.kube.client import Client
from modelyard.kube.config import resolve
from modelyard.kube.kinds import Kind
from modelyard.kube.times import utc_now
from modelyard.local.apiserver.sockets.tls import Identity
from modelyard.local.kubelet.service import Kubelet, Settings
from modelyard.local.laptop.layout import Layout
from modelyard.local.laptop.link import link
from modelyard.local.laptop.places import DEFAULT_WORKSPACE, Place
from modelyard.local.laptop.supervisor import notify_ready
from modelyard.local.network.gateway import Gateway
from modelyard.runtime.tls.pairs import load

log = logging.getLogger(__name__)

_ROUTE_KINDS = (Ingress, HTTPRoute, Route, ReferenceGrant)


async def run(layout: Layout) -> None:
    client = await link(layout)
    server = urlsplit(resolve(layout.kubeconfig).endpoint.server)
    settings = Settings(
        directory=layout.kubelet,
        pods=ipaddress.IPv4Network(os.environ["MODELYARD_PODS"]),
        persistent_root=layout.volumes,
        api_host=server.hostname or "127.0.0.1",
        api_port=server.port or 443,
        progress=_build_news(layout),
    )
    kubelet = Kubelet(client, settings)
    try:
        await kubelet.start()
        gateway = Gateway(
            client,
            kubelet.caches,
            layout.kubelet,
            gateway_tls(layout),
            partial(service_token, client),
            port=int(os.environ["MODELYARD_GATEWAY_PORT"]),
            options=layout.argument,
            entry=lambda one: Place.of(one).page(DEFAULT_WORKSPACE),
        )
        await gateway.start()
        kinds = asyncio.create_task(_follow_kinds(client, gateway), name="route kinds")
        notify_ready()
        log.info("the kubelet is ready, the gateway answers on %s", gateway.url)
        await stopped()
        kinds.cancel()
        await gateway.close()
    finally:
        await kubelet.stop()
        await client.close()


def _build_news(layout: Layout) -> Callable[[str, str], None]:
    """What an installer says goes to the log; its last words are left for `up` to show."""
    layout.building.unlink(missing_ok=True)

    def tell(image: str, line: str) -> None:
        if not line:
            layout.building.unlink(missing_ok=True)
            return
        log.info("image %s: %s", image, line)
        if not line.startswith(" "):  # the list of what was installed
            layout.building.write_text(f"image {image}: {line}")

    return tell


def gateway_tls(layout: Layout) -> ssl.SSLContext:
    """The gateway's certificate is the API server's own: one CA for a laptop cluster."""
    identity = Identity(layout.apiserver / "pki", utc_now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load(context, identity.pair)
    return context


async def _follow_kinds(client: Client, gateway: Gateway) -> None:
    """Route kinds may be defined later (an OpenShift or Gateway API installed by hand)."""
    known: set[Kind] = set()
    pause = 0.2
    while True:
        served = await client.discover()
        fresh = {kind for kind in _ROUTE_KINDS if kind in served} - known
        if fresh:
            gateway.serve(fresh)
            known |= fresh
        if len(known) == len(_ROUTE_KINDS):
            return
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 30.0)
