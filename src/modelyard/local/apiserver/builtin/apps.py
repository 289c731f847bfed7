"""Rules of the group apps, and of ReplicationControllers: replicas, selectors and templates, update strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks, defaults
from modelyard.local.apiserver.builtin.claims import claim_warnings, validate_claim_spec
from modelyard.local.apiserver.builtin.pods.validation import validate_template
from modelyard.local.apiserver.builtin.pods.warnings import pod_name_warnings, template_warnings
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    GoStruct,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_MISMATCH = "`selector` does not match template `labels`"


def _selector(spec: Object, owner: str) -> list[Cause]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    found = checks.label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        found.append(invalid_value("spec.selector", selector, f"empty selector is invalid for {owner}"))
    return found


def _template_labels(template: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels


def _selected(spec: Object) -> list[Cause]:
    selector = spec.get("selector")
    labels = _template_labels(spec.get("template") or {})
    if selector is None or not checks.selects(selector, labels):
        return [invalid_value("spec.template.metadata.labels", dict(labels) or None, _MISMATCH)]
    return []


def _always_restarts(template: Object, owner: str) -> list[Cause]:
    spec = template.get("spec") or {}
    found: list[Cause] = []
    if spec.get("restartPolicy") != "Always":
        found.append(not_supported("spec.template.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        found.append(field_forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return found


def _replica_template(spec: Object) -> list[Cause]:
    template = spec.get("template") or {}
    if spec.get("selector") is not None and not checks.selector_is_usable(spec["selector"]):
        return [invalid_value("spec.selector", spec["selector"], "invalid label selector")]
    return _selected(spec) + validate_template(template, "spec.template") + _always_restarts(template, "ReplicaSet")


def deployment(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = checks.not_negative_if_set(spec, "replicas", "spec")
    found += _selector(spec, "deployment")
    found += _replica_template(spec)
    found += _deployment_strategy(spec.get("strategy") or {})
    found += checks.not_negative_if_set(spec, "minReadySeconds", "spec")
    found += checks.not_negative_if_set(spec, "revisionHistoryLimit", "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        found += checks.not_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline <= spec.get("minReadySeconds", 0):
            detail = "must be greater than minReadySeconds"
            found.append(invalid_value("spec.progressDeadlineSeconds", deadline, detail))
    return found


def _deployment_strategy(strategy: Object) -> list[Cause]:
    field = "spec.strategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [field_forbidden(f"{field}.rollingUpdate", detail)]
        return []
    if kind != "RollingUpdate":
        return [not_supported(field, _shown(strategy), ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    found = checks.int_or_percent(unavailable, f"{field}.rollingUpdate.maxUnavailable")
    found += checks.int_or_percent(surge, f"{field}.rollingUpdate.maxSurge")
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        found.append(invalid_value(f"{field}.rollingUpdate.maxUnavailable", unavailable, detail))
    return found + checks.no_more_than_all(unavailable, f"{field}.rollingUpdate.maxUnavailable")


def _shown(strategy: Object) -> GoStruct:
    return GoStruct({"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")})


def _amount(value: int | str) -> int:
    return value if isinstance(value, int) else checks.percent_value(value) or 0


def _same_selector(new: Object, old: Object) -> list[Cause]:
    return checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def deployment_update(new: Object, old: Object) -> list[Cause]:
    return deployment(new) + _same_selector(new, old)


def _counters(status: Object, counters: Sequence[str]) -> list[Cause]:
    found: list[Cause] = []
    for name in counters:
        found += checks.not_negative_if_set(status, name, "status")
    return found


def deployment_status(new: Object, old: Object) -> list[Cause]:
    status = new.get("status") or {}
    found = _counters(
        status,
        ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
         "unavailableReplicas", "terminatingReplicas", "collisionCount"),
    )  # fmt: skip
    found += _no_more_than(status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        detail = "cannot be greater than readyReplicas"
        found.append(invalid_value("status.availableReplicas", status.get("availableReplicas", 0), detail))
    old_count = (old.get("status") or {}).get("collisionCount")
    if old_count is not None and (status.get("collisionCount") or 0) < old_count:
        found.append(invalid_value("status.collisionCount", status.get("collisionCount"), "cannot be decremented"))
    return found


def _no_more_than(status: Object, counters: Sequence[str]) -> list[Cause]:
    total = status.get("replicas", 0)
    return [
        invalid_value(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas")
        for name in counters
        if status.get(name, 0) > total
    ]


def replica_set(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = checks.not_negative_if_set(spec, "replicas", "spec")
    found += checks.not_negative_if_set(spec, "minReadySeconds", "spec")
    return found + _selector(spec, "deployment") + _replica_template(spec)


def replica_set_update(new: Object, old: Object) -> list[Cause]:
    return replica_set(new) + _same_selector(new, old)


def replica_set_status(new: Object, old: Object) -> list[Cause]:
    status = new.get("status") or {}
    found = _counters(
        status, ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    )
    found += _no_more_than(status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        detail = "cannot be greater than readyReplicas"
        found.append(invalid_value("status.availableReplicas", status.get("availableReplicas", 0), detail))
    return found


def stateful_set(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        found.append(invalid_value("spec.podManagementPolicy", spec.get("podManagementPolicy", ""), detail))
    found += _stateful_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if retention.get(name) not in ("Retain", "Delete"):
            field = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            found.append(not_supported(field, retention.get(name, ""), ("Retain", "Delete")))
    templates = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(templates):
        found += validate_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    found += checks.not_negative_if_set(spec, "replicas", "spec")
    found += checks.not_negative_if_set(spec, "minReadySeconds", "spec")
    if spec.get("ordinals") is not None:
        found += checks.not_negative(spec["ordinals"].get("start", 0), "spec.ordinals.start")
    found += _selector(spec, "statefulset")
    if spec.get("selector") is not None and not checks.selector_is_usable(spec["selector"]):
        found.append(invalid_value("spec.selector", spec["selector"], ""))
    else:
        found += _selected(spec)
        found += validate_template(_with_claims(spec), "spec.template")
    return found + _always_restarts(spec.get("template") or {}, "StatefulSet")


def _stateful_strategy(strategy: Object) -> list[Cause]:
    field = "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
            return [invalid_value(f"{field}.rollingUpdate", GoStruct(shown), detail)]
        return []
    if kind != "RollingUpdate":
        return [invalid_value(field, _shown(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    found: list[Cause] = []
    if rolling is not None:
        found += checks.not_negative_if_set(rolling, "partition", f"{field}.rollingUpdate")
        unavailable = rolling.get("maxUnavailable")
        if unavailable is not None:
            path = f"{field}.rollingUpdate.maxUnavailable"
            found += checks.int_or_percent(unavailable, path)
            if _amount(unavailable) == 0:
                found.append(invalid_value(path, unavailable, "cannot be 0"))
            found += checks.no_more_than_all(unavailable, path)
    return found


def _with_claims(spec: Object) -> Object:
    """The template as its pods will be: the claims are volumes, and names come from the controller."""
    template = spec.get("template") or {}
    pod = {key: value for key, value in (template.get("spec") or {}).items() if key not in ("subdomain", "hostname")}
    names_of_claims = dict.fromkeys(
        (claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()
    )
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names_of_claims]
    if claims:
        others = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names_of_claims]
        pod["volumes"] = claims + others
    return template | {"spec": pod}


def new_stateful_set(obj: Object) -> list[Cause]:
    """The service's name is only looked at here: later it may not change."""
    name = (obj.get("spec") or {}).get("serviceName")
    return stateful_set(obj) + (checks.dns_label(name, "spec.serviceName") if name else [])


def stateful_set_update(new: Object, old: Object) -> list[Cause]:
    found = stateful_set(new)
    for name in ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"):
        found += checks.immutable(new["spec"].get(name), old["spec"].get(name), f"spec.{name}")
    return found


def stateful_set_status(new: Object, old: Object) -> list[Cause]:
    status = new.get("status") or {}
    found = _counters(
        status,
        ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
         "collisionCount"),
    )  # fmt: skip
    found += _no_more_than(status, ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        detail = "cannot be greater than status.readyReplicas"
        found.append(invalid_value("status.availableReplicas", status.get("availableReplicas", 0), detail))
    return found


def daemon_set(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    found = checks.label_selector(selector, "spec.selector")
    labels = _template_labels(template)
    usable = selector is None or checks.selector_is_usable(selector)
    if selector is None or (usable and not checks.selects(selector, labels)):
        found.append(invalid_value("spec.template.metadata.labels", dict(labels) or None, _MISMATCH))
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        found.append(invalid_value("spec.selector", selector, "empty selector is invalid for daemonset"))
    found += validate_template(template, "spec.template")
    found += _always_restarts(template, "DaemonSet")
    found += checks.not_negative_if_set(spec, "minReadySeconds", "spec")
    found += _daemon_strategy(spec.get("updateStrategy") or {})
    return found + checks.not_negative_if_set(spec, "revisionHistoryLimit", "spec")


def _daemon_strategy(strategy: Object) -> list[Cause]:
    field = "spec.updateStrategy"
    if strategy.get("type") == "OnDelete":
        return []
    if strategy.get("type") != "RollingUpdate":
        return [not_supported(field, _shown(strategy), ("RollingUpdate", "OnDelete"))]
    rolling = strategy.get("rollingUpdate") or {}
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    path = f"{field}.rollingUpdate"
    found = checks.int_or_percent(unavailable, f"{path}.maxUnavailable")
    found += checks.int_or_percent(surge, f"{path}.maxSurge")
    found += checks.no_more_than_all(unavailable, f"{path}.maxUnavailable")
    found += checks.no_more_than_all(surge, f"{path}.maxSurge")
    if _amount(unavailable) and _amount(surge):
        found.append(invalid_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not _amount(unavailable) and not _amount(surge):
        found.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return found


def daemon_set_update(new: Object, old: Object) -> list[Cause]:
    return _same_selector(new, old) + daemon_set(new)


def daemon_set_status(new: Object, old: Object) -> list[Cause]:
    status, previous = new.get("status") or {}, old.get("status") or {}
    found: list[Cause] = []
    for name in _DAEMON_COUNTS:
        found += checks.not_negative_if_set(status, name, "status")
    collisions = status.get("collisionCount") or 0
    if previous.get("collisionCount") is not None and collisions < previous["collisionCount"]:
        found.append(invalid_value("status.collisionCount", collisions, "cannot be decremented"))
    return found


_DAEMON_COUNTS = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
    "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
)  # fmt: skip


def _prepare_daemon_set_status(new: Object, old: Object) -> None:
    """The annotation is a field of the spec in truth, which a write to the status leaves alone."""
    before = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1")
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = before


def _default_daemon_set(obj: Object) -> None:
    """A field of old versions, which this one has as an annotation on every object: so its writer owns it."""
    defaults.daemon_set(obj)
    notes = obj["metadata"].setdefault("annotations", {}) or {}
    obj["metadata"]["annotations"] = {_TEMPLATE_GENERATION: "0", **notes}


def _prepare_daemon_set(obj: Object) -> None:
    notes = obj["metadata"]["annotations"]
    if notes[_TEMPLATE_GENERATION] == "0":
        notes[_TEMPLATE_GENERATION] = "1"


def _prepare_daemon_set_update(new: Object, old: Object) -> None:
    before = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1")
    changed = new["spec"].get("template") != old["spec"].get("template")
    after = str(int(before) + 1) if changed and before.isdigit() else before
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = after


def replication_controller(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    found = checks.not_negative_if_set(spec, "minReadySeconds", "spec")
    if not selector:
        found.append(required("spec.selector"))
    found += checks.not_negative_if_set(spec, "replicas", "spec")
    if template is None:
        return [*found, required("spec.template")]
    labels = _template_labels(template)
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        found.append(invalid_value("spec.template.metadata.labels", dict(labels) or None, _MISMATCH))
    found += validate_template(template, "spec.template")
    return found + _always_restarts(template, "ReplicationController")


def controller_revision(obj: Object) -> list[Cause]:
    found = [] if obj.get("data") is not None else [required("data", "data is mandatory")]
    return found + checks.not_negative(obj.get("revision", 0), "revision")


def controller_revision_update(new: Object, old: Object) -> list[Cause]:
    found = checks.not_negative(new.get("revision", 0), "revision")
    return found + checks.immutable(new.get("data"), old.get("data"), "data")


def _warn(obj: Object, old: Object | None) -> list[str]:
    if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    before = ((old or {}).get("spec") or {}).get("template")
    return template_warnings((obj.get("spec") or {}).get("template") or {}, before, "spec.template")


def _warn_deployment(obj: Object, old: Object | None) -> list[str]:
    return (pod_name_warnings(obj) if old is None else []) + _warn(obj, old)


def _warn_daemon_set(obj: Object, old: Object | None) -> list[str]:
    same = old is not None and obj["spec"].get("template") == old["spec"].get("template")
    return [] if same else _warn(obj, old)


def _warn_stateful_set(obj: Object, old: Object | None) -> list[str]:
    found = _warn(obj, old)
    for index, each in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
        # Kubernetes names the place differently at each occasion.
        path = f"spec.volumeClaimTemplates[{index}]" + ("" if old is None else ".Spec")
        found += claim_warnings(each.get("spec") or {}, path)
    if obj["spec"].get("revisionHistoryLimit", 0) < 0:
        detail = "a negative value retains all historical revisions; a value >= 0 is recommended"
        found.append(f"spec.revisionHistoryLimit: {detail}")
    return found


RULES = (
    Rules(
        builtin.Deployment,
        deployment,
        deployment_update,
        deployment_status,
        generation="spec and annotations",
        status=True,
        prefix_always=False,
        status_keeps=("labels",),
        warn=_warn_deployment,
    ),
    Rules(
        builtin.ReplicaSet,
        replica_set,
        replica_set_update,
        replica_set_status,
        generation="spec",
        status=True,
        prefix_always=False,
        initial_status={"replicas": 0},
        warn=_warn,
    ),
    Rules(
        builtin.StatefulSet,
        new_stateful_set,
        stateful_set_update,
        stateful_set_status,
        generation="spec",
        status=True,
        prefix_always=False,
        name=names.dns_label,
        warn=_warn_stateful_set,
    ),
    Rules(
        builtin.DaemonSet,
        daemon_set,
        daemon_set_update,
        check_status=daemon_set_status,
        default=_default_daemon_set,
        prepare_status=_prepare_daemon_set_status,
        prepare=_prepare_daemon_set,
        prepare_update=_prepare_daemon_set_update,
        generation="spec",
        status=True,
        prefix_always=False,
        warn=_warn_daemon_set,
    ),
    Rules(builtin.ControllerRevision, controller_revision, controller_revision_update),
    Rules(builtin.ReplicationController, replication_controller, generation="spec", status=True, warn=_warn),
)
