"""The definitions that are generated from our types are upstream's, but for the differences that are explained here."""

from __future__ import annotations

import pytest

from modelyard.kube.crd import Definition, definition_of
from modelyard.operators.mlflow.rules import ACCOUNT_RULES, ENV_RULES, POD_LABELS, SCHEDULE
from modelyard.operators.registry import load
from tests.upstream.compare import compare, upstream_definitions
from tools.upstream_definitions import KINDS, facts_of

ACCOUNTS = "upstream admits the accounts of its scheduled jobs and writes them over and over"
EXPLAINED: dict[str, dict[tuple[str, str], str]] = {
    "mlflows.mlflow.opendatahub.io": {
        ("v1.spec", ENV_RULES[0].rule): "Q5: upstream admits these names and its Deployment is refused",
        ("v1.spec", ACCOUNT_RULES[0].rule): ACCOUNTS,
        ("v1.spec.podLabels", POD_LABELS.rule): "Q6: upstream admits labels that break its selector or network policy",
        ("v1.spec.garbageCollection.schedule", SCHEDULE.rule): "Q29: upstream admits any text and its apply fails",
        ("v1.spec.traceArchival.schedule", SCHEDULE.rule): "Q29: the same",
    },
}
"""Every difference from upstream by definition and place, and why it is there."""

DEFINITIONS = [definition for operator in load(None, {}) for definition in operator.definitions]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind_name)
def test_the_definition_is_upstreams_but_for_what_is_explained(definition: Definition) -> None:
    name = f"{definition.plural}.{definition.group}"
    found = compare(facts_of(definition_of(definition)), upstream_definitions()[name])
    explained = EXPLAINED.get(name, {})
    assert [str(one) for one in found if (one.path, one.ours) not in explained] == []
    assert {(one.path, one.ours) for one in found} == explained.keys()


def test_the_definitions_of_all_operators_are_kept() -> None:
    assert upstream_definitions().keys() == set(KINDS)
