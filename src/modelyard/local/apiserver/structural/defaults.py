"""Whether the defaults in a schema are valid values of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from modelyard.local.apiserver.requests.problems import Cause, invalid_value
from modelyard.local.apiserver.structural.nodes import NO_DEFAULT, Node
from modelyard.local.apiserver.structural.settling import compile_settling, strip
from modelyard.local.apiserver.structural.validation import Validator

CelCheck = Callable[[Node, Any, str, bool], list[Cause]]
"""(node, default, path, is resource root) -> what the node's CEL rules say to the default."""


def check_defaults(root: Node, path: str, check_rules: CelCheck | None = None) -> list[Cause]:
    """Each default must have only known fields and pass the schema it stands in."""
    causes: list[Cause] = []
    _check(root, path, causes, check_rules, True)
    return causes


def _check(node: Node, path: str, out: list[Cause], check_rules: CelCheck | None, is_root: bool) -> None:
    if node.default is not NO_DEFAULT:
        out += _default_problems(node, f"{path}.default", check_rules, is_root)
    if node.items is not None:
        _check(node.items, f"{path}.items", out, check_rules, node.items.embedded)
    for name, child in node.properties.items():
        _check(child, f"{path}.properties[{name}]", out, check_rules, child.embedded)


def _default_problems(node: Node, path: str, check_rules: CelCheck | None, is_root: bool) -> list[Cause]:
    pruned = deepcopy(node.default)
    if type(pruned) is dict:
        unknown = compile_settling(node)(pruned)
    else:
        unknown = [] if node.preserve or node.items is not None else strip(pruned) or []
    causes = [invalid_value(path, node.default, "must not have unknown fields")] if unknown else []
    found = Validator(node, base=path).validate(node.default)
    if found or check_rules is None:
        return causes + found
    return causes + check_rules(node, node.default, path, is_root)
