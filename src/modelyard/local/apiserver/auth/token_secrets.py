"""Secrets of type service-account-token: filled with a token when they are created, deleted with their account."""

from __future__ import annotations

import base64
from collections.abc import Callable

from modelyard.kube.builtin import Secret, ServiceAccount
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.controllers.background import Worker
from modelyard.local.apiserver.requests.messages import LOOPBACK
from modelyard.local.apiserver.requests.options import DeleteOptions, WriteOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Registry, ServedResource
from modelyard.local.apiserver.storage.store import Change, Store, decode
from modelyard.local.apiserver.verbs.deletion import Deletion, Deletions
from modelyard.local.apiserver.verbs.writes import Write, Writes

_TYPE = "kubernetes.io/service-account-token"
_NAME = "kubernetes.io/service-account.name"
_UID = "kubernetes.io/service-account.uid"


class TokenSecrets:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        writes: Writes,
        deletions: Deletions,
        tokens: ServiceAccountTokens,
        root_ca: Callable[[], str],
    ) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._deletions = deletions
        self._tokens = tokens
        self._root_ca = root_ca
        self._worker: Worker[tuple[str, str]] = Worker("service account token secrets", self._work)
        self._secrets: set[tuple[str, str]] = set()

    @property
    def busy(self) -> bool:
        return self._worker.busy

    def start(self) -> None:
        for stored in self._store.items(Secret.resource):
            if _TYPE.encode() in stored.raw:
                self._secrets.add((stored.namespace, stored.name))
                self._worker.add((stored.namespace, stored.name))
        self._store.listen(self._secret_changed, Secret.resource)
        self._store.listen(self._account_changed, ServiceAccount.resource)
        self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()

    def _secret_changed(self, change: Change) -> None:
        key = (change.subject.namespace, change.subject.name)
        if change.new is not None and _TYPE.encode() in change.new.raw:
            self._secrets.add(key)
            self._worker.add(key)
        else:
            self._secrets.discard(key)

    def _account_changed(self, change: Change) -> None:
        if change.old is None or change.new is None:
            for key in self._secrets:
                if key[0] == change.subject.namespace:
                    self._worker.add(key)

    async def _work(self, key: tuple[str, str]) -> None:
        namespace, name = key
        stored = self._store.get(Secret.resource, namespace, name)
        if stored is None or stored.deleting:
            return
        secret = stored.decode()
        if secret.get("type") != _TYPE:
            return
        notes = secret["metadata"].get("annotations") or {}
        account = self._store.get(ServiceAccount.resource, namespace, notes.get(_NAME, ""))
        if account is None or (notes.get(_UID) and notes[_UID] != account.uid):
            await self._delete(namespace, name)
            return
        data = secret.get("data") or {}
        if data.get("token") and data.get("ca.crt") and data.get("namespace") and notes.get(_UID):
            return

        async def filled(raw: bytes | None) -> Object:
            assert raw is not None
            obj = decode(raw)
            content = obj.setdefault("data", {})
            content.setdefault("token", _encoded(self._tokens.issue_for_secret(account, name)))
            content.setdefault("ca.crt", _encoded(self._root_ca()))
            content.setdefault("namespace", _encoded(namespace))
            obj["metadata"].setdefault("annotations", {})[_UID] = account.uid
            return obj

        write = Write(self._secret_kind(), namespace, name, LOOPBACK, WriteOptions(), manager="kube-controller-manager")
        try:
            await self._writes.change(write, filled, options_kind="PatchOptions")
        except Problem as problem:
            if problem.code != 404:
                raise

    async def _delete(self, namespace: str, name: str) -> None:
        try:
            await self._deletions.delete(Deletion(self._secret_kind(), namespace, name, LOOPBACK, DeleteOptions()))
        except Problem as problem:
            if problem.code != 404:
                raise

    def _secret_kind(self) -> ServedResource:
        resource = self._registry.lookup(Secret.group, Secret.version, Secret.plural)
        assert resource is not None
        return resource


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
