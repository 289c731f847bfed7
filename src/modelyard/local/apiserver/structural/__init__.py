"""Structural schemas of custom resources: checks of the schema itself, and validation, pruning and defaulting by it."""

from modelyard.local.apiserver.structural.checks import check_structural, unsupported_keyword
from modelyard.local.apiserver.structural.defaults import check_defaults
from modelyard.local.apiserver.structural.extras import compile_embedded_rules, compile_list_rules
from modelyard.local.apiserver.structural.keywords import RuleCheck, check_keywords, resolve_field_path
from modelyard.local.apiserver.structural.nodes import META_FIELDS, NO_DEFAULT, Node, read_schema
from modelyard.local.apiserver.structural.settling import compile_settling, default_of
from modelyard.local.apiserver.structural.validation import Validator

__all__ = [
    "META_FIELDS", "NO_DEFAULT", "Node", "RuleCheck", "Validator", "check_defaults", "check_keywords", "check_structural",
    "compile_embedded_rules", "compile_list_rules", "compile_settling", "default_of", "read_schema", "resolve_field_path",
    "unsupported_keyword",
]  # fmt: skip
