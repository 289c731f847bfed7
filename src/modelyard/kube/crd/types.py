"""How a custom resource is declared: typed classes, and a `Definition` that says how the API serves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import msgspec
from msgspec import Meta

from modelyard.kube.kinds import Key, Kind, Object


@dataclass(frozen=True)
class Rule:
    """A CEL rule on an object (`x-kubernetes-validations`)."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


class Model(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """A part of a custom resource. A field without default is required; a default other than None is the CRD's default;
    `Annotated[T, Meta(ge=…, pattern=…, max_length=…, extra_json_schema={…})]` adds constraints and `x-kubernetes-*` keys.
    `rules` holds the CEL rules of the object; `schema_extra` is merged into its schema."""

    rules: ClassVar[Sequence[Rule]] = ()
    schema_extra: ClassVar[Mapping[str, Any]] = {}

    def to_dict(self) -> Object:
        """Plain data in the API's spelling, without the fields that are None."""
        data: Object = drop_none(msgspec.to_builtins(self))
        return data


class OwnerReference(Model):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(Model):
    """The part of ObjectMeta that controllers read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class Resource(Model):
    """A custom resource. Subclasses add `spec: TheirSpec` and `status: TheirStatus` (both with defaults where the API allows absence)."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = msgspec.field(default_factory=Metadata)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)

    @classmethod
    def parse(cls, data: Object) -> Self:
        """From plain data; unknown fields are ignored, a wrong type is a `msgspec.ValidationError` that names the field."""
        return msgspec.convert(drop_none(data), cls)


def embedded(name: str, **extra: Any) -> Meta:
    """Marks plain data (`dict`/`list`) that has a core type's real schema: `Annotated[dict[str, Any], embedded("v1.Affinity")]`.
    `name` is the OpenAPI name without `io.k8s.api.`: `core.v1.Affinity`."""
    return Meta(extra_json_schema={"x-modelyard-embedded": name, **extra})


def default(value: Any) -> Meta:
    """A CRD default that the Python default does not express (None, or a factory)."""
    return Meta(extra_json_schema={"default": value})


@dataclass(frozen=True)
class Column:
    """A printer column."""

    name: str
    json_path: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


@dataclass(frozen=True)
class Version:
    """One served version of a definition."""

    name: str
    type: type[Resource]
    storage: bool = True
    served: bool = True
    columns: Sequence[Column] = ()
    status: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    rules: Sequence[Rule] = ()
    """CEL rules at the root of the object."""


@dataclass(frozen=True)
class Definition:
    """A custom resource definition, made from types. `definition_of(d)` in this package gives the CRD object."""

    group: str
    kind_name: str
    plural: str
    versions: Sequence[Version]
    namespaced: bool = True
    singular: str = ""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    conversion_path: str = ""
    """The webhook path that converts between versions; empty: conversion None."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def storage(self) -> Version:
        return next(v for v in self.versions if v.storage)

    @cached_property
    def kind(self) -> Kind:
        """The kind in its storage version."""
        return Kind(self.group, self.storage.name, self.kind_name, self.plural, self.namespaced)

    @property
    def type(self) -> type[Resource]:
        return self.storage.type


def drop_none(value: Any) -> Any:
    """The same data without mapping entries that are None."""
    if isinstance(value, dict):
        return {k: drop_none(v) for k, v in value.items() if v is not None}
    return [drop_none(v) for v in value] if isinstance(value, list) else value
