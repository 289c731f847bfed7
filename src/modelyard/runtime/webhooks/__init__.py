"""Admission and conversion webhooks: declared as data, answered by pure functions."""

from modelyard.runtime.webhooks.answers import answer_admission, answer_conversion, json_diff
from modelyard.runtime.webhooks.declarations import (
    AdmissionRequest,
    Allowed,
    Answer,
    Conversion,
    ConversionFailed,
    Denied,
    FieldError,
    Handler,
    Webhook,
    invalid,
)
from modelyard.runtime.webhooks.manifests import ServiceAddress, conversion_stanza, webhook_configurations
from modelyard.runtime.webhooks.server import Webhooks, WebhookServer

__all__ = [
    "AdmissionRequest",
    "Allowed",
    "Answer",
    "Conversion",
    "ConversionFailed",
    "Denied",
    "FieldError",
    "Handler",
    "ServiceAddress",
    "Webhook",
    "WebhookServer",
    "Webhooks",
    "answer_admission",
    "answer_conversion",
    "conversion_stanza",
    "invalid",
    "json_diff",
    "webhook_configurations",
]
