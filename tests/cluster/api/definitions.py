"""Custom resource definitions for the cluster tests: each test makes one of its own."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field, replace
from typing import Any

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.errors import NotFound
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import eventually
from tests.cluster.conftest import Api

_numbers = itertools.count(1)


def version(name: str = "v1", schema: Object | None = None, **more: Any) -> Object:
    """A version of a definition. `schema` is that of `spec`, or a whole one when it has `type: object` and properties."""
    root = {"type": "object", "properties": {"spec": schema or {"type": "object"}, "status": _STATUS}}
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": root}} | more


_STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def spec(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


@dataclass
class Custom:
    """A definition in the cluster, and the kind it defines."""

    api: Api
    obj: Object
    kind: Kind
    namespace: str = "default"
    made: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def at(self, name: str) -> Kind:
        return self.kind.at(name)

    async def create(self, spec: Any = None, name: str = "x", **more: Any) -> Object:
        metadata = {"name": name, "namespace": self.namespace}
        obj: Object = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata} | more
        if spec is not None:
            obj["spec"] = spec
        return await self.api.client.create(self.kind, obj)

    async def get(self, name: str = "x") -> Object:
        return await self.api.client.get(self.kind, self.namespace, name)


def definition(*versions: Object, scope: str = "Namespaced", **more: Any) -> Object:
    """A definition with names of its own."""
    number = f"{os.getpid()}x{next(_numbers)}"
    plural, group = f"things{number}", f"t{number}.example.com"
    names = {"plural": plural, "singular": f"thing{number}", "kind": f"Thing{number}", "listKind": f"Thing{number}List"}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": list(versions) or [version()]} | more,
    }


async def install(api: Api, obj: Object) -> Custom:
    """Creates a definition and waits until it is served."""
    created = await api.client.create(CustomResourceDefinition, obj)
    inner = created["spec"]
    storage = next(v["name"] for v in inner["versions"] if v["storage"])
    kind = Kind(
        inner["group"], storage, inner["names"]["kind"], inner["names"]["plural"], inner["scope"] == "Namespaced"
    )
    await established(api, obj["metadata"]["name"])
    namespace = await api.namespace() if kind.namespaced else ""
    custom = Custom(api, created, kind, namespace)
    await eventually(lambda: _served(api, inner, kind))
    return custom


async def _served(api: Api, inner: Object, kind: Kind) -> bool:
    """Discovery names every version, and the objects can be listed: a real server that is asked to delete a definition
    before that fails to look for its objects, and tries again only after a long pause."""
    found = {k.version for k in await api.client.discover() if k.group == inner["group"]}
    if found != {v["name"] for v in inner["versions"] if v["served"]}:
        return False
    try:
        for served in found:
            await api.client.list(replace(kind, version=served))
    except NotFound:
        return False
    return True


async def established(api: Api, name: str) -> Object:
    async def check() -> Object | None:
        obj = await api.client.get(CustomResourceDefinition, "", name)
        return obj if condition(obj, "Established") == "True" else None

    return await eventually(check)


def condition(obj: Object, kind: str) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == kind), "")
