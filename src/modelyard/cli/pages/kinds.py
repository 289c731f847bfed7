"""The reference of an operator's kinds: every field with its type, default and rules, from the types that make the CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import inspect

from modelyard.cli.pages.dataflow import table
from modelyard.kube.crd import Definition, Version, schema_of
from modelyard.kube.crd.generate import EMBEDDED
from modelyard.kube.kinds import Object
from modelyard.runtime.declaring.operator import Operator

_OWN = frozenset(("apiVersion", "kind", "metadata"))
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "multipleOf": "a multiple of {}",
}
_NOT_EMPTY = frozenset(("at least 1 characters", "at least 1 items", "at least 1 entries"))


@dataclass
class Field:
    """One row of the table."""

    path: str
    type: str
    required: bool
    default: str
    rules: list[str] = field(default_factory=list)


def page(operator: Operator) -> str:
    parts = [
        f"# Kinds of {operator.title}",
        "Every field of the custom resources, from the types in the code. *Type* names a core Kubernetes type where one is "
        "embedded with its full schema. *Default* is filled in by the API; **required** fields have none. "
        f"Written by `modelyard docs`; examples are in [examples/](../../examples/README.md), what the controllers do with "
        f"them on the [dataflow page](../dataflow/{operator.name}.md).",
    ]
    for definition in operator.definitions:
        for version in definition.versions:
            parts += _version(definition, version)
    return "\n\n".join(parts) + "\n"


def _version(definition: Definition, version: Version) -> Iterator[str]:
    yield f"## {definition.kind_name} `{definition.group}/{version.name}`"
    yield _about(definition, version)
    schema = schema_of(version.type, version.rules)
    if found := _validations(schema):
        yield "Rules for the whole object:\n\n" + "\n".join(f"- {text}" for text in found)
    info = inspect.type_info(version.type)
    assert isinstance(info, inspect.StructType)
    for part in ("spec", "status"):
        rows = [row for row in fields(info, schema) if row.path == part or row.path.startswith(f"{part}.")]
        if rows:
            yield f"### {definition.kind_name} {part}"
            if found := _validations(schema["properties"][part]):
                yield "Rules that concern several fields:\n\n" + "\n".join(f"- {text}" for text in found)
                rows[0].rules.clear()
            yield table(["Field", "Type", "Default", "Rules"], [_cells(row) for row in rows])


def _about(definition: Definition, version: Version) -> str:
    scope = "Lives in a namespace" if definition.namespaced else "One for the whole cluster (no namespace)"
    facts = [f"{scope}. Plural `{definition.plural}`"]
    if definition.short_names:
        facts.append(f"short names {', '.join(f'`{name}`' for name in definition.short_names)}")
    facts.append("stored in this version" if version.storage else "converted on reading and writing")
    if not version.served:
        facts.append("not served")
    if version.deprecated:
        facts.append("deprecated")
    about = " ".join((version.type.__doc__ or "").split())
    return f"{about} {', '.join(facts)}.".strip()


def fields(info: inspect.StructType, schema: Object, path: str = "") -> Iterator[Field]:
    """The fields of a class and of the classes in it, depth first."""
    for each in info.fields:
        if not path and each.encode_name in _OWN:
            continue
        part = schema["properties"][each.encode_name]
        where = f"{path}.{each.encode_name}" if path else each.encode_name
        inner, core = _inner(each.type)
        yield Field(where, _type(inner, core, part), each.required, _default(part), _rules(part, described=bool(core)))
        yield from _below(inner, core, part, where)


def _below(info: inspect.Type, core: str, schema: Object, path: str) -> Iterator[Field]:
    if core:
        return
    if isinstance(info, inspect.StructType):
        yield from fields(info, schema, path)
    elif isinstance(info, inspect.ListType) and "items" in schema:
        inner, core = _inner(info.item_type)
        yield from _below(inner, core, schema["items"], f"{path}[]")
    elif isinstance(info, inspect.DictType) and "additionalProperties" in schema:
        inner, core = _inner(info.value_type)
        yield from _below(inner, core, schema["additionalProperties"], f"{path}.*")


def _inner(info: inspect.Type) -> tuple[inspect.Type, str]:
    """The type without its annotations and without None, and the core type that it embeds."""
    core = ""
    while True:
        match info:
            case inspect.Metadata(type=inner, extra_json_schema=extra):
                core = core or str((extra or {}).get(EMBEDDED, ""))
                info = inner
            case inspect.UnionType(types=types):
                rest = [each for each in types if not isinstance(each, inspect.NoneType)]
                if len(rest) != 1:
                    return info, core
                info = rest[0]
            case _:
                return info, core


def _type(info: inspect.Type, core: str, schema: Object) -> str:
    if core:
        return core.rpartition(".")[2]
    if isinstance(info, inspect.ListType):
        inner, core = _inner(info.item_type)
        return f"list of {_type(inner, core, schema.get('items', {}))}"
    if isinstance(info, inspect.DictType):
        inner, core = _inner(info.value_type)
        values = schema.get("additionalProperties")
        return f"map of {_type(inner, core, values)}" if isinstance(values, dict) else "map"
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(schema.get("format") or schema.get("type") or "any")


def _default(schema: Object) -> str:
    return json.dumps(schema["default"]) if "default" in schema else ""


def _rules(schema: Object, *, described: bool) -> list[str]:
    """In words where there are words; the rules inside of an embedded core type are Kubernetes' own."""
    found = [text.format(schema[key]) for key, text in _LIMITS.items() if key in schema]
    found = ["not empty" if text in _NOT_EMPTY else text for text in found]
    if "enum" in schema:
        found.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    if "pattern" in schema and not described:
        found.append(f"matches `{schema['pattern']}`")
    return found + _validations(schema)


def _validations(schema: Object) -> list[str]:
    return [_said(rule) for rule in schema.get("x-kubernetes-validations") or ()]


def _said(rule: dict[str, Any]) -> str:
    return str(rule.get("message") or f"`{rule['rule']}`")


def _cells(row: Field) -> Sequence[str]:
    default = "**required**" if row.required else f"`{row.default}`" if row.default else ""
    return [f"`{row.path}`", row.type, default, "; ".join(row.rules)]
