"""AdmissionReviews: what a webhook is asked, and what its answer means."""

from __future__ import annotations

import base64
import binascii
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.admission.configurations import Invocation
from modelyard.local.apiserver.auth.reviews import user_info
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import Problem, go_quote

_REVIEWS = (("admission.k8s.io/v1", "AdmissionReview"), ("admission.k8s.io/v1beta1", "AdmissionReview"))
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class BadAnswer(Exception):
    """A webhook's answer that cannot be used; the message says why, as Kubernetes would."""


class Unreadable(BadAnswer):
    """An answer that is not an AdmissionReview at all."""


@dataclass(frozen=True, slots=True)
class Answer:
    allowed: bool
    result: Object = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    patch: tuple[Object, ...] = ()


def review(invocation: Invocation, admission: Admission, obj: Object | None, old: Object | None) -> Object:
    """The question. Objects are in the version that the webhook asked for."""
    version = next(
        (v for v in invocation.webhook.config.get("admissionReviewVersions") or () if v in ("v1", "v1beta1")), "v1"
    )
    asked, original = invocation.resource.kind, admission.resource.kind
    kind, request_kind = admission.kind or asked, admission.kind or original
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": _kind(kind),
        "resource": _resource(asked),
        "requestKind": _kind(request_kind),
        "requestResource": _resource(original),
    }
    if admission.subresource:
        request["subResource"] = request["requestSubResource"] = admission.subresource
    if admission.name:
        request["name"] = admission.name
    namespace = admission.namespace or (admission.name if original.resource == "namespaces" else "")
    if namespace:
        request["namespace"] = namespace
    request |= {
        "operation": admission.operation,
        "userInfo": user_info(admission.user),
        "object": obj,
        "oldObject": old,
        "dryRun": admission.dry_run,
        "options": _options(admission),
    }
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def _options(admission: Admission) -> Object | None:
    """Patches are shown with the options of an update."""
    kind = _OPTIONS.get(admission.operation)
    if kind is None:
        return admission.options or None
    shown = {name: value for name, value in admission.options.items() if name != "force"}
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1"} | shown | {"kind": kind}


def _kind(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def read_answer(question: Object, answer: Object, *, mutating: bool) -> Answer:
    """What a webhook said. Raises BadAnswer."""
    if (answer.get("apiVersion"), answer.get("kind")) not in _REVIEWS:
        raise Unreadable(
            f'no kind "{answer.get("kind")}" is registered for version "{answer.get("apiVersion")}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise BadAnswer("webhook response was absent")
    strict = question["apiVersion"].endswith("/v1")
    uid = question["request"]["uid"]
    if strict:
        if response.get("uid") != uid:
            raise BadAnswer(f"expected response.uid={go_quote(uid)}, got {go_quote(str(response.get('uid') or ''))}")
        if (answer.get("apiVersion"), answer.get("kind")) != ("admission.k8s.io/v1", "AdmissionReview"):
            got = f"{answer.get('apiVersion') or '/'}, Kind={answer.get('kind') or ''}"
            raise BadAnswer(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")
    patch, patch_type = response.get("patch"), response.get("patchType")
    if mutating:
        if strict and patch and patch_type is None:
            raise BadAnswer("webhook returned response.patch but not response.patchType")
        if strict and not patch and patch_type is not None:
            raise BadAnswer("webhook returned response.patchType but not response.patch")
        if patch and patch_type not in (None, "JSONPatch"):
            raise BadAnswer(f"unsupported patch type {go_quote(str(patch_type))}")
    else:
        if patch:
            raise BadAnswer("validating webhook may not return response.patch")
        if patch_type is not None:
            raise BadAnswer("validating webhook may not return response.patchType")
    warnings = tuple(str(each) for each in response.get("warnings") or ())
    result = response.get("status") or {}
    return Answer(bool(response.get("allowed")), result if isinstance(result, dict) else {}, warnings, _patch(patch))


def _patch(encoded: Any) -> tuple[Object, ...]:
    if not encoded:
        return ()
    try:
        operations = msgspec.json.decode(base64.b64decode(encoded), type=list[dict[str, Any]])
    except (msgspec.DecodeError, binascii.Error, ValueError, TypeError) as error:
        raise BadAnswer(f"received undecodable patch in webhook response: {error}") from None
    return tuple(operations)


def denial(webhook: str, result: Object) -> Problem:
    """The refusal that a webhook's answer becomes."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": result.get("metadata") or {},
        "status": "Failure",
    }
    denied = f"admission webhook {go_quote(webhook)} denied the request"
    if result.get("message"):
        status["message"] = f"{denied}: {result['message']}"
    elif result.get("reason"):
        status["message"] = f"{denied}: {result['reason']}"
    else:
        status["message"] = f"{denied} without explanation"
    if result.get("reason"):
        status["reason"] = result["reason"]
    if result.get("details"):
        status["details"] = result["details"]
    code = result.get("code")
    status["code"] = code if isinstance(code, int) and code >= 400 else 400
    return Problem(status)
