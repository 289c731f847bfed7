"""List and watch: selectors, pages, versions, and the events that a watcher gets."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment, Namespace, Pod, Secret
from modelyard.kube.kinds import Kind
from tests.cluster.api.calls import call, config_map, deployment, eventually, read_watch
from tests.cluster.conftest import Api


async def some(api: Api, namespace: str, count: int = 5) -> None:
    for index in range(count):
        labels = {"parity": "even" if index % 2 == 0 else "odd"}
        await api.client.create(Secret, {"metadata": {"name": f"s{index}", "namespace": namespace, "labels": labels}})


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


async def test_list_is_typed_and_its_items_are_not(api: Api) -> None:
    namespace = await api.namespace()
    await some(api, namespace, 2)
    body = (await call(api, "GET", Secret.path(namespace))).body
    assert (body["kind"], body["apiVersion"]) == ("SecretList", "v1")
    assert body["metadata"]["resourceVersion"].isdecimal()
    assert names(body) == ["s0", "s1"]
    assert "kind" not in body["items"][0]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("parity=even", ["s0", "s2", "s4"]),
        ("parity!=even", ["s1", "s3"]),
        ("parity in (odd,other)", ["s1", "s3"]),
        ("!parity", []),
        ("parity", ["s0", "s1", "s2", "s3", "s4"]),
    ],
)
async def test_label_selector(api: Api, selector: str, found: list[str]) -> None:
    namespace = await api.namespace()
    await some(api, namespace)
    assert names((await call(api, "GET", Secret.path(namespace), labelSelector=selector)).body) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=s1", ["s1"]),
        ("metadata.name!=s1", ["s0", "s2"]),
        ("type=Opaque", ["s0", "s1", "s2"]),
        ("type=other", []),
    ],
)
async def test_field_selector(api: Api, selector: str, found: list[str]) -> None:
    namespace = await api.namespace()
    await some(api, namespace, 3)
    assert names((await call(api, "GET", Secret.path(namespace), fieldSelector=selector)).body) == found


async def test_field_selector_over_all_namespaces(api: Api) -> None:
    one, two = await api.namespace(), await api.namespace()
    await some(api, one, 1)
    await some(api, two, 1)
    answer = await call(api, "GET", Secret.path(), fieldSelector=f"metadata.namespace={two},metadata.name=s0")
    assert [item["metadata"]["namespace"] for item in answer.body["items"]] == [two]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"fieldSelector": "data.x=1"}, 400, '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ({"labelSelector": "a===b"}, 400, "unable to parse requirement: found '=', expected: identifier"),
        ({"resourceVersion": "abc"}, 400, 'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'),
        ({"limit": "abc"}, 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"resourceVersionMatch": "Exact"}, 422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided'),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "x", "resourceVersion": "1"}, 422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "x": supported values: "Exact", "NotOlderThan", ""'),
        ({"sendInitialEvents": "true"}, 422, 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list'),
        ({"watch": "1", "sendInitialEvents": "true"}, 422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan'),
        ({"resourceVersion": "99999999999"}, 504, "Timeout: Too large resource version: 99999999999, current: "),
    ],
)  # fmt: skip
async def test_bad_list_options_are_refused(api: Api, query: dict[str, str], status: int, message: str) -> None:
    answer = await call(api, "GET", ConfigMap.path("default"), **query)
    assert answer.status == status
    assert answer.message.startswith(message)


async def test_unknown_field_of_a_kind_with_fields_of_its_own(api: Api) -> None:
    answer = await call(api, "GET", Pod.path("default"), fieldSelector="spec.foo=1")
    assert (answer.status, answer.message) == (400, "field label not supported: spec.foo")


async def test_pages_show_one_consistent_state(api: Api) -> None:
    namespace = await api.namespace()
    await some(api, namespace)
    first = (await call(api, "GET", Secret.path(namespace), limit="2")).body
    assert names(first) == ["s0", "s1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await api.client.delete(Secret, namespace, "s3")
    await api.client.create(Secret, {"metadata": {"name": "s2a", "namespace": namespace}})
    rest: list[str] = []
    token = first["metadata"]["continue"]
    while token:
        page = (await call(api, "GET", Secret.path(namespace), **{"limit": "2", "continue": token})).body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        rest += names(page)
        token = page["metadata"].get("continue", "")
    assert rest == ["s2", "s3", "s4"]


async def test_pages_with_a_selector_count_nothing_remaining(api: Api) -> None:
    namespace = await api.namespace()
    await some(api, namespace)
    page = (await call(api, "GET", Secret.path(namespace), limit="1", labelSelector="parity=even")).body
    assert names(page) == ["s0"]
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_exact_version_shows_the_past(api: Api) -> None:
    namespace = await api.namespace()
    await some(api, namespace, 2)
    version = (await call(api, "GET", Secret.path(namespace))).body["metadata"]["resourceVersion"]
    await api.client.delete(Secret, namespace, "s0")
    past = await call(api, "GET", Secret.path(namespace), resourceVersion=version, resourceVersionMatch="Exact")
    assert names(past.body) == ["s0", "s1"]
    assert past.body["metadata"]["resourceVersion"] == version


async def test_broken_continue_token_is_400(api: Api) -> None:
    answer = await call(api, "GET", Secret.path("default"), **{"continue": "abc"})
    assert answer.status == 400
    assert answer.message.startswith("invalid continue token: continue key is not valid")


async def test_metadata_only_lists_and_objects(api: Api) -> None:
    namespace = await api.namespace()
    await some(api, namespace, 1)
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    body = (await call(api, "GET", Secret.path(namespace), accept=accept)).body
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert body["items"][0]["kind"] == "PartialObjectMetadata"
    assert "type" not in body["items"][0]
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    body = (await call(api, "GET", Secret.path(namespace, "s0"), accept=accept)).body
    assert set(body) == {"kind", "apiVersion", "metadata"}


async def test_table_has_columns_and_rows(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "a"))
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    body = (await call(api, "GET", Deployment.path(namespace), accept=accept)).body
    assert (body["kind"], body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert body["columnDefinitions"][0]["name"] == "Name"
    assert body["rows"][0]["cells"][0] == "a"
    assert body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_what_cannot_be_served_is_406(api: Api) -> None:
    answer = await call(api, "GET", Secret.path("default"), accept="text/html")
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert "application/json, application/yaml" in answer.message


async def test_get_of_a_missing_object(api: Api) -> None:
    namespace = await api.namespace()
    answer = await call(api, "GET", Deployment.path(namespace, "a"))
    assert (answer.status, answer.message) == (404, 'deployments.apps "a" not found')
    assert answer.body["details"] == {"name": "a", "group": "apps", "kind": "deployments"}


# Watch.


async def head(api: Api, namespace: str) -> str:
    version: str = (await call(api, "GET", Secret.path(namespace))).body["metadata"]["resourceVersion"]
    return version


def summary(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_watch_from_a_version_gives_every_change_in_order(api: Api) -> None:
    namespace = await api.namespace()
    start = await head(api, namespace)
    await some(api, namespace, 2)
    await api.client.patch(Secret, namespace, "s0", {"metadata": {"labels": {"x": "y"}}})
    await api.client.delete(Secret, namespace, "s0")
    events = await read_watch(api, Secret.path(namespace), 4, resourceVersion=start)
    assert summary(events) == [("ADDED", "s0"), ("ADDED", "s1"), ("MODIFIED", "s0"), ("DELETED", "s0")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[0]["object"]["kind"] == "Secret"
    assert events[3]["object"]["metadata"]["labels"]["x"] == "y"


@pytest.mark.parametrize("version", ["", "0"])
async def test_watch_without_version_starts_with_what_is_there(api: Api, version: str) -> None:
    namespace = await api.namespace()
    await some(api, namespace, 2)
    query = {"resourceVersion": version} if version else {}
    assert summary(await read_watch(api, Secret.path(namespace), 2, **query)) == [("ADDED", "s0"), ("ADDED", "s1")]


async def test_object_that_enters_and_leaves_a_selector(api: Api) -> None:
    namespace = await api.namespace()
    start = await head(api, namespace)
    await api.client.create(Secret, {"metadata": {"name": "a", "namespace": namespace}})
    await api.client.patch(Secret, namespace, "a", {"metadata": {"labels": {"in": "yes"}}})
    await api.client.patch(Secret, namespace, "a", {"metadata": {"annotations": {"k": "v"}}})
    out = await api.client.patch(Secret, namespace, "a", {"metadata": {"labels": {"in": "no"}}})
    await api.client.patch(Secret, namespace, "a", {"metadata": {"labels": {"in": "yes"}}})
    events = await read_watch(api, Secret.path(namespace), 4, resourceVersion=start, labelSelector="in=yes")
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    left = events[2]["object"]["metadata"]
    assert left["labels"] == {"in": "yes"}
    assert left["resourceVersion"] == out["metadata"]["resourceVersion"]


async def test_watch_of_one_object_by_field(api: Api) -> None:
    namespace = await api.namespace()
    start = await head(api, namespace)
    await some(api, namespace, 3)
    events = await read_watch(api, Secret.path(namespace), 1, resourceVersion=start, fieldSelector="metadata.name=s1")
    assert summary(events) == [("ADDED", "s1")]


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    namespace = await api.namespace()
    await some(api, namespace, 2)
    events = await read_watch(
        api,
        Secret.path(namespace),
        3,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    end = events[2]["object"]
    assert end["kind"] == "Secret"
    assert end["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert end["metadata"]["resourceVersion"].isdecimal()


async def test_watch_ends_at_its_timeout(api: Api) -> None:
    namespace = await api.namespace()
    answer = await call(
        api, "GET", Secret.path(namespace), watch="true", timeoutSeconds="1", resourceVersion=await head(api, namespace)
    )
    assert (answer.status, answer.body) == (200, "")


async def test_metadata_watch(api: Api) -> None:
    namespace = await api.namespace()
    start = await head(api, namespace)
    await some(api, namespace, 1)
    stream = api.client.watch(Secret, namespace, resource_version=start, metadata_only=True)
    async for event in stream:
        assert event.object["kind"] == "PartialObjectMetadata"
        assert event.object["metadata"]["name"] == "s0"
        break


async def test_status_of_a_namespace_can_be_selected(api: Api) -> None:
    name = await api.namespace()

    async def active() -> bool:
        return name in names((await call(api, "GET", Namespace.path(), fieldSelector="status.phase=Active")).body)

    await eventually(active)


async def test_config_map_of_all_namespaces(api: Api) -> None:
    one, two = await api.namespace(), await api.namespace()
    for namespace in (one, two):
        await api.client.create(ConfigMap, config_map(namespace, "same", labels={"all": one}))
    answer = await call(api, "GET", ConfigMap.path(), labelSelector=f"all={one}")
    assert [item["metadata"]["namespace"] for item in answer.body["items"]] == sorted((one, two))


NEW_EVENT = Kind("events.k8s.io", "v1", "Event", "events")


async def test_new_events_are_selected_by_their_own_field_names(api: Api) -> None:
    namespace = await api.namespace()
    for name, controller in (("a", "one"), ("b", "two")):
        await api.client.create(
            NEW_EVENT,
            {
                "metadata": {"name": name, "namespace": namespace},
                "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": controller,
                "reportingInstance": "i", "action": "Do", "reason": "Done", "type": "Normal",
                "regarding": {"kind": "Pod", "name": f"pod-{name}", "namespace": namespace},
            },
        )  # fmt: skip
    for fields in ("reportingController=one", "regarding.name=pod-a", "regarding.kind=Pod,reportingController!=two"):
        listed = await api.client.list(NEW_EVENT, namespace, fields=fields)
        assert [obj["metadata"]["name"] for obj in listed.items] == ["a"], fields
    answer = await call(api, "GET", NEW_EVENT.path(namespace), fieldSelector="involvedObject.name=pod-a")
    assert (answer.status, answer.message) == (400, "field label not supported: involvedObject.name")
