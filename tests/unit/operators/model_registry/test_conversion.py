"""Conversion between v1beta1 and v1alpha1: nothing is lost on the way there and back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings

from modelyard.kube.kinds import Object
from modelyard.operators.model_registry.conversion import ALPHA, BETA, KEPT, convert
from modelyard.runtime.webhooks import ConversionFailed
from tests.unit.operators.model_registry.specs import registries


def alpha(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata: Object = {"name": "mr", "namespace": "shop"} | ({"annotations": annotations} if annotations else {})
    return {
        "apiVersion": ALPHA,
        "kind": "ModelRegistry",
        "metadata": metadata,
        "spec": {"rest": {}, "grpc": {}, **spec},
    }


def beta(**spec: Any) -> Object:
    return alpha(**spec) | {"apiVersion": BETA, "spec": {"rest": {}, **spec}}


@given(registries)
@settings(max_examples=200, deadline=None)
def test_a_registry_survives_the_old_version_and_back(registry: Object) -> None:
    before = copy.deepcopy(registry)
    old = convert(registry, ALPHA)
    assert convert(old, BETA) == before
    assert registry == before, "the original was changed"


@given(registries)
@settings(max_examples=50, deadline=None)
def test_what_the_old_version_demands_is_there(registry: Object) -> None:
    old = convert(registry, ALPHA)
    assert old["apiVersion"] == ALPHA
    if (spec := old.get("spec")) is None:
        return
    assert "grpc" in spec
    assert "kubeRBACProxy" not in spec
    if "postgres" in spec:
        assert "database" in spec["postgres"]
        assert not {"generateDeployment", "image"} & spec["postgres"].keys()


@given(registries)
@settings(max_examples=50, deadline=None)
def test_defaults_of_the_old_version_do_not_stay(registry: Object) -> None:
    """An update through v1alpha1 makes the API fill in `grpc.port`; it was not there before."""
    old = convert(registry, ALPHA)
    if registry.get("spec") is not None and "grpc" not in registry["spec"]:
        old["spec"]["grpc"] = {"port": 9090}
    assert convert(old, BETA) == registry


@pytest.mark.parametrize(
    ("istio", "proxy"),
    [
        ({}, {"port": 8443, "serviceRoute": "disabled", "routePort": 443}),
        ({"gateway": {"rest": {}, "grpc": {}}}, {"port": 8443, "serviceRoute": "enabled", "routePort": 443}),
        (
            {"gateway": {"domain": "d", "rest": {"gatewayRoute": "disabled"}, "grpc": {}}},
            {"port": 8443, "serviceRoute": "disabled", "routePort": 443, "domain": "d"},
        ),
        (
            {"gateway": {"rest": {"port": 6443, "tls": {}}, "grpc": {}}},
            {"port": 8443, "serviceRoute": "enabled", "routePort": 6443},
        ),
        (
            {"gateway": {"rest": {"port": 6443}, "grpc": {}}},
            {"port": 8443, "serviceRoute": "enabled", "routePort": 443},
        ),
    ],
)
def test_a_mesh_becomes_a_proxy(istio: Object, proxy: Object) -> None:
    spec = convert(alpha(istio=istio), BETA)["spec"]
    assert spec["oauthProxy"] == proxy
    assert "istio" not in spec


def test_a_proxy_chosen_in_the_old_version_takes_the_place_of_the_kept_one() -> None:
    old = convert(beta(kubeRBACProxy={"port": 1}), ALPHA)
    old["spec"]["oauthProxy"] = {"port": 2}
    spec = convert(old, BETA)["spec"]
    assert (spec.get("oauthProxy"), spec.get("kubeRBACProxy")) == ({"port": 2}, None)


def test_a_host_given_in_the_old_version_ends_the_generated_database() -> None:
    old = convert(beta(postgres={"generateDeployment": True, "image": "i"}), ALPHA)
    old["spec"]["postgres"] = {"host": "h", "database": "d", "username": "u"}
    assert convert(old, BETA)["spec"]["postgres"] == {"host": "h", "database": "d", "username": "u", "image": "i"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"postgres": 1}', "null"])
def test_a_broken_annotation_is_as_good_as_none(text: str) -> None:
    made = convert(alpha({KEPT: text, "a": "b"}, mysql={}), BETA)
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert made["spec"]["mysql"] == {}


def test_a_spec_that_is_no_object_is_named() -> None:
    with pytest.raises(ConversionFailed, match="failed to convert model registry mr v1alpha1 spec to v1beta1"):
        convert(alpha() | {"spec": "x"}, BETA)
