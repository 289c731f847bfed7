"""How a child says whose it is: owner references, tracking labels, and field managers. Pure; nothing here acts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.declaring.desired import Child, Ownership, Policy

DOMAIN = "modelyard.dev"
PAUSE = f"{DOMAIN}/pause"
RECONCILE = f"{DOMAIN}/reconcile"
OWNER_KIND = f"{DOMAIN}/owner-kind"
OWNER_CONTROLLER = f"{DOMAIN}/owner-controller"
"""Which controller tracks the child: one resource may have several. Children from before this label have none."""
OWNER_NAMESPACE = f"{DOMAIN}/owner-namespace"
OWNER_NAME = f"{DOMAIN}/owner-name"
OWNER_UID = f"{DOMAIN}/owner-uid"
SHARE_PREFIX = f"owner.{DOMAIN}/"
"""Label (for finding) and annotation (naming the owner in full) of each owner of a shared child: this plus the owner's uid."""
POLICY = f"{DOMAIN}/policy"
"""Annotation on what outlives a prune (`once`) or its owner (`keep`)."""
GENERATED = f"{DOMAIN}/generated"
"""Annotation that names the fields made on creation, which later applies carry on."""

_LABEL_MAX = 63


def label_value(text: str) -> str:
    """The text itself where it is a valid label value, else a readable start of it and a digest."""
    if len(text) <= _LABEL_MAX:
        return text
    return f"{text[:46].rstrip('-_.')}-{digest(text, 16)}"


def digest(text: str, size: int = 10) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:size]


@dataclass(frozen=True)
class Owner:
    """Whose children they are: a resource, or a key of a controller that has none."""

    controller: str
    """Empty: whichever controller it is, for those who only look."""
    key: Key
    kind: Kind | None = None
    uid: str = ""

    @cached_property
    def type_name(self) -> str:
        """What tracking labels call the owner's type: `Kind.group`, or the controller's name."""
        if self.kind is None:
            return label_value(self.controller)
        return label_value(f"{self.kind.kind}.{self.kind.group}" if self.kind.group else self.kind.kind)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The tracking labels that every child without an owner reference carries."""
        labels = {OWNER_KIND: self.type_name, OWNER_NAME: label_value(self.key.name)}
        if self.kind is not None:
            labels[OWNER_CONTROLLER] = label_value(self.controller)
        if self.key.namespace:
            labels[OWNER_NAMESPACE] = self.key.namespace
        return labels

    @property
    def annotations(self) -> dict[str, str]:
        """The owner's name in full, where a label cannot hold it."""
        return {OWNER_NAME: self.key.name} if len(self.key.name) > _LABEL_MAX else {}

    def can_be_referenced_by(self, kind: Kind, namespace: str) -> bool:
        """May an object of that kind in that namespace carry an owner reference to this owner?"""
        if self.kind is None or not self.uid:
            return False
        return not self.kind.namespaced or (kind.namespaced and namespace == self.key.namespace)

    def reference(self, *, controller: bool) -> Object:
        assert self.kind is not None
        reference: Object = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": self.key.name,
            "uid": self.uid,
        }
        if controller:
            reference |= {"controller": True, "blockOwnerDeletion": True}
        return reference

    @cached_property
    def token(self) -> str:
        """Names this owner among all, also where it has no uid."""
        return self.uid or digest(f"{self.type_name}/{self.key}", 32)

    def manager(self, base: str, ownership: Ownership) -> str:
        """One field manager a controller for children with one owner; one an owner where several meet on an object."""
        if ownership in (Ownership.SHARED, Ownership.CONTRIBUTED):
            return f"{base}.{digest(f'{self.type_name}/{self.key}')}"
        return base


def resolve(child: Child, owner: Owner, kind: Kind) -> Ownership:
    """The ownership that is possible: where no owner reference can go, or none should, the child is tracked by labels."""
    if child.ownership is Ownership.OWNED:
        namespace = child.object["metadata"].get("namespace") or ""
        if child.keep or not owner.can_be_referenced_by(kind, namespace):
            return Ownership.TRACKED
    return child.ownership


def stamp(child: Child, owner: Owner, kind: Kind) -> Object:
    """The object to apply: the child's own, with what says whose it is. It shares what it does not change."""
    metadata: Object = dict(child.object["metadata"])
    obj = child.object | {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    obj.pop("status", None)
    ownership = resolve(child, owner, kind)
    referable = owner.can_be_referenced_by(kind, metadata.get("namespace") or "")
    references = list(metadata.get("ownerReferences") or [])
    if ownership is Ownership.OWNED:
        references.append(owner.reference(controller=True))
    elif ownership is Ownership.TRACKED:
        _label(metadata, owner.labels | ({OWNER_UID: owner.uid} if owner.uid else {}))
        _annotate(metadata, owner.annotations)
    elif ownership is Ownership.SHARED:
        if referable:
            references.append(owner.reference(controller=False))
        else:
            _label(metadata, {SHARE_PREFIX + owner.token: owner.type_name})
            _annotate(metadata, {SHARE_PREFIX + owner.token: str(owner.key)})
    if references:
        metadata["ownerReferences"] = references
    kept = [name for name, on in (("once", child.policy is Policy.ONCE), ("keep", child.keep)) if on]
    if kept and ownership is not Ownership.CONTRIBUTED:
        _annotate(metadata, {POLICY: ",".join(kept)})
    return obj


def _label(metadata: Object, labels: dict[str, str]) -> None:
    metadata["labels"] = (metadata.get("labels") or {}) | labels


def _annotate(metadata: Object, annotations: dict[str, str]) -> None:
    if annotations:
        metadata["annotations"] = (metadata.get("annotations") or {}) | annotations


def kept_by(obj: Object, policy: str) -> bool:
    """Was the object stamped to outlive a prune (`once`) or its owner (`keep`)?"""
    return policy in ((obj["metadata"].get("annotations") or {}).get(POLICY) or "").split(",")


def refers_to(obj: Object, owner: Owner) -> bool:
    """Does an owner reference of the object name this very owner?"""
    return bool(owner.uid) and any(r.get("uid") == owner.uid for r in obj["metadata"].get("ownerReferences") or ())


def is_tracked_by(obj: Object, owner: Owner) -> bool:
    labels = obj["metadata"].get("labels") or {}
    if labels.get(OWNER_NAMESPACE, "") != owner.key.namespace or not _may_be_tracked_by(labels, owner.controller):
        return False
    return all(labels.get(name) == value for name, value in owner.labels.items() if name != OWNER_CONTROLLER)


def is_surely_tracked_by(obj: Object, owner: Owner) -> bool:
    """Do the tracking labels name the owner's controller too? Those of older versions do not."""
    return is_tracked_by(obj, owner) and (
        owner.kind is None or OWNER_CONTROLLER in (obj["metadata"].get("labels") or {})
    )


def _may_be_tracked_by(labels: Mapping[str, str], controller: str) -> bool:
    return not controller or labels.get(OWNER_CONTROLLER) in (None, label_value(controller))


def is_shared_by(obj: Object, owner: Owner) -> bool:
    return SHARE_PREFIX + owner.token in (obj["metadata"].get("labels") or {})


def belongs_to(obj: Object, owner: Owner) -> bool:
    """Is the object a child of this owner, by owner reference or by label?"""
    return refers_to(obj, owner) or is_tracked_by(obj, owner) or is_shared_by(obj, owner)


def controller_of(obj: Object) -> Object | None:
    """The controller owner reference of an object."""
    return next((r for r in obj["metadata"].get("ownerReferences") or () if r.get("controller")), None)


def was_made_for_namesake(obj: Object, owner: Owner) -> bool:
    """Does the object belong to a resource that had our owner's name before and is gone? The garbage collector takes it."""
    holder = controller_of(obj)
    if holder is None or owner.kind is None or not is_reference_to(holder, owner.kind):
        return False
    return (holder.get("name"), holder.get("uid") != owner.uid) == (owner.key.name, True)


def may_take(live: Object, child: Child, owner: Owner, kind: Kind) -> bool:
    """May we write this existing object as our child? Only what says that it is ours; else it is someone's namesake."""
    ownership = resolve(child, owner, kind)
    if ownership is Ownership.CONTRIBUTED:
        return True
    if ownership is Ownership.SHARED:
        return refers_to(live, owner) or is_shared(live, owner)
    if refers_to(live, owner):
        return True
    holder = controller_of(live)
    if not is_tracked_by(live, owner) or (holder is not None and not _refers(child.object, holder)):
        return False
    same = (live["metadata"].get("labels") or {}).get(OWNER_UID, "") == owner.uid
    return same or child.adopt or not kept_by(live, "keep")


def _refers(obj: Object, holder: Object) -> bool:
    """Does the object name this very owner?"""
    return any(r.get("uid") == holder.get("uid") for r in obj["metadata"].get("ownerReferences") or ())


def is_shared(obj: Object, owner: Owner) -> bool:
    """Does any owner of our owner's type hold a share in the object?"""
    metadata = obj["metadata"]
    if any(k.startswith(SHARE_PREFIX) and v == owner.type_name for k, v in (metadata.get("labels") or {}).items()):
        return True
    return owner.kind is not None and any(
        is_reference_to(r, owner.kind) and not r.get("controller") for r in metadata.get("ownerReferences") or ()
    )


def is_share_of(obj: Object, owner: Owner) -> bool:
    """Does this owner hold a share in the object: by its label, or by a reference that is not the controller's?"""
    references = obj["metadata"].get("ownerReferences") or ()
    return is_shared_by(obj, owner) or any(
        r.get("uid") == owner.uid != "" and not r.get("controller") for r in references
    )


def has_other_owners(obj: Object, owner: Owner) -> bool:
    """Does anyone else hold a share in a shared object?"""
    metadata = obj["metadata"]
    if any(r.get("uid") != owner.uid for r in metadata.get("ownerReferences") or ()):
        return True
    return any(k.startswith(SHARE_PREFIX) and k != SHARE_PREFIX + owner.token for k in metadata.get("labels") or ())


def is_reference_to(reference: Object, kind: Kind) -> bool:
    """Does an owner reference name a thing of this kind, in whatever version?"""
    return reference.get("kind") == kind.kind and (reference.get("apiVersion") or "").rpartition("/")[0] == kind.group


def owner_keys(obj: Object, controller: str, kind: Kind | None) -> Iterator[Key]:
    """The keys of a controller that an object belongs to: from owner references, tracking labels and shares."""
    metadata = obj["metadata"]
    type_name = Owner(controller, Key("", ""), kind).type_name
    if kind is not None:
        namespace = (metadata.get("namespace") or "") if kind.namespaced else ""
        for reference in metadata.get("ownerReferences") or ():
            if is_reference_to(reference, kind):
                yield Key(namespace, reference["name"])
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    tracked = labels.get(OWNER_KIND) == type_name and _may_be_tracked_by(labels, controller)
    if tracked and (name := annotations.get(OWNER_NAME) or labels.get(OWNER_NAME)):
        yield Key(labels.get(OWNER_NAMESPACE, ""), name)
    for label, value in labels.items():
        if label.startswith(SHARE_PREFIX) and value == type_name and (text := annotations.get(label)):
            namespace, _, name = text.rpartition("/")
            yield Key(namespace, name)
