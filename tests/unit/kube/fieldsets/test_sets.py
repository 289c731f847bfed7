import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.kube.fieldsets import FieldSet

_elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'v:"s"', "v:1", "i:0"])
_paths = st.lists(st.lists(_elements, min_size=1, max_size=3).map(tuple), max_size=8).map(frozenset)


def of(paths: frozenset[tuple[str, ...]]) -> FieldSet:
    found = FieldSet()
    for path in paths:
        node: dict[str, Any] = {}
        for element in reversed(path):
            node = {element: node}
        found = found | FieldSet(node)
    return found


@given(_paths)
def test_a_set_holds_the_paths_it_was_made_of(paths: frozenset[tuple[str, ...]]) -> None:
    made = of(paths)
    assert set(made.paths()) == paths
    assert len(made) == len(paths)
    assert all(path in made for path in paths)


@given(_paths, _paths)
def test_union_difference_and_intersection_are_those_of_sets(
    a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]
) -> None:
    assert set((of(a) | of(b)).paths()) == a | b
    assert set((of(a) & of(b)).paths()) == a & b
    assert set((of(a) - of(b)).paths()) == a - b


@given(_paths, _paths)
def test_without_takes_what_lies_below_too(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> None:
    expected = {path for path in a if not any(path[: len(gone)] == gone for gone in b)}
    assert set(of(a).without(of(b)).paths()) == expected


@given(_paths)
def test_fields_v1_round_trip(paths: frozenset[tuple[str, ...]]) -> None:
    made = of(paths)
    assert FieldSet.parse(json.loads(json.dumps(made.to_dict()))) == made


def test_foreign_fields_v1_is_normalised() -> None:
    read = FieldSet.parse({'k:{"b": 1, "a": "x"}': {".": {}}, "f:z": {".": {}, "f:y": {}}, "q:unknown": {}})
    assert read.to_dict() == {"f:z": {".": {}, "f:y": {}}, 'k:{"a":"x","b":1}': {}}


def test_entries_are_ordered_as_kubernetes_orders_them() -> None:
    read = FieldSet.parse(
        {'v:"b"': {}, 'k:{"port":80}': {}, 'k:{"port":9}': {}, "f:b": {".": {}, "f:c": {}}, "f:a": {}}
    )
    assert list(read.to_dict()) == ["f:a", "f:b", 'k:{"port":9}', 'k:{"port":80}', 'v:"b"']


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:spec", "f:containers", 'k:{"name":"app"}', "f:image"), '.spec.containers[name="app"].image'),
        (("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
        (("f:metadata", "f:finalizers", 'v:"x/y"'), '.metadata.finalizers[="x/y"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_paths_are_shown_as_kubernetes_shows_them(path: tuple[str, ...], text: str) -> None:
    assert str(of(frozenset({path}))) == text


def test_sets_of_plain_fields_by_name() -> None:
    made = FieldSet.fields("status", "metadata.name", "metadata.uid")
    assert made.to_dict() == {"f:metadata": {"f:name": {}, "f:uid": {}}, "f:status": {}}
    assert not FieldSet()
