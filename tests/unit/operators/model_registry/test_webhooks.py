"""What the webhooks answer, without any server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modelyard.kube.builtin import Route
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.model_registry.config import REST_IMAGE, Settings
from modelyard.operators.model_registry.facts import PLAIN_HTTP
from modelyard.operators.model_registry.operator import operator
from modelyard.operators.model_registry.webhooks import KINDS, check, fill_in, validate
from modelyard.runtime.testing import FakeAccessReviews, FakeWorld
from modelyard.runtime.webhooks import AdmissionRequest, Allowed, Denied

BETA, ALPHA = KINDS
MYSQL = {"host": "h", "username": "u", "database": "d"}
WORLD = Settings()


def request(
    *,
    name: str = "mr",
    kind: Kind = BETA,
    old: Object | None = None,
    others: Any = (),
    operation: Any = None,
    **spec: Any,
) -> AdmissionRequest:
    obj = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"rest": {}, **({"grpc": {}} if kind is ALPHA else {}), **spec},
    }
    return AdmissionRequest(
        operation or ("CREATE" if old is None else "UPDATE"),
        obj,
        old,
        kind=kind,
        namespace="shop",
        name=name,
        reader=FakeWorld(others, kinds=KINDS),
    )


def registry(name: str, namespace: str = "shop", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": BETA.api_version, "kind": BETA.kind, "metadata": metadata, "spec": {"rest": {}, **spec}}


def filled(asked: AdmissionRequest, settings: Settings = WORLD) -> Object:
    made = fill_in(asked, settings)
    assert isinstance(made, dict)
    spec: Object = made["spec"]
    return spec


def said(asked: AdmissionRequest, settings: Settings = WORLD) -> str:
    answer = check(asked, settings)
    if isinstance(answer, Denied):
        assert (answer.code, answer.reason) == (403, "Forbidden")
        return answer.message
    return ""


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"mysql": MYSQL}, {"rest": {"serviceRoute": "disabled"}, "mysql": MYSQL}),
        ({"postgres": {"username": "u"}}, {"rest": {"serviceRoute": "disabled"}}),
        (
            {"postgres": {"generateDeployment": True}},
            {"rest": {"serviceRoute": "disabled"}, "postgres": {"generateDeployment": True}},
        ),
        ({"mysql": {"host": ""}}, {"rest": {"serviceRoute": "disabled"}}),
        (
            {"oauthProxy": {"domain": "d", "image": "i"}},
            {"rest": {"serviceRoute": "disabled"}, "kubeRBACProxy": {"domain": "d", "serviceRoute": "enabled"}},
        ),
        ({"rest": {"serviceRoute": "enabled"}}, {"rest": {"serviceRoute": "enabled"}}),
    ],
)
def test_what_is_stored(given: Object, stored: Object) -> None:
    assert filled(request(**given)) == stored


@pytest.mark.parametrize(
    ("kind", "proxies"),
    [(BETA, {"oauthProxy": {}, "kubeRBACProxy": {"port": 1}}), (ALPHA, {"istio": {}, "oauthProxy": {"port": 1}})],
)
def test_two_proxies_are_left_to_the_schema_to_refuse(kind: Kind, proxies: Object) -> None:
    assert filled(request(kind=kind, mysql=MYSQL, **proxies)).keys() >= proxies.keys()


@pytest.mark.parametrize(("kind", "place"), [(BETA, "kubeRBACProxy"), (ALPHA, "oauthProxy")])
def test_openshift_gets_a_proxy_unless_someone_says_no(kind: Kind, place: str) -> None:
    asked = request(kind=kind, mysql=MYSQL)
    assert place not in filled(asked)
    openshift = replace(asked, reader=FakeWorld(kinds=KINDS, served=[Route]))
    assert filled(openshift)[place] == {"serviceRoute": "enabled"}
    assert openshift.object is not None
    openshift.object["spec"].pop(place)
    openshift.object["metadata"]["annotations"] = {PLAIN_HTTP: "true"}
    assert place not in filled(openshift)


def test_what_is_stored_in_the_old_version() -> None:
    spec = filled(request(kind=ALPHA, istio={}, postgres={"database": "d"}, mysql=MYSQL))
    assert spec["oauthProxy"] == {"port": 8443, "serviceRoute": "disabled", "routePort": 443}
    assert "istio" not in spec
    assert "postgres" not in spec


@pytest.mark.parametrize(
    ("image", "kept"),
    [
        (REST_IMAGE, False),
        ("quay.io/opendatahub/model-registry:v1", True),
        ("quay.io:5000/x/y:1", True),
        ("other", True),
    ],
)
def test_only_the_operators_very_image_is_not_pinned(image: str, kept: bool) -> None:
    resources = {"requests": {"cpu": "2"}}
    spec = filled(request(mysql=MYSQL, rest={"image": image, "resources": resources}))
    assert (spec["rest"].get("image") == image) is kept
    assert spec["rest"]["resources"] == resources


@pytest.mark.parametrize("sent", [None, {"specDefaults": "{}"}, {"specDefaults": '{"rest":{"image":"x"}}'}])
@pytest.mark.parametrize(("recorded", "kept"), [('{"rest":{"resources":{}}}', True), ("{}", False)])
def test_q32_a_pin_that_was_recorded_stays_whatever_status_the_client_sends(
    sent: Object | None, recorded: str, kept: bool
) -> None:
    old = registry("mr") | {"status": {"specDefaults": recorded}}
    asked = request(old=old, rest={"image": REST_IMAGE}, mysql=MYSQL)
    assert asked.object is not None
    if sent is not None:
        asked.object["status"] = sent
    assert ("image" in filled(asked)["rest"]) is kept


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            request(),
            'ModelRegistry.modelregistry.opendatahub.io "mr" is invalid: '
            "[spec.postgres: Required value: required one of `postgres` or `mysql` database, "
            "spec.mysql: Required value: required one of `postgres` or `mysql` database]",
        ),
        (
            request(mysql=MYSQL, others=[registry("mr", "other")]),
            'metadata.name: Duplicate value: "registry named mr already exists in namespace other"',
        ),
        (
            request(postgres={"generateDeployment": True, "host": "h"}),
            'spec.postgres.host: Invalid value: "h": host should not be set when auto-provisioning is enabled',
        ),
        (request(name="model-catalog", mysql=MYSQL), "the name is reserved: the model catalog has this name"),
        (request(name="model", mysql=MYSQL), "the name is reserved"),
        (request(name="a.b", mysql=MYSQL), "must consist of lower case letters, digits and '-'"),
        (request(name="x" * 49, mysql=MYSQL), "must be no more than 48 characters"),
        (request(name="x" * 49, kind=ALPHA, mysql=MYSQL), "must be no more than 48 characters"),
        (request(name="x" * 49, postgres={"generateDeployment": True}), "must be no more than 48 characters"),
        (
            request(name="a-postgres", mysql=MYSQL, others=[registry("a", postgres={"generateDeployment": True})]),
            "the generated database of registry a has this name",
        ),
        (
            request(name="a", postgres={"generateDeployment": True}, others=[registry("a-postgres")]),
            "a generated database would be named a-postgres, as a registry is already",
        ),
        (
            request(mysql=MYSQL, rest={"port": 8443}, kubeRBACProxy={}),
            "spec.kubeRBACProxy.port: Invalid value: 8443: the REST server listens on this port",
        ),
        (
            request(mysql=MYSQL, rest={"port": 8888}, kubeRBACProxy={}),
            "spec.rest.port: Invalid value: 8888: the proxy answers health checks on this port",
        ),
        (
            request(kind=ALPHA, mysql=MYSQL, rest={"port": 8443}, oauthProxy={}),
            "spec.oauthProxy.port: Invalid value: 8443: the REST server listens on this port",
        ),
        (request(rest={"port": "x"}, mysql=MYSQL), "spec: Invalid value: Expected `int`, got `str`"),
        (request(kind=ALPHA), "spec.postgres: Required value"),
    ],
)
def test_what_is_refused(asked: AdmissionRequest, message: str) -> None:
    assert message in said(asked)


@pytest.mark.parametrize(
    "asked",
    [
        request(mysql=MYSQL),
        request(kind=ALPHA, mysql=MYSQL),
        request(mysql=MYSQL, others=[registry("mr")]),
        request(name="x" * 48, mysql=MYSQL),
        request(name="1st", mysql=MYSQL),
        request(mysql={**MYSQL, "username": "a:b"}),
        request(name="model-catalog", old=registry("model-catalog"), mysql=MYSQL),
        request(rest={"port": 8888}, mysql=MYSQL),
        request(name="a-postgres", mysql=MYSQL, others=[registry("a", mysql=MYSQL)]),
    ],
)
def test_what_is_allowed(asked: AdmissionRequest) -> None:
    assert said(asked) == ""


def test_the_namespace_counts_only_when_a_registry_is_made() -> None:
    settings = Settings(namespace="registries")
    message = 'metadata.namespace: Invalid value: "shop": namespace must be registries'
    assert message in said(request(mysql=MYSQL), settings)
    assert said(request(old=registry("mr"), mysql=MYSQL), settings) == ""


def test_a_registry_that_is_being_deleted_may_always_be_changed() -> None:
    asked = request(old=registry("mr"))
    assert asked.object is not None
    asked.object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert said(asked) == ""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mysql": {**MYSQL, "skipDBCreation": True}}, "spec.mysql.skipDBCreation"),
        ({"mysql": MYSQL, "grpc": {"port": 1}}, "spec.grpc"),
        ({"mysql": MYSQL, "enable_database_upgrade": True}, "spec.enable_database_upgrade"),
        ({"mysql": MYSQL, "downgrade_db_schema_version": 3}, "spec.downgrade_db_schema_version"),
    ],
)
def test_fields_that_do_nothing_are_warned_about(spec: Object, field: str) -> None:
    answer = check(request(**spec), WORLD)
    assert isinstance(answer, Allowed)
    (warning,) = answer.warnings
    assert warning.startswith(f"{field} is ignored")


def test_a_colon_in_a_mysql_user_is_warned_about() -> None:
    answer = check(request(mysql={**MYSQL, "username": "a:b"}), WORLD)
    assert isinstance(answer, Allowed)
    (warning,) = answer.warnings
    assert warning.startswith("spec.mysql.username a:b has a colon, which the server gets as %3A")


@pytest.mark.parametrize("handler", [check, fill_in])
def test_other_resources_and_operations_are_refused(handler: Any) -> None:
    other = replace(request(mysql=MYSQL), kind=Kind("x", "v1", "Y", "ys"))
    answer = handler(other, WORLD)
    assert answer.code == 400
    assert answer.message == "unsupported resource mr in namespace shop of type x/v1, Kind=Y"
    answer = handler(request(mysql=MYSQL, operation="CONNECT"), WORLD)
    assert (answer.code, answer.message) == (400, 'unknown operation "CONNECT"')


def test_the_api_asks_in_its_present_version_and_fails_closed() -> None:
    for webhook in operator({}).webhooks:
        assert (webhook.review_versions, webhook.failure_policy) == (("v1",), "Fail")
        assert (webhook.match_policy, webhook.side_effects) == ("Equivalent", "None")


PASSWORD = {"name": "theirs", "key": "password"}


async def test_a_secret_that_the_writer_may_not_read_is_refused() -> None:
    nobody_may = FakeAccessReviews(lambda asked: False)
    asked = replace(request(mysql={**MYSQL, "passwordSecret": PASSWORD}), user="ann", access=nobody_may)
    answer = await validate(asked, WORLD)
    assert isinstance(answer, Denied)
    assert "ann may not read the Secret theirs in namespace shop" in answer.message


async def test_a_secret_that_the_writer_may_read_is_taken() -> None:
    may = FakeAccessReviews(lambda asked: (asked.verb, asked.kind.kind, asked.name) == ("get", "Secret", "theirs"))
    asked = replace(request(mysql={**MYSQL, "passwordSecret": PASSWORD}), access=may)
    assert isinstance(await validate(asked, WORLD), Allowed)


@pytest.mark.parametrize("kind", [BETA, ALPHA])
@pytest.mark.parametrize(
    ("change", "may"),
    [
        ({"rest": {"resources": {"limits": {"memory": "1Gi"}}}}, True),
        ({}, True),
        ({"rest": {"image": "theirs"}}, False),
        ({"mysql": {**MYSQL, "host": "theirs", "passwordSecret": PASSWORD}}, False),
    ],
)
async def test_whoever_cannot_read_the_secret_gives_it_to_no_other_image_or_host(
    kind: Kind, change: Object, may: bool
) -> None:
    """Other writes go through: our own process patches registries and reads no Secret as itself."""
    spec: Any = {"mysql": {**MYSQL, "passwordSecret": PASSWORD}}
    old = request(kind=kind, **spec).object
    asked = request(kind=kind, old=old, **spec | change)
    filled(asked)
    answer = await validate(replace(asked, access=FakeAccessReviews(lambda asked: False)), WORLD)
    assert isinstance(answer, Allowed if may else Denied)


async def test_what_only_our_own_defaults_change_needs_no_right() -> None:
    old = request(rest={"image": REST_IMAGE}, mysql={**MYSQL, "passwordSecret": PASSWORD}).object
    asked = request(old=old, mysql={**MYSQL, "passwordSecret": PASSWORD})
    filled(asked)
    asked = replace(asked, access=FakeAccessReviews(lambda asked: False))
    assert isinstance(await validate(asked, WORLD), Allowed)
