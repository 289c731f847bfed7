"""Which of the objects that a pass sees are the custom resource's own. Pure."""

from __future__ import annotations

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of
from modelyard.runtime.declaring.world import World


def is_own(world: World, kind: Kind, obj: Object) -> bool:
    """Does the object belong to the resource of this pass?"""
    return any(key_of(own) == key_of(obj) for own in world.owned(kind))


def is_foreign(world: World, kind: Kind, obj: Object | None) -> bool:
    """Is there such an object, and does it belong to someone else?"""
    return obj is not None and not is_own(world, kind, obj)
