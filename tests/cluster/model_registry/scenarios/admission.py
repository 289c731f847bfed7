"""Scenarios 1-14: the API and admission."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.errors import ApiError
from modelyard.kube.transport import Around, Response, Sent, Transport
from modelyard.runtime.acting.ownership import PAUSE
from tests.cluster.model_registry.scenarios.scene import (
    MYSQL,
    OLD,
    OPENSHIFT,
    POSTGRES,
    REGISTRY,
    Book,
    RegistryScene,
)
from tests.cluster.stories import refused
from tests.ground import ApiGround

book = Book()
admission = book.scenario
ISTIO = {"gateway": {"rest": {"tls": {"mode": "SIMPLE"}}, "grpc": {}}}


@admission(1, needs_api=True)
async def the_api_fills_in_defaults(scene: RegistryScene) -> None:
    stored = (await scene.create(mysql={"host": "h", "username": "u", "database": "d"}))["spec"]
    assert stored["rest"] == {"port": 8080, "serviceRoute": "disabled"}
    assert (stored["mysql"]["port"], stored["mysql"]["skipDBCreation"]) == (3306, False)


@admission(2, needs_api=True)
async def two_proxies_are_refused(scene: RegistryScene) -> None:
    await refused(scene.create(oauthProxy={}, kubeRBACProxy={}), "Cannot use both oauthProxy and kubeRBACProxy")


@admission(3, needs_api=True)
async def half_a_certificate_is_refused(scene: RegistryScene) -> None:
    half = {"tlsCertificateSecret": {"name": "s", "key": "k"}}
    await refused(scene.create(kubeRBACProxy=half), "tlsCertificateSecret and tlsKeySecret MUST be set together")


@admission(4, needs_api=True)
async def a_database_without_a_user_is_refused(scene: RegistryScene) -> None:
    for place in ({"host": "h"}, {"hostAddress": "1.2.3.4"}, {"host": "h", "hostAddress": "1.2.3.4"}):
        given = {**place, "database": "x"}
        await refused(scene.create(postgres=given), "Username must be set if database is specified")


@admission(5, needs_api=True)
async def a_generated_database_has_no_host(scene: RegistryScene) -> None:
    given = {"host": "h", "generateDeployment": True}
    message = "host and hostAddress must not be set when generateDeployment is true"
    await refused(scene.create(postgres=given), message)


@admission(6, needs_api=True)
async def a_registry_needs_a_database(scene: RegistryScene) -> None:
    await scene.start(hooks=True)
    required = "Required value: required one of `postgres` or `mysql` database"
    await refused(
        scene.create(mysql=None),
        'ModelRegistry.modelregistry.opendatahub.io "mr" is invalid',
        f"spec.postgres: {required}",
        f"spec.mysql: {required}",
    )


@admission(7, needs_api=True)
async def a_name_is_there_once_in_the_cluster(scene: RegistryScene) -> None:
    await scene.start(hooks=True, anywhere=True)
    await scene.create("mr1")
    await scene.ground.until(builtin.Deployment, "mr1")
    other = f"{scene.namespace}-b"
    await scene.ground.create(builtin.Namespace, other)
    message = f'Duplicate value: "registry named mr1 already exists in namespace {scene.namespace}"'
    await refused(scene.create("mr1", namespace=other), f"metadata.name: {message}")
    await scene.create("mr2", namespace=other)


@admission(8, needs_api=True)
async def registries_have_one_namespace(scene: RegistryScene) -> None:
    await scene.start(hooks=True, namespace="elsewhere")
    message = f'metadata.namespace: Invalid value: "{scene.namespace}": namespace must be elsewhere'
    await refused(scene.create(), message)


@admission(9, needs_api=True)
async def an_old_proxy_becomes_the_new_one(scene: RegistryScene) -> None:
    await scene.start(hooks=True)
    stored = (await scene.create(oauthProxy={"domain": "d", "image": "i"}))["spec"]
    assert stored["kubeRBACProxy"] == {"domain": "d", "port": 8443, "routePort": 443, "serviceRoute": "enabled"}
    assert "oauthProxy" not in stored


@admission(10)
async def openshift_gets_a_proxy(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create("plain")
    await scene.ground.until(builtin.Deployment, "plain")
    assert "kubeRBACProxy" not in (await scene.resource("plain"))["spec"]
    await scene.ground.halt()
    hooks = isinstance(scene.ground, ApiGround)
    await scene.start(*OPENSHIFT, hooks=hooks)
    stored = await scene.create()
    if hooks:
        proxy = {"port": 8443, "routePort": 443, "serviceRoute": "enabled"}
        assert stored["spec"]["kubeRBACProxy"] == proxy
    await scene.ground.until(REGISTRY, "mr", lambda registry: "kubeRBACProxy" in registry["spec"])
    # The proxy was there before anything else was made.
    assert (await scene.server()).containers == ["rest-container", "kube-rbac-proxy"]


@admission(11, needs_api=True)
async def a_mesh_becomes_a_proxy(scene: RegistryScene) -> None:
    # Conversion alone: a controller at work would go on to turn the old proxy into the new one.
    await scene.start(hooks=True)
    await scene.create(kind=OLD, grpc={}, istio=ISTIO, annotations={PAUSE: "true"})
    expected = {"port": 8443, "routePort": 443, "serviceRoute": "enabled"}
    for kind in (REGISTRY, OLD):
        found = await scene.ground.find(kind, "mr")
        assert found is not None
        assert found["spec"]["oauthProxy"] == expected
        assert "istio" not in found["spec"]


@admission(12, needs_api=True)
async def a_mesh_and_a_proxy_are_refused(scene: RegistryScene) -> None:
    message = "Cannot use both istio and oauthProxy"
    await refused(scene.create(kind=OLD, grpc={}, istio=ISTIO, oauthProxy={}), message)


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
async def every_answer_in_the_old_version_warns(scene: RegistryScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    await scene.start(hooks=True)
    heard: dict[str, set[str]] = {}
    client, place = scene.ground.client.through(lambda transport: _Heard(transport, heard)), (scene.namespace, "mr")
    await scene.create(kind=OLD, grpc={})
    await scene.ground.until(builtin.Deployment, "mr")
    await scene.ground.quiet()
    for kind in (OLD, REGISTRY):
        found = await client.get(kind, *place)
        listed = await client.list(kind, scene.namespace)
        await client.update(kind, found | {"metadata": found["metadata"] | {"labels": {"seen": kind.version}}})
        await client.patch(kind, *place, {"metadata": {"labels": {"a": kind.version}}})
        watch = client.watch(kind, scene.namespace, resource_version=listed.resource_version)
        async for _ in watch:
            break
    again = {"apiVersion": OLD.api_version, "kind": OLD.kind, "metadata": {"name": "two", "namespace": scene.namespace}}
    scene.made.append(("two", scene.namespace))
    await client.create(OLD, again | {"spec": {"rest": {}, "grpc": {}, "mysql": MYSQL}})
    await client.delete(OLD, scene.namespace, "two")
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
async def an_empty_database_is_refused(scene: RegistryScene) -> None:
    await scene.start(hooks=True)
    await scene.create(mysql=MYSQL)
    with pytest.raises(ApiError):
        await scene.edit(mysql={})
    await scene.edit(mysql=None, postgres={**POSTGRES, "hostAddress": "1.2.3.4"})
