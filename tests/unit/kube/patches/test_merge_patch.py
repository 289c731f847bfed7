from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.kube.patches import merge_diff, merge_patch


@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ([1], {"a": 1}, {"a": 1}),
    ],
)
def test_merge_patches(doc: Any, patch: Any, result: Any) -> None:
    assert merge_patch(doc, patch) == result


_values = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)
_documents = st.dictionaries(st.text(max_size=2), _values, max_size=4)


@given(_documents, _documents)
def test_a_diff_applied_to_the_old_document_gives_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge_patch(old, merge_diff(old, new)) == new


@given(_documents)
def test_equal_documents_have_an_empty_diff(doc: dict[str, Any]) -> None:
    assert merge_diff(doc, doc) == {}
