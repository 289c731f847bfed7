"""serviceaccounts/token: a fresh token for a service account, bound to a pod, a secret or a node where asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from modelyard.kube.builtin import Node, Pod, Secret, ServiceAccount
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time
from modelyard.local.apiserver.auth.tokens import (
    EXTENDED_SECONDS,
    PROJECTED_SECONDS,
    Bound,
    Issue,
    ServiceAccountTokens,
)
from modelyard.local.apiserver.builtin.shapes import ShapeError, reader_for
from modelyard.local.apiserver.requests.problems import bad_request, conflict, invalid, invalid_value, not_found
from modelyard.local.apiserver.served.resources import Call
from modelyard.local.apiserver.storage.store import Store, Stored
from modelyard.local.apiserver.subresources.admitting import admit

TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")
_KINDS = {"Pod": Pod, "Secret": Secret, "Node": Node}
_DEFAULT_SECONDS = 3600


class TokenRequests:
    def __init__(self, store: Store, tokens: ServiceAccountTokens, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock

    async def create(self, call: Call) -> Object:
        request = _read(call)
        metadata, spec = request["metadata"], request["spec"]
        for name, wanted in (("name", call.name), ("namespace", call.namespace)):
            if metadata.get(name) and metadata[name] != wanted:
                detail = f"must match the service account {name} if specified"
                raise invalid(TOKEN_REQUEST, call.name, [invalid_value(f"metadata.{name}", metadata[name], detail)])
        account = self._store.get(ServiceAccount.resource, call.namespace, call.name)
        if account is None:
            raise not_found(ServiceAccount, call.name)
        if metadata.get("uid") and metadata["uid"] != account.uid:
            why = (
                f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account "
                f"({account.uid})"
            )
            raise conflict(Kind("authentication.k8s.io", "v1", "", "TokenRequest"), call.name, why)
        spec["audiences"] = spec.get("audiences") or list(self._tokens.audiences)
        spec.setdefault("boundObjectRef", None)
        now = self._clock()
        request["metadata"] = metadata | {
            "name": call.name,
            "namespace": call.namespace,
            "uid": account.uid,
            "creationTimestamp": format_time(now),
        }
        _check_seconds(spec["expirationSeconds"])
        request = await admit(call, "CREATE", TOKEN_REQUEST, request)
        spec = request["spec"]
        seconds = spec["expirationSeconds"]
        bound = self._bound(call, spec.get("boundObjectRef"))
        own = all(audience in self._tokens.audiences for audience in spec["audiences"])
        extended = seconds == PROJECTED_SECONDS and own and any(each.kind == Pod for each in bound)
        token = self._tokens.issue(
            Issue(
                call.namespace,
                account,
                EXTENDED_SECONDS if extended else seconds,
                spec["audiences"],
                bound,
                seconds if extended else 0,
            )
        )
        request["status"] = {"token": token, "expirationTimestamp": format_time(now + timedelta(seconds=seconds))}
        return request

    def _bound(self, call: Call, reference: dict[str, Any] | None) -> tuple[Bound, ...]:
        if reference is None:
            return ()
        version, kind_name, name = reference.get("apiVersion", ""), reference.get("kind", ""), reference.get("name", "")
        kind = _KINDS.get(kind_name) if "/" not in version else None
        if kind is None:
            shown = version if "/" in version else f"/{version}"
            raise bad_request(f"cannot bind token to object of type {shown}, Kind={kind_name}")
        stored = self._store.get(kind.resource, call.namespace if kind.namespaced else "", name)
        if stored is None:
            raise not_found(kind, name)
        more = self._pod_node(call, stored) if kind == Pod else ()
        if reference.get("uid") and reference["uid"] != stored.uid:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The object "
                "might have been deleted and then recreated"
            )
            raise conflict(Kind(kind.group, kind.version, kind.kind, kind.kind), name, why)
        return (Bound(kind, name, stored.uid), *more)

    def _pod_node(self, call: Call, stored: Stored) -> tuple[Bound, ...]:
        spec = stored.decode()["spec"]
        if spec.get("serviceAccountName") != call.name:
            raise bad_request(
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
        node = spec.get("nodeName")
        if not node:
            return ()
        found = self._store.get(Node.resource, "", node)
        return (Bound(Node, node, found.uid if found is not None else ""),)


def _check_seconds(seconds: int) -> None:
    field = "spec.expirationSeconds"
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        raise invalid(TOKEN_REQUEST, "", [invalid_value(field, seconds, detail)])
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        raise invalid(TOKEN_REQUEST, "", [invalid_value(field, seconds, detail)])


def _read(call: Call) -> Object:
    reader = reader_for("authentication/v1.TokenRequest")
    assert reader is not None
    body = dict(call.body or {})
    body["kind"], body["apiVersion"] = TOKEN_REQUEST.kind, TOKEN_REQUEST.api_version
    try:
        request: Object = reader(body)
    except ShapeError as error:
        raise bad_request(
            f'TokenRequest in version "v1" cannot be handled as a TokenRequest: {error.message}'
        ) from None
    if request["spec"].get("expirationSeconds") is None:
        request["spec"]["expirationSeconds"] = _DEFAULT_SECONDS
    return request
