import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from modelyard.kube.fieldsets import (
    FieldSet,
    compare,
    drift,
    extract,
    fieldset_of,
    merge,
    owned_digest,
    remove,
    same_meaning,
)
from modelyard.kube.schema import Schema, crd_schema, openapi_dict

SCHEMA = crd_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "count": {"type": "integer"},
                    "memory": openapi_dict("resource.Quantity"),
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "additionalProperties": {"type": "string"},
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "args": {"type": "array", "items": {"type": "string"}},
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port"],
                        "items": {
                            "type": "object",
                            "properties": {"port": {"type": "integer"}, "name": {"type": "string"}},
                        },
                    },
                },
            }
        },
    }
)

_words = st.sampled_from(["a", "b", "c"])
_spec = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(0, 2),
        "labels": st.dictionaries(_words, _words, min_size=1, max_size=3),
        "whole": st.dictionaries(_words, _words, min_size=1, max_size=2),
        "tags": st.lists(_words, min_size=1, max_size=3, unique=True),
        "args": st.lists(_words, min_size=1, max_size=2),
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": _words}),
            min_size=1,
            max_size=3,
            unique_by=lambda port: port["port"],
        ),
    },
)
_objects = st.builds(lambda spec: {"spec": spec} if spec else {}, _spec)


@given(_objects)
def test_extracting_all_fields_gives_the_object_and_removing_them_nothing(obj: dict[str, Any]) -> None:
    fields = fieldset_of(obj, SCHEMA)
    assert extract(obj, fields, SCHEMA) == obj
    assert fieldset_of(extract(obj, fields, SCHEMA), SCHEMA) == fields


@given(_objects, _objects)
def test_what_is_extracted_and_what_is_left_make_the_whole(obj: dict[str, Any], other: dict[str, Any]) -> None:
    fields = fieldset_of(obj, SCHEMA)
    some = fields & fieldset_of(other, SCHEMA)
    taken, left = extract(obj, some, SCHEMA), remove(obj, some, SCHEMA)
    together = fieldset_of(taken, SCHEMA) | fieldset_of(left, SCHEMA)
    # An item that is removed takes with it what others set in it.
    assert not (fields.without(some) | some) - together
    assert not fieldset_of(merge(left, taken, SCHEMA), SCHEMA) - together


@given(_objects, _objects)
def test_comparison_is_empty_only_for_equal_objects_and_symmetric(old: dict[str, Any], new: dict[str, Any]) -> None:
    there, back = compare(old, new, SCHEMA), compare(new, old, SCHEMA)
    assert there.added == back.removed
    assert there.removed == back.added
    assert there.modified == back.modified
    assert not compare(old, copy.deepcopy(old), SCHEMA)


@given(_objects, _objects)
def test_after_a_merge_the_configuration_holds(live: dict[str, Any], config: dict[str, Any]) -> None:
    merged = merge(live, config, SCHEMA)
    assert not drift(merged, config, SCHEMA)
    assert merge(merged, config, SCHEMA) == merged


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def test_drift_sees_only_changes_of_meaning() -> None:
    live = spec(memory="1Gi", ports=[{"port": 2}, {"port": 1, "name": "x"}], tags=["b", "a"], count=3)
    assert not drift(live, spec(memory="1024Mi", ports=[{"port": 1}, {"port": 2}], tags=["a", "b"]), SCHEMA)
    assert not drift(live, spec(labels={}, args=[]), SCHEMA)
    assert not drift(live, spec(labels=None), SCHEMA)
    assert str(drift(live, spec(memory="2Gi", count=3), SCHEMA).changed) == ".spec.memory"
    assert str(drift(live, spec(ports=[{"port": 1, "name": "y"}]), SCHEMA).changed) == ".spec.ports[port=1].name"
    assert str(drift(live, spec(ports=[{"port": 9}]), SCHEMA).changed) == ".spec.ports[port=9]"


def test_drift_sees_fields_that_are_owned_and_no_longer_wanted() -> None:
    live = spec(count=3, labels={"a": "1", "b": "2"})
    owned = fieldset_of(live, SCHEMA) | FieldSet.fields("spec.memory")
    found = drift(live, spec(count=3, labels={"a": "1"}), SCHEMA, owned)
    assert not found.changed
    assert str(found.stale) == ".spec.labels.b"


def test_atomic_fields_are_compared_as_a_whole() -> None:
    live = spec(whole={"a": "1", "b": "2"}, args=["x", "y"])
    assert str(drift(live, spec(whole={"a": "1"}), SCHEMA).changed) == ".spec.whole"
    assert str(drift(live, spec(args=["y", "x"]), SCHEMA).changed) == ".spec.args"


def test_the_digest_of_owned_fields_ignores_all_others_and_the_way_values_are_written() -> None:
    fields = fieldset_of(spec(memory="1Gi", ports=[{"port": 1}, {"port": 2}]), SCHEMA)

    def digest(obj: dict[str, Any]) -> str:
        return owned_digest(obj, fields, SCHEMA)

    base = digest(spec(memory="1Gi", ports=[{"port": 1}, {"port": 2}]))
    assert digest(spec(memory="1024Mi", ports=[{"port": 2, "name": "x"}, {"port": 1}], count=9)) == base
    assert digest(spec(memory="2Gi", ports=[{"port": 1}, {"port": 2}])) != base
    assert digest(spec(memory="1Gi", ports=[{"port": 1}])) != base


def test_values_with_one_meaning(schema: Schema) -> None:
    limits = schema.fields["spec"].fields["template"].fields["spec"].fields["containers"].items
    assert limits is not None
    assert same_meaning({"resources": {"limits": {"cpu": 1}}}, {"resources": {"limits": {"cpu": "1000m"}}}, limits)
    assert not same_meaning({"command": ["a", "b"]}, {"command": ["b", "a"]}, limits)
