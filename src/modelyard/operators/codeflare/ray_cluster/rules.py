"""What is wrong with a RayCluster that someone sends: pure."""

from __future__ import annotations

from collections.abc import Iterator

from modelyard.kube.kinds import Object
from modelyard.kube.objects import lookup, metadata_of, spec_of
from modelyard.operators.codeflare.ray_cluster.names import Names
from modelyard.runtime.webhooks import FieldError

LABEL = 63
"""The longest name of a Service, and of one part of a host."""
HEAD = "spec.headGroupSpec"
_NO_LIST = "Invalid value: use a list of objects"


def spec_errors(cluster: Object) -> Iterator[FieldError]:
    if lookup(cluster, "spec", "headGroupSpec", "enableIngress") is True:
        text = "Invalid value: true: RayCluster with enableIngress set to true is not allowed"
        yield FieldError(f"{HEAD}.enableIngress", text)
    yield from _pod_errors(HEAD, lookup(cluster, "spec", "headGroupSpec", "template", "spec"))
    groups = spec_of(cluster).get("workerGroupSpecs") or []
    if not _is_list_of_objects(groups):
        yield FieldError("spec.workerGroupSpecs", _NO_LIST)
        return
    for index, group in enumerate(groups):
        yield from _pod_errors(f"spec.workerGroupSpecs.{index}", lookup(group, "template", "spec"))


def _pod_errors(group: str, pod: object) -> Iterator[FieldError]:
    """The API looks at an object's form only after a webhook may have changed it."""
    path = f"{group}.template.spec"
    if not isinstance(pod, dict) or not pod.get("containers"):
        yield _no_container(group)
        return
    lists = [(path, pod, name) for name in ("containers", "initContainers", "volumes")]
    first = pod["containers"][0] if isinstance(pod["containers"], list) else None
    if isinstance(first, dict):
        lists += [(f"{path}.containers.0", first, name) for name in ("env", "volumeMounts")]
    for place, holder, name in lists:
        if not _is_list_of_objects(holder.get(name) or []):
            yield FieldError(f"{place}.{name}", _NO_LIST)


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def name_errors(cluster: Object, namespace: str) -> Iterator[FieldError]:
    """Names follow from the cluster's, so it must be known and leave room for them."""
    name = str(metadata_of(cluster).get("name") or "")
    if not name:
        text = (
            "Required value: the objects around a RayCluster are named after it; give it a name instead of generateName"
        )
        yield FieldError("metadata.name", text, "FieldValueRequired")
        return
    names = Names(name, namespace)
    host = f"{names.dashboard}-{namespace}"
    for what, made in (("Service", names.oauth_service), ("first part of the dashboard's host", host)):
        if len(made) > LABEL:
            text = f'Invalid value: "{name}": the {what} would be {made}, {len(made) - LABEL} characters too long'
            yield FieldError("metadata.name", text)


def _no_container(group: str) -> FieldError:
    text = "Required value: the first container is the one that runs Ray; there is none"
    return FieldError(f"{group}.template.spec.containers", text, "FieldValueRequired")
