"""Scenarios 42-43: the platform's Gateway."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.operators.model_registry.facts import ReferenceGrant
from tests.cluster.model_registry.scenarios.scene import GATEWAY, OPENSHIFT, REGISTRY, Book, RegistryScene

book = Book()
gateway = book.scenario
GRANT = "allow-gateway-httproutes"


async def begin(scene: RegistryScene) -> str:
    """A registry behind the Gateway; gives the namespace of its route."""
    routes = f"{scene.namespace}-routes"
    await scene.ground.create(builtin.Namespace, routes)
    await scene.start(
        *OPENSHIFT, *GATEWAY, default_domain="example.com", gateway_domain="g.example.com", route_namespace=routes
    )
    await scene.create(kubeRBACProxy={})
    return routes


@gateway(42)
async def a_registry_is_below_the_gateway(scene: RegistryScene) -> None:
    routes = await begin(scene)
    route = await scene.ground.until(builtin.HTTPRoute, "model-registry-mr", namespace=routes)
    (rule,) = route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/model-registry/mr/"}}]
    path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    assert rule["filters"] == [{"type": "URLRewrite", "urlRewrite": {"path": path}}]
    (backend,) = rule["backendRefs"]
    assert (backend["name"], backend["namespace"], backend["port"], backend["weight"]) == (
        "mr",
        scene.namespace,
        8443,
        1,
    )
    (parent,) = route["spec"]["parentRefs"]
    assert (parent["name"], parent["namespace"]) == ("data-science-gateway", "openshift-ingress")
    grant = await scene.ground.get(ReferenceGrant, GRANT)
    assert grant["spec"]["from"][0]["namespace"] == routes
    await scene.ground.get(builtin.Route, "mr-https")
    hosts = (await scene.status())["hosts"]
    assert (hosts[0], len(hosts)) == ("g.example.com/model-registry/mr", 5)
    service = await scene.ground.get(builtin.Service, "mr")
    address = service["metadata"]["annotations"]["routing.opendatahub.io/external-address-rest"]
    assert address == "g.example.com/model-registry/mr"


@gateway(43)
async def a_route_goes_also_without_the_gateway(scene: RegistryScene) -> None:
    routes = await begin(scene)
    await scene.ground.until(builtin.HTTPRoute, "model-registry-mr", namespace=routes)
    await scene.ground.halt()
    await scene.start(default_domain="example.com", route_namespace=routes)
    await scene.ground.delete(REGISTRY, "mr")
    await scene.ground.gone(REGISTRY, "mr")
    await scene.ground.gone(builtin.HTTPRoute, "model-registry-mr", namespace=routes)
    assert await scene.ground.find(ReferenceGrant, GRANT) is not None
