"""Service account tokens for pods: asked from the API server, renewed well before they end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Object

_LONGEST = timedelta(hours=24)


class TokenError(Exception):
    """The API server gave no token."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    refresh: datetime
    """When a new one should be asked for: at 80 % of the life time, and at least daily."""


class Tokens:
    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._held: dict[tuple[str, str, int], Token] = {}

    async def for_pod(self, pod: Object, *, audience: str, seconds: int) -> Token:
        """A token of the pod's service account, bound to the pod: it ends with it."""
        meta, account = pod["metadata"], pod["spec"].get("serviceAccountName") or "default"
        key = (meta["uid"], audience, seconds)
        held = self._held.get(key)
        if held is not None and self._clock() < held.refresh:
            return held
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]},
            },
        }
        path = builtin.ServiceAccount.path(meta["namespace"], account, "token")
        try:
            answer = await self._client.object("POST", path, body=body)
        except (ApiError, Unreachable) as error:
            raise TokenError(f"failed to fetch token: {error}") from error
        status = answer.get("status") or {}
        now = self._clock()
        life = min(_LONGEST, datetime.fromisoformat(status["expirationTimestamp"]) - now)
        token = Token(status["token"], now + life * 0.8 - timedelta(seconds=random.uniform(0, 10)))
        self._held[key] = token
        return token

    def forget(self, uid: str) -> None:
        for key in [key for key in self._held if key[0] == uid]:
            del self._held[key]
