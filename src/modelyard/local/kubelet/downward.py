"""The downward API: a pod's own fields and its containers' resources as text, for environment variables and files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from modelyard.kube import quantities
from modelyard.kube.kinds import Object
from modelyard.local.kubelet.facts import Node, container_named

_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")
_DEFAULT_DIVISOR = {"cpu": "1", "memory": "1", "ephemeral-storage": "1"}


class FieldError(ValueError):
    """A field path or resource that the downward API does not have."""


def field_text(pod: Object, path: str, *, pod_ip: str, node: Node) -> str:
    meta, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.match(path)
    if subscript is not None:
        return str((meta.get(subscript[1]) or {}).get(subscript[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(meta.get(path.removeprefix("metadata."), ""))
        case "metadata.labels" | "metadata.annotations":
            return _lines(meta.get(path.removeprefix("metadata.")) or {})
        case "spec.nodeName":
            return str(spec.get("nodeName", ""))
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName") or "default")
        case "status.hostIP" | "status.hostIPs":
            return node.host_ip
        case "status.podIP" | "status.podIPs":
            return pod_ip
    raise FieldError(f"unsupported fieldPath: {path}")


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items()))


def resource_text(pod: Object, reference: Object, container: Object | None, *, node: Node) -> str:
    """A limit or request of a container in units of the divisor, rounded up; a missing limit is the node's size."""
    name = reference.get("containerName")
    source = container_named(pod, name) if name else container
    if source is None:
        raise FieldError(f"container {name} not found" if name else "containerName is required")
    side, _, resource = str(reference["resource"]).partition(".")
    if side not in ("limits", "requests") or not resource:
        raise FieldError(f"unsupported container resource : {reference['resource']}")
    resources = source.get("resources") or {}
    amount = (resources.get(side) or {}).get(resource)
    if amount is None and side == "limits":
        amount = node.allocatable.get(resource)
    if amount is None:
        amount = "0"
    divisor = reference.get("divisor") or "1"
    if quantities.parse(divisor).milli == 0:
        divisor = _DEFAULT_DIVISOR.get(resource, "1")
    milli, unit = quantities.parse(amount).milli, quantities.parse(divisor).milli
    return str(-(-milli // unit))
