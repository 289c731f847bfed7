"""Rules of Pods: what a creator gets as status, and the little that an update may change."""

from __future__ import annotations

import copy
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.names import dns_label, in_range
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.differences import difference
from modelyard.local.apiserver.builtin.pods.validation import validate_pod_spec, validate_tolerations
from modelyard.local.apiserver.builtin.pods.warnings import pod_warnings
from modelyard.local.apiserver.builtin.rules import BuiltinStrategy, Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    field_forbidden,
    go_quote,
    invalid_value,
    not_supported,
    required,
)

_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def quality_of_service(spec: Object) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, by what the containers ask for."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    asks = False
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        limits = _amounts(resources.get("limits"))
        requests = _amounts(resources.get("requests"))
        asks = asks or bool(limits) or bool(requests)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, limits[name]) != limits[name] for name in limits
        ):
            guaranteed = False
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(values: dict[str, Any] | None) -> dict[str, int]:
    return {
        name: amount
        for name in ("cpu", "memory")
        if name in (values or {}) and (amount := parse((values or {})[name]).nanos) > 0
    }


class PodStrategy(BuiltinStrategy):
    """Pods bump their generation on every change of the spec, and keep their status on main writes."""

    def __init__(self) -> None:
        super().__init__(
            Rules(
                builtin.Pod,
                check=_pod,
                check_update=_pod_update,
                check_status=_pod_status,
                generation="spec",
                status=True,
                status_keeps=("ownerReferences",),
                warn=_warnings,
            )
        )

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        status: Object = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        obj["status"] = status

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "binding":
            return
        if subresource in ("ephemeralcontainers", "resize"):
            self._take_part(new, old, subresource)
            return
        super().prepare_update(new, old, subresource)
        if subresource == "status" and not (new.get("status") or {}).get("qosClass"):
            kept = (old.get("status") or {}).get("qosClass")
            if kept:
                new.setdefault("status", {})["qosClass"] = kept

    def bumps_generation(self, new: Object, old: Object) -> bool:
        # Being bound to a node is not a change that a user made.
        after, before = ({k: v for k, v in each["spec"].items() if k != "nodeName"} for each in (new, old))
        return after != before

    @staticmethod
    def _take_part(new: Object, old: Object, subresource: str) -> None:
        """Keeps of the new pod only what the subresource is for."""
        given, spec = new["spec"], copy.deepcopy(old["spec"])
        if subresource == "ephemeralcontainers":
            if given.get("ephemeralContainers"):
                spec["ephemeralContainers"] = given["ephemeralContainers"]
            else:
                spec.pop("ephemeralContainers", None)
        else:
            for group in ("containers", "initContainers"):
                wanted = {each.get("name"): each for each in given.get(group) or ()}
                for container in spec.get(group) or ():
                    if container.get("name") in wanted:
                        container["resources"] = wanted[container["name"]].get("resources") or {}
        new["spec"], new["status"] = spec, old.get("status") or {}

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        if old is None or subresource not in ("ephemeralcontainers", "resize"):
            return super().validate(obj, old, subresource)
        found = _pod_only(obj)
        if subresource == "ephemeralcontainers":
            now = {each.get("name"): each for each in obj["spec"].get("ephemeralContainers") or ()}
            for each in old["spec"].get("ephemeralContainers") or ():
                if now.get(each.get("name")) != each:
                    detail = f"existing ephemeral containers {go_quote(each.get('name', ''))} may not be changed\n"
                    if each.get("name") not in now:
                        detail = f"existing ephemeral containers {go_quote(each.get('name', ''))} may not be removed\n"
                    found.append(field_forbidden("spec.ephemeralContainers", detail))
        return found


def _warnings(obj: Object, old: Object | None) -> list[str]:
    if old is not None:
        # Of updates Kubernetes says nothing: pods change often, and seldom by hand.
        return []
    found: list[str] = []
    if wrong := dns_label(obj["metadata"].get("name", "")):
        detail = (
            "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
        )
        found.append(f"metadata.name: {detail}: [{' '.join(wrong)}]")
    return found + pod_warnings(obj, old)


def _pod_only(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    found = validate_pod_spec(spec, "spec")
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for place, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    path = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                    detail = "must not be specified when serviceAccountName is not set"
                    found.append(field_forbidden(path, detail))
    found += checks.not_negative_if_set(spec, "terminationGracePeriodSeconds", "spec")
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            image = container.get("image", "")
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                found.append(invalid_value(f"spec.{group}[{index}].image", image, detail))
    return found


def _pod(obj: Object) -> list[Cause]:
    found = _pod_only(obj)
    if obj["spec"].get("ephemeralContainers"):
        found.append(field_forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if obj["spec"].get("nodeName") and obj["spec"].get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        found.append(field_forbidden("spec.nodeName", detail))
    return found


def _pod_update(new: Object, old: Object) -> list[Cause]:
    found = _pod_only(new)
    after, before = new["spec"], old["spec"]
    for group in ("containers", "initContainers"):
        if len(after.get(group) or ()) != len(before.get(group) or ()):
            return [*found, field_forbidden(f"spec.{group}", "pod updates may not add or remove containers")]
    stop, wrong = _deadline(after, before)
    found += wrong
    if stop:
        return found
    found += _tolerations(after, before)
    found += _scheduling_gates(after, before)
    if after == before:
        return found
    munged = _munged(after, before)
    if munged != before:
        diff = difference(before, munged, "PodSpec")
        found.append(field_forbidden("spec", f"pod updates may not change fields other than {_CHANGEABLE}\n{diff}\n"))
    return found


def _deadline(after: Object, before: Object) -> tuple[bool, list[Cause]]:
    field = "spec.activeDeadlineSeconds"
    wanted, had = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if wanted is None:
        if had is None:
            return False, []
        return False, [invalid_value(field, None, "must not update from a positive integer to nil value")]
    if not 0 <= wanted <= checks.MAX_INT32:
        return True, [invalid_value(field, wanted, in_range(0, checks.MAX_INT32))]
    if had is not None and had < wanted:
        return True, [invalid_value(field, wanted, "must be less than or equal to previous value")]
    return False, []


def _tolerations(after: Object, before: Object) -> list[Cause]:
    def bare(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [bare(toleration) for toleration in after.get("tolerations") or ()]
    for toleration in before.get("tolerations") or ():
        if bare(toleration) not in kept:
            detail = "existing toleration can not be modified except its tolerationSeconds"
            return [field_forbidden("spec.tolerations", detail)]
    return validate_tolerations(after.get("tolerations") or (), "spec.tolerations")


def _scheduling_gates(after: Object, before: Object) -> list[Cause]:
    had = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    return [
        field_forbidden(f"spec.schedulingGates[{index}].name", "only deletion is allowed, but found new scheduling gate " + f"'{gate.get('name')}'")
        for index, gate in enumerate(after.get("schedulingGates") or ())
        if gate.get("name") not in had
    ]  # fmt: skip


def _munged(after: Object, before: Object) -> Object:
    """The new spec with all that may change set back; what still differs may not."""
    munged = copy.deepcopy(after)
    for group in ("containers", "initContainers"):
        for new, old in zip(munged.get(group) or (), before.get(group) or (), strict=True):
            new["image"] = old.get("image")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        if name in before:
            munged[name] = before[name]
        else:
            munged.pop(name, None)
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    if before.get("schedulingGates"):
        # A gated pod may still be pinned down further.
        for name in ("nodeSelector", "affinity"):
            if name in before:
                munged[name] = before[name]
            else:
                munged.pop(name, None)
    return munged


def _pod_status(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type", "")
        if "/" in kind:
            found += checks.qualified_name(kind, f"status.conditions[{index}].Type")
    found += checks.immutable(status.get("qosClass", ""), before.get("qosClass", ""), "status.qosClass")
    policy = old["spec"].get("restartPolicy", "Always")
    if policy in ("Never", "OnFailure"):
        found += _revived(status, before, policy)
    for index, address in enumerate(status.get("podIPs") or ()):
        found += checks.ip_address(address.get("ip", ""), f"status.podIPs[{index}].ip")
    return found


def _revived(status: Object, before: Object, policy: str) -> list[Cause]:
    """A container that has ended for good may not run again."""
    found: list[Cause] = []
    now = {item.get("name"): item for item in status.get("containerStatuses") or ()}
    for index, item in enumerate(before.get("containerStatuses") or ()):
        ended = (item.get("state") or {}).get("terminated")
        if ended is None or (policy == "OnFailure" and ended.get("exitCode", 0) != 0):
            continue
        latest = now.get(item.get("name"))
        if latest is not None and (latest.get("state") or {}).get("terminated") is None:
            found.append(
                field_forbidden(
                    f"status.containerStatuses[{index}].state", "may not be transitioned to non-terminated state"
                )
            )
    return found


def binding_causes(binding: Object) -> list[Cause]:
    """What is wrong with a Binding."""
    target = binding.get("target") or {}
    found: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        found.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(required("target.name"))
    return found
