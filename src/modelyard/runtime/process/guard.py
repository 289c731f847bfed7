"""Who may read a page of this process: the API server knows the caller's token and rights on the path."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

from modelyard.kube.builtin import SubjectAccessReview, TokenReview
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Object
from modelyard.runtime.declaring.controller import Permission

REMEMBERED = 60.0
"""Seconds for which an answer of the API holds; a scraper comes again and again."""
_MOST = 256

PERMISSIONS = (
    Permission(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    Permission(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
"""What the process itself needs to ask."""


@dataclass(frozen=True)
class Refusal:
    """Why a caller is not let in."""

    status: int
    message: str


class Guard:
    """Lets in whom the API server lets `get` a path."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: dict[tuple[bytes, str], tuple[float, Refusal | None]] = {}

    async def refusal(self, authorization: str, path: str) -> Refusal | None:
        """None: the caller may pass."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return Refusal(401, "send the token of a service account: Authorization: Bearer TOKEN")
        now = asyncio.get_running_loop().time()
        # Tokens themselves are not kept.
        known = (hashlib.sha256(token.encode()).digest(), path)
        until, answer = self._answers.get(known, (0.0, None))
        if now < until:
            return answer
        try:
            answer = await self._ask(token.strip(), path)
        except (ApiError, Unreachable) as error:
            return Refusal(503, f"the API server could not be asked who this is: {error}")
        if len(self._answers) >= _MOST:
            self._answers.clear()
        self._answers[known] = now + REMEMBERED, answer
        return answer

    async def _ask(self, token: str, path: str) -> Refusal | None:
        review = (await self._client.create(TokenReview, {"spec": {"token": token}}))["status"]
        if not review.get("authenticated"):
            return Refusal(401, "the API server does not know this token")
        user: Object = review["user"]
        spec = {name: user[name] for name in ("groups", "uid", "extra") if user.get(name)}
        asked = spec | {"user": user["username"], "nonResourceAttributes": {"path": path, "verb": "get"}}
        if (await self._client.create(SubjectAccessReview, {"spec": asked}))["status"].get("allowed"):
            return None
        who = user["username"]
        return Refusal(403, f"{who} may not get {path}: bind a ClusterRole with nonResourceURLs [{path}] and verb get")
