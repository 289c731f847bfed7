"""Scenarios 1-14: the API and admission."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.errors import ApiError
from tests.cluster.model_registry.scenarios.story import (
    MYSQL,
    OLD,
    OPENSHIFT,
    POSTGRES,
    REGISTRY,
    Book,
    Story,
)
from tests.cluster.stories import refused
from tests.yard import ApiYard

book = Book()
admission = book.scenario
ISTIO = {"gateway": {"rest": {"tls": {"mode": "SIMPLE"}}, "grpc": {}}}


@admission(1, needs_api=True)
async def the_api_fills_in_defaults(story: Story) -> None:
    stored = (await story.create(mysql={"host": "h", "username": "u", "database": "d"}))["spec"]
    assert stored["rest"] == {"port": 8080, "serviceRoute": "disabled"}
    assert (stored["mysql"]["port"], stored["mysql"]["skipDBCreation"]) == (3306, False)


@admission(2, needs_api=True)
async def two_proxies_are_refused(story: Story) -> None:
    await refused(story.create(oauthProxy={}, kubeRBACProxy={}), "Cannot use both oauthProxy and kubeRBACProxy")


@admission(3, needs_api=True)
async def half_a_certificate_is_refused(story: Story) -> None:
    half = {"tlsCertificateSecret": {"name": "s", "key": "k"}}
    await refused(story.create(kubeRBACProxy=half), "tlsCertificateSecret and tlsKeySecret MUST be set together")


@admission(4, needs_api=True)
async def a_database_without_a_user_is_refused(story: Story) -> None:
    # Upstream's first rule reads a field that may be absent; only with both hosts given is the second one's answer alone.
    given = {"host": "h", "hostAddress": "1.2.3.4", "database": "x"}
    await refused(story.create(postgres=given), "Username must be set if database is specified")


@admission(5, needs_api=True)
async def a_generated_database_has_no_host(story: Story) -> None:
    given = {"host": "h", "generateDeployment": True}
    message = "host and hostAddress must not be set when generateDeployment is true"
    await refused(story.create(postgres=given), message)


@admission(6, needs_api=True)
async def a_registry_needs_a_database(story: Story) -> None:
    await story.start(hooks=True)
    required = "Required value: required one of `postgres` or `mysql` database"
    await refused(
        story.create(mysql=None),
        'ModelRegistry.modelregistry.opendatahub.io "mr" is invalid',
        f"spec.postgres: {required}",
        f"spec.mysql: {required}",
    )


@admission(7, needs_api=True)
async def a_name_is_there_once_in_the_cluster(story: Story) -> None:
    await story.start(hooks=True, anywhere=True)
    await story.create("mr1")
    await story.yard.until(builtin.Deployment, "mr1")
    other = f"{story.namespace}-b"
    await story.yard.create(builtin.Namespace, other)
    message = f'Duplicate value: "registry named mr1 already exists in namespace {story.namespace}"'
    await refused(story.create("mr1", namespace=other), f"metadata.name: {message}")
    await story.create("mr2", namespace=other)


@admission(8, needs_api=True)
async def registries_have_one_namespace(story: Story) -> None:
    await story.start(hooks=True, namespace="elsewhere")
    message = f'metadata.namespace: Invalid value: "{story.namespace}": namespace must be elsewhere'
    await refused(story.create(), message)


@admission(9, needs_api=True)
async def an_old_proxy_becomes_the_new_one(story: Story) -> None:
    await story.start(hooks=True)
    stored = (await story.create(oauthProxy={"domain": "d", "image": "i"}))["spec"]
    assert stored["kubeRBACProxy"] == {"domain": "d", "port": 8443, "routePort": 443, "serviceRoute": "enabled"}
    assert "oauthProxy" not in stored


@admission(10)
async def openshift_gets_a_proxy(story: Story) -> None:
    await story.start(*OPENSHIFT)
    await story.create()
    registry = await story.yard.until(REGISTRY, "mr", lambda registry: "kubeRBACProxy" in registry["spec"])
    if isinstance(story.yard, ApiYard):
        proxy = {"port": 8443, "routePort": 443, "serviceRoute": "enabled"}
        assert registry["spec"]["kubeRBACProxy"] == proxy
    # The proxy was there before anything else was made.
    assert (await story.server()).containers == ["rest-container", "kube-rbac-proxy"]


@admission(11, needs_api=True)
async def a_mesh_becomes_a_proxy(story: Story) -> None:
    # Conversion alone, with no controller at work: it would go on to turn the old proxy into the new one.
    await story.start(hooks=True)
    await story.yard.halt()
    await story.create(kind=OLD, grpc={}, istio=ISTIO)
    expected = {"port": 8443, "routePort": 443, "serviceRoute": "enabled"}
    for kind in (REGISTRY, OLD):
        found = await story.yard.find(kind, "mr")
        assert found is not None
        assert found["spec"]["oauthProxy"] == expected
        assert "istio" not in found["spec"]


@admission(12, needs_api=True)
async def a_mesh_and_a_proxy_are_refused(story: Story) -> None:
    message = "Cannot use both istio and oauthProxy"
    await refused(story.create(kind=OLD, grpc={}, istio=ISTIO, oauthProxy={}), message)


@admission(13, needs_api=True)
async def the_old_version_warns(story: Story) -> None:
    assert isinstance(story.yard, ApiYard)
    await story.start(hooks=True)
    crd = await story.yard.client.get(
        builtin.CustomResourceDefinition, "", "modelregistries.modelregistry.opendatahub.io"
    )
    old = next(version for version in crd["spec"]["versions"] if version["name"] == "v1alpha1")
    assert old["deprecated"]
    assert old["deprecationWarning"] == (
        "Version v1alpha1 of the ModelRegistry API is deprecated and will be removed in a future release. "
        "Please use v1beta1 instead."
    )
    assert (await story.create(kind=OLD, grpc={}))["apiVersion"] == OLD.api_version


@admission(14, needs_api=True)
async def an_empty_database_is_refused(story: Story) -> None:
    await story.start(hooks=True)
    await story.create(mysql=MYSQL)
    with pytest.raises(ApiError):
        await story.edit(mysql={})
    await story.edit(mysql=None, postgres={**POSTGRES, "hostAddress": "1.2.3.4"})
