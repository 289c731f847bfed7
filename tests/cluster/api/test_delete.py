"""Delete: answers, preconditions, finalizers, grace periods, propagation, collections, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment, Namespace, Pod, ReplicaSet, Secret, Service, ServiceAccount
from modelyard.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from modelyard.kube.kinds import Kind
from tests.cluster.api.calls import call, config_map, deployment, eventually, owner
from tests.cluster.conftest import Api


def pod(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


async def gone(api: Api, kind: Kind, namespace: str, name: str) -> bool:
    return await api.client.find(kind, namespace, name) is None


async def test_delete_answers_with_a_status_that_names_the_object(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(Deployment, deployment(namespace, "a"))
    answer = await call(api, "DELETE", Deployment.path(namespace, "a"))
    assert answer.status == 200
    assert answer.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "group": "apps", "kind": "deployments", "uid": made["metadata"]["uid"]},
    }  # fmt: skip
    with pytest.raises(NotFound, match=r'deployments.apps "a" not found'):
        await api.client.delete(Deployment, namespace, "a")


async def test_some_kinds_answer_with_the_object(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"ports": [{"port": 80}], "selector": {"a": "b"}}
    await api.client.create(Service, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec})
    answer = await call(api, "DELETE", Service.path(namespace, "a"))
    assert (answer.body["kind"], answer.body["metadata"]["name"]) == ("Service", "a")


async def test_preconditions_protect_from_deleting_another_object(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(ConfigMap, config_map(namespace, "a"))
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    path = ConfigMap.path(namespace, "a")
    wrong = await call(api, "DELETE", path, {"preconditions": {"uid": "x"}})
    assert (wrong.status, wrong.message) == (
        409,
        f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in record ({uid}). '
        "The object might have been deleted and then recreated",
    )
    wrong = await call(api, "DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    assert (wrong.status, wrong.message) == (
        409,
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({version}). The object might have been modified",
    )
    right = await call(api, "DELETE", path, {"preconditions": {"resourceVersion": version, "uid": uid}})
    assert right.status == 200


async def test_dry_run_deletes_nothing(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "DELETE", ConfigMap.path(namespace, "a"), dryRun="All")
    assert answer.body["status"] == "Success"
    assert not await gone(api, ConfigMap, namespace, "a")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"propagationPolicy": "x"},
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "x": supported values: "Foreground", '
            '"Background", "Orphan", "nil"',
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and '
            "deletionPropagation cannot be both set",
        ),
    ],
)
async def test_bad_options_are_refused(api: Api, body: Any, message: str) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    answer = await call(api, "DELETE", ConfigMap.path(namespace, "a"), body)
    assert (answer.status, answer.message) == (422, message)


async def test_finalizer_holds_the_object_until_it_is_removed(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", finalizers=["example.com/hold"]))
    answer = await call(api, "DELETE", ConfigMap.path(namespace, "a"))
    metadata = answer.body["metadata"]
    assert answer.body["kind"] == "ConfigMap"
    assert metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 0
    again = await call(api, "DELETE", ConfigMap.path(namespace, "a"))
    assert again.body["metadata"] == metadata
    with pytest.raises(AlreadyExists, match='object is being deleted: configmaps "a" already exists'):
        await api.client.create(ConfigMap, config_map(namespace, "a"))
    await api.client.patch(ConfigMap, namespace, "a", {"metadata": {"finalizers": None}})
    assert await gone(api, ConfigMap, namespace, "a")


async def test_deletion_counts_as_a_generation_where_there_is_one(api: Api) -> None:
    namespace = await api.namespace()
    obj = deployment(namespace, "a")
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    await api.client.create(Deployment, obj)
    answer = await call(api, "DELETE", Deployment.path(namespace, "a"))
    assert answer.body["metadata"]["generation"] == 2


async def test_no_finalizer_can_be_added_while_deleting(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", finalizers=["example.com/hold"]))
    await api.client.delete(ConfigMap, namespace, "a")
    with pytest.raises(Invalid) as caught:
        await api.client.patch(
            ConfigMap, namespace, "a", {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}
        )
    assert (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
        '[]string{"example.com/new"}'
    ) in str(caught.value)


async def test_deletion_timestamp_cannot_be_taken_back(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", finalizers=["example.com/hold"]))
    await api.client.delete(ConfigMap, namespace, "a")
    patched = await api.client.patch(
        ConfigMap, namespace, "a", {"metadata": {"deletionTimestamp": None, "labels": {"x": "y"}}}
    )
    assert patched["metadata"]["deletionTimestamp"]
    assert patched["metadata"]["labels"] == {"x": "y"}


async def test_unscheduled_pod_goes_at_once_and_scheduled_one_gracefully(api: Api) -> None:
    namespace = await api.namespace()
    await eventually(lambda: has_default_account(api, namespace))
    await api.client.create(Pod, pod(namespace, "free"))
    await api.client.delete(Pod, namespace, "free")
    assert await gone(api, Pod, namespace, "free")
    await api.client.create(Pod, pod(namespace, "bound", nodeName="node", terminationGracePeriodSeconds=40))
    answer = await call(api, "DELETE", Pod.path(namespace, "bound"))
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 40
    first = answer.body["metadata"]["deletionTimestamp"]
    longer = await call(api, "DELETE", Pod.path(namespace, "bound"), {"gracePeriodSeconds": 60})
    assert longer.body["metadata"]["deletionTimestamp"] == first
    shorter = await call(api, "DELETE", Pod.path(namespace, "bound"), {"gracePeriodSeconds": 20})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 20
    assert shorter.body["metadata"]["deletionTimestamp"] < first
    await api.client.delete(Pod, namespace, "bound", grace=0)
    assert await gone(api, Pod, namespace, "bound")


async def has_default_account(api: Api, namespace: str) -> bool:
    return not await gone(api, ServiceAccount, namespace, "default")


async def test_collection_is_deleted_by_selector_and_answers_with_a_list(api: Api) -> None:
    namespace = await api.namespace()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        await api.client.create(Secret, {"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}})
    answer = await call(api, "DELETE", Secret.path(namespace), labelSelector="app=x")
    assert answer.status == 200
    assert answer.body["kind"] == "SecretList"
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "b"]
    left = await api.client.list(Secret, namespace)
    assert [item["metadata"]["name"] for item in left.items] == ["c"]


async def test_namespaces_have_no_collection_delete(api: Api) -> None:
    assert (await call(api, "DELETE", "/api/v1/namespaces")).status == 405


# Dependents.


async def family(api: Api, namespace: str, **more: Any) -> None:
    parent = await api.client.create(ConfigMap, config_map(namespace, "parent"))
    reference = owner(parent, "v1", "ConfigMap", **more)
    await api.client.create(ConfigMap, config_map(namespace, "child", ownerReferences=[reference]))


async def test_dependents_follow_their_owner(api: Api) -> None:
    namespace = await api.namespace()
    await family(api, namespace)
    await api.client.delete(ConfigMap, namespace, "parent", propagation="Background")
    await eventually(lambda: gone(api, ConfigMap, namespace, "child"))


async def test_orphans_stay_without_reference(api: Api) -> None:
    namespace = await api.namespace()
    await family(api, namespace)
    await api.client.delete(ConfigMap, namespace, "parent", propagation="Orphan")
    await eventually(lambda: gone(api, ConfigMap, namespace, "parent"))
    child = await api.client.get(ConfigMap, namespace, "child")
    assert "ownerReferences" not in child["metadata"]


async def test_foreground_owner_waits_for_blocking_dependents(api: Api) -> None:
    namespace = await api.namespace()
    parent = await api.client.create(ConfigMap, config_map(namespace, "parent"))
    reference = owner(parent, "v1", "ConfigMap", blockOwnerDeletion=True)
    await api.client.create(
        ConfigMap, config_map(namespace, "child", ownerReferences=[reference], finalizers=["example.com/hold"])
    )
    answer = await call(api, "DELETE", ConfigMap.path(namespace, "parent"), {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_is_deleting() -> bool:
        return "deletionTimestamp" in (await api.client.get(ConfigMap, namespace, "child"))["metadata"]

    await eventually(child_is_deleting)
    assert not await gone(api, ConfigMap, namespace, "parent")
    await api.client.patch(ConfigMap, namespace, "child", {"metadata": {"finalizers": None}})
    await eventually(lambda: gone(api, ConfigMap, namespace, "parent"))


async def test_object_with_another_living_owner_stays(api: Api) -> None:
    namespace = await api.namespace()
    one = await api.client.create(ConfigMap, config_map(namespace, "one"))
    two = await api.client.create(ConfigMap, config_map(namespace, "two"))
    references = [owner(one, "v1", "ConfigMap"), owner(two, "v1", "ConfigMap")]
    await api.client.create(ConfigMap, config_map(namespace, "child", ownerReferences=references))
    await api.client.delete(ConfigMap, namespace, "one", propagation="Background")

    async def has_one_owner() -> bool:
        child = await api.client.get(ConfigMap, namespace, "child")
        return [r["name"] for r in child["metadata"].get("ownerReferences", [])] == ["two"]

    await eventually(has_one_owner)


async def test_object_of_an_absent_owner_is_collected(api: Api) -> None:
    namespace = await api.namespace()
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "never",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    await api.client.create(ConfigMap, config_map(namespace, "child", ownerReferences=[reference]))
    await eventually(lambda: gone(api, ConfigMap, namespace, "child"))


async def test_owner_in_another_namespace_counts_as_absent(api: Api) -> None:
    here, there = await api.namespace(), await api.namespace()
    parent = await api.client.create(ConfigMap, config_map(there, "parent"))
    await api.client.create(ConfigMap, config_map(here, "child", ownerReferences=[owner(parent, "v1", "ConfigMap")]))
    await eventually(lambda: gone(api, ConfigMap, here, "child"))


async def test_chain_of_dependents_goes(api: Api) -> None:
    namespace = await api.namespace()
    top = await api.client.create(Deployment, deployment(namespace, "a"))
    middle = deployment(namespace, "a") | {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    middle["metadata"]["ownerReferences"] = [owner(top, "apps/v1", "Deployment", controller=True)]
    made = await api.client.create(ReplicaSet, middle)
    await api.client.create(
        ConfigMap, config_map(namespace, "leaf", ownerReferences=[owner(made, "apps/v1", "ReplicaSet")])
    )
    await api.client.delete(Deployment, namespace, "a")
    await eventually(lambda: gone(api, ConfigMap, namespace, "leaf"))


# Namespaces.


async def test_namespace_takes_its_content_along(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    await api.client.create(Deployment, deployment(namespace, "a"))
    answer = await call(api, "DELETE", Namespace.path("", namespace))
    assert answer.status == 200
    assert answer.body["status"]["phase"] == "Terminating"
    assert answer.body["metadata"]["deletionTimestamp"]
    await eventually(lambda: gone(api, Namespace, "", namespace))
    assert await gone(api, ConfigMap, namespace, "a")


async def test_nothing_is_created_in_a_namespace_that_ends(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a", finalizers=["example.com/hold"]))
    await api.client.delete(Namespace, "", namespace)
    with pytest.raises(Forbidden) as caught:
        await api.client.create(ConfigMap, config_map(namespace, "b"))
    assert str(caught.value) == (
        f'configmaps "b" is forbidden: unable to create new content in namespace {namespace} because it is being terminated'
    )
    assert caught.value.causes[0]["reason"] == "NamespaceTerminating"

    async def reports() -> bool:
        status = (await api.client.get(Namespace, "", namespace))["status"]
        conditions = {c["type"]: c for c in status.get("conditions", [])}
        found = conditions.get("NamespaceFinalizersRemaining", {})
        return bool(
            conditions.get("NamespaceContentRemaining", {}).get("status") == "True"
            and found.get("message")
            == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )

    await eventually(reports)
    await api.client.patch(ConfigMap, namespace, "a", {"metadata": {"finalizers": None}})
    await eventually(lambda: gone(api, Namespace, "", namespace))


async def test_every_namespace_gets_an_account_and_the_root_certificate(api: Api) -> None:
    namespace = await api.namespace()
    await eventually(lambda: has_default_account(api, namespace))

    async def has_root() -> bool:
        return not await gone(api, ConfigMap, namespace, "kube-root-ca.crt")

    await eventually(has_root)
    root = await api.client.get(ConfigMap, namespace, "kube-root-ca.crt")
    assert "BEGIN CERTIFICATE" in root["data"]["ca.crt"]
    await api.client.delete(ConfigMap, namespace, "kube-root-ca.crt")
    await eventually(has_root)


async def test_default_namespaces_exist(api: Api) -> None:
    found = {obj["metadata"]["name"] for obj in (await api.client.list(Namespace)).items}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= found


async def test_uid_of_a_precondition_may_be_checked_by_the_client(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    with pytest.raises(Conflict):
        await api.client.delete(ConfigMap, namespace, "a", resource_version="1")


async def test_owners_in_a_circle_do_not_wait_for_each_other(api: Api) -> None:
    namespace = await api.namespace()
    made = [await api.client.create(ConfigMap, config_map(namespace, name)) for name in "abc"]
    for position, obj in enumerate(made):
        reference = owner(made[position - 1], "v1", "ConfigMap", controller=True, blockOwnerDeletion=True)
        await api.client.patch(
            ConfigMap, namespace, obj["metadata"]["name"], {"metadata": {"ownerReferences": [reference]}}
        )
    await api.client.delete(ConfigMap, namespace, "a", propagation="Foreground")

    async def gone() -> bool:
        return not [o for o in (await api.client.list(ConfigMap, namespace)).items if o["metadata"]["name"] in "abc"]

    await eventually(gone)


async def test_the_pods_of_a_namespace_go_first(api: Api) -> None:
    namespace = await api.namespace()
    pod = {"metadata": {"name": "p", "namespace": namespace, "finalizers": ["example.com/hold"]}, "spec": PODS_SPEC}
    await api.client.create(Pod, pod)
    await api.client.create(ConfigMap, config_map(namespace, "kept"))
    await api.client.delete(Namespace, "", namespace)

    async def reported() -> bool:
        conditions = (await api.client.get(Namespace, "", namespace))["status"].get("conditions") or ()
        return any(c["type"] == "NamespaceDeletionContentFailure" for c in conditions)

    await eventually(reported)
    assert "deletionTimestamp" not in (await api.client.get(ConfigMap, namespace, "kept"))["metadata"]
    await api.client.patch(Pod, namespace, "p", {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return await api.client.find(Namespace, "", namespace) is None

    await eventually(gone, 60)


PODS_SPEC = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}
