"""The roles, bindings and priorities that every cluster has, and what keeps aggregated ClusterRoles in step."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, Namespace, PriorityClass, Role, RoleBinding
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.builtin.checks import selects
from modelyard.local.apiserver.controllers.background import Worker
from modelyard.local.apiserver.requests.messages import LOOPBACK
from modelyard.local.apiserver.requests.options import WriteOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Registry
from modelyard.local.apiserver.storage.store import Change, Store, decode
from modelyard.local.apiserver.verbs.writes import Write, Writes

_KINDS = {kind.kind: kind for kind in (ClusterRole, ClusterRoleBinding, Role, RoleBinding, PriorityClass)}
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATOR = "clusterrole-aggregation-controller"

Entry = dict[str, Any]


@cache
def _entries() -> tuple[tuple[Kind, Entry], ...]:
    """Each with its rules as aggregation leaves them, so that nothing has to be written again after the start."""
    content = files(__package__).joinpath("bootstrap.json").read_bytes()
    by_kind = msgspec.json.decode(content, type=dict[str, list[Entry]])
    roles = by_kind["ClusterRole"]
    changed = True
    while changed:
        changed = False
        for role in roles:
            if "aggregationRule" in role:
                rules = aggregated(role, [(other["name"], other.get("labels") or {}, other) for other in roles])
                changed = changed or rules != role.get("rules", [])
                role["rules"] = rules
    return tuple((_KINDS[kind], entry) for kind, entries in by_kind.items() for entry in entries)


def aggregated(role: Object, others: list[tuple[str, dict[str, str], Object]]) -> list[Object]:
    """The rules that an aggregated role should have: those of all roles it selects, in order of their names, each once."""
    name = role.get("name") or (role.get("metadata") or {}).get("name", "")
    rules: list[Object] = []
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        for other_name, labels, other in sorted(others, key=lambda each: each[0]):
            if other_name != name and selects(selector, labels):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


class AccessDefaults:
    """Creates what is missing at the start, then follows ClusterRoles."""

    def __init__(self, store: Store, registry: Registry, writes: Writes) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._worker: Worker[str] = Worker("cluster role aggregation", self._aggregate)
        self._homes: Worker[str] = Worker("default roles of namespaces", self._create_missing)
        self._aggregating: set[str] = set()

    @property
    def busy(self) -> bool:
        return self._worker.busy or self._homes.busy

    async def start(self) -> None:
        await self._create_missing("")
        for namespace in self._store.items(Namespace.resource):
            await self._create_missing(namespace.name)
        self._store.listen(self._namespace_changed, Namespace.resource)
        for stored in self._store.items(ClusterRole.resource):
            if "aggregationRule" in decode(stored.raw):
                self._aggregating.add(stored.name)
        self._store.listen(self._changed, ClusterRole.resource)
        self._worker.start()
        self._homes.start()

    async def stop(self) -> None:
        await self._worker.stop()
        await self._homes.stop()

    def _namespace_changed(self, change: Change) -> None:
        if change.old is None and any(entry.get("namespace") == change.subject.name for _, entry in _entries()):
            self._homes.add(change.subject.name)

    async def _create_missing(self, namespace: str) -> None:
        for kind, entry in _entries():
            at_home = entry.get("namespace", "") == namespace
            if at_home and self._store.get(kind.resource, namespace, entry["name"]) is None:
                await self._create(kind, entry)

    async def _create(self, kind: Kind, entry: Entry) -> None:
        namespace = entry.get("namespace", "")
        metadata: Object = {"name": entry["name"]}
        if kind != PriorityClass:
            metadata["labels"] = _LABELS | (entry.get("labels") or {})
            metadata["annotations"] = _ANNOTATIONS
        content = {name: value for name, value in entry.items() if name not in ("name", "namespace", "labels")}
        obj: Object = msgspec.json.decode(msgspec.json.encode({"metadata": metadata} | content))
        write = self._write(kind, namespace, "", "kube-apiserver")
        await self._writes.create(write, self._writes.accept(write, obj, []))

    def _write(self, kind: Kind, namespace: str, name: str, manager: str) -> Write:
        resource = self._registry.lookup(kind.group, kind.version, kind.plural)
        assert resource is not None
        return Write(resource, namespace, name, LOOPBACK, WriteOptions(), manager=manager)

    def _changed(self, change: Change) -> None:
        subject = change.subject
        if change.new is not None and b'"aggregationRule"' in change.new.raw:
            self._aggregating.add(subject.name)
        else:
            self._aggregating.discard(subject.name)
        # Roles without labels cannot be selected; most roles of operators are such.
        if subject.name in self._aggregating:
            self._worker.add(subject.name)
        if subject.labels or (change.old is not None and change.old.labels):
            for name in self._aggregating:
                self._worker.add(name)

    async def _aggregate(self, name: str) -> None:
        stored = self._store.get(ClusterRole.resource, "", name)
        if stored is None:
            return
        role = stored.decode()
        if role.get("aggregationRule") is None:
            return
        others = [
            (other.name, other.labels or {}, decode(other.raw))
            for other in self._store.items(ClusterRole.resource)
            if other.labels
        ]
        rules = aggregated(role, others)
        if rules == (role.get("rules") or []):
            return

        async def changed(raw: bytes | None) -> Object:
            assert raw is not None
            obj = decode(raw)
            obj["rules"] = rules
            return obj

        write = self._write(ClusterRole, "", name, _AGGREGATOR)
        try:
            await self._writes.change(write, changed, options_kind="PatchOptions")
        except Problem as problem:
            if problem.code != 404:
                raise
