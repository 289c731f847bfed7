"""Logging in with a browser, which cannot send a bearer token: a link that works once sets a cookie that stands for a login.

A login at one origin of the gateway means nothing at another: each link and each session belongs to one service, or to the start
page. Nothing is written to disk, and codes and cookies are kept as hashes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

_PREFIX = "__Host-modelyard"
_CODE_LIFE = 600.0
_SESSION_LIFE = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class Target:
    """What someone is logged in to: an object of this very uid, or the start page."""

    source: str = ""
    """`Kind/namespace/name`; empty: the start page."""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """One browser at one origin."""

    target: Target
    person: str
    """Logins that began with the same link end together."""
    until: float


class Logins:
    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._codes: dict[str, Login] = {}
        self._sessions: dict[str, Login] = {}
        self._secret = secrets.token_bytes(32)

    def issue(self, target: Target, person: str = "") -> str:
        """A code for this target; good once, for ten minutes."""
        self._forget_old()
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = Login(target, person or secrets.token_hex(16), self._clock() + _CODE_LIFE)
        return code

    def redeem(self, code: str, target: Target) -> str | None:
        """The cookie's value for a code, which is then used up; None if it is unknown, used, too old or for elsewhere."""
        held = self._codes.pop(_hash(code), None)
        if held is None or held.until < self._clock() or held.target != target:
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[_hash(session)] = replace(held, until=self._clock() + _SESSION_LIFE)
        return session

    def find(self, session: str, target: Target) -> Login | None:
        """Who this cookie stands for at this target."""
        held = self._sessions.get(_hash(session))
        return held if held is not None and held.target == target and held.until >= self._clock() else None

    def end(self, person: str) -> None:
        """Logs this browser out, everywhere."""
        for held in (self._codes, self._sessions):
            for key in [key for key, value in held.items() if value.person == person]:
                del held[key]

    def form_token(self, session: str) -> str:
        """Stands in the forms of our pages: whoever sends it has read one of them, and no other origin can."""
        return hmac.new(self._secret, _hash(session).encode(), "sha256").hexdigest()

    def _forget_old(self) -> None:
        now = self._clock()
        for held in (self._codes, self._sessions):
            for key in [key for key, value in held.items() if value.until < now]:
                del held[key]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def cookie_name(port: int) -> str:
    """Cookies do not tell ports apart, and another cluster's gateway has another port. `__Host-`: browsers take such a cookie
    only over HTTPS, only from this very host, and only for all of its paths."""
    return f"{_PREFIX}-{port}"


def without_session(header: str) -> str | None:
    """A Cookie header without any gateway's login, which a backend must not see; None if nothing is left."""
    parts = [part.strip() for part in header.split(";")]
    return "; ".join(part for part in parts if part and not _is_ours(part)) or None


def sets_session(header: str) -> bool:
    """Whether a backend's Set-Cookie header would replace a login."""
    return _is_ours(header.strip())


def _is_ours(cookie: str) -> bool:
    return cookie.partition("=")[0].strip().lower().startswith(_PREFIX.lower())
