"""The definition that is generated from our types serves two versions."""

from __future__ import annotations

from modelyard.kube.crd import definition_of
from modelyard.operators.model_registry.api import MODEL_REGISTRY


def test_two_versions_are_served_and_one_is_stored() -> None:
    crd = definition_of(MODEL_REGISTRY)
    versions = {version["name"]: version for version in crd["spec"]["versions"]}
    assert {name: (v["served"], v["storage"]) for name, v in versions.items()} == {
        "v1beta1": (True, True),
        "v1alpha1": (True, False),
    }
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["path"] == "/convert"
