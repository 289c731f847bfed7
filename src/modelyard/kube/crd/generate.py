"""Custom resource definitions from typed classes: the structural schema that an API server takes, and nothing it refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
from msgspec import inspect

from modelyard.kube.crd.types import Column, Definition, Model, Resource, Rule, Version, drop_none
from modelyard.kube.kinds import Object
from modelyard.kube.schema import openapi_dict

EMBEDDED = "x-modelyard-embedded"
_VALIDATIONS = "x-kubernetes-validations"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
# Keys that msgspec's Meta may bring and that a structural schema does not have.
_FOREIGN_KEYS = frozenset(("examples",))
_SCALARS: Mapping[type[inspect.Type], Object] = {
    inspect.BoolType: {"type": "boolean"},
    inspect.BytesType: {"type": "string", "format": "byte"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.AnyType: {_PRESERVE: True},
    inspect.RawType: {_PRESERVE: True},
}


@dataclass(frozen=True)
class WebhookService:
    """The Service through which the API server reaches the conversion webhook."""

    name: str = "modelyard-webhook"
    namespace: str = "modelyard"
    port: int = 443


def definition_of(definition: Definition, *, service: WebhookService | None = None, ca_bundle: str = "") -> Object:
    """The CustomResourceDefinition object. `service` and `ca_bundle` (base64 PEM) matter where versions are converted."""
    metadata: Object = {"name": f"{definition.plural}.{definition.group}"}
    if definition.labels:
        metadata["labels"] = dict(definition.labels)
    if definition.annotations:
        metadata["annotations"] = dict(definition.annotations)
    names: Object = {
        "kind": definition.kind_name,
        "listKind": f"{definition.kind_name}List",
        "plural": definition.plural,
        "singular": definition.singular or definition.kind_name.lower(),
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    if definition.categories:
        names["categories"] = list(definition.categories)
    spec: Object = {
        "group": definition.group,
        "names": names,
        "scope": "Namespaced" if definition.namespaced else "Cluster",
        "versions": [_version(version) for version in definition.versions],
    }
    if definition.conversion_path:
        spec["conversion"] = _conversion(definition.conversion_path, service or WebhookService(), ca_bundle)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def schema_of(resource: type[Resource], rules: Sequence[Rule] = ()) -> Object:
    """The `openAPIV3Schema` of a custom resource; `rules` are those of its version."""
    root = _struct(resource, _Place(resource.__name__), ())
    # An API server knows these three by itself and accepts nothing else about their form.
    fixed = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    root["properties"] = fixed | {name: part for name, part in root["properties"].items() if name not in fixed}
    if rules:
        root[_VALIDATIONS] = [*root.get(_VALIDATIONS, ()), *(_rule(rule) for rule in rules)]
    return _merged(root, resource.schema_extra)


def _version(version: Version) -> Object:
    made: Object = {
        "name": version.name,
        "served": version.served,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": schema_of(version.type, version.rules)},
    }
    if version.columns:
        made["additionalPrinterColumns"] = [_column(column) for column in version.columns]
    if version.status:
        made["subresources"] = {"status": {}}
    if version.deprecated:
        made["deprecated"] = True
    if version.deprecation_warning:
        made["deprecationWarning"] = version.deprecation_warning
    return made


def _column(column: Column) -> Object:
    made: Object = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    optional = {"format": column.format, "priority": column.priority, "description": column.description}
    return made | {key: value for key, value in optional.items() if value}


def _conversion(path: str, service: WebhookService, ca_bundle: str) -> Object:
    client: Object = {
        "service": {"name": service.name, "namespace": service.namespace, "path": path, "port": service.port}
    }
    if ca_bundle:
        client["caBundle"] = ca_bundle
    return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}


def _rule(rule: Rule) -> Object:
    made: Object = {
        "rule": rule.rule,
        "message": rule.message,
        "messageExpression": rule.message_expression,
        "reason": rule.reason,
        "fieldPath": rule.field_path,
    }
    made = {key: value for key, value in made.items() if value}
    if rule.optional_old_self is not None:
        made["optionalOldSelf"] = rule.optional_old_self
    return made


@dataclass(frozen=True)
class _Place:
    """Where in the types we are, for messages."""

    path: str

    def at(self, step: str) -> _Place:
        return _Place(self.path + step)

    def wrong(self, what: str, remedy: str) -> TypeError:
        return TypeError(f"{self.path}: {what}; {remedy}")


def _struct(cls: type[Any], place: _Place, above: tuple[type[Any], ...]) -> Object:
    if cls in above:
        raise place.wrong(
            f"{cls.__name__} contains itself, which no structural schema can say",
            "use plain data (dict[str, Any]) at the point where it recurs",
        )
    info = inspect.type_info(cls)
    if not isinstance(info, inspect.StructType):
        raise place.wrong(f"{cls.__name__} is not an msgspec class", "derive it from Model")
    properties: Object = {}
    required: list[str] = []
    for field in info.fields:
        here = place.at(f".{field.encode_name}")
        schema = _type(field.type, here, (*above, cls))
        if field.required:
            required.append(field.encode_name)
        elif field.default is not msgspec.NODEFAULT and field.default is not None:
            schema.setdefault("default", _plain(field.default))
        properties[field.encode_name] = schema
    made: Object = {"type": "object"}
    if description := cls.__dict__.get("__doc__"):
        made["description"] = " ".join(description.split())
    made["properties"] = properties
    if required:
        made["required"] = sorted(required)
    if issubclass(cls, Model):
        if cls.rules:
            made[_VALIDATIONS] = [_rule(rule) for rule in cls.rules]
        if not issubclass(cls, Resource):
            made = _merged(made, cls.schema_extra)
    return made


def _type(info: inspect.Type, place: _Place, above: tuple[type[Any], ...]) -> Object:
    """The schema of one type; `above` are the classes around it."""
    if (scalar := _SCALARS.get(type(info))) is not None:
        return dict(scalar)
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            return _annotated(inner, extra or {}, place, above)
        case inspect.UnionType(types=types):
            return _union([each for each in types if not isinstance(each, inspect.NoneType)], place, above)
        case inspect.StructType(cls=cls):
            return _struct(cls, place, above)
        case inspect.StrType():
            limits = {"minLength": info.min_length, "maxLength": info.max_length, "pattern": info.pattern}
            return _limited({"type": "string"}, limits)
        case inspect.IntType() | inspect.FloatType():
            return _number("integer" if isinstance(info, inspect.IntType) else "number", info)
        case inspect.EnumType(cls=enum):
            return _choice([member.value for member in enum], place)
        case inspect.LiteralType(values=values):
            return _choice(list(values), place)
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return _array(info, place, above)
        case inspect.DictType():
            return _map(info, place, above)
        case _:
            raise place.wrong(
                f"{type(info).__name__.removesuffix('Type')} has no structural schema",
                "use a type that JSON knows, or plain data",
            )


def _annotated(inner: inspect.Type, extra: Mapping[str, Any], place: _Place, above: tuple[type[Any], ...]) -> Object:
    changes = {key: value for key, value in extra.items() if key != EMBEDDED and key not in _FOREIGN_KEYS}
    name = extra.get(EMBEDDED)
    if name is None:
        schema = _type(inner, place, above)
    else:
        try:
            schema = copy.deepcopy(openapi_dict(_catalog_name(name)))
        except LookupError:
            raise place.wrong(f"no built-in type is called {name}", "use a name like core.v1.Affinity") from None
        schema |= _limits_of(inner)
    own, more = schema.get(_VALIDATIONS), changes.get(_VALIDATIONS)
    if own and more:
        changes[_VALIDATIONS] = [*own, *more]
    return _merged(schema, changes)


def _limits_of(info: inspect.Type) -> Object:
    """The limits that were set next to an embedded schema: `Annotated[list[…], embedded(…), Meta(max_length=5)]`."""
    if isinstance(info, inspect.ListType):
        return _limited({}, {"minItems": info.min_length, "maxItems": info.max_length})
    if isinstance(info, inspect.DictType):
        return _limited({}, {"minProperties": info.min_length, "maxProperties": info.max_length})
    return {}


def _union(types: Sequence[inspect.Type], place: _Place, above: tuple[type[Any], ...]) -> Object:
    if len(types) == 1:
        return _type(types[0], place, above)
    if {type(each) for each in types} == {inspect.IntType, inspect.StrType}:
        schema: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
        text = next(each for each in types if isinstance(each, inspect.StrType))
        return _limited(schema, {"maxLength": text.max_length, "pattern": text.pattern})
    raise place.wrong(
        "a choice of types cannot be said in a structural schema", "use one type, int | str, or plain data"
    )


def _number(name: str, info: inspect.IntType | inspect.FloatType) -> Object:
    low, high = info.ge if info.ge is not None else info.gt, info.le if info.le is not None else info.lt
    schema = _limited({"type": name}, {"minimum": low, "maximum": high, "multipleOf": info.multiple_of})
    if info.gt is not None:
        schema["exclusiveMinimum"] = True
    if info.lt is not None:
        schema["exclusiveMaximum"] = True
    return schema


def _choice(values: Sequence[Any], place: _Place) -> Object:
    for kind, name in ((str, "string"), (int, "integer")):
        if all(isinstance(value, kind) for value in values):
            return {"type": name, "enum": list(values)}
    raise place.wrong(f"the values {values} are of several types", "use only texts or only numbers")


def _array(
    info: inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType,
    place: _Place,
    above: tuple[type[Any], ...],
) -> Object:
    schema: Object = {"type": "array", "items": _type(info.item_type, place.at("[]"), above)}
    if isinstance(info, inspect.SetType | inspect.FrozenSetType):
        schema["x-kubernetes-list-type"] = "set"
    return _limited(schema, {"minItems": info.min_length, "maxItems": info.max_length})


def _map(info: inspect.DictType, place: _Place, above: tuple[type[Any], ...]) -> Object:
    if not isinstance(info.key_type, inspect.StrType):
        raise place.wrong("the keys of a map are always texts", "use dict[str, …]")
    schema: Object = {"type": "object"}
    if isinstance(info.value_type, inspect.AnyType):
        schema[_PRESERVE] = True
    else:
        schema["additionalProperties"] = _type(info.value_type, place.at("{}"), above)
    return _limited(schema, {"minProperties": info.min_length, "maxProperties": info.max_length})


def _limited(schema: Object, limits: Mapping[str, Any]) -> Object:
    return schema | {key: value for key, value in limits.items() if value is not None}


def _merged(schema: Object, changes: Mapping[str, Any]) -> Object:
    """The schema with changes in it: mappings are merged, None takes a key away, all else replaces."""
    made = dict(schema)
    for key, value in changes.items():
        if value is None:
            made.pop(key, None)
        elif key != "default" and isinstance(value, Mapping) and isinstance(made.get(key), dict):
            made[key] = _merged(made[key], value)
        else:
            made[key] = copy.deepcopy(value)
    return made


def _plain(value: Any) -> Any:
    """A Python default as it is written in YAML."""
    if isinstance(value, Enum):
        return value.value
    encode: Callable[[Any], Any] = msgspec.to_builtins
    return drop_none(encode(value))


def _catalog_name(name: str) -> str:
    """Names as OpenAPI documents write them are understood too: `apimachinery.pkg.apis.meta.v1.LabelSelector`."""
    short = name.removeprefix("io.k8s.").removeprefix("api.")
    if short.startswith("apimachinery."):
        parts = short.split(".")
        return ".".join(parts[-3:] if parts[-3:-1] == ["meta", "v1"] else parts[-2:])
    return short if short.count(".") > 1 else f"core.{short}" if short.startswith("v1.") else short
