"""The whole of admission in the order of Kubernetes: the server's own plugins, mutating webhooks, then the validating side."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import utc_now
from modelyard.local.apiserver.admission.limit_ranges import LimitRangeAdmission
from modelyard.local.apiserver.admission.plugins import (
    ClaimResize,
    DefaultIngressClass,
    DefaultStorageClass,
    NamespaceLifecycle,
    OneDefaultPriority,
    Plugin,
    SigningRequests,
    StorageProtection,
)
from modelyard.local.apiserver.admission.pod_security import PodSecurity
from modelyard.local.apiserver.admission.pods import DefaultTolerations, PriorityAdmission, ServiceAccountAdmission
from modelyard.local.apiserver.admission.runtime_classes import RuntimeClassAdmission
from modelyard.local.apiserver.admission.webhooks import Rounds, WebhookAdmission
from modelyard.local.apiserver.auth.escalation import EscalationGuard
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.storage.store import Store
from modelyard.local.apiserver.verbs.scale import SCALE, scale_of, set_replicas

_REMEMBERED = 500


class AdmissionChain:
    """The server's admitter."""

    def __init__(
        self,
        store: Store,
        webhooks: WebhookAdmission,
        guard: EscalationGuard | None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._plugins: tuple[Plugin, ...] = (
            NamespaceLifecycle(store),
            LimitRangeAdmission(store),
            ServiceAccountAdmission(store),
            PodSecurity(store),
            PriorityAdmission(store),
            RuntimeClassAdmission(store),
            DefaultTolerations(),
            DefaultStorageClass(store),
            StorageProtection(),
            ClaimResize(store),
            DefaultIngressClass(store),
            OneDefaultPriority(store),
            SigningRequests(clock),
        )
        self._known: dict[tuple[str, Kind, str], tuple[Plugin, ...]] = {}
        self._webhooks = webhooks
        self._guard = guard

    def _concerned(self, admission: Admission) -> tuple[Plugin, ...]:
        key = (admission.operation, admission.resource.kind, admission.subresource)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = tuple([plugin for plugin in self._plugins if plugin.concerns(admission)])
            self._known[key] = found
        return found

    def concerns(self, admission: Admission) -> bool:
        return (
            bool(self._concerned(admission))
            or (self._guard is not None and self._guard.concerns(admission))
            or self._webhooks.concerns(admission)
        )

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> Object | None:
        if _scales(admission) and obj is not None and old is not None:
            # Webhooks see the Scale; what they change of it goes into the object.
            shown = await self._mutate(_as_scale(admission), *_scales_of(admission, obj, old))
            if shown is not None:
                set_replicas(admission.resource, obj, (shown.get("spec") or {}).get("replicas") or 0)
            return obj
        return await self._mutate(admission, obj, old)

    async def _mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> Object | None:
        await self._mutate_own(admission, obj, old)
        if self._webhooks.concerns(admission):
            rounds = Rounds()
            obj = await self._webhooks.mutate(admission, obj, old, rounds)
            if rounds.again:
                before = copy.deepcopy(obj)
                await self._mutate_own(admission, obj, old)
                rounds.second(others_changed=obj != before)
                obj = await self._webhooks.mutate(admission, obj, old, rounds)
        if obj is not None and self._guard is not None and self._guard.concerns(admission):
            self._guard.check(admission, obj, old)
        return obj

    async def _mutate_own(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        for plugin in self._concerned(admission):
            await plugin.mutate(admission, obj, old)

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if _scales(admission) and obj is not None and old is not None:
            obj, old = _scales_of(admission, obj, old)
            admission = _as_scale(admission)
        for plugin in self._concerned(admission):
            await plugin.validate(admission, obj, old)
        if self._webhooks.concerns(admission):
            await self._webhooks.validate(admission, obj, old)


def _scales(admission: Admission) -> bool:
    return admission.subresource == "scale" and admission.kind is None


def _as_scale(admission: Admission) -> Admission:
    return replace(admission, kind=SCALE)


def _scales_of(admission: Admission, obj: Object, old: Object) -> tuple[Object, Object]:
    return scale_of(admission.resource, obj), scale_of(admission.resource, old)
