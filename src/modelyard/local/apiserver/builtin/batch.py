"""Rules of Jobs and CronJobs: generated selectors, immutable templates, schedules, and how a Job's status may move."""

from __future__ import annotations

from collections.abc import Sequence

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.job_status import job_status
from modelyard.local.apiserver.builtin.pods.validation import validate_template
from modelyard.local.apiserver.builtin.pods.warnings import pod_name_warnings, template_warnings
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.builtin.schedules import validate_schedule, validate_time_zone
from modelyard.local.apiserver.requests.problems import Cause, duplicate, invalid_value, not_supported, required

_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"
_OLD_UID, _OLD_NAME = "controller-uid", "job-name"
_NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_FROZEN = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_MAX_PARALLEL = 100000


def _job_spec(spec: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    for name in _NUMBERS:
        found += checks.not_negative_if_set(spec, name, field)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    found += _completion(spec, field)
    if spec.get("podFailurePolicy") is not None:
        found += _failure_policy(spec, f"{field}.podFailurePolicy.rules")
    policy = spec.get("podReplacementPolicy")
    policies = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in policies:
        found.append(not_supported(f"{field}.podReplacementPolicy", policy, policies))
    template = spec.get("template") or {}
    found += validate_template(template, f"{field}.template")
    restart, place = (template.get("spec") or {}).get("restartPolicy", ""), f"{field}.template.spec.restartPolicy"
    if restart in ("Always", ""):
        found.append(required(place, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        found.append(not_supported(place, restart, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(invalid_value(place, restart, detail))
    return found


def _failure_policy(spec: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {each.get("name") for group in ("containers", "initContainers") for each in pod.get(group) or ()}
    actions = ("Count", "FailIndex", "FailJob", "Ignore")
    for index, rule in enumerate(spec["podFailurePolicy"].get("rules") or ()):
        path = f"{field}[{index}]"
        action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if not action:
            found.append(required(f"{path}.action", f"valid values: {_shown(actions)}"))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            found.append(invalid_value(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
        elif action not in actions:
            found.append(not_supported(f"{path}.action", action, actions))
        if codes is not None:
            found += _exit_codes(codes, containers, f"{path}.onExitCodes")
        for place, condition in enumerate(conditions):
            at = f"{path}.onPodConditions[{place}]"
            found += checks.qualified_name(condition.get("type", ""), f"{at}.type")
            found += checks.one_of(condition.get("status", ""), f"{at}.status", ("False", "True", "Unknown"))
        if codes is not None and conditions:
            found.append(_unshown(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if codes is None and not conditions:
            found.append(_unshown(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return found


def _unshown(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {detail}")


def _shown(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _exit_codes(codes: Object, containers: set[str | None], field: str) -> list[Cause]:
    found: list[Cause] = []
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        found.append(required(f"{field}.operator", f"valid values: {_shown(('In', 'NotIn'))}"))
    elif operator not in ("In", "NotIn"):
        found.append(not_supported(f"{field}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        found.append(invalid_value(f"{field}.containerName", name, detail))
    if not values:
        found.append(invalid_value(f"{field}.values", codes.get("values"), "at least one value is required"))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(invalid_value(f"{field}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            found.append(duplicate(f"{field}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        found.append(invalid_value(f"{field}.values", values, "must be ordered"))
    return found


def _completion(spec: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        found.append(not_supported(f"{field}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        if spec.get("completions") is None:
            found.append(required(f"{field}.completions", "when completion mode is Indexed"))
        if spec.get("parallelism", 0) > _MAX_PARALLEL:
            detail = f"must be less than or equal to {_MAX_PARALLEL} when completion mode is Indexed"
            found.append(invalid_value(f"{field}.parallelism", spec["parallelism"], detail))
    elif mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                found.append(invalid_value(f"{field}.{name}", spec[name], "requires indexed completion mode"))
        if spec.get("successPolicy") is not None:
            detail = "requires indexed completion mode"
            found.append(invalid_value(f"{field}.successPolicy", spec["successPolicy"], detail))
    return found


def _selector(spec: Object) -> list[Cause]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    return checks.label_selector(selector, "spec.selector")


def _matches(spec: Object) -> list[Cause]:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector")
    if selector is None or (checks.selector_is_usable(selector) and not checks.selects(selector, labels)):
        detail = "`selector` does not match template `labels`"
        return [invalid_value("spec.template.metadata.labels", labels or None, detail)]
    return []


def _generated(obj: Object) -> list[Cause]:
    """Labels of the template that the user set must be the ones that would be generated."""
    spec = obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"].get("name", "")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected = {_OLD_UID: uid, _OLD_NAME: name, _UID: uid, _NAME: name}
    found: list[Cause] = []
    for key, value in expected.items():
        path = "spec.template.metadata.labels"
        if key not in labels:
            found.append(required(f"{path}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            found.append(invalid_value(f"{path}[{key}]", labels, f"must be '{value}'"))
    if not checks.selects(spec["selector"], expected):
        found.append(invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return found


def job(obj: Object) -> list[Cause]:
    return _generated(obj) + _whole_spec(obj)


def _whole_spec(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    return _job_spec(spec, "spec") + _selector(spec) + _matches(spec)


def job_update(new: Object, old: Object) -> list[Cause]:
    after, before = new["spec"], old["spec"]
    found = _whole_spec(new)
    if after.get("completionMode") != "Indexed":
        found += checks.immutable(after.get("completions"), before.get("completions"), "spec.completions")
    elif after.get("completions") != before.get("completions") and after.get("completions") != after.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        found.append(invalid_value("spec.completions", after.get("completions"), detail))
    found += checks.immutable(after.get("selector"), before.get("selector"), "spec.selector")
    found += _template_update(after, old)
    for name in _FROZEN:
        found += checks.immutable(after.get(name), before.get(name), f"spec.{name}")
    return found


def _template_update(after: Object, old: Object) -> list[Cause]:
    before, status = old["spec"], old.get("status") or {}
    template, previous = after.get("template") or {}, before.get("template") or {}
    suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    open_for_changes = before.get("suspend") and (not status.get("startTime") or suspended) and not status.get("active")
    if open_for_changes:
        template, previous = _scheduling_aside(template), _scheduling_aside(previous)
    path = "spec.template.spec" if open_for_changes else "spec.template"
    return [] if template == previous else [invalid_value(path, after.get("template"), checks.IMMUTABLE)]


def _scheduling_aside(template: Object) -> Object:
    """The template without what may change while the Job is suspended: where its pods go, and what they ask for."""
    spec = dict(template.get("spec") or {})
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        spec.pop(name, None)
    if affinity := {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key != "nodeAffinity"}:
        spec["affinity"] = affinity
    for group in ("containers", "initContainers"):
        if spec.get(group):
            spec[group] = [
                {key: value for key, value in container.items() if key != "resources"} for container in spec[group]
            ]
    return {"spec": spec}


def _prepare_job(obj: Object) -> None:
    spec = obj["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"].get("name", "")
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for key, value in ((_OLD_NAME, name), (_NAME, name), (_OLD_UID, uid), (_UID, uid)):
        labels.setdefault(key, value)
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)
    selector = spec.get("selector") or {}
    selector.setdefault("matchLabels", {}).setdefault(_UID, uid)
    spec["selector"] = selector


def _job_warnings(obj: Object, old: Object | None) -> list[str]:
    found = pod_name_warnings(obj) if old is None else []
    if old is None or obj["spec"] != old["spec"]:
        found += template_warnings(obj["spec"].get("template") or {}, None, "spec.template")
    return found


def _cron_warnings(obj: Object, old: Object | None) -> list[str]:
    found = pod_name_warnings(obj) if old is None else []
    if old is None or obj["spec"] != old["spec"]:
        template = ((obj["spec"].get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
        found += template_warnings(template, None, "spec.jobTemplate.spec.template")
    if old is not None and "TZ" in obj["spec"].get("schedule", ""):
        found.append(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    return found


def cron_job_spec(spec: Object, old: Object | None) -> list[Cause]:
    found: list[Cause] = []
    schedule = spec.get("schedule", "")
    if not schedule:
        found.append(required("spec.schedule"))
    else:
        found += validate_schedule(spec, old)
    found += checks.not_negative_if_set(spec, "startingDeadlineSeconds", "spec")
    if old is None or old.get("timeZone") != spec.get("timeZone"):
        found += validate_time_zone(spec.get("timeZone"))
    policies = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in policies:
        found.append(not_supported("spec.concurrencyPolicy", spec.get("concurrencyPolicy", ""), policies))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    found += _job_spec(template, "spec.jobTemplate.spec")
    if template.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        found.append(invalid_value("spec.jobTemplate.spec.selector", template["selector"], detail))
    if template.get("manualSelector"):
        found.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        found += checks.not_negative_if_set(spec, name, "spec")
    return found


def cron_job(obj: Object) -> list[Cause]:
    found = cron_job_spec(obj["spec"], None)
    name = obj["metadata"].get("name", "")
    if len(name) > 52:
        found.append(invalid_value("metadata.name", name, "must be no more than 52 characters"))
    return found


def cron_job_update(new: Object, old: Object) -> list[Cause]:
    return cron_job_spec(new["spec"], old["spec"])


RULES = (
    Rules(
        builtin.Job,
        job,
        job_update,
        job_status,
        prepare=_prepare_job,
        generation="spec",
        status=True,
        prefix_always=False,
        warn=_job_warnings,
    ),
    Rules(
        builtin.CronJob,
        cron_job,
        cron_job_update,
        generation="spec",
        status=True,
        prefix_always=False,
        warn=_cron_warnings,
    ),
)
