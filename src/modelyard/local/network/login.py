"""Logging in with a browser, which cannot send a bearer token: a link that works once sets a cookie that stands for one."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import SimpleCookie

COOKIE = "modelyard_session"
_CODE_LIFE = 600.0
_SESSION_LIFE = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class _Held:
    token: str
    until: float


class Logins:
    """Codes and sessions, in memory only, kept as hashes: whoever reads this process' memory dump has no cookie."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._codes: dict[str, _Held] = {}
        self._sessions: dict[str, _Held] = {}

    def issue(self, token: str) -> str:
        """A code for this bearer token; good once, for ten minutes."""
        self._forget_old()
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = _Held(token, self._clock() + _CODE_LIFE)
        return code

    def redeem(self, code: str) -> str | None:
        """The cookie's value for a code, which is then used up; None if it is unknown, used or too old."""
        held = self._codes.pop(_hash(code), None)
        if held is None or held.until < self._clock():
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[_hash(session)] = _Held(held.token, self._clock() + _SESSION_LIFE)
        return session

    def token(self, session: str) -> str | None:
        held = self._sessions.get(_hash(session))
        return held.token if held is not None and held.until >= self._clock() else None

    def end(self, session: str) -> None:
        self._sessions.pop(_hash(session), None)

    def _forget_old(self) -> None:
        now = self._clock()
        for held in (self._codes, self._sessions):
            for key in [key for key, value in held.items() if value.until < now]:
                del held[key]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def without_session(header: str) -> str | None:
    """A Cookie header without ours, which is none of the backend's business; None if nothing is left."""
    cookies = SimpleCookie()
    cookies.load(header)
    if COOKIE not in cookies:
        return header
    parts = [part.strip() for part in header.split(";")]
    return "; ".join(part for part in parts if not part.startswith(f"{COOKIE}=")) or None


def same_site(origin: str, host: str) -> bool:
    """Whether a request that changes something comes from a page of this gateway."""
    return origin.partition("://")[2] == host
