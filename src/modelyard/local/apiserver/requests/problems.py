"""Refusals: exceptions that carry a Kubernetes `Status`, in Kubernetes' own words, and the causes of invalid fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelyard.kube.gotext import go_quote as go_quote
from modelyard.kube.kinds import Kind, Object

OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"


class Problem(Exception):
    """A request that is refused; `status` is the Status object of the answer."""

    def __init__(self, status: Object, *, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.headers = list(headers)

    @property
    def code(self) -> int:
        return int(self.status["code"])

    @property
    def reason(self) -> str:
        return str(self.status.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.status.get("message", ""))


_TITLES = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTooFew": "Too few",
    "FieldValueTooShort": "Too short",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with one field; `message` is without the field's name."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def to_dict(self) -> Object:
        return {"reason": self.reason, "message": self.message, "field": self.field}


_OMIT = object()


class GoStruct(dict[str, Any]):
    """A bad value that Go shows as one of its structs: under Go's names, in the order given here."""


def go_value(value: Any) -> str:
    """A bad value as field errors show it."""
    if isinstance(value, str):
        return go_quote(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=not isinstance(value, GoStruct))
    # Go's encoder escapes these three, also outside of HTML.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _cause(field: str, reason: str, value: Any = _OMIT, detail: str = "") -> Cause:
    message = _TITLES[reason]
    if value is not _OMIT:
        message += ": " + go_value(value)
    return Cause(field, reason, f"{message}: {detail}" if detail else message)


def required(field: str, detail: str = "") -> Cause:
    return _cause(field, "FieldValueRequired", detail=detail)


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    return _cause(field, "FieldValueInvalid", value, detail)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    return _cause(field, "FieldValueTypeInvalid", value, detail)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """`supported` is printed in the order given; Kubernetes sorts sets before."""
    names = ", ".join(go_quote(name) for name in supported)
    return _cause(field, "FieldValueNotSupported", value, f"supported values: {names}" if names else "")


def field_forbidden(field: str, detail: str) -> Cause:
    return _cause(field, "FieldValueForbidden", detail=detail)


def duplicate(field: str, value: Any) -> Cause:
    return _cause(field, "FieldValueDuplicate", value)


def value_not_found(field: str, value: Any) -> Cause:
    return _cause(field, "FieldValueNotFound", value)


def too_long(field: str, limit: int, unit: str = "byte") -> Cause:
    """`unit` is `byte` or `character`."""
    plural = unit if limit == 1 else unit + "s"
    return _cause(field, "FieldValueTooLong", detail=f"may not be more than {limit} {plural}")


def too_many(field: str, actual: int, limit: int) -> Cause:
    return _cause(field, "FieldValueTooMany", actual, f"must have at most {limit} item{'' if limit == 1 else 's'}")


def _problem(code: int, reason: str, message: str, details: Object | None = None) -> Problem:
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = {key: value for key, value in details.items() if value not in ("", None)}
    status["code"] = code
    return Problem(status)


def _about(kind: Kind, name: str = "") -> Object:
    return {"name": name, "group": kind.group, "kind": kind.plural}


def not_found(kind: Kind, name: str) -> Problem:
    return _problem(404, "NotFound", f"{kind.resource} {go_quote(name)} not found", _about(kind, name))


def no_such_path() -> Problem:
    """A path that no resource or endpoint is served under, as for an unknown kind."""
    return _problem(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> Problem:
    return _problem(409, "AlreadyExists", f"{kind.resource} {go_quote(name)} already exists", _about(kind, name))


def generate_name_conflict(kind: Kind, name: str) -> Problem:
    message = f"{kind.resource} {go_quote(name)} already exists, the server was not able to generate a unique name for the object"
    return _problem(409, "AlreadyExists", message, _about(kind, name) | {"retryAfterSeconds": 1})


def conflict(kind: Kind, name: str, why: str = OPTIMISTIC_LOCK) -> Problem:
    message = f"Operation cannot be fulfilled on {kind.resource} {go_quote(name)}: {why}"
    return _problem(409, "Conflict", message, _about(kind, name))


def apply_conflict(message: str, causes: Sequence[Cause]) -> Problem:
    """Field managers disagree; each cause has the reason `FieldManagerConflict`."""
    return _problem(409, "Conflict", message, {"causes": [cause.to_dict() for cause in causes]})


MOST_CAUSES = 1000
"""So many reasons are told of; an answer must not be many times as large as its question."""


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> Problem:
    """The object breaks rules; the message lists the causes once each, in order."""
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    more = len(causes) - MOST_CAUSES
    causes = causes[:MOST_CAUSES] if more > 0 else causes
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    if more > 0:
        texts.append(f"and {more} more")
    message = f"{title} {go_quote(name)} is invalid"
    if texts:
        message += ": " + (texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]")
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": [cause.to_dict() for cause in causes]}
    if not causes:
        del details["causes"]
    return _problem(422, "Invalid", message, details)


def bad_request(message: str) -> Problem:
    return _problem(400, "BadRequest", message)


def unauthorized() -> Problem:
    return _problem(401, "Unauthorized", "Unauthorized")


def forbidden(kind: Kind | None, name: str, why: str) -> Problem:
    """Authorization or admission says no. Without a kind: a path that is not a resource."""
    if kind is None:
        return _problem(403, "Forbidden", f"forbidden: {why}", {})
    subject = f"{kind.resource} {go_quote(name)}" if name else kind.resource
    return _problem(403, "Forbidden", f"{subject} is forbidden: {why}", _about(kind, name))


def method_not_served() -> Problem:
    """The path exists, the HTTP method does not."""
    return _problem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def expired(message: str) -> Problem:
    """410: the resource version or continue token is no longer held."""
    return _problem(410, "Expired", message)


def gone(message: str) -> Problem:
    return _problem(410, "Gone", message)


def not_acceptable(accepted: Sequence[str]) -> Problem:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return _problem(406, "NotAcceptable", message)


def unsupported_media_type(message: str) -> Problem:
    return _problem(415, "UnsupportedMediaType", message)


def too_large(message: str) -> Problem:
    return _problem(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def too_many_requests(message: str, retry_after: int = 1) -> Problem:
    problem = _problem(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after})
    problem.headers.append(("Retry-After", str(retry_after)))
    return problem


def internal_error(message: str) -> Problem:
    details = {"causes": [{"message": message}]}
    return _problem(500, "InternalError", f"Internal error occurred: {message}", details)


def service_unavailable(message: str) -> Problem:
    return _problem(503, "ServiceUnavailable", message)


def timeout(message: str) -> Problem:
    return _problem(504, "Timeout", f"Timeout: {message}", {})


def custom(code: int, reason: str, message: str, details: Object | None = None) -> Problem:
    """For answers that come from outside, as a webhook's denial."""
    return _problem(code, reason, message, details)
