"""The values in a Secret: read out of their base64, and put into it."""

from __future__ import annotations

from base64 import b64decode, b64encode

from modelyard.kube.kinds import Object


def value_of(secret: Object | None, key: str) -> bytes:
    """A value of a Secret; empty where it is missing or is not base64."""
    try:
        return b64decode(encoded_value_of(secret, key), validate=True)
    except ValueError:
        return b""


def text_of(secret: Object | None, key: str) -> str:
    """A value of a Secret as text; empty where it is missing or is not text."""
    try:
        return value_of(secret, key).decode()
    except UnicodeDecodeError:
        return ""


def encoded_value_of(secret: Object | None, key: str) -> str:
    """A value in base64, as it stands in the Secret; empty where it is missing."""
    return str(((secret or {}).get("data") or {}).get(key) or "")


def encoded(value: bytes | str) -> str:
    """A value as it stands in a Secret."""
    return b64encode(value.encode() if isinstance(value, str) else value).decode()
