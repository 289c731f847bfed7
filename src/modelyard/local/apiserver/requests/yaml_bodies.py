"""Bodies in YAML, read as the API reads them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

from modelyard.kube import bounded_yaml
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.bodies import RepeatedLine, Unreadable
from modelyard.local.apiserver.requests.problems import go_quote

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0o?[0-7]+|0x[0-9a-fA-F]+|[0-9]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS = 64


class _Loader(yaml.CSafeLoader):
    """YAML as the API reads it: no timestamps, no sexagesimal numbers, string keys, duplicate keys noted."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def value_of(self, node: yaml.Node, path: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            result: Object = {}
            for key_node, value_node in node.value:
                key = self.value_of(key_node, path)
                name = key if isinstance(key, str) else json.dumps(key, default=str)
                below = f"{path}.{name}" if path else name
                if name in result:
                    line = key_node.start_mark.line + 1
                    self.duplicates.append(RepeatedLine(f"line {line}: key {go_quote(name)} already set in map"))
                result[name] = self.value_of(value_node, below)
            return result
        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag.removeprefix(_TAG) in ("bool", "null", "int", "float"):
            return _scalar(node)
        if node.tag.removeprefix(_TAG) in ("timestamp", "binary"):
            return node.value
        return self.construct_object(node)


def _scalar(node: yaml.ScalarNode) -> Any:
    """A value that is not a text. What only YAML 1.1 takes for a number (1:30 for ninety) is one to nobody here."""
    text, kind = node.value, node.tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        known = yaml.CSafeLoader.bool_values.get(text.lower())
        if known is None:
            raise Unreadable(f"error converting YAML to JSON: yaml: cannot decode !!str `{text[:20]}` as a !!bool")
        return known
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain) and len(plain) <= _MOST_DIGITS:
        return _integer(plain)
    if _FLOAT.fullmatch(plain) and math.isfinite(number := float(plain)):
        return number
    # Infinity and the like: JSON does not have them, and shows them as null.
    special = plain.lower().lstrip("+-") in (".inf", ".nan")
    return float(plain.lower().replace(".", "")) if special else text


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if digits[:2] in ("0b", "0o", "0x"):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if len(digits) > 1 and digits[0] == "0" and not set(digits) & {"8", "9"} else 10)


def decode(body: bytes) -> tuple[Any, list[str]]:
    """The value, and the lines with keys given twice. Raises Unreadable."""
    try:
        bounded_yaml.check(body)
        loader = _Loader(body)
        try:
            node = loader.get_single_node()
            return None if node is None else loader.value_of(node, ""), loader.duplicates
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise Unreadable(f"error converting YAML to JSON: yaml: {detail}") from None
