"""CEL in the API server: rules of custom resources and conditions of admission webhooks."""

from modelyard.local.apiserver.cel.budgets import cost_check
from modelyard.local.apiserver.cel.conditions import ConditionError, condition_problem, conditions_match
from modelyard.local.apiserver.cel.rules import RuleValidator, compile_validator, default_check, rule_check

__all__ = [
    "ConditionError", "RuleValidator", "compile_validator", "condition_problem", "conditions_match", "cost_check",
    "default_check", "rule_check",
]  # fmt: skip
