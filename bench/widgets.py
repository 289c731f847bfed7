"""The custom resource of the benchmarks: defaults, a set, a list by key and CEL rules, as real ones have."""

from __future__ import annotations

import asyncio

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError
from modelyard.kube.kinds import Kind, Object

WIDGET = Kind("bench.modelyard.dev", "v1", "Widget", "widgets")
_PART: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
}
_SPEC: Object = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 100},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
        "note": {"type": "string", "nullable": True, "maxLength": 20},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array",
            "items": _PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.note) || self.size > 0", "message": "a note needs a size"},
        {"rule": "self.size >= oldSelf.size - 50", "message": "must not shrink by more than 50"},
    ],
}
_DEFINITION: Object = {
    "metadata": {"name": WIDGET.resource},
    "spec": {
        "group": WIDGET.group,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC}}},
            }
        ],
    },
}


async def define(client: Client) -> None:
    """Returns when widgets are served."""
    await client.create(builtin.CustomResourceDefinition, _DEFINITION)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(WIDGET, "default")
                return
            except ApiError:
                await asyncio.sleep(0.05)
