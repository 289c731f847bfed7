"""Where the gateway serves what runs on a laptop cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from modelyard.cli.output import Failed
from modelyard.kube.builtin import HTTPRoute, Ingress, Route
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of
from modelyard.local.network import routes
from modelyard.local.network.routes import PathKind

_READERS: dict[Kind, Callable[[Object], list[routes.Route]]] = {
    HTTPRoute: routes.from_http_route,
    Route: routes.from_openshift,
    Ingress: routes.from_ingress,
}


@dataclass(frozen=True)
class Place:
    """Where the gateway serves something."""

    name: str
    namespace: str
    path: str
    owner: str
    """The kind of the resource that the route belongs to; empty: of none."""


async def find_place(client: Client, name: str, namespace: str = "") -> Place:
    """The route of that name, or the one that leads to a Service of that name."""
    found = await places(client, namespace)
    for place, services in found:
        if name in (place.name, *services):
            return place
    there = ", ".join(sorted({place.name for place, _ in found})) or "nothing yet; see `modelyard status`"
    raise Failed(f"no HTTPRoute, Ingress or Route leads to {name!r}; what is served: {there}")


async def places(client: Client, namespace: str = "") -> list[tuple[Place, frozenset[str]]]:
    """Everything that the gateway serves, each with the names of the Services behind it."""
    served = await client.discover()
    found = []
    for kind, read in _READERS.items():
        for obj in (await client.list(kind, namespace)).items if kind in served else ():
            table = [route for route in read(obj) if route.kind is not PathKind.REGEX]
            if not table:
                continue
            key = key_of(obj)
            owners = obj["metadata"].get("ownerReferences") or [{}]
            path = min((route.path for route in table), key=len)
            place = Place(key.name, key.namespace, path.rstrip("/") + "/", str(owners[0].get("kind") or ""))
            found.append((place, frozenset(backend.service for route in table for backend in route.backends)))
    return found
