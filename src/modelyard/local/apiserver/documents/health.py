"""The health endpoints: whether the server lives and is ready, as a whole and check by check."""

from __future__ import annotations

from modelyard.local.apiserver.requests.messages import Reply, Request

_ENDPOINTS = frozenset(("livez", "readyz", "healthz"))
_CHECKS = ("ping", "log", "etcd")
"""The checks that every endpoint of Kubernetes has; the storage goes by the name that monitors ask for."""
_TEXT = "text/plain; charset=utf-8"


def reply(request: Request, failure: str = "") -> Reply | None:
    """A server that answers at all lives; it is ready where its storage keeps what is written. None for a path that is not a health endpoint."""
    endpoint, _, check = request.path.removeprefix("/").partition("/")
    if endpoint not in _ENDPOINTS or request.path.endswith("/") or (check and check not in _CHECKS):
        return None
    excluded = request.query.get("exclude", [])
    if failure and endpoint != "livez" and check in ("", "etcd") and "etcd" not in excluded:
        lines = [f"[-]etcd failed: {failure}" if name == "etcd" else f"[+]{name} ok" for name in _CHECKS]
        return Reply(500, "\n".join([*lines, f"{endpoint} check failed", ""]).encode(), _TEXT)
    if check or "verbose" not in request.query:
        return Reply(200, b"ok", _TEXT)
    lines = [f"[+]{name} {'excluded: ok' if name in excluded else 'ok'}" for name in _CHECKS]
    unknown = [f'"{name}"' for name in excluded if name not in _CHECKS]
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    return Reply(200, "\n".join([*lines, f"{endpoint} check passed", ""]).encode(), _TEXT)
