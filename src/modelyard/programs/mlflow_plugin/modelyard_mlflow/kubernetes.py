"""The few calls to the Kubernetes API that the plugin makes: as the caller (may I?) and as the server (namespaces)."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import requests

from .rules import GROUP, Need

T = TypeVar("T")
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_KEEP = 10.0
_TIMEOUT = 10.0


class NotAuthenticated(Exception):
    """The API server does not know the caller's token."""


class NoAnswer(Exception):
    """The API server gave no usable answer."""


class Kept:
    """Answers kept for some seconds, shared by the server's threads."""

    def __init__(self, seconds: float = _KEEP, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, tuple[float, Any]] = {}

    def get(self, key: str, ask: Callable[[], T], *, fresh: bool = False) -> T:
        now = self._clock()
        with self._lock:
            held = self._held.get(key)
            if held is not None and held[0] > now and not fresh:
                found: T = held[1]
                return found
        answer = ask()
        with self._lock:
            if len(self._held) > 8192:
                self._held.clear()
            self._held[key] = (now + self._seconds, answer)
        return answer


class Kubernetes:
    def __init__(self) -> None:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        self._base = f"https://{host}:{port}"
        self._account = Path(os.environ.get("MODELYARD_SERVICE_ACCOUNT") or _ACCOUNT)
        self._session = requests.Session()
        self._session.trust_env = False
        self._kept = Kept()

    def _call(
        self, method: str, path: str, token: str, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        ca = self._account / "ca.crt"
        try:
            answer = self._session.request(
                method, self._base + path, json=body, timeout=_TIMEOUT, verify=str(ca),
                headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            )  # fmt: skip
        except requests.RequestException as error:
            raise NoAnswer(f"the Kubernetes API at {self._base} does not answer: {error}") from error
        try:
            return answer.status_code, answer.json()
        except ValueError:
            # A kind that is not served (its CRD is not installed) is answered in plain text.
            return answer.status_code, {"message": answer.text.strip()}

    def allowed(self, token: str, namespace: str, need: Need, name: str = "") -> bool:
        """Whether the caller may do this, by the caller's own token. Raises `NotAuthenticated`."""
        attributes = {"group": GROUP, "resource": need.resource, "verb": need.verb, "namespace": namespace}
        if need.subresource:
            attributes["subresource"] = need.subresource
        if name:
            attributes["name"] = name
        key = f"{hashlib.sha256(token.encode()).hexdigest()}:{sorted(attributes.items())}"
        return self._kept.get(key, lambda: self._ask(token, attributes))

    def _ask(self, token: str, attributes: dict[str, str]) -> bool:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        code, answer = self._call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", token, body)
        if code == 401:
            raise NotAuthenticated(answer.get("message") or "Unauthorized")
        if code >= 300:
            raise NoAnswer(f"SelfSubjectAccessReview: {answer.get('message') or code}")
        return bool((answer.get("status") or {}).get("allowed"))

    def read(self, path: str, *, fresh: bool = False) -> dict[str, Any] | None:
        """An object or list, as the server's own service account; None if it does not exist or may not be read.
        With `fresh` no kept answer is used."""
        return self._kept.get(f"read:{path}", lambda: self._read(path), fresh=fresh)

    def _read(self, path: str) -> dict[str, Any] | None:
        token = (self._account / "token").read_text().strip()
        code, answer = self._call("GET", path, token)
        if code in (403, 404):
            return None
        if code >= 300:
            raise NoAnswer(f"GET {path}: {answer.get('message') or code}")
        return answer
