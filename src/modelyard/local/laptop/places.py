"""Where the gateway serves what runs on a laptop cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from modelyard.failure import Failed
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.local.laptop.layout import Layout
from modelyard.local.laptop.session import login_link
from modelyard.local.network.published import READERS, Published, settle

DEFAULT_WORKSPACE = "default"
_BY_COMPONENT = {"model-registry": "ModelRegistry", "model-catalog": "ModelCatalog"}
"""Kinds whose routes may be in another namespace, where no owner can be named: their controllers label them."""


@dataclass(frozen=True)
class Place:
    """Where the gateway serves something."""

    name: str
    namespace: str
    path: str
    owner: str
    """The kind of the resource that the route belongs to; empty: of none."""

    @classmethod
    def of(cls, one: Published) -> Place:
        labels = one.object["metadata"].get("labels") or {}
        owner = str((one.owner or {}).get("kind") or "") or _BY_COMPONENT.get(str(labels.get("component")), "")
        return cls(one.name, one.namespace, one.path, owner)

    def page(self, workspace: str) -> str:
        """Where a person begins. MLflow's pages show a workspace, and ask for one if the address names none; a registry and
        the catalog have no pages, so that their first list must do."""
        match self.owner:
            case "MLflow":
                return f"{self.path}#/experiments?workspace={quote(workspace)}"
            case "ModelRegistry":
                return f"{self.path}api/model_registry/v1alpha3/registered_models"
            case "ModelCatalog":
                return f"{self.path}api/model_catalog/v1alpha1/models"
        return self.path


async def find_published(client: Client, name: str, namespace: str = "") -> Published:
    """The route of that name, or the one that leads to a Service of that name; best one at the gateway's own address, which
    every program can look up."""
    found = sorted(await published(client, namespace), key=_has_a_host_of_its_own)
    for one in found:
        services = {backend.service for route in one.routes for backend in route.backends}
        if name in (one.name, *services):
            return one
    there = ", ".join(sorted({one.name for one in found})) or "nothing yet; see `modelyard status`"
    raise Failed(f"no HTTPRoute, Ingress or Route leads to {name!r}; what is served: {there}")


async def published(client: Client, namespace: str = "") -> list[Published]:
    """Everything that the gateway serves, the oldest first, with the routes that it got."""
    served = await client.discover()
    found = [Published.read(kind, obj) for kind in READERS if kind in served for obj in (await client.list(kind)).items]
    return [
        replace(each.published, routes=each.routes)
        for each in settle(sorted(found, key=lambda one: one.source))
        if each.routes and namespace in ("", each.published.namespace)
    ]


def base_url(one: Published, gateway: str) -> str:
    """Where programs find what is served, without its path: at the gateway's own address, or at a host of its own there."""
    at = urlsplit(gateway)
    return f"{at.scheme}://{one.own_host}:{at.port}" if _has_a_host_of_its_own(one) else gateway


def _has_a_host_of_its_own(one: Published) -> bool:
    return any(route.host == one.own_host for route in one.routes)


async def offered(layout: Layout, gateway: str) -> tuple[dict[str, str], dict[str, str]]:
    """The addresses of what is served, and for each a link that logs a browser in; the one without a name is the start page's."""
    client = connect(layout.kubeconfig)
    served: dict[str, str] = {}
    links: dict[str, str] = {}
    try:
        links[""] = await login_link(layout)
        for one in await published(client):
            served[one.name] = base_url(one, gateway) + one.path
            links[one.name] = await login_link(layout, one.source, Place.of(one).page(DEFAULT_WORKSPACE))
    except (ApiError, Unreachable, Failed):
        # The cluster is up all the same, and `modelyard url` says what is wrong.
        return served, links
    finally:
        await client.close()
    return served, links
