"""A pod that names a RuntimeClass gets its overhead and its demands on nodes; the class must exist."""

from __future__ import annotations

from modelyard.kube.builtin import Pod
from modelyard.kube.kinds import Object
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.admission.plugins import creates
from modelyard.local.apiserver.builtin.cluster import RUNTIME_CLASS
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import Problem, forbidden, go_quote
from modelyard.local.apiserver.storage.store import Store


class RuntimeClassAdmission:
    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        return creates(admission, Pod)

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        found = self._class_of(obj)
        if obj is None or found is None:
            return
        spec = obj["spec"]
        fixed = (found.get("overhead") or {}).get("podFixed")
        if found.get("overhead") is not None:
            if spec.get("overhead") and not _same(spec["overhead"], fixed or {}):
                raise _refused(obj, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            if fixed:
                spec["overhead"] = dict(fixed)
        scheduling = found.get("scheduling") or {}
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            mine = spec.setdefault("nodeSelector", {}).setdefault(key, value)
            if mine != value:
                where = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {mine}"
                raise _refused(obj, f"conflict: {where}")
        for toleration in scheduling.get("tolerations") or ():
            if toleration not in spec.setdefault("tolerations", []):
                spec["tolerations"].append(dict(toleration))

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or not obj["spec"].get("overhead"):
            return
        found = self._class_of(obj)
        if found is None or found.get("overhead") is None:
            raise _refused(obj, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")

    def _class_of(self, obj: Object | None) -> Object | None:
        name = (obj or {}).get("spec", {}).get("runtimeClassName")
        if obj is None or name is None:
            return None
        stored = self._store.get(RUNTIME_CLASS.resource, "", name)
        if stored is None:
            raise _refused(obj, f"pod rejected: RuntimeClass {go_quote(name)} not found")
        return stored.decode()


def _same(one: Object, other: Object) -> bool:
    return one.keys() == other.keys() and all(parse(one[name]) == parse(other[name]) for name in one)


def _refused(obj: Object, why: str) -> Problem:
    return forbidden(Pod, obj["metadata"].get("name", ""), why)
