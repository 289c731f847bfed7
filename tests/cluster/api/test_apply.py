"""Server-side apply: ownership, conflicts, force, removal, creation, and the types of what is applied."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment
from modelyard.kube.errors import Conflict
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import APPLY, MERGE, call, config_map, deployment
from tests.cluster.api.definitions import definition, install, spec, version
from tests.cluster.conftest import Api

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def applied(namespace: str, name: str, data: dict[str, str], **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "data": data,
    }


def owners(obj: Object) -> dict[tuple[str, str, str], Any]:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


async def test_apply_creates_and_answers_201(api: Api) -> None:
    namespace = await api.namespace()
    path = ConfigMap.path(namespace, "a")
    first = await call(api, "PATCH", path, applied(namespace, "a", {"x": "1"}), type=APPLY, fieldManager="one")
    again = await call(api, "PATCH", path, applied(namespace, "a", {"x": "1"}), type=APPLY, fieldManager="one")
    assert (first.status, again.status) == (201, 200)
    assert first.body["metadata"] == again.body["metadata"]
    assert owners(first.body) == {("one", "Apply", ""): {"f:data": {"f:x": {}}}}


async def test_field_no_longer_applied_is_removed(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "1", "y": "2"}), field_manager="one")
    after = await api.client.apply(ConfigMap, applied(namespace, "a", {"y": "2"}), field_manager="one")
    assert after["data"] == {"y": "2"}


async def test_field_of_two_managers_stays_until_the_last_lets_go(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "1"}), field_manager="one")
    await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "1"}), field_manager="two")
    after = await api.client.apply(ConfigMap, applied(namespace, "a", {}), field_manager="one")
    assert after["data"] == {"x": "1"}
    after = await api.client.apply(ConfigMap, applied(namespace, "a", {}), field_manager="two")
    assert not after.get("data")


async def test_conflict_names_manager_and_field_and_force_takes_it(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "1"}), field_manager="one")
    with pytest.raises(Conflict) as caught:
        await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "2"}), field_manager="two")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ]
    after = await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "2"}), field_manager="two", force=True)
    assert after["data"] == {"x": "2"}
    assert set(owners(after)) == {("two", "Apply", "")}


async def test_plain_writes_take_ownership_too(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", {"x": "1"}), field_manager="maker")
    await api.client.patch(ConfigMap, namespace, "a", {"data": {"y": "2"}}, field_manager="patcher")
    live = await api.client.get(ConfigMap, namespace, "a")
    assert owners(live) == {
        ("maker", "Update", ""): {"f:data": {".": {}, "f:x": {}}},
        ("patcher", "Update", ""): {"f:data": {"f:y": {}}},
    }
    with pytest.raises(Conflict, match=r'conflict with "patcher" using v1: .data.y'):
        await api.client.apply(ConfigMap, applied(namespace, "a", {"y": "3"}), field_manager="applier")


async def test_status_writes_are_owned_apart(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(Deployment, deployment(namespace, "a"), field_manager="maker")
    status = {"observedGeneration": 1, "replicas": 0}
    await api.client.update(Deployment, made | {"status": status}, subresource="status", field_manager="controller")
    live = await api.client.get(Deployment, namespace, "a")
    assert owners(live)["controller", "Update", "status"] == {"f:status": {"f:observedGeneration": {}}}
    scaled = await api.client.patch(
        Deployment, namespace, "a", {"spec": {"replicas": 4}}, subresource="scale", field_manager="scaler"
    )
    assert scaled["spec"] == {"replicas": 4}
    live = await api.client.get(Deployment, namespace, "a")
    assert owners(live)["scaler", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owners(live)["maker", "Update", ""]["f:spec"]


async def test_list_items_merge_by_key(api: Api) -> None:
    namespace = await api.namespace()
    base: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": namespace}}
    await api.client.create(Deployment, deployment(namespace, "a"))

    def containers(*names: str) -> Object:
        items = [{"name": name, "image": "img"} for name in names]
        return base | {"spec": {"template": {"spec": {"containers": items}}}}

    after = await api.client.apply(Deployment, containers("side"), field_manager="one")
    assert {c["name"] for c in after["spec"]["template"]["spec"]["containers"]} == {"main", "side"}
    after = await api.client.apply(Deployment, base, field_manager="one")
    assert [c["name"] for c in after["spec"]["template"]["spec"]["containers"]] == ["main"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "invalid object type: /, Kind="),
        ({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}, 400, "invalid object type: /v1, Kind=Secret"),
        ({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b"}}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "managedFields": [{"manager": "m"}]}}, 400, "metadata.managedFields must be nil"),
        ({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"z": "1"}}, 409, f'Operation cannot be fulfilled on configmaps "a": {_MODIFIED}'),
        ({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "foo": 1}, 500, "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .foo: field not declared in schema"),
    ],
)  # fmt: skip
async def test_bad_configuration_is_refused(api: Api, body: Any, status: int, message: str) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "PATCH", ConfigMap.path(namespace, "a"), body, type=APPLY, fieldManager="m")
    assert (answer.status, answer.message) == (status, message)


async def test_new_object_must_have_its_name_and_no_uid(api: Api) -> None:
    namespace = await api.namespace()
    path = ConfigMap.path(namespace, "new")
    nameless = await call(
        api, "PATCH", path, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}, type=APPLY, fieldManager="m"
    )
    assert (nameless.status, nameless.message) == (
        400, "the name of the object (new based on URL) was undeterminable: name must be provided",
    )  # fmt: skip
    answer = await call(api, "PATCH", path, applied(namespace, "new", {}, uid="1"), type=APPLY, fieldManager="m")
    assert answer.status == 409
    assert "uid mismatch: the provided object specified uid 1, and no existing object was found" in answer.message


async def test_version_that_no_object_has_only_creates(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.apply(
        ConfigMap, applied(namespace, "a", {"x": "1"}, resourceVersion="1"), field_manager="one"
    )
    with pytest.raises(Conflict, match=_MODIFIED):
        await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "1"}, resourceVersion="1"), field_manager="two")
    assert (await api.client.get(ConfigMap, namespace, "a"))["metadata"] == made["metadata"]


async def test_yaml_is_applied(api: Api) -> None:
    namespace = await api.namespace()
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  when: 2001-01-01\n  on: 'yes'\n"
    answer = await call(api, "PATCH", ConfigMap.path(namespace, "a"), body, type=APPLY, fieldManager="m")
    assert answer.status == 201
    assert answer.body["data"] == {"when": "2001-01-01", "true": "yes"}


async def test_dry_run_apply_keeps_nothing(api: Api) -> None:
    namespace = await api.namespace()
    shown = await api.client.apply(ConfigMap, applied(namespace, "a", {"x": "1"}), field_manager="m", dry_run=True)
    assert shown["data"] == {"x": "1"}
    assert await api.client.find(ConfigMap, namespace, "a") is None


# Custom resources say what they are.


async def test_custom_resource_must_say_its_type(api: Api) -> None:
    custom = await install(api, definition(version(schema=spec(a={"type": "string"}))))
    kind, path = custom.kind, custom.kind.path(custom.namespace)
    other = kind.api_version.replace("/v1", "/v2")

    def body(**more: Any) -> Object:
        return {"metadata": {"name": "x"}} | more

    missing = await call(api, "POST", path, body())
    assert missing.status == 400
    assert f"(must be of type {kind.kind}): Object 'Kind' is missing in" in missing.message
    wrong = await call(api, "POST", path, body(kind=kind.kind, apiVersion=other))
    assert (wrong.status, wrong.message) == (
        400, f"the API version in the data ({other}) does not match the expected API version ({kind.api_version})",
    )  # fmt: skip
    wrong = await call(api, "POST", path, body(kind="Other", apiVersion=kind.api_version))
    assert (wrong.status, wrong.causes) == (422, [("kind", f'Invalid value: "Other": must be {kind.kind}')])
    assert wrong.body["details"]["kind"] == "Other"
    await custom.create({"a": "b"})
    patched = await call(api, "PATCH", custom.kind.path(custom.namespace, "x"), {"kind": "Other"}, type=MERGE)
    assert patched.status == 422
    unconditional = await call(
        api, "PUT", kind.path(custom.namespace, "x"), body(kind=kind.kind, apiVersion=kind.api_version)
    )
    assert unconditional.status == 422
    assert "metadata.resourceVersion: Invalid value: 0" in unconditional.message


async def test_custom_resources_have_no_strategic_patch(api: Api) -> None:
    custom = await install(api, definition(version()))
    await custom.create({})
    answer = await call(
        api, "PATCH", custom.kind.path(custom.namespace, "x"), {}, type="application/strategic-merge-patch+json"
    )
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
    assert answer.message.startswith(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
        "application/merge-patch+json, application/apply-patch+yaml"
    )
