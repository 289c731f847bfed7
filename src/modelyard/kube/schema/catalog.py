"""The schemas of the built-in kinds, read from the compact OpenAPI data when they are first asked for."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from modelyard.kube.kinds import Kind
from modelyard.kube.schema.node import ANYTHING, DEDUCED, NO_DEFAULT, ListType, Schema

QUANTITY = "resource.Quantity"
INT_OR_STRING = "intstr.IntOrString"
RAW_EXTENSION = "runtime.RawExtension"

Document = dict[str, Any]

_ALWAYS_WRITTEN: Mapping[str, Mapping[str, object]] = {
    "apiextensions.v1.CustomResourceDefinitionStatus": {"conditions": None, "storedVersions": None},
    "apps.v1.ControllerRevision": {"revision": 0},
    "apps.v1.StatefulSetSpec": {"serviceName": ""},
    "apps.v1.StatefulSetStatus": {"availableReplicas": 0},
    "autoscaling.v2.HorizontalPodAutoscalerStatus": {"currentMetrics": None},
    "core.v1.Event": {
        "eventTime": None,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "discovery.v1.EndpointSlice": {"endpoints": None, "ports": None},
    "policy.v1.PodDisruptionBudgetStatus": dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    ),
    "rbac.v1.ClusterRole": {"rules": None},
    "rbac.v1.Role": {"rules": None},
    "rbac.v1.RoleRef": {"apiGroup": ""},
    "scheduling.v1.PriorityClass": {"value": 0},
}
"""Fields that Go writes even when empty, though OpenAPI calls them optional."""


class _Data(msgspec.Struct):
    kinds: dict[str, str]
    definitions: dict[str, msgspec.Raw]


class Catalog:
    """The definitions, each decoded and built once, on demand."""

    def __init__(self, data: bytes) -> None:
        decoded = msgspec.json.decode(data, type=_Data)
        self._raw = decoded.definitions
        self._kinds = decoded.kinds
        self._nodes: dict[str, Schema] = {
            QUANTITY: Schema(quantity=True, int_or_string=True),
            INT_OR_STRING: Schema(int_or_string=True),
            RAW_EXTENSION: ANYTHING,
        }
        self._roots: dict[str, Schema | None] = {}

    @property
    def kinds(self) -> Mapping[str, str]:
        return self._kinds

    def document(self, name: str) -> Document:
        """The definition as OpenAPI, with `$ref`s by short name."""
        raw = self._raw.get(name)
        if raw is None:
            raise LookupError(f"{name}: Kubernetes has no definition of this name; names look like core.v1.PodSpec")
        decoded: Document = msgspec.json.decode(raw)
        return decoded

    def documents(self) -> dict[str, msgspec.Raw]:
        return self._raw

    def definition(self, name: str) -> Schema:
        found = self._nodes.get(name)
        if found is not None:
            return found
        document = self.document(name)
        if "properties" not in document:
            node = self._nodes[name] = self._node(document)
            return node
        # The node is known before its fields are read, because a definition may contain itself.
        fields: dict[str, Schema] = {}
        node = self._nodes[name] = self._object(document, fields)
        fields.update({key: self._node(value) for key, value in document["properties"].items()})
        return node

    def root(self, name: str) -> Schema | None:
        """The schema of a kind such as `apps/v1/Deployment`, with its zero object."""
        if name not in self._roots:
            definition = self._kinds.get(name)
            self._roots[name] = (
                None if definition is None else replace(self.definition(definition), zero=self._zero(definition))
            )
        return self._roots[name]

    def _node(self, document: Document) -> Schema:
        reference = document.get("$ref")
        if reference is not None:
            return _at_use(self.definition(reference), document)
        if document.get("type") == "object":
            return self._object(
                document, {key: self._node(each) for key, each in document.get("properties", {}).items()}
            )
        return Schema(
            type=document.get("type", ""),
            format=document.get("format", ""),
            items=self._node(document["items"]) if "items" in document else ANYTHING,
            values=None if document.get("type") else DEDUCED,
            **_list_options(document),
            **_shared_options(document),
        )

    def _object(self, document: Document, fields: dict[str, Schema]) -> Schema:
        values = document.get("additionalProperties")
        if isinstance(values, dict):
            others: Schema | None = self._node(values)
        else:
            others = DEDUCED if values or not document.get("properties") else None
        return Schema(
            type="object",
            fields=fields,
            values=others,
            atomic=document.get("x-kubernetes-map-type") == "atomic",
            required=frozenset(document.get("required", ())),
            **_shared_options(document),
        )

    def _zero(self, name: str) -> dict[str, object]:
        """What Go writes for an empty value of this type: structs and fields that are never left out."""
        document = self.document(name)
        required = document.get("required", ())
        zero: dict[str, object] = dict(_ALWAYS_WRITTEN.get(name, {}))
        for key, each in document.get("properties", {}).items():
            default = each.get("default", NO_DEFAULT)
            if default == {} and "$ref" in each:
                zero[key] = self._zero(each["$ref"])
            elif key in required:
                zero[key] = None if default is NO_DEFAULT else default
        return zero


def _at_use(node: Schema, document: Document) -> Schema:
    """A definition where a field refers to it: the reference may add a default or make it atomic."""
    changes: dict[str, Any] = {}
    if "default" in document:
        changes["default"] = document["default"]
    if document.get("x-kubernetes-map-type") == "atomic":
        changes["atomic"] = True
    if document.get("x-kubernetes-patch-strategy"):
        changes |= _list_options(document) | _shared_options(document)
    return replace(node, **changes) if changes else node


def _list_options(document: Document) -> dict[str, Any]:
    strategy = document.get("x-kubernetes-patch-strategy", "")
    merge_key = document.get("x-kubernetes-patch-merge-key", "")
    options: dict[str, Any] = {"patch_strategy": frozenset(strategy.split(",")) - {""}, "merge_key": merge_key}
    if document.get("type") == "array":
        list_type = document.get("x-kubernetes-list-type")
        if list_type is None and "merge" in options["patch_strategy"]:
            list_type = "map" if merge_key else "set"
        options["list_type"] = ListType(list_type or "atomic")
        options["keys"] = tuple(document.get("x-kubernetes-list-map-keys") or ((merge_key,) if merge_key else ()))
    return options


def _shared_options(document: Document) -> dict[str, Any]:
    return {
        "default": document.get("default", NO_DEFAULT),
        "enum": tuple(document.get("enum", ())),
        "nullable": document.get("nullable", False),
    }


@cache
def catalog() -> Catalog:
    return Catalog(gzip.decompress((Path(__file__).parent / "data" / "openapi.json.gz").read_bytes()))


def builtin_schema(kind: Kind) -> Schema | None:
    """The schema of a kind that Kubernetes itself defines, or nothing."""
    return catalog().root(f"{kind.api_version}/{kind.kind}")


def builtin_kinds() -> Mapping[str, str]:
    """Every kind in the data, as `apps/v1/Deployment`, with its definition's name."""
    return catalog().kinds


def definition(name: str) -> Schema:
    """The schema of a type by its short name, such as `core.v1.Affinity`."""
    return catalog().definition(name)


def open_api_definitions() -> dict[str, msgspec.Raw]:
    """All definitions as OpenAPI JSON, with `$ref`s by short name: what an API server publishes from."""
    return catalog().documents()
