"""What every pod gets at birth: a service account with its token, a priority, and patience with failing nodes."""

from __future__ import annotations

import asyncio
import random

from modelyard.kube.builtin import Pod, PriorityClass, ServiceAccount
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.admission.plugins import creates
from modelyard.local.apiserver.auth.tokens import PROJECTED_SECONDS
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import forbidden, go_quote
from modelyard.local.apiserver.storage.store import Store, Stored

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"
_MIRROR = "kubernetes.io/config.mirror"
_PATIENCE = 300
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_ATTEMPTS = 10
_PAUSE = 0.1


class ServiceAccountAdmission:
    """A pod runs as a service account that exists, and has its token unless it says otherwise."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return creates(admission, Pod)

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or _MIRROR in (obj["metadata"].get("annotations") or {}):
            return
        spec = obj["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = (await self._account(admission, obj, name)).decode()
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        if automount is not False:
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in account["imagePullSecrets"]]

    async def _account(self, admission: Admission, obj: Object, name: str) -> Stored:
        namespace = admission.namespace
        # A new namespace gets its default account a moment later; a pod that comes first waits for it.
        for attempt in range(_ATTEMPTS if name == "default" else 1):
            if attempt:
                await asyncio.sleep(_PAUSE)
            stored = self._store.get(ServiceAccount.resource, namespace, name)
            if stored is not None:
                return stored
        why = f"error looking up service account {namespace}/{name}: serviceaccount {go_quote(name)} not found"
        raise forbidden(Pod, obj["metadata"].get("name", ""), why)

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or not obj["spec"].get("serviceAccountName"):
            return
        await self._account(admission, obj, obj["spec"]["serviceAccountName"])


def _mount_token(spec: Object) -> None:
    volumes = spec.get("volumes") or []
    existing = next((volume["name"] for volume in volumes if volume.get("name", "").startswith(_VOLUME)), None)
    name = existing or _VOLUME + "".join(random.choices(_ALPHABET, k=5))
    mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
    needed = False
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            mounts = container.setdefault("volumeMounts", [])
            if not any(each.get("mountPath") == _TOKEN_PATH for each in mounts):
                mounts.append(dict(mount))
                needed = True
    if needed and existing is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _token_source() -> Object:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": PROJECTED_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
        "defaultMode": 0o644,
    }


class PriorityAdmission:
    """A pod's priority is what its class says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return (
            admission.resource.kind == Pod and admission.operation in ("CREATE", "UPDATE") and not admission.subresource
        )

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None:
            return
        spec = obj["spec"]
        if old is not None:
            for kept in ("priority", "preemptionPolicy"):
                if spec.get(kept) is None and old["spec"].get(kept) is not None:
                    spec[kept] = old["spec"][kept]
            return
        name = spec.get("priorityClassName", "")
        class_name, priority, policy = self._class(obj, name) if name else self._default()
        if class_name:
            spec["priorityClassName"] = class_name
        pod = obj["metadata"].get("name", "")
        computed = "priority admission controller computed {} from the given PriorityClass name"
        if spec.get("priority") is not None and spec["priority"] != priority:
            why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            raise forbidden(Pod, pod, why + computed.format(priority))
        if spec.get("preemptionPolicy") is not None and spec["preemptionPolicy"] != policy:
            why = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            )
            raise forbidden(Pod, pod, why + computed.format(policy))
        spec["priority"], spec["preemptionPolicy"] = priority, policy

    def _class(self, obj: Object, name: str) -> tuple[str, int, str]:
        stored = self._store.get(PriorityClass.resource, "", name)
        if stored is not None:
            found = stored.decode()
            return name, found.get("value", 0), found.get("preemptionPolicy") or "PreemptLowerPriority"
        if name in _SYSTEM_CLASSES:
            return name, _SYSTEM_CLASSES[name], "PreemptLowerPriority"
        raise forbidden(Pod, obj["metadata"].get("name", ""), f"no PriorityClass with name {name} was found")

    def _default(self) -> tuple[str, int, str]:
        defaults = [
            found
            for stored in self._store.items(PriorityClass.resource)
            if (found := stored.decode()).get("globalDefault")
        ]
        if not defaults:
            return "", 0, "PreemptLowerPriority"
        lowest = min(defaults, key=lambda each: each.get("value", 0))
        return (
            lowest["metadata"]["name"],
            lowest.get("value", 0),
            lowest.get("preemptionPolicy") or "PreemptLowerPriority",
        )

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        return None


class DefaultTolerations:
    """Pods stay for five minutes on a node that is not ready or not reachable, unless they say otherwise."""

    def concerns(self, admission: Admission) -> bool:
        return (
            admission.resource.kind == Pod and admission.operation in ("CREATE", "UPDATE") and not admission.subresource
        )

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None:
            return
        spec = obj["spec"]
        tolerations = spec.get("tolerations") or []
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if any(
                each.get("key", "") in (key, "") and each.get("effect", "") in ("NoExecute", "") for each in tolerations
            ):
                continue
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE}
            )
        spec["tolerations"] = tolerations

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        return None
