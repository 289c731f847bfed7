"""Conversion of custom resources between their versions: by renaming, or by asking the definition's webhook."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.problems import Problem, go_quote

TIMEOUT = 30.0

CallWebhook = Callable[[Object, Object, float], Awaitable[Object]]
"""(clientConfig, review, seconds) -> the review that the webhook answers with. Raises `WebhookFailure`."""


class WebhookFailure(Exception):
    """A webhook could not be called or gave no usable answer; the message is what Kubernetes would say."""


async def rename(objects: Sequence[Object], api_version: str) -> list[Object]:
    """Strategy None: only the apiVersion changes."""
    return [{**deepcopy(obj), "apiVersion": api_version} for obj in objects]


class WebhookConverter:
    """Strategy Webhook: sends a ConversionReview with all objects that are not in the wanted version."""

    def __init__(self, kind: Kind, webhook: Object, call: CallWebhook) -> None:
        self._kind = kind
        self._config = webhook.get("clientConfig") or {}
        self._reviews = webhook.get("conversionReviewVersions") or ["v1"]
        self._call = call

    async def __call__(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        foreign = [obj for obj in objects if obj.get("apiVersion") != api_version]
        if not foreign:
            return [deepcopy(obj) for obj in objects]
        subject = f"{foreign[0].get('apiVersion')}, Kind={self._kind.kind}"
        converted = iter(await self._convert(foreign, api_version, subject))
        return [next(converted) if obj.get("apiVersion") != api_version else deepcopy(obj) for obj in objects]

    async def _convert(self, objects: list[Object], api_version: str, subject: str) -> list[Object]:
        version = next((v for v in self._reviews if v in ("v1", "v1beta1")), None)
        if version is None:
            raise _failed("no supported conversion review versions")
        uid = str(uuid.uuid4())
        review: Object = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        try:
            answer = await self._call(self._config, review, TIMEOUT)
            converted = _converted_objects(answer, uid, version)
        except WebhookFailure as error:
            raise _failed(f"conversion webhook for {subject} failed: {error}") from None
        if len(converted) != len(objects):
            raise _failed(
                f"conversion webhook for {subject} returned {len(converted)} objects, expected {len(objects)}"
            )
        for index, (original, result) in enumerate(zip(objects, converted, strict=True)):
            if problem := _mismatch(original, result, api_version):
                place = (
                    f"returned invalid converted object at index {index}"
                    if len(objects) > 1
                    else (
                        "returned invalid object"
                        if problem.startswith("must ")
                        else "returned invalid object at index 0"
                    )
                )
                raise _failed(f"conversion webhook for {subject} {place}: {problem}")
            if problem := _restore_metadata(original, result):
                place = f" in object at index {index}" if len(objects) > 1 else ""
                raise _failed(f"conversion webhook for {subject} returned invalid metadata{place}: {problem}")
        return converted


def _failed(message: str) -> Problem:
    return problems.custom(500, "", message)


def _converted_objects(answer: Object, uid: str, version: str) -> list[Object]:
    if version == "v1":
        group, _, given = str(answer.get("apiVersion") or "").rpartition("/")
        if (group, given, answer.get("kind")) != ("apiextensions.k8s.io", "v1", "ConversionReview"):
            found = f"{answer.get('apiVersion') or '/'}, Kind={answer.get('kind') or ''}"
            raise WebhookFailure(
                f"expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {found}"
            )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise WebhookFailure("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise WebhookFailure(f"expected response.uid={go_quote(uid)}, got {go_quote(str(response.get('uid') or ''))}")
    result = response.get("result") or {}
    if result.get("status") != "Success":
        message = result.get("message")
        raise WebhookFailure(
            str(message) if message else f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        )
    return [obj for obj in response.get("convertedObjects") or [] if isinstance(obj, dict)]


def _mismatch(original: Object, converted: Object, api_version: str) -> str:
    if converted.get("apiVersion") != api_version:
        return f"invalid groupVersion (expected {api_version}, received {converted.get('apiVersion')})"
    if converted.get("kind") != original.get("kind"):
        return f"invalid kind (expected {original.get('kind')}, received {converted.get('kind')})"
    before, after = original.get("metadata") or {}, converted.get("metadata") or {}
    if not isinstance(after, dict):
        return ""
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (before.get(field) or "") != (after.get(field) or ""):
            return f"must have the same {shown}: {before.get(field) or ''} != {after.get(field) or ''}"
    return ""


def _restore_metadata(original: Object, converted: Object) -> str:
    """Takes the original's metadata back; a webhook may change labels and annotations only."""
    if "metadata" not in converted:
        return "missing metadata in converted object"
    given = converted["metadata"]
    if not isinstance(given, dict):
        return "invalid metadata in converted object"
    metadata = deepcopy(original.get("metadata") or {})
    for field in ("labels", "annotations"):
        value = given.get(field)
        if value is None:
            metadata.pop(field, None)
            continue
        if not isinstance(value, dict):
            return f"invalid metadata.{field} in converted object"
        for key, text in value.items():
            if not isinstance(text, str):
                return f"metadata.{field}[{key}] must be a string in converted object"
        metadata[field] = value
    converted["metadata"] = metadata
    return ""
