"""Defaults, validation and conversion of Greetings."""

from __future__ import annotations

from greetings_operator.api import GREETING, GROUP
from modelyard.kube.kinds import Object
from modelyard.runtime.webhooks import AdmissionRequest, Answer, Conversion, FieldError, Webhook, invalid

DEFAULT_TEXT = "Hello"
MOST_REPLICAS = 10


def fill_in(request: AdmissionRequest) -> Answer:
    obj = request.object
    if obj is not None:
        spec = obj.setdefault("spec", {})
        spec["text"] = str(spec.get("text") or "").strip() or DEFAULT_TEXT
    return obj


def check(request: AdmissionRequest) -> Answer:
    spec = (request.object or {}).get("spec") or {}
    replicas = spec.get("replicas", 1)
    if replicas > MOST_REPLICAS:
        error = FieldError("spec.replicas", f"Invalid value: {replicas}: must be at most {MOST_REPLICAS}")
        return invalid(GREETING.kind, request.name, [error])
    return None


def convert(obj: Object, wanted: str) -> Object:
    """`message` of v1alpha1 is `text` of v1."""
    spec = dict(obj.get("spec") or {})
    old, new = ("message", "text") if wanted == f"{GROUP}/v1" else ("text", "message")
    if old in spec:
        spec[new] = spec.pop(old)
    return obj | {"spec": spec}


WEBHOOKS = (
    Webhook("mgreeting.demo.modelyard.dev", "mutating", "/mutate-greeting", fill_in, kinds=[GREETING.kind]),
    Webhook("vgreeting.demo.modelyard.dev", "validating", "/validate-greeting", check, kinds=[GREETING.kind]),
)
CONVERSIONS = (Conversion("/convert", GREETING, convert),)
