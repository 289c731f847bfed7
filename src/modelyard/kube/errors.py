"""What the API answers when it refuses: one exception class a reason, each carrying the API's `Status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec


class ApiError(Exception):
    """The API refused a request; `status` is its Status object (or one made from the HTTP answer)."""

    reason: ClassVar[str] = ""

    def __init__(self, status: dict[str, Any], *, retry_after: float | None = None) -> None:
        self.status = status
        self.code: int = int(status.get("code") or 500)
        self.retry_after = retry_after
        super().__init__(status.get("message") or f"the API answered with code {self.code}")

    @property
    def message(self) -> str:
        return str(self)

    @property
    def causes(self) -> list[dict[str, Any]]:
        return list((self.status.get("details") or {}).get("causes") or [])


class BadRequest(ApiError):
    reason = "BadRequest"


class Unauthorized(ApiError):
    reason = "Unauthorized"


class Forbidden(ApiError):
    reason = "Forbidden"


class NotFound(ApiError):
    reason = "NotFound"


class MethodNotAllowed(ApiError):
    reason = "MethodNotAllowed"


class AlreadyExists(ApiError):
    reason = "AlreadyExists"


class Conflict(ApiError):
    reason = "Conflict"


class Gone(ApiError):
    """The resource version asked for is no longer held (reason `Expired` or `Gone`)."""

    reason = "Expired"


class Invalid(ApiError):
    reason = "Invalid"


class TooManyRequests(ApiError):
    reason = "TooManyRequests"


class ServerError(ApiError):
    """Any 5xx: the same request may succeed later."""

    reason = "InternalError"


class Unreachable(Exception):
    """No answer came from the API; the message says which address and why."""


_BY_REASON: Mapping[str, type[ApiError]] = {
    cls.reason: cls
    for cls in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, AlreadyExists, Conflict, Gone, Invalid, TooManyRequests,
    )
} | {"Gone": Gone}  # fmt: skip

_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 405: MethodNotAllowed, 409: Conflict, 410: Gone,
    422: Invalid, 429: TooManyRequests,
}  # fmt: skip


def error_from_status(status: dict[str, Any], *, retry_after: float | None = None) -> ApiError:
    """The exception for a Status object, chosen by its reason, else by its code."""
    code = int(status.get("code") or 500)
    cls = _BY_REASON.get(status.get("reason") or "") or _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    return cls(status, retry_after=retry_after)


_REASON_OF_CODE: Mapping[int, str] = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 406: "NotAcceptable",
    409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def error_from_response(
    code: int, body: bytes, method: str, path: str, headers: Mapping[str, str] | None = None
) -> ApiError:
    """The exception for a refusal, also when its body is not a Status (a proxy's page, plain text)."""
    try:
        status = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body.decode(errors="replace").strip().splitlines()
        said = f": {text[0][:300]}" if text else ""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": _REASON_OF_CODE.get(code, ""),
            "code": code,
            "message": f"{method} {path} was answered with HTTP {code}{said}",
        }
    if code == 401:
        said = status.get("message") or "Unauthorized"
        status = status | {"message": f"the API refused our credentials ({said}); they may have expired: log in again"}
    after = (headers or {}).get("Retry-After", "").strip()
    return error_from_status({"code": code} | status, retry_after=float(after) if after.isdecimal() else None)
