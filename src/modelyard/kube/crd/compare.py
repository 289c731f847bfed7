"""Two custom resource definitions side by side: every difference that a user's YAML could feel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelyard.kube.kinds import Object

_PROSE = frozenset(("description", "title", "example", "externalDocs"))
_NESTED = frozenset(("properties", "items", "additionalProperties", "required", "enum", "x-kubernetes-validations"))
_ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One point where ours is not as upstream; what is not there is `"absent"`."""

    path: str
    what: str
    """`field`, `required`, `rule`, or the schema keyword (`type`, `default`, `enum`, `pattern`, …)."""
    ours: Any
    upstream: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.what} is {self.ours!r}, upstream {self.upstream!r}"


def compare(ours: Object, upstream: Object) -> list[Difference]:
    """All differences of two CRD objects; descriptions do not count, nor does the order of anything but columns."""
    return list(_definitions(ours, upstream))


def compare_schemas(ours: Object, upstream: Object, path: str = "") -> list[Difference]:
    return list(_schemas(ours, upstream, path))


def _definitions(ours: Object, upstream: Object) -> Iterator[Difference]:
    mine, theirs = ours["spec"], upstream["spec"]
    yield from _values("", mine, theirs, ("group", "scope"))
    yield from _values("names", mine["names"], theirs["names"], ("kind", "listKind", "plural", "singular"))
    for key in ("shortNames", "categories"):
        left, right = sorted(mine["names"].get(key) or ()), sorted(theirs["names"].get(key) or ())
        if left != right:
            yield Difference("names", key, left or _ABSENT, right or _ABSENT)
    if "conversion" in theirs:
        yield from _values("conversion", mine.get("conversion") or {}, theirs["conversion"], ("strategy",))
    my_versions = {version["name"]: version for version in mine["versions"]}
    their_versions = {version["name"]: version for version in theirs["versions"]}
    for name in [*my_versions, *(name for name in their_versions if name not in my_versions)]:
        if name not in their_versions or name not in my_versions:
            yield Difference(name, "version", _presence(name in my_versions), _presence(name in their_versions))
        else:
            yield from _version_differences(name, my_versions[name], their_versions[name])


def _version_differences(name: str, ours: Object, upstream: Object) -> Iterator[Difference]:
    yield from _values(name, ours, upstream, ("served", "storage", "deprecated", "deprecationWarning", "subresources"))
    mine, theirs = _columns(ours), _columns(upstream)
    for column in [*mine, *(column for column in theirs if column not in mine)]:
        if mine.get(column) != theirs.get(column):
            path = f"{name} column {column}"
            yield Difference(path, "column", mine.get(column, _ABSENT), theirs.get(column, _ABSENT))
    if mine.keys() == theirs.keys() and list(mine) != list(theirs):
        yield Difference(name, "order of columns", list(mine), list(theirs))
    yield from _schemas(ours["schema"]["openAPIV3Schema"], upstream["schema"]["openAPIV3Schema"], name)


def _columns(version: Object) -> dict[str, Object]:
    return {
        column["name"]: {"priority": 0} | {key: value for key, value in column.items() if key not in _PROSE}
        for column in version.get("additionalPrinterColumns") or ()
    }


def _schemas(ours: Object, upstream: Object, path: str) -> Iterator[Difference]:
    keywords = sorted((ours.keys() | upstream.keys()) - _PROSE - _NESTED)
    yield from _values(path, ours, upstream, keywords)
    mine, theirs = set(ours.get("enum") or ()), set(upstream.get("enum") or ())
    if mine != theirs:
        yield Difference(path, "enum", sorted(mine, key=str) or _ABSENT, sorted(theirs, key=str) or _ABSENT)
    yield from _rules(ours.get("x-kubernetes-validations") or (), upstream.get("x-kubernetes-validations") or (), path)
    yield from _properties(ours, upstream, path)
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        left, right = ours.get(key), upstream.get(key)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            yield from _schemas(dict(left), dict(right), path + step)
        elif left != right:
            yield Difference(path, key, _ABSENT if left is None else left, _ABSENT if right is None else right)


def _properties(ours: Object, upstream: Object, path: str) -> Iterator[Difference]:
    mine, theirs = ours.get("properties") or {}, upstream.get("properties") or {}
    for name in sorted(mine.keys() | theirs.keys()):
        here = f"{path}.{name}"
        if name not in mine or name not in theirs:
            yield Difference(here, "field", _presence(name in mine), _presence(name in theirs))
            continue
        must, theirs_must = name in (ours.get("required") or ()), name in (upstream.get("required") or ())
        if must != theirs_must:
            yield Difference(here, "required", must, theirs_must)
        yield from _schemas(mine[name], theirs[name], here)


def _rules(ours: Sequence[Object], upstream: Sequence[Object], path: str) -> Iterator[Difference]:
    """Rules are the same if their text is; then what they say when broken is compared."""
    mine, theirs = {rule["rule"]: rule for rule in ours}, {rule["rule"]: rule for rule in upstream}
    for text in [*mine, *(text for text in theirs if text not in mine)]:
        if text not in mine or text not in theirs:
            yield Difference(path, "rule", text if text in mine else _ABSENT, text if text in theirs else _ABSENT)
            continue
        keys = sorted((mine[text].keys() | theirs[text].keys()) - {"rule"})
        for found in _values(path, mine[text], theirs[text], keys):
            yield Difference(path, f"{found.what} of rule {text!r}", found.ours, found.upstream)


def _values(path: str, ours: Object, upstream: Object, keys: Sequence[str]) -> Iterator[Difference]:
    for key in keys:
        left, right = ours.get(key, _ABSENT), upstream.get(key, _ABSENT)
        if left != right or isinstance(left, bool) != isinstance(right, bool):
            yield Difference(path, key, left, right)


def _presence(there: bool) -> str:
    return "present" if there else _ABSENT
