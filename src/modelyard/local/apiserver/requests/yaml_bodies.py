"""Bodies in YAML, read as the API reads them."""

from __future__ import annotations

import json
from typing import Any

import yaml

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.bodies import MOST_DEPTH, RepeatedLine, Unreadable
from modelyard.local.apiserver.requests.problems import go_quote


class _Loader(yaml.CSafeLoader):
    """YAML as the API reads it: no timestamps, string keys, duplicate keys noted, aliases bounded."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []
        self.nodes = 0

    def value_of(self, node: yaml.Node, path: str, depth: int) -> Any:
        self.nodes += 1
        if depth > MOST_DEPTH or self.nodes > 1_000_000:
            raise Unreadable(f"it is nested more than {MOST_DEPTH} levels deep, or its aliases make it too large")
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            result: Object = {}
            for key_node, value_node in node.value:
                key = self.construct_object(key_node)
                name = key if isinstance(key, str) else json.dumps(key, default=str)
                below = f"{path}.{name}" if path else name
                if name in result:
                    line = key_node.start_mark.line + 1
                    self.duplicates.append(RepeatedLine(f"line {line}: key {go_quote(name)} already set in map"))
                result[name] = self.value_of(value_node, below, depth + 1)
            return result
        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        if node.tag in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary"):
            return node.value
        return self.construct_object(node)


def _check_yaml_depth(body: bytes) -> None:
    """Composing recurses in C, where too much depth ends the process; events come one by one."""
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                raise Unreadable(f"it is nested more than {MOST_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def decode(body: bytes) -> tuple[Any, list[str]]:
    """The value, and the lines with keys given twice. Raises Unreadable."""
    loader = _Loader(body)
    try:
        _check_yaml_depth(body)
        node = loader.get_single_node()
        value = None if node is None else loader.value_of(node, "", 0)
        return value, loader.duplicates
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise Unreadable(f"error converting YAML to JSON: yaml: {detail}") from None
    finally:
        loader.dispose()
