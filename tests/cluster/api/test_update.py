"""Update and patch: optimistic concurrency, immutable fields, generation, no-op writes, the patch formats."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment, Job, Lease, Role
from modelyard.kube.errors import Conflict, Invalid, NotFound
from tests.cluster.api.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, call, config_map, deployment
from tests.cluster.conftest import Api

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_update_with_an_old_version_conflicts(api: Api) -> None:
    namespace = await api.namespace()
    first = await api.client.create(ConfigMap, config_map(namespace, "a"))
    await api.client.update(ConfigMap, first | {"data": {"a": "2"}})
    with pytest.raises(Conflict, match=_MODIFIED) as caught:
        await api.client.update(ConfigMap, first | {"data": {"a": "3"}})
    assert caught.value.status["details"] == {"name": "a", "kind": "configmaps"}
    assert str(caught.value) == f'Operation cannot be fulfilled on configmaps "a": {_MODIFIED}'


async def test_update_without_version_always_wins(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    await api.client.patch(ConfigMap, namespace, "a", {"data": {"a": "2"}})
    changed = await api.client.update(ConfigMap, config_map(namespace, "a", {"a": "3"}))
    assert changed["data"] == {"a": "3"}


async def test_some_kinds_insist_on_a_version(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Lease, {"metadata": {"name": "a", "namespace": namespace}, "spec": {}})
    with pytest.raises(Invalid, match=r"metadata.resourceVersion: Invalid value: 0.*: must be specified for an update"):
        await api.client.update(Lease, {"metadata": {"name": "a", "namespace": namespace}, "spec": {}})


async def test_update_of_nothing_is_404_but_some_kinds_are_created(api: Api) -> None:
    namespace = await api.namespace()
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await api.client.update(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "PUT", Role.path(namespace, "a"), {"metadata": {"name": "a"}, "rules": []})
    assert answer.status == 201


async def test_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(Deployment, deployment(namespace, "a"))
    same = await api.client.update(Deployment, made)
    patched = await api.client.patch(Deployment, namespace, "a", {"spec": {"replicas": 1}})
    versions = {obj["metadata"]["resourceVersion"] for obj in (made, same, patched)}
    assert len(versions) == 1


async def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "a"))
    labelled = await api.client.patch(Deployment, namespace, "a", {"metadata": {"labels": {"x": "y"}}})
    scaled = await api.client.patch(Deployment, namespace, "a", {"spec": {"replicas": 3}})
    assert labelled["metadata"]["generation"] == 1
    assert scaled["metadata"]["generation"] == 2
    forced = await api.client.patch(Deployment, namespace, "a", {"metadata": {"generation": 9}})
    assert forced["metadata"]["generation"] == 2


async def test_main_write_leaves_status_and_status_write_leaves_spec(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(Deployment, deployment(namespace, "a"))
    status = {"replicas": 2, "observedGeneration": 1}
    after = await api.client.update(
        Deployment, made | {"status": status, "spec": made["spec"] | {"replicas": 9}}, subresource="status"
    )
    assert after["spec"]["replicas"] == 1
    assert after["status"]["replicas"] == 2
    assert after["metadata"]["generation"] == 1
    main = await api.client.update(Deployment, after | {"status": {}, "spec": after["spec"] | {"replicas": 4}})
    assert main["status"]["replicas"] == 2
    assert main["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        ({"metadata": {"uid": "x"}}, 422, 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable'),
        ({"metadata": {"name": "b"}}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({"metadata": {"namespace": "b"}}, 400, "the namespace of the provided object does not match the namespace sent on the request"),
        ({"metadata": {"resourceVersion": "1"}}, 409, f'Operation cannot be fulfilled on configmaps "a": {_MODIFIED}'),
        ({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}, 422, 'ConfigMap "a" is invalid: metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable'),
        ({"kind": "Foo"}, 422, ' "" is invalid: patch: Invalid value: '),
    ],
)  # fmt: skip
async def test_patch_may_not_change_identity(api: Api, patch: Any, status: int, message: str) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "PATCH", ConfigMap.path(namespace, "a"), patch, type=MERGE)
    assert answer.status == status
    assert answer.message.startswith(message)


async def test_creation_time_cannot_be_changed_and_uid_is_a_precondition(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(ConfigMap, config_map(namespace, "a"))
    changed = await api.client.patch(
        ConfigMap, namespace, "a", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}
    )
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    answer = await call(api, "PUT", ConfigMap.path(namespace, "a"), config_map(namespace, "a", uid="other"))
    assert answer.status == 409
    assert f"UID in precondition: other, UID in object meta: {made['metadata']['uid']}" in answer.message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("b", "the name of the object (b) does not match the name on the URL (a)"),
        ("", "the name of the object (a based on URL) was undeterminable: name must be provided"),
    ],
)
async def test_put_must_name_the_object_of_the_url(api: Api, name: str, message: str) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "PUT", ConfigMap.path(namespace, "a"), {"metadata": {"name": name}})
    assert (answer.status, answer.message) == (400, message)


async def test_merge_patch_removes_with_null(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", {"a": "1", "b": "2"}))
    patched = await api.client.patch(ConfigMap, namespace, "a", {"data": {"a": None, "c": "3"}})
    assert patched["data"] == {"b": "2", "c": "3"}


async def test_json_patch_applies_in_order_and_tests(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", annotations={"x/y": "2"}))
    path = ConfigMap.path(namespace, "a")
    patch = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "move", "from": "/metadata/annotations/x~1y", "path": "/data/b"},
        {"op": "copy", "from": "/data/b", "path": "/data/c"},
        {"op": "remove", "path": "/data/a"},
    ]
    answer = await call(api, "PATCH", path, patch, type=JSON_PATCH)
    assert answer.body["data"] == {"b": "2", "c": "2"}
    failed = await call(api, "PATCH", path, [{"op": "test", "path": "/data/b", "value": "1"}], type=JSON_PATCH)
    assert (failed.status, failed.reason) == (422, "Invalid")
    assert failed.message == "the server rejected our request due to an error in our request"


async def test_strategic_patch_merges_lists_by_key(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "a"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}
    patched = await api.client.patch(Deployment, namespace, "a", patch, type="strategic")
    containers = patched["spec"]["template"]["spec"]["containers"]
    assert {c["name"] for c in containers} == {"main", "side"}
    gone = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    patched = await api.client.patch(Deployment, namespace, "a", gone, type="strategic")
    assert [c["name"] for c in patched["spec"]["template"]["spec"]["containers"]] == ["main"]


@pytest.mark.parametrize(
    ("type", "body", "status", "message"),
    [
        (MERGE, b"xx", 400, "invalid JSON patch"),
        (MERGE, b"[]", 400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (JSON_PATCH, b"{}", 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (APPLY, b"{}", 422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'),
        ("application/foo", b"{}", 415, "415: Unsupported Media Type"),
        (STRATEGIC, b'{"data":{"a":1}}', 422, ' "" is invalid: patch: Invalid value: '),
    ],
)  # fmt: skip
async def test_bad_patch_is_refused(api: Api, type: str, body: bytes, status: int, message: str) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "PATCH", ConfigMap.path(namespace, "a"), body, type=type)
    assert answer.status == status
    assert answer.message.startswith(message)


async def test_patch_of_nothing_is_404(api: Api) -> None:
    namespace = await api.namespace()
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await api.client.patch(ConfigMap, namespace, "a", {"data": {}})


async def test_dry_run_shows_the_result_and_keeps_nothing(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(ConfigMap, config_map(namespace, "a"))
    shown = await api.client.patch(ConfigMap, namespace, "a", {"data": {"a": "2"}}, dry_run=True)
    assert shown["data"] == {"a": "2"}
    assert await api.client.get(ConfigMap, namespace, "a") == made


async def test_scale_reads_and_writes_replicas(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "a", replicas=2))
    scale = await api.client.get(Deployment, namespace, "a", subresource="scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=a"}
    path = Deployment.path(namespace, "a", "scale")
    answer = await call(api, "PUT", path, scale | {"spec": {"replicas": 5}})
    assert answer.body["spec"] == {"replicas": 5}
    patched = await call(api, "PATCH", path, {"spec": {"replicas": 7}}, type=MERGE)
    assert patched.body["spec"] == {"replicas": 7}
    live = await api.client.get(Deployment, namespace, "a")
    assert live["spec"]["replicas"] == 7
    assert live["metadata"]["generation"] == 3
    stale = await call(api, "PUT", path, scale | {"spec": {"replicas": 9}})
    assert stale.status == 409
    refused = await call(api, "PATCH", path, {"spec": {"replicas": -1}}, type=MERGE)
    assert refused.status == 422
    assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in refused.message


async def test_unknown_subresource_is_404(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "GET", ConfigMap.path(namespace, "a", "status"))
    assert (answer.status, answer.reason) == (404, "NotFound")


async def test_validation_of_the_whole_object_runs_on_patch(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "a"))
    with pytest.raises(Invalid, match=r"spec.replicas: Invalid value: -1: must be greater than or equal to 0"):
        await api.client.patch(Deployment, namespace, "a", {"spec": {"replicas": -1}})
    with pytest.raises(Invalid, match=r"spec.selector: Invalid value.*: field is immutable"):
        await api.client.patch(Deployment, namespace, "a", {"spec": {"selector": {"matchLabels": {"x": "y"}}}})


async def test_immutable_config_map_stays(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a") | {"immutable": True})
    with pytest.raises(Invalid, match="data: Forbidden: field is immutable when `immutable` is set"):
        await api.client.patch(ConfigMap, namespace, "a", {"data": {"a": "2"}})


async def test_job_gets_its_server_side_fields(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    job = await api.client.create(Job, {"metadata": {"name": "j", "namespace": namespace}, "spec": spec})
    assert job["spec"]["backoffLimit"] == 6
    assert job["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
