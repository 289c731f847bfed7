"""Request bodies: JSON values become checked fields of a kind, or a 400 or 422 that names the field."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from modelyard.programs.registry.kinds import (
    BY_ARTIFACT_TYPE,
    COMMON_PATCHABLE,
    SERVER_MADE,
    Choice,
    Field,
    Holds,
    Kind,
)
from modelyard.programs.registry.values import checked
from modelyard.programs.web import ApiError

MAX_NAME = 255
ID = re.compile(r"[1-9][0-9]{0,9}")
_INT32 = 2**31 - 1
_MILLISECONDS = re.compile(r"-?[0-9]{1,15}")
_STEP = re.compile(r"-?[0-9]{1,18}")
INVALID_ARTIFACT_TYPE = (
    "invalid artifact type, must be either ModelArtifact, DocArtifact, DataSet, Metric, or Parameter"
)


@dataclass(frozen=True)
class Body:
    """The fields that a request names, checked. A field that is absent or null is not in `fields`."""

    fields: dict[str, Any]
    id: int | None = None


def object_of(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ApiError(400, f"expected a JSON object, found {_type_name(value)}")
    return value


def parsed_id(text: str, label: str) -> int:
    """Every number that upstream's server takes; ours gives out none of ten digits, so that such an object is never there."""
    if not ID.fullmatch(text) or int(text) > _INT32:
        raise ApiError(400, f"invalid {label} ID: {text[:40]!r} is not a whole number from 1 to {_INT32}")
    return int(text)


def artifact_kind(value: dict[str, Any]) -> Kind:
    """The kind of a body that may be any artifact."""
    word = value.get("artifactType")
    kind = BY_ARTIFACT_TYPE.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ApiError(400, INVALID_ARTIFACT_TYPE)
    return kind


def create_body(kind: Kind, value: dict[str, Any], *, implied: frozenset[str] = frozenset()) -> Body:
    """A body that makes a row. `implied` are fields that the path gives and the body may leave out."""
    known = {each.name for each in kind.fields if not each.server_set}
    known |= {"name", *COMMON_PATCHABLE, "customProperties"}
    if kind.artifact_type is not None:
        known.add("artifactType")
    elif kind.nested_updates and implied:
        known |= set(SERVER_MADE)
    if kind.artifact_type is None or kind.path:
        _refuse_unknown(value, known)
    fields = _fields(kind, value, known)
    row_id = fields.pop("id", None)
    for name in SERVER_MADE:
        fields.pop(name, None)
    if row_id is None:
        _require(kind, fields, implied)
    return Body(fields, row_id)


def union_body(kind: Kind, value: dict[str, Any], *, with_id: bool) -> Body:
    """A body of any artifact: unknown fields are ignored there, as the public clients expect."""
    known = {each.name for each in kind.fields if not each.server_set} | {"name", *COMMON_PATCHABLE, "customProperties"}
    fields = _fields(kind, value, known)
    row_id = value.get("id") if with_id else None
    if row_id is None or row_id == "":
        return Body(fields)
    return Body(fields, parsed_id(_text("id", row_id), "artifact"))


def patch_body(kind: Kind, value: dict[str, Any], *, strict: bool = True) -> Body:
    known = {each.name for each in kind.fields if each.patchable} | {*COMMON_PATCHABLE, "customProperties"}
    if strict:
        _refuse_unknown(value, known | ({"artifactType"} if kind.artifact_type else set()))
    return Body(_fields(kind, value, known))


def check_run_times(doc: dict[str, Any]) -> None:
    start, end = doc.get("startTimeSinceEpoch"), doc.get("endTimeSinceEpoch")
    if start is not None and end is not None and int(end) < int(start):
        raise ApiError(400, f"EndTimeSinceEpoch ({end}) cannot be less than StartTimeSinceEpoch ({start})")


def _refuse_unknown(value: dict[str, Any], known: set[str]) -> None:
    for name in value:
        if name not in known:
            raise ApiError(400, f'json: unknown field "{name}"')


def _require(kind: Kind, fields: dict[str, Any], implied: frozenset[str]) -> None:
    required = ["name"] if kind.name_required else []
    required += [each.name for each in kind.fields if each.required and each.name not in implied]
    for name in required:
        if fields.get(name) in (None, ""):
            raise ApiError(422, f"required field '{name}' is zero value.")


def _fields(kind: Kind, value: dict[str, Any], known: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, given in value.items():
        if name not in known or name == "artifactType" or given is None:
            continue
        if name == "customProperties":
            made[name] = checked(given)
        elif name in kind.by_field:
            made[name] = _field(kind.by_field[name], given)
        elif name == "id":
            made[name] = parsed_id(_text(name, given), kind.label)
        else:
            made[name] = _text(name, given)
            if name in ("name", "externalId") and len(given) > MAX_NAME:
                raise ApiError(400, f"{name}: longer than {MAX_NAME} characters")
    return {name: given for name, given in made.items() if given is not None}


def _field(field: Field, given: object) -> object:
    if field.choice is not None:
        return _word(field.name, field.choice, given)
    match field.holds:
        case Holds.TEXT:
            return _text(field.name, given)
        case Holds.TEXTS:
            if not isinstance(given, list):
                raise _wrong(field.name, "a list of strings", given)
            return [_text(f"{field.name}[{index}]", item) for index, item in enumerate(given)]
        case Holds.ID:
            text = _text(field.name, given)
            if text == "":
                return None
            return str(parsed_id(text, field.name.removesuffix("Id")))
        case Holds.MILLISECONDS:
            text = str(given) if isinstance(given, int) and not isinstance(given, bool) else _text(field.name, given)
            if not _MILLISECONDS.fullmatch(text):
                raise ApiError(
                    400, f'{field.name}: expected milliseconds since 1970 as a string, for example "1700000000000"'
                )
            return text
        case Holds.NUMBER:
            return _number(field.name, given)
        case Holds.STEP:
            return _step(field.name, given)


def _word(name: str, choice: Choice, given: object) -> str:
    text = _text(name, given)
    if text not in choice.words:
        raise ApiError(400, f"{text} is not a valid {choice.name}: {name} must be one of {', '.join(choice.words)}")
    return text


def _number(name: str, given: object) -> int | float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise _wrong(name, "a number", given)
    try:
        if math.isfinite(float(given)):
            return given
    except OverflowError:
        pass
    raise ApiError(400, f"{name}: the number is too large")


def _step(name: str, given: object) -> int:
    if isinstance(given, str) and _STEP.fullmatch(given):
        return int(given)
    if isinstance(given, bool) or not isinstance(given, int):
        raise _wrong(name, "a whole number", given)
    if abs(given) >= 10**18:
        raise ApiError(400, f"{name}: the number is too large")
    return given


def _text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise _wrong(name, "a string", given)
    return given


def _wrong(name: str, expected: str, given: object) -> ApiError:
    return ApiError(400, f"{name}: expected {expected}, found {_type_name(given)}")


def _type_name(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), "something else")
