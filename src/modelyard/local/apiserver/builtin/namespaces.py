"""The strategy of Namespaces: they stay until their own finalizers are gone, which only `finalize` removes."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin.core import NAMESPACE
from modelyard.local.apiserver.builtin.rules import BuiltinStrategy


class NamespaceStrategy(BuiltinStrategy):
    def __init__(self) -> None:
        super().__init__(NAMESPACE)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "finalize":
            new["status"] = old.get("status") or {}
            return
        super().prepare_update(new, old, subresource)

    def start_deletion(self, obj: Object) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"
        obj["metadata"].pop("deletionGracePeriodSeconds", None)

    def holds_deletion(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))
