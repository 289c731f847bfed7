"""Custom resource definitions from typed classes."""

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
    "Column", "Definition", "Metadata", "Model", "OwnerReference", "Resource", "Rule", "Version", "default", "drop_none", "embedded",
]  # fmt: skip
