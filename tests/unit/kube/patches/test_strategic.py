import json
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.patches import PatchError, strategic_patch
from modelyard.kube.schema import Schema, builtin_schema


def schema() -> Schema:
    found = builtin_schema(builtin.Deployment)
    assert found is not None
    return found


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


LIVE = pod(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], tolerations=[{"key": "x"}])


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        pytest.param(
            pod(containers=[{"name": "b", "image": "2"}]),
            pod(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], tolerations=[{"key": "x"}]),
            id="items are merged by their key",
        ),
        pytest.param(
            pod(containers=[{"name": "c"}]),
            pod(
                containers=[{"name": "c"}, *LIVE["spec"]["template"]["spec"]["containers"]], tolerations=[{"key": "x"}]
            ),
            id="new items come before those that only the server has",
        ),
        pytest.param(
            pod(containers=[{"name": "a", "$patch": "delete"}]),
            pod(containers=[{"name": "b", "image": "1"}], tolerations=[{"key": "x"}]),
            id="items are deleted by directive",
        ),
        pytest.param(
            pod(containers=[{"$patch": "replace"}, {"name": "z"}]),
            pod(containers=[{"name": "z"}], tolerations=[{"key": "x"}]),
            id="a list is replaced by directive",
        ),
        pytest.param(
            pod(tolerations=[{"key": "y"}]),
            pod(containers=LIVE["spec"]["template"]["spec"]["containers"], tolerations=[{"key": "y"}]),
            id="atomic lists are replaced",
        ),
        pytest.param(
            {"spec": {"template": {"spec": {"$patch": "replace", "dnsPolicy": "None"}}}},
            pod(dnsPolicy="None"),
            id="a map is replaced by directive",
        ),
        pytest.param(pod(tolerations=None, containers=None), pod(), id="null deletes"),
        pytest.param(
            {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}}},
            pod(containers=[{"name": "b", "image": "1"}, {"name": "a", "image": "1"}], tolerations=[{"key": "x"}]),
            id="an order is obeyed",
        ),
    ],
)
def test_patches(patch: dict[str, Any], result: dict[str, Any]) -> None:
    before = json.dumps([LIVE, patch])
    assert strategic_patch(LIVE, patch, schema()) == result
    assert json.dumps([LIVE, patch]) == before, "inputs are not changed"


def test_lists_of_plain_values_are_united_and_deleted_from() -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_patch(live, {"metadata": {"finalizers": ["c", "a"]}}, schema()) == {
        "metadata": {"finalizers": ["c", "a", "b"]}
    }
    assert strategic_patch(live, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, schema()) == {
        "metadata": {"finalizers": ["b"]}
    }


def test_retain_keys_drops_all_others() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_patch(live, patch, schema()) == {"spec": {"strategy": {"type": "Recreate"}}}


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (pod(containers=[{"image": "x"}]), "map: map[image:x] does not contain declared merge key: name"),
        (pod(containers=[{"name": "a", "$patch": "merge"}]), "merging lists cannot yet be specified in the patch"),
        ({"spec": {"$patch": "zap"}}, "unknown patch type: zap in map"),
        ({"spec": {"strategy": {"$retainKeys": "x"}}}, "invalid patch format of retainKeys"),
        (
            {
                "spec": {
                    "template": {
                        "spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}
                    }
                }
            },
            "The order in patch list",
        ),
    ],
)
def test_bad_patches_say_why(patch: dict[str, Any], said: str) -> None:
    live = {"spec": {**LIVE["spec"], "strategy": {"type": "Recreate"}}}
    with pytest.raises(PatchError) as caught:
        strategic_patch(live, patch, schema())
    assert str(caught.value).startswith(said)
