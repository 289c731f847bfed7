"""`matchConditions` of admission webhooks: CEL over the request and its objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cel_expr_python import cel

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.cel.environments import CelRuntimeError, CelSyntaxError, Environment, Expression


class ConditionError(Exception):
    """A condition could not be evaluated and none of the others is false."""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(dict.fromkeys(("object", "oldObject", "request", "authorizer"), cel.Type.DYN))


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Expression:
    return _environment().compile(text)


def condition_problem(text: str) -> str | None:
    """Why an expression cannot be a condition, in Kubernetes' words; None when it can."""
    try:
        expression = _compiled(text)
    except CelSyntaxError as error:
        return f"compilation failed: {error}"
    return None if expression.result in ("BOOL", "DYN") else "must evaluate to bool"


def conditions_match(conditions: Sequence[Object], request: Object, obj: Object | None, old: Object | None) -> bool:
    """Whether all conditions hold. One that is false decides, also when others fail; else a failure raises."""
    variables: Object = {"object": obj, "oldObject": old, "request": request}
    activation = _environment().activation(variables)
    failures = []
    for condition in conditions:
        try:
            holds = _compiled(str(condition.get("expression") or "")).evaluate(activation)
        except (CelRuntimeError, CelSyntaxError) as error:
            failures.append(f"expression '{condition.get('expression')}' resulted in error: {error}")
            continue
        if holds is False:
            return False
    if failures:
        raise ConditionError(failures[0] if len(failures) == 1 else "[" + ", ".join(failures) + "]")
    return True
