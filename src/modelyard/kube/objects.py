"""Small questions to Kubernetes objects as plain data. Absent and null are the same everywhere."""

from __future__ import annotations

from typing import Any

from modelyard.kube.kinds import Key, Object


def metadata_of(obj: Object) -> Object:
    metadata: Object = obj.get("metadata") or {}
    return metadata


def name_of(obj: Object) -> str:
    return str(metadata_of(obj).get("name") or "")


def namespace_of(obj: Object) -> str:
    return str(metadata_of(obj).get("namespace") or "")


def key_of(obj: Object) -> Key:
    return Key(namespace_of(obj), name_of(obj))


def uid_of(obj: Object) -> str:
    return str(metadata_of(obj).get("uid") or "")


def resource_version_of(obj: Object) -> str:
    return str(metadata_of(obj).get("resourceVersion") or "")


def generation_of(obj: Object) -> int:
    return int(metadata_of(obj).get("generation") or 0)


def labels_of(obj: Object) -> dict[str, str]:
    return metadata_of(obj).get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    return metadata_of(obj).get("annotations") or {}


def finalizers_of(obj: Object) -> list[str]:
    return metadata_of(obj).get("finalizers") or []


def owners_of(obj: Object) -> list[Object]:
    """Its owner references."""
    return metadata_of(obj).get("ownerReferences") or []


def spec_of(obj: Object) -> Object:
    return obj.get("spec") or {}


def status_of(obj: Object) -> Object:
    return obj.get("status") or {}


def conditions_of(obj: Object) -> list[Object]:
    return status_of(obj).get("conditions") or []


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the one owner that manages the object."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


def is_controlled_by(obj: Object, owner: Object) -> bool:
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == uid_of(owner) != ""


def is_owned_by(obj: Object, owner: Object) -> bool:
    return any(reference.get("uid") == uid_of(owner) != "" for reference in owners_of(obj))


def is_deleting(obj: Object) -> bool:
    return bool(metadata_of(obj).get("deletionTimestamp"))


def kind_of(obj: Object) -> tuple[str, str]:
    """Its `(apiVersion, kind)`."""
    return str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")


def group_of(api_version: str) -> str:
    """The group of an `apiVersion`; the core group is empty."""
    return api_version.rpartition("/")[0]


def owner_reference(owner: Object, *, controller: bool = True, block_deletion: bool = True) -> Object:
    """A reference to `owner` for the metadata of its child."""
    api_version, kind = kind_of(owner)
    name, uid = name_of(owner), uid_of(owner)
    if not (api_version and kind and name and uid):
        raise ValueError(
            f"{kind or 'an object'} {name!r} cannot be an owner: it needs apiVersion, kind, name and uid, so it must have been read from the API"
        )
    reference: Object = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    if controller:
        reference["controller"] = True
    if block_deletion:
        reference["blockOwnerDeletion"] = True
    return reference


def describe(obj: Object) -> str:
    """How an object is named to people: `Deployment shop/web`."""
    return f"{obj.get('kind') or 'object'} {key_of(obj)}"


def lookup(obj: Object, *path: str) -> Any:
    """The value at a path of field names; None where any step is absent."""
    value: Any = obj
    for field in path:
        if not isinstance(value, dict):
            return None
        value = value.get(field)
    return value
