"""The rules beside plain validation: unique items of sets and maps, and the metadata of embedded resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelyard.kube import names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.problems import Cause, duplicate, go_value, invalid_value, required
from modelyard.local.apiserver.structural.nodes import Node

Walk = Callable[[Any, str, list[Cause]], None]


def compile_list_rules(root: Node) -> Callable[[Object], list[Cause]] | None:
    """The uniqueness rules of the schema's sets and maps; None where it has none."""
    return _start(_walker(root, _list_rule))


def compile_embedded_rules(root: Node) -> Callable[[Object], list[Cause]] | None:
    """The rules for embedded resources: apiVersion, kind and metadata must be those of an object."""
    return _start(_walker(root, _embedded_rule))


def _start(walk: Walk | None) -> Callable[[Object], list[Cause]] | None:
    if walk is None:
        return None

    def run(obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        walk(obj, "", causes)
        return causes

    return run


def _walker(node: Node, rule_of: Callable[[Node], Walk | None]) -> Walk | None:
    """Visits only the parts of an object below which some node has a rule."""
    rule = rule_of(node)
    properties = {name: found for name, child in node.properties.items() if (found := _walker(child, rule_of))}
    additional = _walker(node.additional, rule_of) if node.additional else None
    items = _walker(node.items, rule_of) if node.items else None
    if not (rule or properties or additional or items):
        return None

    def walk(value: Any, path: str, out: list[Cause]) -> None:
        if rule is not None:
            rule(value, path, out)
        if type(value) is dict:
            for name, child in value.items():
                if below := properties.get(name):
                    below(child, f"{path}.{name}" if path else name, out)
                elif additional is not None and name not in node.properties:
                    additional(child, f"{path}[{name}]", out)
        elif type(value) is list and items is not None:
            for index, element in enumerate(value):
                items(element, f"{path}[{index}]", out)

    return walk


def _list_rule(node: Node) -> Walk | None:
    if node.list_type == "set":
        return _check_set
    if node.list_type != "map":
        return None
    keys = node.list_keys

    def check_map(value: Any, path: str, out: list[Cause]) -> None:
        if type(value) is not list:
            return
        for index, element in enumerate(value):
            if element is not None and type(element) is not dict:
                text = "must be an object for an array of list-type map"
                out.append(invalid_value(f"{path}[{index}]", element, text))
                return
        if len(value) > 1:
            if _plainly_unique([tuple([element.get(key) for key in keys]) if element else () for element in value]):
                return
            found = [{key: element[key] for key in keys if key in element} if element else {} for element in value]
            out.extend(duplicate(f"{path}[{index}]", found[index]) for index in _repeated(found))

    return check_map


def _check_set(value: Any, path: str, out: list[Cause]) -> None:
    if type(value) is list and len(value) > 1 and not _plainly_unique([(element,) for element in value]):
        out.extend(duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value))


def _plainly_unique(found: list[tuple[Any, ...]]) -> bool:
    """Whether there are only texts, and no two alike: so it nearly always is, and nothing has to be written out for it."""
    for values in found:
        for value in values:
            if type(value) is not str:
                return False
    return len(set(found)) == len(found)


def _repeated(values: list[Any]) -> list[int]:
    """Where a value comes the second time; a third time is not told again."""
    times: dict[str, int] = {}
    repeated = []
    for index, value in enumerate(values):
        key = go_value(value)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            repeated.append(index)
    return repeated


def _embedded_rule(node: Node) -> Walk | None:
    return _check_embedded if node.embedded else None


def _check_embedded(value: Any, path: str, out: list[Cause]) -> None:
    if type(value) is not dict:
        return
    out.extend(required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value)
    for name in ("apiVersion", "kind"):
        if name in value:
            out.extend(_type_meta(name, value[name], f"{path}.{name}"))
    metadata = value.get("metadata")
    if type(metadata) is dict:
        out.extend(_embedded_metadata(metadata, f"{path}.metadata"))


def _type_meta(name: str, text: Any, path: str) -> list[Cause]:
    if type(text) is not str:
        return [invalid_value(path, text, "must be a string")]
    if not text:
        return [invalid_value(path, text, "must not be empty")]
    if name == "apiVersion":
        if text.count("/") > 1:
            return [invalid_value(path, text, f"unexpected GroupVersion string: {text}")]
        return []
    wrong = names.dns_1035_label(text.lower())
    words = "may have mixed case, but should otherwise match: " + ",".join(wrong)
    return [invalid_value(path, text, words)] if wrong else []


def _embedded_metadata(metadata: Object, path: str) -> list[Cause]:
    causes = []
    for field, check in (("name", names.path_segment), ("generateName", names.path_segment_prefix)):
        text = metadata.get(field)
        if isinstance(text, str) and text:
            causes += [invalid_value(f"{path}.{field}", text, wrong) for wrong in check(text)]
    for key, text in (metadata.get("labels") or {}).items():
        causes += [invalid_value(f"{path}.labels", key, wrong) for wrong in names.label_key(key)]
        causes += [invalid_value(f"{path}.labels", text, wrong) for wrong in names.label_value(str(text))]
    for key in metadata.get("annotations") or {}:
        causes += [invalid_value(f"{path}.annotations", key, wrong) for wrong in names.label_key(key.lower())]
    return causes
