"""Rules that may cost too much are refused when the definition is written, with the real server's own figures."""

from __future__ import annotations

import re
from typing import Any

import pytest

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.errors import Invalid
from modelyard.kube.kinds import Object
from tests.cluster.api.definitions import definition, version
from tests.cluster.conftest import Api

TEXT: Object = {"type": "string"}
SHORT: Object = {"type": "string", "maxLength": 64}
NUMBER: Object = {"type": "integer"}


def many(items: Object, most: int | None = None, rule: str = "", **more: Any) -> Object:
    schema: Object = {"type": "array", "items": items, **more}
    return _ruled(schema | ({} if most is None else {"maxItems": most}), rule)


def mapped(values: Object, most: int | None = None, rule: str = "") -> Object:
    schema: Object = {"type": "object", "additionalProperties": values}
    return _ruled(schema | ({} if most is None else {"maxProperties": most}), rule)


def of(rule: str = "", **properties: Object) -> Object:
    return _ruled({"type": "object", "properties": properties}, rule)


def _ruled(schema: Object, rule: str) -> Object:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]} if rule else schema


ENDPOINT = {"type": "object", "required": ["host"], "properties": {"host": TEXT, "port": NUMBER}}
CHOICE = {"type": "string", "enum": ["one", "three"]}
MOMENT = {"type": "string", "format": "date-time"}
EITHER = {"x-kubernetes-int-or-string": True}
NESTED = "self.all(a, self.all(b, a == b || a.size() > b.size()))"
TABLE: list[tuple[str, Object, str]] = [
    # (rule in words, schema of spec, the factor by which it is over; empty: it is accepted)
    ("every item once", many(TEXT, rule="self.all(x, x.size() > 3)"), ""),
    ("every item with every other", many(TEXT, rule=NESTED), "more than 100x"),
    ("every other of a few", many(TEXT, 10, NESTED), "3.1x"),
    ("every other of a few short ones", many(SHORT, 10, NESTED), ""),
    ("numbers with one another, three deep", many(NUMBER, 300, "self.all(a, self.all(b, self.all(c, a + b > c)))"), "21.6x"),
    ("numbers with one another, two deep", many(NUMBER, 300, "self.all(a, self.all(b, a != b))"), ""),
    ("numbers without end, two deep", many(NUMBER, None, "self.all(a, self.all(b, a != b))"), "more than 100x"),
    ("an expression on a long text", of("self.a.matches('^[a-z]+([-a-z0-9]*[a-z0-9])?$')", a=TEXT), ""),
    ("a long expression on a long text", of(f"self.a.matches('{'[a-z]+' * 30}')", a=TEXT), "1.415579x"),
    ("an expression from a field", of("self.a.matches(self.b)", a=TEXT, b=SHORT), "2.0x"),
    ("two long texts in one another", of("self.a.contains(self.b)", a=TEXT, b=TEXT), "more than 100x"),
    ("a short text in a long one", of("self.a.contains(self.b)", a=TEXT, b=SHORT), ""),
    ("a rule inside of endless lists", of(a=many(of("self.h.contains(self.b)", h=SHORT, b=SHORT))), "71.3x"),
    ("a rule inside of a bounded list", of(a=many(of("self.h.contains(self.b)", h=SHORT, b=SHORT), 50)), ""),
    ("a rule inside of an endless map", of(a=mapped(of("self.h.size() < 5 && self.h.startsWith('a')", h=SHORT))), ""),
    ("a rule inside of lists in lists", of(a=many(many(of("self.h != self.b", h=TEXT, b=TEXT), 20), 20)), "12.6x"),
    ("a map's keys and values", mapped(TEXT, rule="self.all(k, self[k] != k)"), ""),
    ("a bounded map's keys", mapped(SHORT, 40, "self.all(k, self[k] != k && k.startsWith('a'))"), ""),
    ("objects of a list", many(ENDPOINT, rule="self.all(e, e.host.size() > 0 && (!has(e.port) || e.port > 80))"), ""),
    ("objects that are unlike", many(ENDPOINT, rule="self.all(e, self.exists_one(o, o.host == e.host))"), "more than 100x"),
    ("objects that are unlike, a few", many(ENDPOINT, 4, "self.all(e, self.exists_one(o, o.host == e.host))"), ""),
    ("a choice of words", many(CHOICE, rule="self.all(c, self.exists(d, c == d))"), "more than 100x"),
    ("a filtered list's size", many(TEXT, rule="self.filter(x, x.startsWith('a')).size() < 5"), "1.6x"),
    ("a list made of another", many(TEXT, rule="self.map(x, x + 'a').exists(y, y == 'b')"), "more than 100x"),
    ("a list made of short ones", many(SHORT, 100, "self.map(x, x + 'a').exists(y, y == 'b')"), ""),
    ("a joined list", many(TEXT, rule="self.join(',').size() < 9"), "more than 100x"),
    ("a joined short list", many(SHORT, 30, "self.join(',').size() < 9"), ""),
    ("a split text", of("self.a.split(',').all(x, x.size() < 9)", a=TEXT), "2.0x"),
    ("a split short text", of("self.a.split(',').all(x, x == self.a)", a=SHORT), ""),
    ("replaced text", of("self.a.replace('a', 'bbbb').contains(self.b)", a=TEXT, b=SHORT), "3.3x"),
    ("found text", of("self.a.findAll('[a-z]+').size() > 3", a=TEXT), ""),
    ("a sorted list", many(TEXT, rule="self.isSorted()"), "more than 100x"),
    ("a sorted list of numbers", many(NUMBER, rule="self.isSorted() && self.sum() > 3"), ""),
    ("in a list", of("self.b in self.a", a=many(TEXT), b=TEXT), ""),
    ("all in a list", of("self.a.all(x, x in self.b)", a=many(SHORT), b=many(SHORT, 20)), "2.7x"),
    ("constants", of("self.a in ['a', 'b'] || ['c', 'd'].exists(x, x == self.a)", a=TEXT), ""),
    ("times", many(MOMENT, rule="self.all(a, self.all(b, a < b))"), "more than 100x"),
    ("times, bounded", many(MOMENT, 30, "self.all(a, self.all(b, a < b || a == b))"), ""),
    ("a number or a text", many(EITHER, 40, "self.all(a, self.exists(b, a == b))"), "50.3x"),
    ("a choice between two", of("(has(self.a) ? self.a : self.b).matches('[a-z]{1,9}' + self.b)", a=TEXT, b=TEXT), "more than 100x"),
    ("before and after", many(TEXT, 20, "self.all(a, oldSelf.exists(b, a == b))"), "12.6x"),
    ("names", of("self.a == self.b", a=TEXT, b=TEXT), ""),
]  # fmt: skip


def refused(error: Invalid) -> str:
    """The factor that the server names for the rule itself."""
    found = re.findall(
        r"\.rule: Forbidden: estimated rule cost exceeds budget by factor of (more than 100x|[\d.]+x)", str(error)
    )
    assert found, str(error)
    return str(found[0])


@pytest.mark.parametrize(("schema", "factor"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
async def test_a_rule_costs_what_the_real_server_says(api: Api, schema: Object, factor: str) -> None:
    obj = definition(version(schema=schema))
    if not factor:
        assert await api.client.create(CustomResourceDefinition, obj, dry_run=True)
        return
    with pytest.raises(Invalid) as caught:
        await api.client.create(CustomResourceDefinition, obj, dry_run=True)
    assert refused(caught.value) == factor


async def test_a_definition_costs_what_all_of_its_rules_do(api: Api) -> None:
    """Each alone is within its budget, and the dearest of them are named."""
    rule = "self.all(x, x.startsWith('abcdefghijklmnop'))"
    fields: Any = {f"f{number}": many(TEXT, rule=rule) for number in range(30)}
    with pytest.raises(Invalid) as caught:
        await api.client.create(CustomResourceDefinition, definition(version(schema=of(**fields))), dry_run=True)
    named = re.findall(r"\.rule: Forbidden: contributed to estimated rule cost total", str(caught.value))
    assert len(named) == 4
    assert "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by" in str(
        caught.value
    )


async def test_a_message_may_not_cost_more_than_a_rule(api: Api) -> None:
    schema = of(a=many(TEXT))
    schema["x-kubernetes-validations"] = [{"rule": "true", "messageExpression": "self.a.join(',')"}]
    with pytest.raises(
        Invalid, match="messageExpression: Forbidden: estimated messageExpression cost exceeds budget by"
    ):
        await api.client.create(CustomResourceDefinition, definition(version(schema=schema)), dry_run=True)
