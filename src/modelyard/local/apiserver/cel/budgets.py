"""Whether the rules of a schema may cost what they can: asked when a definition is written, before any object is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from modelyard.local.apiserver.cel.costs import MOST, most_cost
from modelyard.local.apiserver.cel.rules import rules_of
from modelyard.local.apiserver.cel.sizes import LARGEST_REQUEST, Size, size_of
from modelyard.local.apiserver.requests.problems import Cause, field_forbidden
from modelyard.local.apiserver.structural import Node

_EACH = 10_000_000
_ALL = 100_000_000
_WORTH_NAMING = _ALL // 100
_MOST_NAMED = 4
_REMEDY = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"


@dataclass(slots=True)
class _Bill:
    each: bool
    """Whether a single rule is refused for its own cost."""
    causes: list[Cause] = field(default_factory=list)
    costs: list[tuple[str, int]] = field(default_factory=list)

    def charge(self, path: str, cost: int, what: str) -> None:
        if self.each and cost > _EACH:
            self.causes.append(field_forbidden(path, _over(f"estimated {what} cost", cost, _EACH)))
        self.costs.append((path, cost))


def cost_check(root: Node, path: str, *, changed: bool = True) -> list[Cause]:
    """What is too expensive. A schema that did not change keeps rules that were once let in."""
    size = size_of(root, resource=True) if root.has_rules else None
    if size is None:
        return []
    bill = _Bill(changed)
    _charge(root, size, path, 1, True, bill)
    total = min(MOST, sum(cost for _, cost in bill.costs))
    if total > _ALL:
        worth = sorted((one for one in bill.costs if one[1] >= _WORTH_NAMING), key=lambda one: -one[1])
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        bill.causes += [field_forbidden(place, text) for place, _ in worth[:_MOST_NAMED]]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        bill.causes.append(field_forbidden(path, _over(what, total, _ALL)))
    return bill.causes


def _charge(node: Node, size: Size, path: str, times: int | None, resource: bool, bill: _Bill) -> None:
    """`times`: how many values of this node an object can have; None: nothing limits them but their own size."""
    if not node.has_rules:
        return
    for place, child, below, count in _children(node, size):
        many = None if times is None or count is None else times * max(0, count)
        _charge(child, below, f"{path}.{place}", many, child.embedded, bill)
    if not node.rules:
        return
    repeated = times if times is not None else LARGEST_REQUEST // (size.shortest + 1)
    for index, rule in enumerate(rules_of(node, resource)):
        place = f"{path}.x-kubernetes-validations[{index}]"
        if rule.program is not None and not rule.error:
            cost = min(MOST, most_cost(rule.program.syntax.root, size) * repeated)
            bill.charge(f"{place}.rule", cost, "rule")
        if rule.message is not None and not rule.message_error:
            cost = most_cost(rule.message.syntax.root, size)
            bill.charge(f"{place}.messageExpression", cost, "messageExpression")


def _children(node: Node, size: Size) -> Iterator[tuple[str, Node, Size, int | None]]:
    """`(place, node, size, how many of them one value of this node can have)`."""
    if node.additional is not None and size.element is not None:
        yield "additionalProperties", node.additional, size.element, node.raw.get("maxProperties")
    several = None if node.additional_allowed or node.additional_forbidden else 1
    for name, child in node.properties.items():
        if (below := size_of(child, resource=child.embedded)) is not None:
            yield f"properties[{name}]", child, below, several
    if node.items is not None and size.element is not None:
        yield "items", node.items, size.element, node.raw.get("maxItems")


def _over(what: str, cost: int, limit: int) -> str:
    times = cost / limit
    factor = "more than 100x" if times > 100 else f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{what} exceeds budget by factor of {factor} {_REMEDY}"
