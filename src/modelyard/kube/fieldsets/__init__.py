"""Field ownership as Kubernetes has it: sets of fields, managedFields, server-side apply."""

from modelyard.kube.fieldsets.managed import (
    ManagedFieldsError,
    Manager,
    decode,
    encode,
    with_managed_fields,
    without_managed_fields,
)
from modelyard.kube.fieldsets.owned import (
    Drift,
    agrees,
    drift,
    owned_digest,
    owned_fields,
    owned_values,
    same_meaning,
)
from modelyard.kube.fieldsets.ownership import LAST_APPLIED, Conflict, Conflicts, Write, apply, update
from modelyard.kube.fieldsets.parts import extract, remove
from modelyard.kube.fieldsets.sets import FieldSet, path_text
from modelyard.kube.fieldsets.typed import Changes, TypedError, compare, fieldset_of, merge
from modelyard.kube.fieldsets.validation import validate

__all__ = [
    "LAST_APPLIED",
    "Changes",
    "Conflict",
    "Conflicts",
    "Drift",
    "FieldSet",
    "ManagedFieldsError",
    "Manager",
    "TypedError",
    "Write",
    "agrees",
    "apply",
    "compare",
    "decode",
    "drift",
    "encode",
    "extract",
    "fieldset_of",
    "merge",
    "owned_digest",
    "owned_fields",
    "owned_values",
    "path_text",
    "remove",
    "same_meaning",
    "update",
    "validate",
    "with_managed_fields",
    "without_managed_fields",
]
