"""Who owns the replicas: an object's managedFields as its Scale shows them, and back."""

from __future__ import annotations

from modelyard.kube import fieldsets
from modelyard.kube.fieldsets import FieldSet, Manager
from modelyard.kube.fieldsets.managed import Managed, Share
from modelyard.kube.kinds import Object

SCALE_VERSION = "autoscaling/v1"
_REPLICAS = FieldSet.fields("spec.replicas")


def scale_entries(parent: Object, api_version: str, path: str) -> list[Object]:
    """The managedFields of an object's Scale: those who own the replicas. `path` is where the object has them."""
    place = FieldSet.fields(path)
    return fieldsets.encode(
        {
            _renamed(manager, SCALE_VERSION): Share(_REPLICAS.root, SCALE_VERSION, share.time)
            for manager, share in _managed(parent).items()
            if _same_group(share.api_version, api_version) and FieldSet(share.fields) & place
        }
    )


def parent_entries(parent: Object, scale: Object, api_version: str, path: str) -> list[Object]:
    """The object's managedFields after its Scale was written: who no longer owns the Scale's replicas loses the object's."""
    place = FieldSet.fields(path)
    owners = _managed(scale)
    left: Managed = {}
    for manager, share in _managed(parent).items():
        if not _same_group(share.api_version, api_version):
            continue
        if not FieldSet(share.fields) & place or owners.pop(manager, None) is not None:
            left[manager] = share
        elif rest := FieldSet(share.fields) - place:
            left[manager] = Share(rest.root, share.api_version, share.time)
    # A new owner comes without a time; so does one by update that stays, for the Scale knows it under its own version.
    new = {
        _renamed(manager, api_version): Share(place.root, api_version, None)
        for manager, share in owners.items()
        if FieldSet(share.fields) & _REPLICAS
    }
    return sorted(fieldsets.encode(left) + fieldsets.encode(new), key=_order)


def _order(entry: Object) -> tuple[str, ...]:
    return tuple(str(entry.get(key) or "") for key in ("operation", "time", "manager", "apiVersion", "subresource"))


def _managed(obj: Object) -> Managed:
    return fieldsets.decode((obj.get("metadata") or {}).get("managedFields"), trusted=True)


def _renamed(manager: Manager, api_version: str) -> Manager:
    return manager._replace(api_version=api_version if manager.operation == "Update" else "")


def _same_group(one: str, other: str) -> bool:
    return one.rpartition("/")[0] == other.rpartition("/")[0]
