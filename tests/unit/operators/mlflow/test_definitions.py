"""The definitions that are generated from our types, compared with upstream's where those are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from modelyard.kube.crd import Definition, compare, definition_of
from modelyard.operators.mlflow.api import DEFINITIONS, MLFLOW
from modelyard.operators.mlflow.rules import ENV_RULES, POD_LABELS, SCHEDULE, SPEC_RULES

EXPLAINED = {
    ("v1.spec", ENV_RULES[0].rule): "Q5: upstream admits these names and its Deployment is refused",
    ("v1.spec.podLabels", POD_LABELS.rule): "Q6: upstream admits labels that break its selector or its network policy",
    ("v1.spec.garbageCollection.schedule", SCHEDULE.rule): "Q29: upstream admits any text and its apply fails",
    ("v1.spec.traceArchival.schedule", SCHEDULE.rule): "Q29: the same",
}
"""Every difference from upstream, and why it is there."""


def upstream(definition: Definition) -> Path:
    folder = Path(os.environ.get("MODELYARD_UPSTREAM_CRDS") or Path(__file__).parents[5] / "shared" / "crds")
    return folder / f"{definition.plural}.{definition.group}.json"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind_name)
def test_the_definition_is_upstreams_but_for_what_is_explained(definition: Definition) -> None:
    file = upstream(definition)
    if not file.exists():
        pytest.skip("upstream's definitions are not here; set MODELYARD_UPSTREAM_CRDS to their folder")
    found = compare(definition_of(definition), json.loads(file.read_text()))
    assert [str(one) for one in found if (one.path, one.ours) not in EXPLAINED] == []


def test_all_25_rules_of_the_spec_are_there() -> None:
    schema = definition_of(MLFLOW)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rules = schema["properties"]["spec"]["x-kubernetes-validations"]
    assert len(SPEC_RULES) == 25
    assert [rule["message"] for rule in rules] == [rule.message for rule in (*SPEC_RULES, *ENV_RULES)]
