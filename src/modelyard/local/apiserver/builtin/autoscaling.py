"""Rules of HorizontalPodAutoscalers (v2 and v1) and PodDisruptionBudgets."""

from __future__ import annotations

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    GoStruct,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)

HPA_V1 = builtin.HorizontalPodAutoscaler.at("v1")
_SOURCES = {
    "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods",
    "Resource": "resource",
}  # fmt: skip
_SOURCE_ORDER = ("object", "external", "pods", "resource", "containerResource")


def autoscaler(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    found: list[Cause] = []
    if least is not None and least < 0:
        found.append(invalid_value("spec.minReplicas", least, checks.NOT_NEGATIVE))
    if most == 0:
        found.append(required("spec.maxReplicas"))
    elif most < 0:
        found.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        found.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        found += checks.needs_name(target.get(name, ""), f"spec.scaleTargetRef.{name}", names.path_segment)
    version = target.get("apiVersion", "")
    if "/" not in version:
        detail = "apiVersion must specify API group"
        found.append(invalid_value("spec.scaleTargetRef.apiVersion", version, detail))
    metrics = spec.get("metrics") or ()
    for index, metric in enumerate(metrics):
        found += _metric(metric, f"spec.metrics[{index}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        found.append(field_forbidden("spec.metrics", detail))
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            found += _scaling(rules, f"spec.behavior.{direction}")
    return found


def _metric(metric: Object, field: str) -> list[Cause]:
    kind = metric.get("type", "")
    found: list[Cause] = []
    if not kind:
        found.append(required(f"{field}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        found.append(not_supported(f"{field}.type", kind, tuple(_SOURCES)))
    given = [name for name in _SOURCE_ORDER if metric.get(name) is not None]
    if given:
        found += _source(metric[given[0]], given[0], f"{field}.{given[0]}")
    expected = _SOURCES.get(kind)
    if expected is not None and expected not in given:
        found.append(required(f"{field}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        found += [
            field_forbidden(f"{field}.{name}", "must populate the given metric source only")
            for name in given
            if name != expected
        ]
    return found


def _source(source: Object, name: str, field: str) -> list[Cause]:
    found: list[Cause] = []
    if name in ("resource", "containerResource"):
        if not source.get("name"):
            found.append(required(f"{field}.name", "must specify a resource name"))
        if name == "containerResource" and not source.get("container"):
            found.append(required(f"{field}.container", "must specify a container"))
    else:
        if name == "object":
            about = source.get("describedObject") or {}
            for part in ("kind", "name"):
                found += checks.needs_name(about.get(part, ""), f"{field}.describedObject.{part}", names.path_segment)
        metric = source.get("metric") or {}
        if not metric.get("name"):
            found.append(required(f"{field}.metric.name", "must specify a metric name"))
        else:
            found += checks.told(f"{field}.metric.name", metric["name"], names.path_segment(metric["name"]))
    target = source.get("target") or {}
    found += _target(target, f"{field}.target")
    value, average = target.get("value"), target.get("averageValue")
    if name in ("object", "external"):
        if value is None and average is None:
            detail = "must set either a target value for metric or a per-pod target"
            found.append(required(f"{field}.target.averageValue", detail))
        if value is not None and average is not None:
            detail = "may not set both a target value for metric and a per-pod target"
            found.append(field_forbidden(f"{field}.target.value", detail))
    elif name == "pods" and average is None:
        found.append(required(f"{field}.target.averageValue", "must specify a positive target averageValue"))
    if name in ("resource", "containerResource"):
        utilization, value = target.get("averageUtilization"), target.get("averageValue")
        if utilization is None and value is None:
            detail = "must set either a target raw value or a target utilization"
            found.append(required(f"{field}.target.averageUtilization", detail))
        if utilization is not None and value is not None:
            detail = "may not set both a target raw value and a target utilization"
            found.append(field_forbidden(f"{field}.target.averageValue", detail))
    return found


def _target(target: Object, field: str) -> list[Cause]:
    kind = target.get("type", "")
    found = [] if kind else [required(f"{field}.type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        found.append(invalid_value(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        if target.get(name) is not None and parse(target[name]).nanos <= 0:
            found.append(invalid_value(f"{field}.{name}", target[name], "must be positive"))
    if target.get("averageUtilization") is not None and target["averageUtilization"] < 1:
        detail = "must be greater than 0"
        found.append(invalid_value(f"{field}.averageUtilization", target["averageUtilization"], detail))
    return found


def _scaling(rules: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        found.append(
            invalid_value(f"{field}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
        )
    if window is not None and window > 3600:
        detail = "must be less than or equal to 3600"
        found.append(invalid_value(f"{field}.stabilizationWindowSeconds", window, detail))
    select = rules.get("selectPolicy")
    if select is not None and select not in ("Disabled", "Max", "Min"):
        found.append(not_supported(f"{field}.selectPolicy", select, ("Disabled", "Max", "Min")))
    policies = rules.get("policies") or ()
    if not policies:
        found.append(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        path = f"{field}.policies[{index}]"
        if policy.get("type") not in ("Pods", "Percent"):
            found.append(not_supported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods")))
        if policy.get("value", 0) <= 0:
            found.append(invalid_value(f"{path}.value", policy.get("value", 0), checks.POSITIVE))
        seconds = policy.get("periodSeconds", 0)
        if seconds <= 0:
            found.append(invalid_value(f"{path}.periodSeconds", seconds, checks.POSITIVE))
        if seconds > 1800:
            found.append(invalid_value(f"{path}.periodSeconds", seconds, "must be less than or equal to 1800"))
    return found


def _default_v1(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    spec.setdefault("targetCPUUtilizationPercentage", 80)


def disruption_budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    found: list[Cause] = []
    if least is not None and most is not None:
        shown = GoStruct(
            MinAvailable=least,
            Selector=spec.get("selector"),
            MaxUnavailable=most,
            UnhealthyPodEvictionPolicy=spec.get("unhealthyPodEvictionPolicy"),
        )
        found.append(invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            found += checks.int_or_percent(spec[name], f"spec.{name}")
            found += checks.no_more_than_all(spec[name], f"spec.{name}")
    found += checks.label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        found += checks.one_of(policy, "spec.unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"))
    return found


def budget_status(new: Object, old: Object) -> list[Cause]:
    status = new.get("status") or {}
    found = checks.conditions(status.get("conditions"), "status.conditions")
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        found += checks.not_negative_if_set(status, name, "status")
    return found


def autoscaler_status(new: Object, old: Object) -> list[Cause]:
    status = new.get("status") or {}
    found: list[Cause] = []
    for index, condition in enumerate(status.get("conditions") or ()):
        found += checks.not_negative_if_set(condition, "observedGeneration", f"status.conditions[{index}]")
    for name in ("currentReplicas", "desiredReplicas"):
        found += checks.not_negative_if_set(status, name, "status")
    return found


RULES = (
    Rules(
        builtin.HorizontalPodAutoscaler,
        autoscaler,
        check_status=autoscaler_status,
        generation="spec",
        status=True,
        prefix_always=False,
    ),
    Rules(
        HPA_V1,
        autoscaler,
        check_status=autoscaler_status,
        default=_default_v1,
        generation="spec",
        status=True,
        prefix_always=False,
    ),
    Rules(
        builtin.PodDisruptionBudget,
        disruption_budget,
        check_status=budget_status,
        generation="spec",
        status=True,
        name=names.path_segment,
        metadata_last=True,
        qualified_finalizers=False,
    ),
)
