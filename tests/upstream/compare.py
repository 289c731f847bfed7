"""Our custom resource definitions beside upstream's: every difference that a user's YAML could feel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tools.upstream_definitions import FILE, RULE, Facts, digest, without_words

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


@cache
def upstream_definitions() -> Mapping[str, Facts]:
    """The facts of upstream's definitions, by the name of the CRD; `tools/upstream_definitions.py` writes them."""
    found: dict[str, Facts] = json.loads(FILE.read_text())
    return found


def compare(ours: Facts, upstream: Facts) -> list[Difference]:
    """All differences, by path. Upstream's rules and messages may be digests; ours are shown as they are."""
    if "conversion" not in upstream:
        ours = {path: said for path, said in ours.items() if path != "conversion"}
    return list(_places(ours, upstream))


def _places(ours: Facts, upstream: Facts) -> Iterator[Difference]:
    on_one_side: list[str] = []
    for path in [*ours, *(path for path in upstream if path not in ours)]:
        if any(path.startswith(tuple(outer + step for step in (".", "[", "{", " "))) for outer in on_one_side):
            continue
        if path in ours and path in upstream:
            yield from _facts(path, ours[path], upstream[path])
            continue
        on_one_side.append(path)
        if " column " in path:
            yield Difference(path, "column", ours.get(path, _ABSENT), upstream.get(path, _ABSENT))
        else:
            sides = (_ABSENT if path not in facts else "present" for facts in (ours, upstream))
            yield Difference(path, "field" if "." in path else "version", *sides)


def _facts(path: str, ours: Mapping[str, Any], upstream: Mapping[str, Any]) -> Iterator[Difference]:
    keyed, theirs = ({_key(what): (what, said[what]) for what in said} for said in (ours, upstream))
    for key in [*keyed, *(key for key in theirs if key not in keyed)]:
        what = (keyed.get(key) or theirs[key])[0]
        if what.startswith(RULE):
            yield from _rule(path, what.removeprefix(RULE), keyed.get(key), theirs.get(key))
            continue
        nothing = False if what == "required" else _ABSENT
        left, right = (side[key][1] if key in side else nothing for side in (keyed, theirs))
        if not _same(what, left, right) and not (what == "order of columns" and _other_columns(left, right)):
            yield Difference(path, what, left, right)


def _rule(path: str, rule: str, ours: Any, upstream: Any) -> Iterator[Difference]:
    """Rules are the same if their text is; then what they say when broken is compared."""
    if ours is None or upstream is None:
        yield Difference(path, "rule", rule if ours else _ABSENT, rule if upstream else _ABSENT)
        return
    for found in _facts(path, ours[1], upstream[1]):
        yield Difference(path, f"{found.what} of rule {rule!r}", found.ours, found.upstream)


def _key(what: str) -> str:
    return RULE + digest(what.removeprefix(RULE)) if what.startswith(RULE) else what


def _same(what: str, left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if _ABSENT in (left, right):
        return bool(left == right)
    plain = without_words({"": {what: left}}), without_words({"": {what: right}})
    return bool(plain[0] == plain[1])


def _other_columns(left: Any, right: Any) -> bool:
    """Columns that one side lacks are told one by one."""
    return left == _ABSENT or right == _ABSENT or sorted(left) != sorted(right)
