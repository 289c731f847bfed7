"""Scenarios 1-14: the API and admission."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.errors import ApiError
from modelyard.kube.transport import Around, Response, Sent, Transport
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
    for place in ({"host": "h"}, {"hostAddress": "1.2.3.4"}, {"host": "h", "hostAddress": "1.2.3.4"}):
        given = {**place, "database": "x"}
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
    await story.start()
    await story.create("plain")
    await story.yard.until(builtin.Deployment, "plain")
    assert "kubeRBACProxy" not in (await story.registry("plain"))["spec"]
    await story.yard.halt()
    hooks = isinstance(story.yard, ApiYard)
    await story.start(*OPENSHIFT, hooks=hooks)
    stored = await story.create()
    if hooks:
        proxy = {"port": 8443, "routePort": 443, "serviceRoute": "enabled"}
        assert stored["spec"]["kubeRBACProxy"] == proxy
    await story.yard.until(REGISTRY, "mr", lambda registry: "kubeRBACProxy" in registry["spec"])
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


class _Heard(Around):
    """Keeps the warnings of every answer about registries."""

    def __init__(self, inner: Transport, heard: dict[str, set[str]]) -> None:
        super().__init__(inner)
        self._heard = heard

    async def pass_on(self, sent: Sent) -> Response:
        response = await super().pass_on(sent)
        if sent.resource == REGISTRY.plural:
            verb = "WATCH" if sent.is_watch else sent.method
            said = {value for name, value in response.headers.items() if name.lower() == "warning"}
            self._heard.setdefault(f"{sent.path.split('/')[3]} {verb}", set()).update(said)
        return response


@admission(13, needs_api=True)
async def every_answer_in_the_old_version_warns(story: Story) -> None:
    assert isinstance(story.yard, ApiYard)
    await story.start(hooks=True)
    heard: dict[str, set[str]] = {}
    client, place = story.yard.client.through(lambda transport: _Heard(transport, heard)), (story.namespace, "mr")
    await story.create(kind=OLD, grpc={})
    await story.yard.until(builtin.Deployment, "mr")
    await story.yard.quiet()
    for kind in (OLD, REGISTRY):
        found = await client.get(kind, *place)
        listed = await client.list(kind, story.namespace)
        await client.update(kind, found | {"metadata": found["metadata"] | {"labels": {"seen": kind.version}}})
        await client.patch(kind, *place, {"metadata": {"labels": {"a": kind.version}}})
        watch = client.watch(kind, story.namespace, resource_version=listed.resource_version)
        async for _ in watch:
            break
    again = {"apiVersion": OLD.api_version, "kind": OLD.kind, "metadata": {"name": "two", "namespace": story.namespace}}
    story.made.append(("two", story.namespace))
    await client.create(OLD, again | {"spec": {"rest": {}, "grpc": {}, "mysql": MYSQL}})
    await client.delete(OLD, story.namespace, "two")
    text = (
        "Version v1alpha1 of the ModelRegistry API is deprecated and will be removed in a future release. "
        "Please use v1beta1 instead."
    )
    verbs = ("GET", "WATCH", "PUT", "PATCH", "POST", "DELETE")
    assert {name: any(text in said for said in heard[f"v1alpha1 {name}"]) for name in verbs} == dict.fromkeys(
        verbs, True
    )
    assert not any(text in said for name in verbs[:4] for said in heard[f"v1beta1 {name}"])


@admission(14, needs_api=True)
async def an_empty_database_is_refused(story: Story) -> None:
    await story.start(hooks=True)
    await story.create(mysql=MYSQL)
    with pytest.raises(ApiError):
        await story.edit(mysql={})
    await story.edit(mysql=None, postgres={**POSTGRES, "hostAddress": "1.2.3.4"})
