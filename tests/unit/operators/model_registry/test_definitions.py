"""The definition that is generated from our types, compared with upstream's where that is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from modelyard.kube.crd import compare, definition_of
from modelyard.operators.model_registry.api import MODEL_REGISTRY

EXPLAINED: dict[tuple[str, str], str] = {}
"""Every difference from upstream, and why it is there: there is none."""


def test_the_definition_is_upstreams() -> None:
    folder = Path(os.environ.get("MODELYARD_UPSTREAM_CRDS") or Path(__file__).parents[5] / "shared" / "crds")
    file = folder / f"{MODEL_REGISTRY.plural}.{MODEL_REGISTRY.group}.json"
    if not file.exists():
        pytest.skip("upstream's definitions are not here; set MODELYARD_UPSTREAM_CRDS to their folder")
    found = compare(definition_of(MODEL_REGISTRY), json.loads(file.read_text()))
    assert [str(one) for one in found if (one.path, str(one.ours)) not in EXPLAINED] == []


def test_two_versions_are_served_and_one_is_stored() -> None:
    crd = definition_of(MODEL_REGISTRY)
    versions = {version["name"]: version for version in crd["spec"]["versions"]}
    assert {name: (v["served"], v["storage"]) for name, v in versions.items()} == {
        "v1beta1": (True, True),
        "v1alpha1": (True, False),
    }
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["path"] == "/convert"
