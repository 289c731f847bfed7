"""What a kind's fields are: schemas of the built-in kinds, of custom resources, and of data without any."""

from modelyard.kube.schema.catalog import builtin_kinds, builtin_schema, definition, open_api_definitions
from modelyard.kube.schema.embedded import openapi_dict
from modelyard.kube.schema.node import ANYTHING, DEDUCED, NO_DEFAULT, ListType, Schema
from modelyard.kube.schema.structural import crd_schema

__all__ = [
    "ANYTHING",
    "DEDUCED",
    "NO_DEFAULT",
    "ListType",
    "Schema",
    "builtin_kinds",
    "builtin_schema",
    "crd_schema",
    "definition",
    "open_api_definitions",
    "openapi_dict",
]
