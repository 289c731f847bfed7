"""What Kueue needs of an AppWrapper: its pod sets as templates that count for quota, and where to put what it decides. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.objects import metadata_of, name_of, spec_of, status_of
from modelyard.kube.quantities import parse
from modelyard.operators.codeflare.appwrapper import paths
from modelyard.operators.codeflare.appwrapper.api import Component, PodSet
from modelyard.operators.codeflare.appwrapper.podsets import definitive

_COPIED = (
    "nodeSelector", "nodeName", "affinity", "tolerations", "priorityClassName", "overhead", "topologySpreadConstraints",
)  # fmt: skip
_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
}


class WrongCount(ValueError):
    """There are not as many infos as pod sets."""


def workload_pod_sets(appwrapper: Object) -> list[Object]:
    """As a Workload has them: a name, a count and a template each."""
    return [
        {"name": f"{name_of(appwrapper)}-{index}", "count": pod_set.count, "template": _reduced(template)}
        for index, (pod_set, template) in enumerate(_templates(appwrapper))
    ]


def with_infos(appwrapper: Object, infos: Sequence[Object]) -> Object:
    """The AppWrapper with what was decided for each pod set, in their order."""
    counts = [len(_sets(appwrapper, index)) for index in range(len(_components(appwrapper)))]
    if sum(counts) != len(infos):
        raise WrongCount(f"expecting {sum(counts)} podsets, got {len(infos)}")
    left = list(infos)
    components = []
    for component, count in zip(_components(appwrapper), counts, strict=True):
        components.append({**component, "podSetInfos": left[:count]})
        left = left[count:]
    return {**appwrapper, "spec": {**spec_of(appwrapper), "components": components}}


def without_infos(appwrapper: Object) -> Object:
    """The AppWrapper as nothing was decided."""
    components = [
        {name: value for name, value in component.items() if name != "podSetInfos"}
        for component in _components(appwrapper)
    ]
    return {**appwrapper, "spec": {**spec_of(appwrapper), "components": components}}


def _components(appwrapper: Object) -> list[Object]:
    found: list[Object] = spec_of(appwrapper).get("components") or []
    return found


def _sets(appwrapper: Object, index: int) -> list[PodSet]:
    recorded = status_of(appwrapper).get("componentStatus") or []
    if index < len(recorded):
        return [
            PodSet(path=each["path"], replicas=each.get("replicas"), annotations=each.get("annotations"))
            for each in recorded[index]["podSets"]
        ]
    component = _components(appwrapper)[index]
    declared = [
        PodSet(path=each["path"], replicas=each.get("replicas"), annotations=each.get("annotations"))
        for each in component.get("podSets") or ()
    ]
    return definitive(Component(template=component["template"], pod_sets=declared))


def _templates(appwrapper: Object) -> Iterator[tuple[PodSet, Object]]:
    for index, component in enumerate(_components(appwrapper)):
        for pod_set in _sets(appwrapper, index):
            yield pod_set, paths.pod_template(component["template"], pod_set.path)


def _reduced(template: Object) -> Object:
    """Only what counts for quota, with what the API server would fill in."""
    spec = template["spec"]
    metadata = {
        name: {key: value for key, value in values.items() if isinstance(value, str)}
        for name in ("labels", "annotations")
        if (values := metadata_of(template).get(name))
    }
    reduced: Object = {name: spec[name] for name in _COPIED if spec.get(name) is not None}
    reduced |= {name: default if spec.get(name) is None else spec[name] for name, default in _DEFAULTS.items()}
    reduced["containers"] = [_container(each) for each in spec.get("containers") or ()]
    if spec.get("initContainers"):
        reduced["initContainers"] = [_container(each) for each in spec["initContainers"]]
    return {"metadata": metadata, "spec": reduced}


def _container(container: Object) -> Object:
    kept = ("name", "image", "command", "args", "securityContext")
    made: Object = {name: container[name] for name in kept if container.get(name) is not None}
    made["resources"] = _resources(container.get("resources") or {})
    made["terminationMessagePath"] = container.get("terminationMessagePath") or "/dev/termination-log"
    made["terminationMessagePolicy"] = container.get("terminationMessagePolicy") or "File"
    made["imagePullPolicy"] = container.get("imagePullPolicy") or _pull_policy(str(container.get("image") or ""))
    return made


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _resources(resources: Object) -> Object:
    return {
        name: {key: _milli(amount) for key, amount in value.items()} if name in ("requests", "limits") else value
        for name, value in resources.items()
    }


def _milli(amount: Any) -> str:
    """Rounded up to a thousandth, as the API keeps it."""
    quantity = parse(amount)
    return str(quantity) if quantity.nanos == quantity.milli * 10**6 else f"{quantity.milli}m"
