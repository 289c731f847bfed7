"""The definition that is generated from our types holds every rule of the specification."""

from __future__ import annotations

from modelyard.kube.crd import definition_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.rules import ACCOUNT_RULES, ENV_RULES, SPEC_RULES


def test_all_25_rules_of_the_spec_are_there() -> None:
    schema = definition_of(MLFLOW)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rules = schema["properties"]["spec"]["x-kubernetes-validations"]
    assert len(SPEC_RULES) == 25
    assert [rule["message"] for rule in rules] == [rule.message for rule in (*SPEC_RULES, *ENV_RULES, *ACCOUNT_RULES)]
