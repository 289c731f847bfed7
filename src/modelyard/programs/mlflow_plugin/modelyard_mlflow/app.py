"""The `kubernetes-auth` app: MLflow's own, behind a check of the caller's token with a SelfSubjectAccessReview."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import anyio.to_thread

from .kubernetes import Kubernetes, NoAnswer, NotAuthenticated
from .rules import PUBLIC, WORKSPACES, Name, Named, Need, need
from .workspaces import caller

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_MOST_BODY = 32 << 20


def create_app() -> App:
    """What the server runs (named by the entry point)."""
    from mlflow.server.fastapi_app import create_fastapi_app

    mode = os.environ.get("MLFLOW_K8S_AUTH_AUTHORIZATION_MODE", "self_subject_access_review")
    if mode != "self_subject_access_review":
        raise SystemExit(f"MLFLOW_K8S_AUTH_AUTHORIZATION_MODE={mode}: only self_subject_access_review is offered here")
    return Guard(create_fastapi_app(), Kubernetes(), os.environ.get("_MLFLOW_STATIC_PREFIX", ""))


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Guard:
    """ASGI middleware: nothing of the API is reached without a token that allows it."""

    def __init__(self, app: App, api: Kubernetes, prefix: str) -> None:
        self._app = app
        self._api = api
        self._prefix = prefix.rstrip("/")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            path = path.removeprefix(self._prefix) or "/"
        if PUBLIC.match(path):
            await self._app(scope, receive, through_the_server(send) if path.endswith("/server-info") else send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            token = bearer(headers)
            body, receive = await self._body(scope, headers, receive)
            await self._check(scope, path, headers, body, token)
        except Refused as refusal:
            await refuse(send, refusal)
            return
        marker = caller.set(token)
        try:
            await self._app(scope, receive, send)
        finally:
            caller.reset(marker)

    async def _body(self, scope: Message, headers: dict[str, str], receive: Receive) -> tuple[dict[str, Any], Receive]:
        """The JSON body, and a way for the app to read it again. Uploads are not touched."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS") or "json" not in headers.get("content-type", ""):
            return {}, receive
        chunks: list[bytes] = []
        more, size = True, 0
        while more:
            message = await receive()
            if message["type"] != "http.request":
                break
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > _MOST_BODY:
                raise Refused(413, "INVALID_PARAMETER_VALUE", f"the request body is larger than {_MOST_BODY >> 20} MiB")
            more = message.get("more_body", False)
        data = b"".join(chunks)
        replayed = False

        async def again() -> Message:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": data, "more_body": False}

        try:
            parsed = json.loads(data) if data else {}
        except ValueError:
            parsed = {}
        return (parsed if isinstance(parsed, dict) else {}), again

    async def _check(
        self, scope: Message, path: str, headers: dict[str, str], body: dict[str, Any], token: str
    ) -> None:
        workspace = headers.get("x-mlflow-workspace", "").strip() or os.environ.get("MLFLOW_K8S_DEFAULT_WORKSPACE", "")
        found = WORKSPACES.match(path)
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        wanted = Need("experiments", "list") if found else need(scope["method"], path, query, body, workspace)
        if wanted is None:
            return
        if found and not found["name"]:
            # The list shows only what the caller may see; that the caller's token is good is all there is to check.
            await self._ask(token, "default", wanted)
            return
        if found:
            workspace = found["name"]
        if not workspace:
            if "api/" not in path:
                return
            message = "Active workspace is required: set the header X-MLFLOW-WORKSPACE, or call mlflow.set_workspace()"
            raise Refused(400, "INVALID_PARAMETER_VALUE", message)
        if await self._ask(token, workspace, wanted):
            return
        if wanted.names and all([await self._may_name(token, workspace, wanted, name) for name in wanted.names]):
            return
        what = f"{wanted.verb} {wanted.resource}" + (f"/{wanted.subresource}" if wanted.subresource else "")
        raise Refused(403, "PERMISSION_DENIED", f"Permission denied: you may not {what} in workspace '{workspace}'")

    async def _may_name(self, token: str, workspace: str, wanted: Need, about: Name) -> bool:
        name = await anyio.to_thread.run_sync(object_name, about, workspace)
        return bool(name) and await self._ask(token, workspace, wanted, name)

    async def _ask(self, token: str, namespace: str, wanted: Need, name: str = "") -> bool:
        try:
            return await anyio.to_thread.run_sync(self._api.allowed, token, namespace, wanted, name)
        except NotAuthenticated:
            raise Refused(401, "UNAUTHENTICATED", "The bearer token is not valid for this cluster") from None
        except NoAnswer as error:
            raise Refused(503, "TEMPORARILY_UNAVAILABLE", str(error)) from None


def object_name(about: Name, workspace: str) -> str:
    """The name that a Role's resourceNames would use; empty if there is none or it does not exist."""
    if about.named in (Named.EXPERIMENT, Named.MODEL, Named.VALUE):
        return about.value
    from mlflow.exceptions import MlflowException
    from mlflow.server.handlers import _get_tracking_store
    from mlflow.utils.workspace_context import WorkspaceContext

    with WorkspaceContext(workspace):
        store = _get_tracking_store()
        try:
            identity = about.value
            if about.named is Named.RUN_ID:
                identity = store.get_run(identity).info.experiment_id
            return str(store.get_experiment(identity).name)
        except MlflowException:
            return ""


def bearer(headers: dict[str, str]) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip() if kind.lower() == "bearer" else headers.get("x-forwarded-access-token", "").strip()
    if not token:
        message = "Authentication is needed: send a Kubernetes token (MLFLOW_TRACKING_TOKEN) as bearer token"
        raise Refused(401, "UNAUTHENTICATED", message)
    return token


def through_the_server(send: Send) -> Send:
    """An answer about the server in which clients are not sent to its store themselves, unless that is asked for.

    Servers offer it for every S3 store, but a store inside the cluster has no name that is known outside of it.
    """
    direct = {
        capability: os.environ.get(variable, "").lower() in ("true", "1")
        for capability, variable in (
            ("multipart_downloads_enabled", "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD"),
            ("multipart_uploads_enabled", "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD"),
        )
    }
    start: Message = {}
    body = b""

    async def corrected(message: Message) -> None:
        nonlocal start, body
        if message["type"] == "http.response.start":
            start = message
            return
        body += message.get("body", b"")
        if message.get("more_body"):
            return
        said = json.loads(body) if start["status"] == 200 and body else None
        if isinstance(said, dict):
            answer = said | {name: said[name] and wanted for name, wanted in direct.items() if name in said}
            body = json.dumps(answer).encode()
        size = (b"content-length", str(len(body)).encode())
        headers = [*((name, value) for name, value in start["headers"] if name.lower() != size[0]), size]
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return corrected


async def refuse(send: Send, refusal: Refused) -> None:
    body = json.dumps({"error_code": refusal.code, "message": str(refusal)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
