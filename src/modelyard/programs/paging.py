"""Page tokens: opaque, and bound to the list they came from, so that a token used on another list is an error and not a wrong page."""

from __future__ import annotations

import base64
import binascii
import hashlib

import msgspec

from modelyard.programs.web import ApiError

_INT32 = 2**31 - 1


class Token(msgspec.Struct, array_like=True, frozen=True):
    """The place after the last row of a page."""

    digest: str
    after: tuple[int | float | str | None, ...]


def list_digest(*parts: object) -> str:
    """What a list depends on: path, order, filter."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()


def encode_token(digest: str, after: tuple[int | float | str | None, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(Token(digest, after))).decode()


def decode_token(text: str, digest: str) -> tuple[int | float | str | None, ...]:
    """The place that a token names; 400 for what is not a token or one of another list."""
    try:
        token = msgspec.json.decode(base64.b64decode(text, altchars=b"-_", validate=True), type=Token)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise ApiError(400, "invalid nextPageToken: it is not a token that this server gave out") from None
    if token.digest != digest:
        raise ApiError(
            400, "invalid nextPageToken: it belongs to a list with another order or filter; start from the first page"
        )
    return token.after


def page_size(text: str | None, *, default: int, least: int = 0) -> int:
    """The `pageSize` parameter."""
    if not text:
        return default
    try:
        size = int(text) if text.isascii() and len(text) < 20 and "_" not in text else None
    except ValueError:
        size = None
    if size is None or size > _INT32:
        raise ApiError(400, f"invalid pageSize {text!r}: expected a whole number up to {_INT32}")
    if size < least:
        raise ApiError(400, f"invalid pageSize {size}: expected at least {least}")
    return size
