"""The scale subresource: an object's replicas, read and written as an autoscaling/v1 Scale."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeGuard

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.selectors import SelectorError, from_object
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.problems import invalid_value
from modelyard.local.apiserver.served.resources import PlainStrategy, ServedResource
from modelyard.local.apiserver.storage.store import decode, encode
from modelyard.local.apiserver.verbs.ownership import Ownership
from modelyard.local.apiserver.verbs.patching import Patches, check_applied, read_apply
from modelyard.local.apiserver.verbs.scale_ownership import parent_entries, scale_entries
from modelyard.local.apiserver.verbs.writes import Transform, Write

_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", float: "number"}
_BOUND = 2**31
SCALE = Kind("autoscaling", "v1", "Scale", "scales")
RESOURCE = ServedResource(SCALE, PlainStrategy())
"""How a Scale is shown; it is not stored."""


def scale_of(resource: ServedResource, obj: Object) -> Object:
    """The Scale of an object. Raises where a custom resource has no value at its path."""
    spec_path, status_path, selector_path = _paths(resource)
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {},
        "status": {"replicas": _at(obj, status_path) or 0},
    }
    replicas = _at(obj, spec_path)
    if replicas is None and resource.custom:
        raise problems.internal_error(f"the spec replicas field {go_path(spec_path)!r} does not exist")
    if replicas:
        scale["spec"]["replicas"] = replicas
    selector = _at(obj, selector_path) if selector_path else None
    text = _selector_text(selector)
    if text:
        scale["status"]["selector"] = text
    return scale


def go_path(path: str) -> str:
    return "." + path.removeprefix(".")


def _paths(resource: ServedResource) -> tuple[str, str, str]:
    subresource = resource.subresources.get("scale")
    if subresource is None or subresource.scale_paths is None:
        raise problems.no_such_path()
    spec, status, selector = subresource.scale_paths
    return spec.lstrip("."), status.lstrip("."), selector.lstrip(".")


def _selector_text(selector: object) -> str:
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        # A ReplicationController's selector is a plain map.
        selector = {"matchLabels": selector}
    try:
        return str(from_object(selector))
    except SelectorError:
        return ""


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def set_replicas(resource: ServedResource, obj: Object, replicas: int) -> None:
    """Puts a Scale's replicas where the resource has them."""
    spec_path, _, _ = _paths(resource)
    *parents, last = spec_path.split(".")
    target = obj
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = replicas


def scaling(
    write: Write, change: Transform, ownership: Ownership, now: datetime, *, applies: bool = False
) -> Transform:
    """Turns a change of the Scale into a change of the object that it belongs to, owners of the replicas included."""
    resource = write.resource
    version, path = resource.kind.api_version, _paths(resource)[0]

    async def scaled(raw: bytes | None) -> Object:
        assert raw is not None
        obj = decode(raw)
        old = scale_of(resource, obj)
        if owners := scale_entries(obj, version, path):
            old["metadata"]["managedFields"] = owners
        new = await change(encode(old))
        _check(write, new)
        replicas = (new.get("spec") or {}).get("replicas") or 0
        if applies:
            written = new
        else:
            spec = {"spec": {"replicas": replicas}} if replicas else {"spec": {}}
            written = ownership.update(
                RESOURCE, {**old, "status": {}}, {**old, "status": {}, **spec}, write.manager, "scale", now
            )
        set_replicas(resource, obj, replicas)
        metadata = obj["metadata"]
        metadata["managedFields"] = parent_entries(obj, written, version, path)
        wanted = (new.get("metadata") or {}).get("resourceVersion")
        if wanted:
            metadata["resourceVersion"] = wanted
        elif not resource.custom:
            metadata.pop("resourceVersion", None)
        return obj

    return scaled


def _check(write: Write, scale: Object) -> None:
    if scale.get("kind") != "Scale" or scale.get("apiVersion") != SCALE.api_version:
        raise problems.bad_request(
            f"the object provided is unrecognized (must be of type Scale): {scale.get('apiVersion')}, Kind={scale.get('kind')}"
        )
    replicas = _replicas(write.resource, scale)
    if replicas is not None and replicas < 0 and not write.resource.custom:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise problems.invalid(SCALE, write.name, [cause])


def _replicas(resource: ServedResource, scale: Object) -> int | None:
    """Raises 400 where they are not a number."""
    spec = scale.get("spec") or {}
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    if replicas is None or _is_number(replicas):
        return replicas
    if resource.custom:
        # Kubernetes fails to say so: it looks for the Scale among the custom resource's kinds.
        raise problems.bad_request('no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"')
    raise problems.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {_not_whole(replicas)}')


def _is_number(replicas: Any) -> TypeGuard[int]:
    """Whether it is one that the field can hold."""
    return type(replicas) is int and -_BOUND <= replicas < _BOUND


def _not_whole(replicas: Any) -> str:
    found = f"number {replicas}" if type(replicas) is int else _JSON_NAMES[type(replicas)]
    return f"json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"


def replacing(resource: ServedResource, scale: Object) -> Transform:
    """A PUT of a Scale."""
    _replicas(resource, scale)

    async def replaced(_: bytes | None) -> Object:
        return {"kind": "Scale", "apiVersion": SCALE.api_version} | scale

    return replaced


def patching(patches: Patches, resource: ServedResource, patch: bytes, patch_type: str) -> Transform:
    """A patch of a Scale; a strategic one is a merge patch here, for a Scale has no lists."""

    async def patched(raw: bytes | None) -> Object:
        assert raw is not None
        merge = "application/merge-patch+json"
        scale = patches.patched(resource, raw, patch, patch_type if "json-patch" in patch_type else merge)
        replicas = (scale.get("spec") or {}).get("replicas")
        if replicas is not None and not _is_number(replicas):
            cause = invalid_value("patch", encode(scale).decode(), _not_whole(replicas))
            raise problems.invalid(Kind("", "", "", ""), "", [cause])
        return scale

    return patched


def applying(write: Write, body: bytes, ownership: Ownership, now: datetime) -> Transform:
    """A server-side apply of a Scale."""
    config, _ = read_apply(body)
    check_applied(SCALE, config)

    async def applied(raw: bytes | None) -> Object:
        assert raw is not None
        options = write.options
        live = decode(raw)
        merged = ownership.apply(RESOURCE, live, config, options.field_manager, "scale", force=options.force, now=now)
        replicas = (merged.get("spec") or {}).get("replicas")
        if not write.resource.custom and replicas is not None and not _is_number(replicas):
            raise problems.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {_not_whole(replicas)}')
        if write.resource.custom and merged.get("spec") != live.get("spec"):
            # Kubernetes cannot do that: it looks for the Scale among the versions of the custom resource.
            metadata = config.get("metadata") or {}
            named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            raise problems.custom(
                500,
                "",
                f"failed to convert new object ({named}; autoscaling/v1, Kind=Scale) to proper version: "
                "request to convert CR to an invalid group/version: autoscaling/v1",
            )
        return merged

    return applied
