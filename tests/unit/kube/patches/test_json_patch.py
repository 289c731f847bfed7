import json
from typing import Any

import pytest

from modelyard.kube.patches import PatchError, json_patch

DOC: dict[str, Any] = {"a": {"b": [1, 2, 3], "c/d": "x"}, "n": None}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/new", "value": 1}], {**DOC, "new": 1}),
        ([{"op": "add", "path": "/a/b/1", "value": 9}], {**DOC, "a": {**DOC["a"], "b": [1, 9, 2, 3]}}),
        ([{"op": "add", "path": "/a/b/-", "value": 9}], {**DOC, "a": {**DOC["a"], "b": [1, 2, 3, 9]}}),
        ([{"op": "remove", "path": "/a/b/0"}], {**DOC, "a": {**DOC["a"], "b": [2, 3]}}),
        ([{"op": "remove", "path": "/a/b/-1"}], {**DOC, "a": {**DOC["a"], "b": [1, 2]}}),
        ([{"op": "remove", "path": "/a/c~1d"}], {**DOC, "a": {"b": [1, 2, 3]}}),
        ([{"op": "replace", "path": "/a/b/2", "value": 7}], {**DOC, "a": {**DOC["a"], "b": [1, 2, 7]}}),
        ([{"op": "move", "from": "/a/b/0", "path": "/m"}], {**DOC, "a": {**DOC["a"], "b": [2, 3]}, "m": 1}),
        ([{"op": "copy", "from": "/a/b", "path": "/m"}, {"op": "add", "path": "/m/0", "value": 0}],
         {**DOC, "m": [0, 1, 2, 3]}),
        ([{"op": "test", "path": "/a/b/0", "value": 1}, {"op": "test", "path": "/n", "value": None}], DOC),
        ([], DOC),
    ],
)  # fmt: skip
def test_operations(operations: list[dict[str, Any]], result: dict[str, Any]) -> None:
    assert json_patch(DOC, operations) == result


def test_the_document_is_not_changed() -> None:
    doc = {"a": [{"x": 1}, {"x": 2}], "same": {"k": 1}}
    patched = json_patch(doc, [{"op": "replace", "path": "/a/1/x", "value": 3}, {"op": "remove", "path": "/a/0"}])
    assert doc == {"a": [{"x": 1}, {"x": 2}], "same": {"k": 1}}
    assert patched == {"a": [{"x": 3}], "same": {"k": 1}}
    assert patched["same"] is doc["same"]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"op": "remove", "path": "/x"}, "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"),
        ({"op": "remove", "path": "/x/y"}, 'remove operation does not apply: doc is missing path: "/x/y": missing value'),
        ({"op": "add", "path": "/a/b/9", "value": 1},
         "error in add for path: '/a/b/9': Unable to access invalid index: 9: invalid index referenced"),
        ({"op": "replace", "path": "/x/y", "value": 1},
         "replace operation does not apply: doc is missing path: /x/y: missing value"),
        ({"op": "test", "path": "/a/b/0", "value": 2}, "testing value /a/b/0 failed: test failed"),
        ({"op": "test", "path": "/a/b/0", "value": True}, "testing value /a/b/0 failed: test failed"),
        ({"op": "add", "path": "/a/b/x", "value": 1},
         "error in add for path: '/a/b/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax"),
        ({"op": "move", "from": "/q", "path": "/r"},
         "error in move for path: 'q': Unable to remove nonexistent key: q: missing value"),
        ({"op": "copy", "from": "/q/z", "path": "/r"},
         "copy operation does not apply: doc is missing from path: /q/z: missing value"),
        ({"op": "jump", "path": "/r"}, "Unexpected kind: jump"),
        ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
    ],
)  # fmt: skip
def test_operations_that_do_not_apply_say_why(operation: dict[str, Any], said: str) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch(DOC, [operation])
    assert str(caught.value) == said


def test_a_patch_that_is_no_list_is_refused() -> None:
    with pytest.raises(PatchError, match="a JSON patch is a list of operations"):
        json_patch(DOC, json.loads('{"op": "add"}'))
