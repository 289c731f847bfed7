"""Scenarios 42-43: the platform's Gateway."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.operators.model_registry.facts import ReferenceGrant
from tests.cluster.model_registry.scenarios.story import GATEWAY, OPENSHIFT, REGISTRY, Book, Story

book = Book()
gateway = book.scenario
GRANT = "allow-gateway-httproutes"


async def begin(story: Story) -> str:
    """A registry behind the Gateway; gives the namespace of its route."""
    routes = f"{story.namespace}-routes"
    await story.yard.create(builtin.Namespace, routes)
    await story.start(
        *OPENSHIFT, *GATEWAY, default_domain="example.com", gateway_domain="g.example.com", route_namespace=routes
    )
    await story.create(kubeRBACProxy={})
    return routes


@gateway(42)
async def a_registry_is_below_the_gateway(story: Story) -> None:
    routes = await begin(story)
    route = await story.yard.until(builtin.HTTPRoute, "model-registry-mr", namespace=routes)
    (rule,) = route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/model-registry/mr/"}}]
    path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    assert rule["filters"] == [{"type": "URLRewrite", "urlRewrite": {"path": path}}]
    (backend,) = rule["backendRefs"]
    assert (backend["name"], backend["namespace"], backend["port"], backend["weight"]) == (
        "mr",
        story.namespace,
        8443,
        1,
    )
    (parent,) = route["spec"]["parentRefs"]
    assert (parent["name"], parent["namespace"]) == ("data-science-gateway", "openshift-ingress")
    grant = await story.yard.get(ReferenceGrant, GRANT)
    assert grant["spec"]["from"][0]["namespace"] == routes
    await story.yard.get(builtin.Route, "mr-https")
    hosts = (await story.status())["hosts"]
    assert (hosts[0], len(hosts)) == ("g.example.com/model-registry/mr", 5)
    service = await story.yard.get(builtin.Service, "mr")
    address = service["metadata"]["annotations"]["routing.opendatahub.io/external-address-rest"]
    assert address == "g.example.com/model-registry/mr"


@gateway(43)
async def a_route_goes_also_without_the_gateway(story: Story) -> None:
    routes = await begin(story)
    await story.yard.until(builtin.HTTPRoute, "model-registry-mr", namespace=routes)
    await story.yard.halt()
    await story.start(default_domain="example.com", route_namespace=routes)
    await story.yard.delete(REGISTRY, "mr")
    await story.yard.gone(REGISTRY, "mr")
    await story.yard.gone(builtin.HTTPRoute, "model-registry-mr", namespace=routes)
    assert await story.yard.find(ReferenceGrant, GRANT) is not None
