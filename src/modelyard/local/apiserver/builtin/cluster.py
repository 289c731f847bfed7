"""Rules of the smaller groups: coordination, storage, scheduling, node, events.k8s.io, apiregistration."""

from __future__ import annotations

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.builtin import checks, defaults
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import Cause, field_forbidden, invalid_value, not_supported, required

CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
CSI_CAPACITY = Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
VOLUME_ATTACHMENT = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", namespaced=False)
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)

_USER_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_POLICIES = ("PreemptLowerPriority", "Never")


def lease(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        found.append(invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        found.append(invalid_value("spec.leaseTransitions", spec["leaseTransitions"], checks.NOT_NEGATIVE))
    return found


def _drop_gated(obj: Object) -> None:
    """Coordinated leader election is an alpha feature; without it Kubernetes drops its fields."""
    spec = obj.get("spec") or {}
    spec.pop("strategy", None)
    spec.pop("preferredHolder", None)


def storage_class(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    provisioner = obj.get("provisioner", "")
    if not provisioner:
        found.append(required("provisioner"))
    else:
        found += checks.qualified_name(provisioner.lower(), "provisioner")
    if obj.get("reclaimPolicy") not in ("Delete", "Retain"):
        found.append(not_supported("reclaimPolicy", obj.get("reclaimPolicy", ""), ("Delete", "Retain")))
    modes = ("Immediate", "WaitForFirstConsumer")
    if obj.get("volumeBindingMode") not in modes:
        found.append(not_supported("volumeBindingMode", obj.get("volumeBindingMode", ""), modes))
    return found


def storage_class_update(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
        found += checks.immutable_declared(new.get(name), old.get(name), name)
    return found


def priority_class(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if why := _system_class_problem(name, value, bool(obj.get("globalDefault"))):
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            found.append(field_forbidden("metadata.name", detail))
    elif value > _USER_PRIORITY:
        found.append(field_forbidden("value", f"maximum allowed value of a user defined priority is {_USER_PRIORITY}"))
    if obj.get("preemptionPolicy") not in (None, *_POLICIES):
        found.append(not_supported("preemptionPolicy", obj["preemptionPolicy"], _POLICIES))
    return found


def _system_class_problem(name: str, value: int, default: bool) -> str:
    known = _SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def priority_class_update(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    if new.get("value") != old.get("value"):
        found.append(field_forbidden("value", "may not be changed in an update."))
    return found + checks.immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def runtime_class(obj: Object) -> list[Cause]:
    handler = obj.get("handler", "")
    return checks.told("handler", handler, names.dns_label(handler))


def runtime_class_update(new: Object, old: Object) -> list[Cause]:
    return checks.immutable_declared(new.get("handler"), old.get("handler"), "handler")


RULES = (
    Rules(
        builtin.Lease,
        lease,
        prefix_always=False,
        qualified_finalizers=False,
        prepare=_drop_gated,
        prepare_update=lambda new, _: _drop_gated(new),
    ),
    Rules(builtin.StorageClass, storage_class, storage_class_update),
    Rules(CSI_DRIVER, default=defaults.csi_driver),
    Rules(CSI_NODE),
    Rules(CSI_CAPACITY),
    Rules(VOLUME_ATTACHMENT, status=True),
    Rules(builtin.PriorityClass, priority_class, priority_class_update, generation="content"),
    Rules(RUNTIME_CLASS, runtime_class, runtime_class_update),
    Rules(builtin.APIService, status=True),
)
