"""A registry that is written through either version without a change stays as it is: conversion, defaults and admission together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelyard.kube.builtin import Route
from modelyard.kube.crd import definition_of
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.structural import compile_settling, read_schema
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.conversion import KEPT, convert
from modelyard.operators.model_registry.webhooks import KINDS, check, fill_in
from modelyard.runtime.testing import FakeWorld
from modelyard.runtime.webhooks import AdmissionRequest, Denied
from tests.unit.operators.model_registry.specs import deployable

BETA, ALPHA = KINDS
SETTLE = {
    version["name"]: compile_settling(read_schema(version["schema"]["openAPIV3Schema"]))
    for version in definition_of(MODEL_REGISTRY)["spec"]["versions"]
}
PLATFORMS: tuple[Sequence[Kind], ...] = ((), (Route,))
MYSQL = {"host": "h", "username": "u", "database": "d"}


def admitted(obj: Object, kind: Kind, stored: Object | None, served: Sequence[Kind]) -> Object:
    """The object as the API would store it, in v1beta1, after a write in that version."""
    SETTLE[kind.version](obj)
    old = convert(stored, kind.api_version) if stored is not None else None
    reader = FakeWorld((), kinds=KINDS, served=served)
    asked = AdmissionRequest(
        "CREATE" if stored is None else "UPDATE", obj, old, kind=kind, namespace="shop", name="mr", reader=reader
    )
    filled = fill_in(asked, Settings())
    assert filled is None or isinstance(filled, dict)
    made = obj if filled is None else filled
    SETTLE[kind.version](made)
    answer = check(replace(asked, object=made), Settings())
    assert not isinstance(answer, Denied), answer
    return convert(made, BETA.api_version)


def stored_registry(served: Sequence[Kind] = (), annotations: dict[str, str] | None = None, **spec: object) -> Object:
    metadata = {"name": "mr", "namespace": "shop", **({"annotations": annotations} if annotations else {})}
    made = {"apiVersion": BETA.api_version, "kind": BETA.kind, "metadata": metadata, "spec": {"rest": {}, **spec}}
    return admitted(made, BETA, None, served)


@given(deployable, st.sampled_from(PLATFORMS), st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_writing_what_was_read_changes_nothing(
    registry: Object, served: Sequence[Kind], versions: Sequence[Kind]
) -> None:
    stored = admitted(copy.deepcopy(registry), BETA, None, served)
    for kind in versions:
        read = convert(stored, kind.api_version)
        assert admitted(read, kind, stored, served) == stored


def test_a_label_through_the_old_version_leaves_a_closed_route_closed() -> None:
    stored = stored_registry((Route,), mysql=MYSQL, kubeRBACProxy={"serviceRoute": "disabled", "port": 9443})
    read = convert(stored, ALPHA.api_version)
    read["metadata"]["labels"] = {"team": "a"}
    after = admitted(read, ALPHA, stored, (Route,))
    assert after["spec"] == stored["spec"]
    assert after["metadata"]["labels"] == {"team": "a"}


def test_a_registry_with_a_generated_database_is_written_through_the_old_version() -> None:
    stored = stored_registry(postgres={"generateDeployment": True})
    read = convert(stored, ALPHA.api_version)
    read["spec"]["rest"]["port"] = 8081
    after = admitted(read, ALPHA, stored, ())
    assert after["spec"]["postgres"] == stored["spec"]["postgres"]
    assert after["spec"]["rest"]["port"] == 8081


@pytest.mark.parametrize("served", PLATFORMS)
def test_a_replacement_from_an_old_manifest_takes_nothing_away(served: Sequence[Kind]) -> None:
    """`kubectl replace` sends no annotation of ours; the manifest cannot name what v1alpha1 does not have."""
    stored = stored_registry(
        served, postgres={"generateDeployment": True, "image": "pg:1"}, kubeRBACProxy={"serviceRoute": "disabled"}
    )
    read = convert(stored, ALPHA.api_version)
    del read["metadata"]["annotations"][KEPT]
    assert admitted(read, ALPHA, stored, served) == stored


def test_a_host_given_through_the_old_version_ends_the_generated_database() -> None:
    stored = stored_registry(postgres={"generateDeployment": True})
    read = convert(stored, ALPHA.api_version)
    read["spec"]["postgres"] |= {"host": "h", "username": "u", "database": "d"}
    after = admitted(read, ALPHA, stored, ())["spec"]["postgres"]
    assert (after["host"], after.get("generateDeployment")) == ("h", None)
