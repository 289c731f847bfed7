"""CEL rules of custom resources: what they see, when they run, and what they say."""

from typing import Any

import pytest

from modelyard.local.apiserver.cel import compile_validator, rule_check
from modelyard.local.apiserver.structural import read_schema

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def with_rule(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return schema | {"x-kubernetes-validations": [{"rule": rule} | more]}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def findings(schema: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    root = obj(spec=schema)
    validator = compile_validator(read_schema(root))
    assert validator is not None
    return [str(c) for c in validator.validate({"spec": value}, None if old is None else {"spec": old})]


HOLDS: list[tuple[str, dict[str, Any], Any]] = [
    ("self.a == self.b", obj(a=INTEGER, b=INTEGER), {"a": 1, "b": 1}),
    ("!has(self.b)", obj(a=INTEGER, b=INTEGER), {"a": 1}),
    ("self.a + 0.5 > 1.2", obj(a={"type": "number"}), {"a": 1}),
    ("self.__namespace__ == 'x' && self.foo__dash__bar == 1", obj(**{"namespace": STRING, "foo-bar": INTEGER}), {"namespace": "x", "foo-bar": 1}),
    ("self.all(k, self[k] == 'x')", {"type": "object", "additionalProperties": STRING}, {"a": "x"}),
    ("self.all(i, i.n > 0)", {"type": "array", "items": obj(n=INTEGER)}, [{"n": 1}]),
    ("self.startsWith('a') && self.size() == 2", STRING, "ab"),
    ("self.matches(r'^a\\d$')", STRING, "a1"),
    ("self in ['a', 'b']", STRING, "a"),
    ("self.split(',').size() == 2", STRING, "a,b"),
    ("self.find('[0-9]+') == '42'", STRING, "a42b"),
    ("self.findAll('[0-9]') == ['4', '2']", STRING, "a4b2"),
    ("self.isSorted() && self.sum() == 6 && self.min() == 1 && self.max() == 3", {"type": "array", "items": INTEGER}, [1, 2, 3]),
    ("isURL(self) && url(self).getHost() == 'h:80' && url(self).getPort() == '80'", STRING, "https://h:80/p?q=1"),
    ("quantity(self).isGreaterThan(quantity('500Mi')) && quantity('1k') == quantity('1000')", STRING, "1Gi"),
    ("isQuantity(self) ? quantity(self).isInteger() : true", STRING, "10"),
    ("ip(self).family() == 4 && isIP(self) && !isIP('x')", STRING, "10.0.0.1"),
    ("cidr('10.0.0.0/8').containsIP(self) && cidr('10.0.0.0/8').prefixLength() == 8", STRING, "10.0.0.1"),
    ("duration(self) > duration('30m')", STRING, "1h"),
    ("self > timestamp('2020-01-01T00:00:00Z')", {"type": "string", "format": "date-time"}, "2024-01-01T00:00:00Z"),
    (
        "self.t > timestamp('2020-01-01T00:00:00Z') && has(self.t) && self.t.getFullYear() == 2024",
        obj(t={"type": "string", "format": "date-time"}),
        {"t": "2024-01-01T00:00:00Z"},
    ),
    ("self.d <= duration('1h') ? self.x < 0.25 : false", obj(d={"type": "string", "format": "duration"}, x={"type": "number"}), {"d": "30m", "x": 0}),
    ("self.all(t, t < timestamp('2030-01-01T00:00:00Z'))", {"type": "array", "items": {"type": "string", "format": "date-time"}}, ["2024-01-01T00:00:00Z"]),
    ("self.when.getMonth() == 1 && self.raw == b'hi'", obj(when={"type": "string", "format": "date"}, raw={"type": "string", "format": "byte"}), {"when": "2024-02-01", "raw": "aGk="}),
    ("self.items.exists(i, i.end - i.start >= duration('1h'))", obj(items={"type": "array", "items": obj(start={"type": "string", "format": "date-time"}, end={"type": "string", "format": "date-time"})}), {"items": [{"start": "2024-01-01T00:00:00Z", "end": "2024-01-01T02:00:00Z"}]}),
    ("sets.contains(self, ['a'])", {"type": "array", "items": STRING}, ["a", "b"]),
    ("semver(self).isGreaterThan(semver('1.2.3-rc.1'))", STRING, "1.2.3"),
    ("type(self) == int ? self > 0 : self.endsWith('%')", {"x-kubernetes-int-or-string": True}, "5%"),
    ("self.?a.orValue('x') == 'x'", obj(a=STRING), {}),
    ("cel.bind(x, self.a, x == 1)", obj(a=INTEGER), {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "schema", "value"), HOLDS, ids=[case[0][:40] for case in HOLDS])
def test_rule_holds(rule: str, schema: dict[str, Any], value: Any) -> None:
    assert rule_check(with_rule(schema, rule), "x", "", False) == []
    assert findings(with_rule(schema, rule), value) == []
    assert findings(with_rule(schema, f"!({rule})", message="no"), value) != []


def test_failed_rule_on_an_object_omits_the_value() -> None:
    assert findings(with_rule(obj(a=INTEGER), "self.a > 1", message="too small"), {"a": 1}) == [
        "spec: Invalid value: too small"
    ]


def test_failed_rule_on_a_scalar_shows_the_value_and_the_rule_without_message() -> None:
    assert findings(with_rule(INTEGER, "self > 1"), 1) == ["spec: Invalid value: 1: failed rule: self > 1"]


def test_message_expression_reason_and_field_path() -> None:
    schema = with_rule(
        obj(a=INTEGER),
        "self.a > 1",
        messageExpression="'a is ' + string(self.a)",
        reason="FieldValueForbidden",
        fieldPath=".a",
    )
    assert findings(schema, {"a": 1}) == ["spec.a: Forbidden: a is 1"]


def test_message_expression_that_fails_falls_back_to_the_message() -> None:
    schema = with_rule(obj(a=INTEGER, b=STRING), "self.a > 1", messageExpression="self.b", message="plain")
    assert findings(schema, {"a": 1}) == ["spec: Invalid value: plain"]


def test_transition_rule_runs_only_on_updates() -> None:
    schema = obj(a=with_rule(STRING, "self == oldSelf", message="immutable"))
    assert findings(schema, {"a": "x"}) == []
    assert findings(schema, {"a": "x"}, {}) == []
    assert findings(schema, {"a": "x"}, {"a": "x"}) == []
    assert findings(schema, {"a": "y"}, {"a": "x"}) == ['spec.a: Invalid value: "y": immutable']


def test_items_of_a_map_list_are_matched_by_key() -> None:
    items = obj(name=STRING, size=with_rule(INTEGER, "self >= oldSelf", message="may not shrink"))
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": items,
    }
    old = [{"name": "a", "size": 1}, {"name": "b", "size": 5}]
    assert findings(schema, [{"name": "b", "size": 4}, {"name": "a", "size": 1}], old) == [
        "spec[0].size: Invalid value: 4: may not shrink"
    ]


def test_optional_old_self_sees_creation() -> None:
    schema = with_rule(INTEGER, "oldSelf.hasValue() ? self > oldSelf.value() : self == 1", optionalOldSelf=True)
    assert rule_check(schema, "x", "", False) == []
    assert findings(schema, 1) == []
    assert findings(schema, 2) != []
    assert findings(schema, 3, 2) == []
    assert findings(schema, 2, 2) != []


def test_rule_that_fails_on_an_unchanged_value_does_not_block() -> None:
    schema = obj(a=with_rule(STRING, "self == 'new'"), b=STRING)
    assert findings(schema, {"a": "old", "b": "2"}, {"a": "old", "b": "1"}) == []


def test_missing_key_is_told() -> None:
    assert findings(with_rule(obj(a=INTEGER), "self.a > 1", message="m"), {}) == [
        'spec: Invalid value: "object": no such key: a evaluating rule: m'
    ]


def test_root_sees_name_but_no_other_metadata() -> None:
    schema = with_rule(obj(spec=obj()), "self.metadata.name == 'x'", message="bad name")
    validator = compile_validator(read_schema(schema))
    assert validator is not None
    assert validator.validate({"metadata": {"name": "x", "labels": {}}}) == []
    assert [str(c) for c in validator.validate({"metadata": {"name": "y"}})] == ["<nil>: Invalid value: bad name"]
    assert "undefined field 'labels'" in str(
        rule_check(with_rule(obj(), "has(self.metadata.labels)"), "x", "", True)[0]
    )


def test_rule_with_an_unknown_field_is_refused_with_its_place() -> None:
    [cause] = rule_check(with_rule(obj(a=INTEGER), "self.b > 1"), "x", "", False)
    assert cause.field == "x.x-kubernetes-validations[0].rule"
    assert (
        "compilation failed: ERROR: <input>:1:5: undefined field 'b'\\n | self.b > 1\\n | ....^"
        in cause.message.replace("\n", "\\n")
    )


@pytest.mark.parametrize(
    ("schema", "rule", "problem"),
    [
        (INTEGER, "self + 1", "cel expression must evaluate to a bool"),
        (INTEGER, "self == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        (INTEGER, "other == 1", "undeclared reference to 'other'"),
        (INTEGER, "self ==", "Syntax error"),
    ],
)
def test_wrong_rule_is_refused(schema: dict[str, Any], rule: str, problem: str) -> None:
    [cause] = rule_check(with_rule(schema, rule), "x", "", False)
    assert problem in cause.message


def test_old_self_is_refused_where_items_cannot_be_matched() -> None:
    [cause] = rule_check(with_rule(INTEGER, "self == oldSelf"), "x.items", "x", False)
    assert "oldSelf cannot be used on the uncorrelatable portion of the schema within x" in cause.message
