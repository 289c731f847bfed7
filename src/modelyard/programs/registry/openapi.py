"""The OpenAPI document of the API, made from the same tables that the server answers from."""

from __future__ import annotations

from typing import Any

from modelyard.programs.registry.kinds import (
    ARTIFACT_KINDS,
    COMMON_PATCHABLE,
    KINDS,
    METRIC_HISTORY,
    SERVER_MADE,
    Field,
    Holds,
    Kind,
)
from modelyard.programs.registry.routes import Operation, operations_table

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_ID: Schema = {"type": "string", "pattern": "^[1-9][0-9]{0,9}$"}
_MILLISECONDS: Schema = {"type": "string", "pattern": "^-?[0-9]{1,15}$"}
_PARAMETERS: dict[str, Schema] = {
    "id": _ID,
    "parentResourceId": _ID,
    "filterQuery": _TEXT,
    "pageSize": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "orderBy": {"type": "string", "enum": ["ID", "CREATE_TIME", "LAST_UPDATE_TIME"]},
    "sortOrder": {"type": "string", "enum": ["ASC", "DESC"]},
    "artifactType": {"type": "string", "enum": [kind.artifact_type for kind in ARTIFACT_KINDS]},
    "stepIds": {"type": "string", "pattern": "^[0-9]{1,18}(,[0-9]{1,18})*$"},
}
_PAGING = ("filterQuery", "pageSize", "orderBy", "sortOrder", "nextPageToken")
_VALUES = {
    "MetadataStringValue": ("string_value", _TEXT),
    "MetadataIntValue": ("int_value", {"type": "string", "pattern": "^-?([1-9][0-9]{0,8}|0)$"}),
    "MetadataDoubleValue": ("double_value", {"type": "number"}),
    "MetadataBoolValue": ("bool_value", {"type": "boolean"}),
    "MetadataStructValue": ("struct_value", {"type": "string", "format": "byte"}),
    "MetadataProtoValue": ("proto_value", {"type": "string", "format": "byte"}),
}


def document(prefix: str, *, alpha: bool) -> Schema:
    paths: dict[str, Schema] = {}
    for operation in operations_table():
        if operation.alpha_only and not alpha:
            continue
        paths.setdefault(prefix + operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Model Registry", "version": prefix.rsplit("/", 1)[-1]},
        "paths": paths,
        "components": {"schemas": _schemas(alpha=alpha)},
    }


def _schemas(*, alpha: bool) -> Schema:
    schemas: Schema = {
        "Error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": _TEXT, "message": _TEXT},
        },
        "MetadataValue": {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in _VALUES]},
        "Artifact": {"oneOf": [{"$ref": f"#/components/schemas/{kind.schema}"} for kind in ARTIFACT_KINDS]},
    }
    for name, (member, shape) in _VALUES.items():
        properties: Schema = {"metadataType": {"type": "string", "enum": [name]}, member: shape}
        required = ["metadataType", member]
        if name == "MetadataProtoValue":
            properties["type"] = _TEXT
            required.append("type")
        schemas[name] = {"type": "object", "required": required, "properties": properties}
    for kind in KINDS:
        if kind is METRIC_HISTORY or (kind.alpha_only and not alpha):
            continue
        schemas[kind.schema] = _answer_schema(kind, alpha=alpha)
        schemas[f"{kind.schema}Create"] = _create_schema(kind)
        schemas[f"{kind.schema}Update"] = _update_schema(kind)
    return schemas


def _answer_schema(kind: Kind, *, alpha: bool) -> Schema:
    properties: Schema = dict.fromkeys((*SERVER_MADE, "name", *COMMON_PATCHABLE), _TEXT)
    properties |= {field.name: _shape(field, alpha=alpha) for field in kind.fields if not field.hidden}
    properties["customProperties"] = _custom()
    if kind.artifact_type is not None:
        properties["artifactType"] = {"type": "string", "enum": [kind.artifact_type]}
    return {
        "type": "object",
        "required": [*SERVER_MADE, "name", "customProperties"],
        "properties": properties,
        "additionalProperties": False,
    }


def _create_schema(kind: Kind) -> Schema:
    properties: Schema = dict.fromkeys(("name", *COMMON_PATCHABLE), _TEXT)
    properties |= {field.name: _shape(field, alpha=True) for field in kind.fields if not field.server_set}
    required = (["name"] if kind.name_required else []) + [field.name for field in kind.fields if field.required]
    made = _request(kind, properties)
    made["properties"] |= {name: {**properties[name], "minLength": 1} for name in required}
    # Alone under its own path, a kind needs no word for its type.
    if kind.artifact_type is not None and not kind.path:
        required.append("artifactType")
    return {**made, **({"required": required} if required else {})}


def _update_schema(kind: Kind) -> Schema:
    properties: Schema = dict.fromkeys(COMMON_PATCHABLE, _TEXT)
    properties |= {field.name: _shape(field, alpha=True) for field in kind.fields if field.patchable}
    return _request(kind, properties)


def _request(kind: Kind, properties: Schema) -> Schema:
    """A body, in which null means what absence means."""
    properties = {**properties, "customProperties": _custom()}
    made: Schema = {name: _or_null(shape) for name, shape in properties.items()}
    if kind.artifact_type is not None:
        made["artifactType"] = {"type": "string", "enum": [kind.artifact_type]}
    return {"type": "object", "properties": made}


def _or_null(shape: Schema) -> Schema:
    words = {"enum": [*shape["enum"], None]} if "enum" in shape else {}
    return {**shape, **words, "nullable": True}


def _shape(field: Field, *, alpha: bool) -> Schema:
    if field.choice is not None:
        return {"type": "string", "enum": list(field.choice.words)}
    if field.holds is Holds.ID:
        return _ID
    if field.holds is Holds.MILLISECONDS:
        return _MILLISECONDS
    if field.holds is Holds.TEXTS:
        return {"type": "array", "items": _TEXT}
    if field.holds is Holds.NUMBER:
        return {"type": "number"}
    if field.holds is Holds.STEP:
        return {"type": "integer"} if alpha else {"type": "string", "format": "int64"}
    return _TEXT


def _custom() -> Schema:
    return {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/MetadataValue"}}


def _operation(operation: Operation) -> Schema:
    name = operation.kinds[0].schema if len(operation.kinds) == 1 else "Artifact"
    reference: Schema = {"$ref": f"#/components/schemas/{name}"}
    made: Schema = {"operationId": _operation_id(operation), "responses": _responses(operation, reference)}
    parameters = [_parameter("id", "path")] if "{id}" in operation.path else []
    if operation.verb == "list":
        parameters += [_parameter(each, "query") for each in _PAGING]
        if len(operation.kinds) > 1:
            parameters.append(_parameter("artifactType", "query"))
        if operation.parent is not None:
            parameters += [_parameter("name", "query"), _parameter("externalId", "query")]
        if operation.kinds[0] is METRIC_HISTORY:
            parameters += [_parameter("name", "query"), _parameter("stepIds", "query")]
    if operation.verb == "find":
        parameters += [_parameter(each, "query") for each in ("name", "externalId", "parentResourceId")]
    if parameters:
        made["parameters"] = parameters
    if operation.verb in ("create", "upsert", "patch"):
        suffix = "Update" if operation.verb == "patch" else "Create"
        bodies: list[Schema] = [{"$ref": f"#/components/schemas/{kind.schema}{suffix}"} for kind in operation.kinds]
        shape = bodies[0] if len(bodies) == 1 else {"oneOf": bodies}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": shape}}}
    return made


def _operation_id(operation: Operation) -> str:
    words = operation.path.replace("{id}", "one").strip("/").replace("/", "_")
    return f"{operation.method.lower()}_{words}"


def _parameter(name: str, place: str) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": _PARAMETERS.get(name, _TEXT)}


def _responses(operation: Operation, reference: Schema) -> Schema:
    shape = reference
    if operation.verb == "list":
        shape = {
            "type": "object",
            "required": ["items", "nextPageToken", "pageSize", "size"],
            "properties": {
                "items": {"type": "array", "items": reference},
                "nextPageToken": _TEXT,
                "pageSize": {"type": "integer"},
                "size": {"type": "integer"},
            },
        }
    good = {"create": ("201",), "upsert": ("200", "201")}.get(operation.verb, ("200",))
    error: Schema = {"$ref": "#/components/schemas/Error"}
    answers = {code: _content("done", shape) for code in good}
    return answers | {"default": _content("what was wrong", error)}


def _content(description: str, shape: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": shape}}}
