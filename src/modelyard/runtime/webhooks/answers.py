"""Reviews in, reviews out: from the bytes of a request to the bytes of the answer, without any server."""

from __future__ import annotations

import base64
import copy
import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.webhooks.access_review import AccessReviews, NobodyToAsk, NotAsked
from modelyard.runtime.webhooks.declarations import (
    AdmissionRequest,
    Allowed,
    Answer,
    Conversion,
    ConversionFailed,
    Denied,
    HookReader,
    NothingToRead,
    NotReadable,
    Webhook,
)

log = logging.getLogger(__name__)


class BadReview(ValueError):
    """A request that is not a review we understand; it is answered with a 400 and this message."""


async def answer_admission(
    webhook: Webhook, body: bytes, reader: HookReader | None = None, access: AccessReviews | None = None
) -> bytes:
    """The AdmissionReview that answers another. Whatever the handler does, the API gets a proper answer."""
    review, request = _review(body, "AdmissionReview", "admission.k8s.io", ("v1", "v1beta1"))
    asked = _request(request, reader or NothingToRead(), access or NobodyToAsk())
    sent = copy.deepcopy(asked.object)
    try:
        await asked.reader.wait_readable()
        answer = webhook.handler(asked)
        if inspect.isawaitable(answer):
            answer = await answer
        response = _response(webhook, sent, answer)
    except (NotReadable, NotAsked) as error:
        response = _refusal(Denied(str(error), code=503, reason="ServiceUnavailable"))
    except Exception as error:
        log.exception("webhook %s failed on %s %s/%s", webhook.name, asked.kind.kind, asked.namespace, asked.name)
        message = f"webhook {webhook.name} failed: {type(error).__name__}: {error}"
        response = _refusal(Denied(message, code=500, reason="InternalError"))
    response = {"uid": asked.uid} | response
    return msgspec.json.encode({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


async def answer_conversion(conversions: Sequence[Conversion], body: bytes) -> bytes:
    """The ConversionReview that answers another: all objects converted, or none and the reason.

    Several definitions may share a path; the kind of each object decides whose conversion it is.
    """
    by_kind = {conversion.definition.kind_name: conversion for conversion in conversions}
    review, request = _review(body, "ConversionReview", "apiextensions.k8s.io", ("v1", "v1beta1"))
    wanted = request.get("desiredAPIVersion")
    objects = request.get("objects")
    if not isinstance(wanted, str) or not isinstance(objects, list):
        raise BadReview("a ConversionReview needs request.desiredAPIVersion and request.objects")
    response: Object = {"uid": request.get("uid", "")}
    try:
        converted = [_converted(by_kind, obj, wanted) for obj in objects]
        response |= {"convertedObjects": converted, "result": {"status": "Success"}}
    except ConversionFailed as failure:
        response |= {"convertedObjects": [], "result": {"status": "Failure", "message": str(failure)}}
    return msgspec.json.encode({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})


def _converted(by_kind: Mapping[str, Conversion], obj: Any, wanted: str) -> Object:
    if not isinstance(obj, dict) or obj.get("kind") not in by_kind:
        raise ConversionFailed(f"only {', '.join(by_kind)} can be converted here")
    conversion = by_kind[obj["kind"]]
    definition = conversion.definition
    served = {f"{definition.group}/{version.name}" for version in definition.versions}
    if wanted not in served:
        raise ConversionFailed(f"{definition.kind_name} has no version {wanted}; it has {', '.join(sorted(served))}")
    name = (obj.get("metadata") or {}).get("name", "")
    if obj.get("apiVersion") == wanted:
        return obj
    try:
        made = conversion.handler(copy.deepcopy(obj), wanted)
    except ConversionFailed:
        raise
    except Exception as error:
        log.exception("conversion of %s %s failed", definition.kind_name, name)
        raise ConversionFailed(
            f"{definition.kind_name} {name!r} cannot be converted to {wanted}: {type(error).__name__}: {error}"
        ) from error
    # The API refuses an answer whose metadata differs in anything but labels and annotations.
    kept = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    changed = {k: v for k, v in (made.get("metadata") or {}).items() if k in ("labels", "annotations")}
    return made | {"apiVersion": wanted, "kind": obj["kind"], "metadata": kept | changed}


def _review(body: bytes, kind: str, group: str, versions: tuple[str, ...]) -> tuple[Object, Object]:
    try:
        review = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadReview(f"the body is not JSON: {error}") from None
    if not isinstance(review, dict) or review.get("kind") != kind:
        raise BadReview(f"the body is not of kind {kind}")
    if review.get("apiVersion") not in {f"{group}/{version}" for version in versions}:
        raise BadReview(f"{kind} of version {review.get('apiVersion')!r} is not understood, only {group}/v1")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BadReview(f"the {kind} has no request with a uid")
    return review, request


def _request(request: Object, reader: HookReader, access: AccessReviews) -> AdmissionRequest:
    operation = request.get("operation")
    if operation not in ("CREATE", "UPDATE", "DELETE", "CONNECT"):
        raise BadReview(f"operation {operation!r} is none of CREATE, UPDATE, DELETE, CONNECT")
    of_kind = _mapping(request, "kind")
    resource = _mapping(request, "resource")
    user = _mapping(request, "userInfo")
    return AdmissionRequest(
        operation=operation,
        object=_mapping(request, "object") or None,
        old=_mapping(request, "oldObject") or None,
        kind=Kind(
            of_kind.get("group", ""), of_kind.get("version", ""), of_kind.get("kind", ""), resource.get("resource", "")
        ),
        namespace=request.get("namespace") or "",
        name=request.get("name") or "",
        subresource=request.get("subResource") or "",
        user=user.get("username", ""),
        groups=tuple(user.get("groups") or ()),
        user_uid=user.get("uid") or "",
        user_extra=_mapping(user, "extra"),
        dry_run=bool(request.get("dryRun")),
        uid=request["uid"],
        reader=reader,
        access=access,
    )


def _mapping(request: Object, name: str) -> Object:
    value = request.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadReview(f"request.{name} is not an object")
    return value or {}


def _response(webhook: Webhook, sent: Object | None, answer: Answer) -> Object:
    if isinstance(answer, Denied):
        return _refusal(answer)
    allowed = answer if isinstance(answer, Allowed) else Allowed(answer)
    response: Object = {"allowed": True}
    if allowed.warnings:
        response["warnings"] = list(allowed.warnings)
    if webhook.type == "mutating" and allowed.object is not None and sent is not None:
        patch = json_diff(sent, allowed.object)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    return response


def _refusal(denied: Denied) -> Object:
    details: Object = dict(denied.details)
    if denied.causes:
        details["causes"] = list(denied.causes)
    status: Object = {
        "status": "Failure",
        "message": denied.message,
        "reason": denied.reason,
        "code": denied.code,
    }
    response: Object = {"allowed": False, "status": status | ({"details": details} if details else {})}
    if denied.warnings:
        response["warnings"] = list(denied.warnings)
    return response


def json_diff(old: Any, new: Any, path: str = "") -> list[Object]:
    """A JSON patch that makes `new` of `old`: mappings key by key, lists item by item where their length is the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        steps: list[Object] = [{"op": "remove", "path": f"{path}/{_escaped(k)}"} for k in old if k not in new]
        for name, value in new.items():
            at = f"{path}/{_escaped(name)}"
            if name in old:
                steps += json_diff(old[name], value, at)
            else:
                steps.append({"op": "add", "path": at, "value": value})
        return steps
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            step
            for position, (a, b) in enumerate(zip(old, new, strict=True))
            for step in json_diff(a, b, f"{path}/{position}")
        ]
    same = old == new and (isinstance(old, bool) == isinstance(new, bool))
    return [] if same else [{"op": "replace", "path": path, "value": new}]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
