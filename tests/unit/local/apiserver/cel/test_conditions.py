"""matchConditions of webhooks."""

import pytest

from modelyard.local.apiserver.cel import ConditionError, condition_problem, conditions_match

REQUEST = {"operation": "CREATE", "userInfo": {"username": "ann", "groups": ["dev"]}, "resource": {"resource": "pods"}}


def matches(*expressions: str) -> bool:
    conditions = [{"name": str(i), "expression": text} for i, text in enumerate(expressions)]
    return conditions_match(conditions, REQUEST, {"metadata": {"name": "x"}}, None)


def test_all_conditions_must_hold() -> None:
    assert matches("request.operation == 'CREATE'", "object.metadata.name == 'x'", "oldObject == null")
    assert not matches("request.operation == 'CREATE'", "'ops' in request.userInfo.groups")


def test_a_false_condition_decides_also_when_another_fails() -> None:
    assert not matches("object.spec.x == 1", "false")
    with pytest.raises(ConditionError, match="no such key: spec"):
        matches("object.spec.x == 1", "true")


def test_wrong_expressions_are_told() -> None:
    assert condition_problem("true") is None
    assert "undeclared reference" in str(condition_problem("nonsense"))
    assert condition_problem("1 + 1") == "must evaluate to bool"
