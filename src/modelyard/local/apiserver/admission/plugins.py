"""What a plugin of the server's own is, and the small ones that concern one kind each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from modelyard.kube.builtin import (
    Ingress,
    IngressClass,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PriorityClass,
    StorageClass,
)
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.quantities import parse
from modelyard.kube.times import format_time
from modelyard.local.apiserver.builtin.certificates import SIGNING_REQUEST
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import forbidden, not_found
from modelyard.local.apiserver.storage.store import Store, Stored

_IMMORTAL = ("default", "kube-system", "kube-public")
_PROTECTION = {
    PersistentVolumeClaim: "kubernetes.io/pvc-protection",
    PersistentVolume: "kubernetes.io/pv-protection",
}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_CLASS_BETA = "storageclass.beta.kubernetes.io/is-default-class"
_CLAIM_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"
_INGRESS_CLASS = "kubernetes.io/ingress.class"


class Plugin(Protocol):
    """One step of admission. Both methods may raise a Problem."""

    def concerns(self, admission: Admission) -> bool:
        """By operation, kind and subresource alone: the answer is remembered."""

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        """May change the object in place."""

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        """Sees the final object."""


class _Passive:
    """A plugin that overrides only what it needs."""

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        return None

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        return None


def creates(admission: Admission, kind: Kind) -> bool:
    return admission.operation == "CREATE" and admission.resource.kind == kind and not admission.subresource


class NamespaceLifecycle(_Passive):
    """Nothing is created where there is no namespace or where it is ending; some namespaces never end."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        if admission.operation == "CREATE":
            return admission.resource.kind.namespaced
        return admission.operation == "DELETE" and admission.resource.kind == Namespace

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if admission.operation == "DELETE":
            if admission.name in _IMMORTAL:
                raise forbidden(Namespace, admission.name, "this namespace may not be deleted")
            return
        namespace = admission.namespace
        stored = self._store.get(Namespace.resource, "", namespace)
        if stored is None:
            raise not_found(Namespace, namespace)
        if stored.deleting:
            name = admission.name or (obj or {}).get("metadata", {}).get("name", "")
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            problem = forbidden(admission.resource.kind, name, why)
            problem.status["details"]["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise problem


class StorageProtection(_Passive):
    """Claims and volumes get a finalizer at birth, so that they are not deleted while in use."""

    def concerns(self, admission: Admission) -> bool:
        return admission.operation == "CREATE" and admission.resource.kind in _PROTECTION and not admission.subresource

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None:
            return
        finalizer = _PROTECTION[admission.resource.kind]
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)


class DefaultStorageClass(_Passive):
    """A claim that names no class gets the default one, if there is one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return creates(admission, PersistentVolumeClaim)

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or obj["spec"].get("storageClassName") is not None:
            return
        if _CLAIM_CLASS in (obj["metadata"].get("annotations") or {}):
            return
        default = _default_of(self._store.items(StorageClass.resource), (_DEFAULT_CLASS, _DEFAULT_CLASS_BETA))
        if default is not None:
            obj["spec"]["storageClassName"] = default


class DefaultIngressClass(_Passive):
    """An Ingress that names no class gets the default one, if there is one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return creates(admission, Ingress)

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or obj["spec"].get("ingressClassName") is not None:
            return
        if _INGRESS_CLASS in (obj["metadata"].get("annotations") or {}):
            return
        default = _default_of(self._store.items(IngressClass.resource), (_DEFAULT_INGRESS,))
        if default is not None:
            obj["spec"]["ingressClassName"] = default


def _default_of(stored: list[Stored], annotations: tuple[str, ...]) -> str | None:
    """The class that is marked as default; the newest where there are several."""
    marked: list[tuple[str, str]] = []
    for each in stored:
        metadata = each.decode()["metadata"]
        notes = metadata.get("annotations") or {}
        if any(notes.get(name) == "true" for name in annotations):
            marked.append((metadata.get("creationTimestamp", ""), each.name))
    if not marked:
        return None
    newest = max(created for created, _ in marked)
    return min(name for created, name in marked if created == newest)


class ClaimResize(_Passive):
    """A claim grows only when it is bound, and only where its class allows it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return (
            admission.operation == "UPDATE"
            and admission.resource.kind == PersistentVolumeClaim
            and not admission.subresource
        )

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or old is None:
            return
        sizes = [
            ((each["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0") for each in (obj, old)
        ]
        if parse(sizes[0]) <= parse(sizes[1]):
            return
        kind, name = PersistentVolumeClaim, admission.name
        if (old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(kind, name, "Only bound persistent volume claims can be expanded")
        stored = self._store.get(StorageClass.resource, "", obj["spec"].get("storageClassName") or "")
        if stored is None or not stored.decode().get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
                "resize"
            )
            raise forbidden(kind, name, why)


class OneDefaultPriority(_Passive):
    """At most one PriorityClass is the global default."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return admission.operation in ("CREATE", "UPDATE") and admission.resource.kind == PriorityClass

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or not obj.get("globalDefault"):
            return
        for stored in self._store.items(PriorityClass.resource):
            if stored.name != obj["metadata"].get("name") and stored.decode().get("globalDefault"):
                why = f"PriorityClass {stored.name} is already marked as default. Only one default can exist"
                raise forbidden(PriorityClass, admission.name, why)


class SigningRequests(_Passive):
    """A certificate signing request says who made it, and its conditions say since when they hold."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    def concerns(self, admission: Admission) -> bool:
        return admission.operation in ("CREATE", "UPDATE") and admission.resource.kind == SIGNING_REQUEST

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None:
            return
        if admission.operation == "CREATE":
            user = admission.user
            said = {
                "username": user.name, "uid": user.uid, "groups": list(user.groups),
                "extra": {name: list(values) for name, values in user.extra.items()},
            }  # fmt: skip
            spec = obj["spec"]
            for name, value in said.items():
                spec.pop(name, None)
                if value:
                    spec[name] = value
        elif admission.subresource:
            self._date(obj, old or {})

    def _date(self, obj: Object, old: Object) -> None:
        now = format_time(self._clock())
        known = {
            (condition.get("type"), condition.get("status")): condition.get("lastTransitionTime")
            for condition in (old.get("status") or {}).get("conditions") or ()
        }
        for condition in (obj.get("status") or {}).get("conditions") or ():
            condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
            since = known.get((condition.get("type"), condition.get("status")))
            condition["lastTransitionTime"] = condition.get("lastTransitionTime") or since or now
