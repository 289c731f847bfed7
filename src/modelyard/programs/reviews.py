"""Asks the API server of the cluster around this program who a caller is and what the caller may do. It decides nothing itself."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import aiohttp

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT = aiohttp.ClientTimeout(total=30)
_GROUPS = {"TokenReview": "authentication.k8s.io", "SubjectAccessReview": "authorization.k8s.io"}


class NoVerdict(Exception):
    """The API server could not be asked, or did not answer the question."""


class Reviewer(Protocol):
    async def review(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The status of a review of this kind (`TokenReview`, `SubjectAccessReview`); raises `NoVerdict`."""
        ...


class ClusterReviewer:
    """Asks as the pod's own service account. The token is read for each question: it is rotated."""

    def __init__(self, server: str, account: Path) -> None:
        self._server = server
        self._account = account
        try:
            self._trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
        except OSError as error:
            raise NoVerdict(
                f"the pod's service account has no CA certificate at {account / 'ca.crt'}: {error.strerror or error}; "
                "is automountServiceAccountToken off?"
            ) from None
        self._session = aiohttp.ClientSession(timeout=TIMEOUT)

    @classmethod
    def of_this_pod(cls) -> ClusterReviewer:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise NoVerdict("this process does not run in a cluster: KUBERNETES_SERVICE_HOST is not set")
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        return cls(server, Path(os.environ.get("MODELYARD_SERVICE_ACCOUNT") or ACCOUNT))

    async def __aenter__(self) -> ClusterReviewer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def review(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        group = f"{_GROUPS[kind]}/v1"
        body = {"apiVersion": group, "kind": kind, "spec": spec}
        try:
            token = (self._account / "token").read_text().strip()
            asked = self._session.post(
                f"{self._server}/apis/{group}/{kind.lower()}s",
                json=body,
                headers={"Authorization": f"Bearer {token}"},
                ssl=self._trust,
            )
            async with asked as answer:
                if answer.status not in (200, 201):
                    raise NoVerdict(f"{kind}: {answer.status} {(await answer.text())[:300]}")
                said: dict[str, Any] = (await answer.json()).get("status") or {}
                return said
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoVerdict(f"{kind}: {error or type(error).__name__}") from None
