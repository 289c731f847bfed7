"""Custom resource definitions from typed classes."""

from modelyard.kube.crd.generate import WebhookService, definition_of, schema_of
from modelyard.kube.crd.types import (
    Column,
    Definition,
    Metadata,
    Model,
    OwnerReference,
    Resource,
    Rule,
    Version,
    default,
    drop_none,
    embedded,
)

__all__ = [
    "Column", "Definition", "Metadata", "Model", "OwnerReference", "Resource", "Rule", "Version", "WebhookService",
    "default", "definition_of", "drop_none", "embedded", "schema_of",
]  # fmt: skip
