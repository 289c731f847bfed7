"""The heads of plain HTTP/1.1 requests: method, path and headers, read strictly and, on one connection, only once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from modelyard.local.apiserver.requests.bodies import MOST_BYTES

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_MOST_HEADERS = 100
_UNUSUAL = frozenset(("transfer-encoding", "upgrade"))
SPDY = "SPDY/3.1"
_LENGTH = b"\r\nContent-Length: "
_LINE = re.compile(rb"([A-Z]+) (/(?!/)[!\"$-~]*) HTTP/1\.1")
_HEADERS = re.compile(rb"[0-9A-Za-z!#$%&'*+.^_`|~-]+:[\t -~]*(?:\r\n[0-9A-Za-z!#$%&'*+.^_`|~-]+:[\t -~]*)*")


class Head:
    """A request up to its body."""

    __slots__ = ("closes", "headers", "length", "method", "path", "query")

    def __init__(self, method: str, target: str, headers: dict[str, str], length: int, closes: bool) -> None:
        path, _, query = target.partition("?")
        self.method = method
        self.path = unquote(path) if "%" in path else path
        self.query = query
        self.headers = headers
        self.length = length
        self.closes = closes


class Heads:
    """Reads the heads of one connection's requests. A client says the same in most of them, but for the length of the body."""

    __slots__ = ("_closes", "_headers", "_lines")

    def __init__(self) -> None:
        self._lines: tuple[bytes, bytes] | None = None
        """The header lines of the last request, before and after the one with the length."""
        self._headers: dict[str, str] = {}
        self._closes = False

    def read(self, raw: bytes) -> Head | None:
        """A plain request's head, given without the blank line; None where anything about it is unusual."""
        first, _, block = raw.partition(b"\r\n")
        line = _LINE.fullmatch(first)
        if line is None:
            return None
        method = line[1].decode()
        before, found, rest = block.partition(_LENGTH)
        length, _, after = rest.partition(b"\r\n")
        if (before, after) != self._lines and not self._learn(before, after):
            return None
        headers = self._headers.copy()
        if found:
            if "content-length" in headers:
                return None
            headers["content-length"] = length.decode("latin-1").rstrip(" \t")
        size = headers.get("content-length", "0")
        if (
            method not in METHODS
            or not size.isdecimal()
            or not size.isascii()
            or len(size) > 9
            or int(size) > MOST_BYTES
        ):
            return None
        return Head(method, line[2].decode(), headers, int(size), self._closes)

    def _learn(self, before: bytes, after: bytes) -> bool:
        """Reads new header lines; whether they are plain ones."""
        self._lines = None
        headers: dict[str, str] = {}
        for block in (before, after):
            if block and not _HEADERS.fullmatch(block):
                return False
            for line in block.decode().split("\r\n") if block else ():
                name, _, value = line.partition(":")
                name, value = name.lower(), value.strip(" \t")
                if name in headers:
                    if name in ("content-length", "host"):
                        return False
                    value = f"{headers[name]}\n{value}"
                headers[name] = value
        connection = headers.get("connection", "").lower()
        unusual = _UNUSUAL & headers.keys()
        upgrades = "upgrade" in unusual or "upgrade" in connection
        if len(headers) > _MOST_HEADERS or unusual - {"upgrade"} or (upgrades and not wants_spdy(headers)):
            return False
        self._headers, self._closes, self._lines = headers, "close" in connection, (before, after)
        return True


def wants_spdy(headers: Mapping[str, str]) -> bool:
    """Whether a request asks for SPDY on its connection, as clients for remote commands did before web sockets."""
    return headers.get("upgrade", "").upper() == SPDY and "upgrade" in headers.get("connection", "").lower()
