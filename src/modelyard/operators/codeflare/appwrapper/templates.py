"""The object that a component stands for: its template, marked as the AppWrapper's, with what the queue wants in its pods. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.objects import metadata_of, namespace_of
from modelyard.operators.codeflare.appwrapper import nodes, paths
from modelyard.operators.codeflare.appwrapper.api import LABEL, UID_LABEL, AppWrapper, PodSet, PodSetInfo
from modelyard.operators.codeflare.appwrapper.config import AppWrapperSettings
from modelyard.operators.codeflare.appwrapper.podsets import definitive


class TemplateError(ValueError):
    """A component that can never be made; the message says why."""


def recorded_sets(appwrapper: AppWrapper, index: int) -> Sequence[PodSet]:
    """The pod sets of a component as the status has them, else as they follow from it."""
    known = appwrapper.status.component_status if appwrapper.status is not None else None
    if known is not None and index < len(known):
        return known[index].pod_sets
    return definitive(appwrapper.components[index])


def made(appwrapper: AppWrapper, index: int, settings: AppWrapperSettings) -> Object:
    """The object to create for a component."""
    component = appwrapper.components[index]
    obj = copy.deepcopy(component.template)
    namespace = namespace_of(obj)
    if namespace not in ("", appwrapper.namespace):
        raise TemplateError(
            f'component namespace "{namespace}" is different from appwrapper namespace "{appwrapper.namespace}"'
        )
    metadata = obj["metadata"] = {**metadata_of(obj), "namespace": appwrapper.namespace}
    metadata["labels"] = {LABEL: appwrapper.name, **_mapping("metadata.labels", metadata.get("labels"))}
    infos = component.pod_set_infos or ()
    for position, pod_set in enumerate(recorded_sets(appwrapper, index)):
        info = infos[position] if position < len(infos) else PodSetInfo()
        try:
            pod = paths.pod_template(obj, pod_set.path)
        except paths.BadPath as error:
            raise TemplateError(str(error)) from None
        _inject(pod, info, appwrapper, settings)
    return obj


def _inject(pod: Object, info: PodSetInfo, appwrapper: AppWrapper, settings: AppWrapperSettings) -> None:
    metadata, spec = dict(_mapping("metadata of a pod template", pod.get("metadata"))), pod["spec"]
    if info.annotations:
        annotations = _mapping("metadata.annotations of a pod template", metadata.get("annotations"))
        metadata["annotations"] = _joined("annotations", annotations, info.annotations)
    given = _mapping("metadata.labels of a pod template", metadata.get("labels"))
    marks = {LABEL: appwrapper.name, UID_LABEL: appwrapper.metadata.uid}
    labels = {name: value for name, value in given.items() if name != UID_LABEL}
    metadata["labels"] = _joined("labels", labels, {**(info.labels or {}), **marks})
    pod["metadata"] = metadata
    if info.node_selector:
        spec["nodeSelector"] = _joined("nodeSelector", spec.get("nodeSelector"), info.node_selector)
    if info.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *info.tolerations]
    gates = spec.get("schedulingGates") or []
    names = {gate.get("name") for gate in gates}
    if more := [gate for gate in info.scheduling_gates or () if gate.name not in names]:
        spec["schedulingGates"] = [*gates, *({"name": gate.name} for gate in more)]
    if settings.scheduler_name and not spec.get("schedulerName"):
        spec["schedulerName"] = settings.scheduler_name
    if settings.autopilot.inject_anti_affinities:
        asked = nodes.requested([*(spec.get("containers") or ()), *(spec.get("initContainers") or ())])
        if (affinity := nodes.avoiding(spec.get("affinity"), asked, settings.autopilot)) is not None:
            spec["affinity"] = affinity


def _mapping(what: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TemplateError(f"{what} is {value!r}; it must be a mapping")
    return value


def _joined(what: str, have: Mapping[str, str] | None, more: Mapping[str, str]) -> dict[str, str]:
    joined = dict(have or {})
    for key, value in more.items():
        if joined.get(key, value) != value:
            raise TemplateError(
                f"conflict updating {what}: conflict for key={key}, value1={joined[key]}, value2={value}"
            )
        joined[key] = value
    return joined
