"""Requests that are wrong in odd ways, or in more than one: what the differential fuzzer found, kept as tests for both servers."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, call
from tests.cluster.conftest import Api

BAD_LABEL: Object = {"name": "a", "labels": {"bad key!": "x"}}


async def test_metadata_of_a_budget_is_looked_at_when_all_else_is_right(api: Api) -> None:
    path = builtin.PodDisruptionBudget.path(await api.namespace())
    both = await call(api, "POST", path, {"metadata": BAD_LABEL, "spec": {"selector": {}, "minAvailable": -1}})
    assert [field for field, _ in both.causes] == ["spec.minAvailable"]
    one = await call(api, "POST", path, {"metadata": BAD_LABEL, "spec": {"selector": {}, "minAvailable": 1}})
    assert [field for field, _ in one.causes] == ["metadata.labels"]


async def test_a_refusal_brings_the_warnings_along(api: Api) -> None:
    path = builtin.Service.path(await api.namespace())
    answer = await call(api, "POST", path, {"metadata": {"name": "a"}, "spec": {"ports": []}, "surprise": 1})
    assert answer.status == 422
    assert answer.headers["Warning"] == '299 - "unknown field \\"surprise\\""'


@pytest.mark.parametrize(
    ("kind", "field"),
    [(builtin.ConfigMap, "binaryData"), (builtin.Secret, "data")],
    ids=lambda value: value.kind if isinstance(value, Kind) else value,
)
async def test_an_empty_map_is_a_change_to_an_immutable_object(api: Api, kind: Kind, field: str) -> None:
    namespace = await api.namespace()
    await call(api, "POST", kind.path(namespace), {"metadata": {"name": "a"}, "immutable": True})
    answer = await call(api, "PATCH", kind.path(namespace, "a"), {field: {}}, type=MERGE)
    assert answer.causes == [(field, "Forbidden: field is immutable when `immutable` is set")]


async def test_an_empty_map_is_stored_as_none(api: Api) -> None:
    namespace = await api.namespace()
    made = await call(api, "POST", builtin.ConfigMap.path(namespace), {"metadata": {"name": "a"}, "data": {}})
    assert made.status == 201
    assert "data" not in made.body
    answer = await call(api, "PATCH", builtin.ConfigMap.path(namespace, "a"), {"binaryData": {}}, type=MERGE)
    assert answer.body == made.body


async def test_a_claim_may_not_ask_for_less_than_it_has(api: Api) -> None:
    path = builtin.PersistentVolumeClaim.path(await api.namespace())
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await call(api, "POST", path, {"metadata": {"name": "a"}, "spec": spec})
    less = {"spec": {"resources": {"requests": {"storage": "0"}}}}
    answer = await call(api, "PATCH", f"{path}/a", less, type=MERGE)
    assert [field for field, _ in answer.causes] == [
        "spec.resources[storage]",
        "spec",
        "spec.resources.requests.storage",
    ]
    assert answer.causes[-1][1] == "Forbidden: field can not be less than status.capacity"


BAD_BODIES: list[tuple[str, str, Kind, object, int, str]] = [
    (
        "a list is not an object",
        "POST",
        builtin.ConfigMap,
        [],
        400,
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: "
        "cannot unmarshal array into Go value of type struct { APIVersion string "
        '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" } (5b5d)',
    ),
    (
        "options of a wrong type",
        "DELETE",
        builtin.ConfigMap,
        {"preconditions": 1},
        400,
        "json: cannot unmarshal number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
    ),
    (
        "options of another kind",
        "DELETE",
        builtin.ConfigMap,
        {"kind": "Other", "apiVersion": "v1"},
        400,
        'no kind "Other" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
]


@pytest.mark.parametrize(
    ("method", "kind", "body", "code", "message"), [case[1:] for case in BAD_BODIES], ids=[c[0] for c in BAD_BODIES]
)
async def test_bodies_that_cannot_be_read(
    api: Api, method: str, kind: Kind, body: object, code: int, message: str
) -> None:
    path = kind.path(await api.namespace(), "" if method == "POST" else "a")
    answer = await call(api, method, path, body)
    assert (answer.status, answer.message) == (code, message)


@pytest.mark.parametrize("type", [MERGE, JSON_PATCH, STRATEGIC])
async def test_what_is_missing_is_told_before_what_is_wrong_with_a_patch(api: Api, type: str) -> None:
    path = builtin.ConfigMap.path(await api.namespace(), "none")
    answer = await call(api, "PATCH", path, "no patch", type=type)
    assert (answer.status, answer.message) == (404, 'configmaps "none" not found')


async def test_a_patch_without_the_merge_key_is_the_servers_failure(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    await call(api, "POST", builtin.Deployment.path(namespace), {"metadata": {"name": "a"}, "spec": spec})
    patch = {"spec": {"template": {"spec": {"containers": [{"image": "nameless"}]}}}}
    answer = await call(api, "PATCH", builtin.Deployment.path(namespace, "a"), patch, type=STRATEGIC)
    assert answer.status == 500
    assert answer.message == "map: map[image:nameless] does not contain declared merge key: name"


async def test_a_version_at_creation(api: Api) -> None:
    path = builtin.ConfigMap.path(await api.namespace())
    unreadable = await call(api, "POST", path, {"metadata": {"name": "a", "resourceVersion": "x"}})
    assert unreadable.status == 201
    given = await call(api, "POST", path, {"metadata": {"name": "b", "resourceVersion": "5"}})
    assert (given.status, given.message) == (500, "resourceVersion should not be set on objects to be created")
    worse = await call(api, "POST", path, {"metadata": {"name": "B_", "resourceVersion": "5"}})
    assert worse.status == 422


async def test_unknown_fields_are_not_told_of_what_cannot_be_read(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": "x"}]}, "surprise": 1}
    answer = await call(api, "POST", builtin.Service.path(await api.namespace()), body)
    assert answer.status == 400
    assert "Warning" not in answer.headers


async def test_an_apply_may_not_even_say_that_nobody_manages_a_field(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": []}}
    path = builtin.ConfigMap.path(await api.namespace(), "a")
    answer = await call(api, "PATCH", path, body, type=APPLY, fieldManager="x")
    assert (answer.status, answer.message) == (400, "metadata.managedFields must be nil")


CONTAINER: Object = {"name": "c", "image": "x:1"}
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
WARNED: list[tuple[str, Kind, Object, str]] = [
    (
        "external addresses",
        builtin.Service,
        {"spec": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}},
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    ),
    (
        "a fraction of a byte",
        builtin.PersistentVolumeClaim,
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}},
        'spec.resources.requests[storage]: fractional byte value \\"1500m\\" is invalid, must be an integer',
    ),
]


@pytest.mark.parametrize(("kind", "body", "text"), [case[1:] for case in WARNED], ids=[case[0] for case in WARNED])
async def test_warnings_at_creation(api: Api, kind: Kind, body: Object, text: str) -> None:
    answer = await call(api, "POST", kind.path(await api.namespace()), {"metadata": {"name": "a"}, **body})
    assert answer.status == 201
    assert answer.headers["Warning"] == f'299 - "{text}"'


STATUSES: list[tuple[Kind, Object, Object, list[str]]] = [
    (
        builtin.HorizontalPodAutoscaler,
        {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "X", "name": "x"}, "maxReplicas": 1}},
        {"currentReplicas": -1},
        ["status.currentReplicas"],
    ),
    (
        builtin.DaemonSet,
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
        {"numberReady": -1},
        ["status.numberReady"],
    ),
    (
        builtin.Ingress,
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        {"loadBalancer": {"ingress": [{"hostname": "B_"}]}},
        ["status.loadBalancer.ingress[0].hostname"],
    ),
    (
        builtin.Job,
        {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}},
        {"active": -1},
        ["status.active"],
    ),
]


@pytest.mark.parametrize(("kind", "body", "status", "fields"), STATUSES, ids=[case[0].kind for case in STATUSES])
async def test_statuses_that_cannot_be(api: Api, kind: Kind, body: Object, status: Object, fields: list[str]) -> None:
    namespace = await api.namespace()
    made = await call(api, "POST", kind.path(namespace), {"metadata": {"name": "a"}, **body})
    assert made.status == 201, made.body
    answer = await call(api, "PATCH", kind.path(namespace, "a", "status"), {"status": status}, type=MERGE)
    assert [field for field, _ in answer.causes] == fields


async def test_a_scale_can_be_applied(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "replicas": 1}
    await call(api, "POST", builtin.Deployment.path(namespace), {"metadata": {"name": "a"}, "spec": spec})
    path = builtin.Deployment.path(namespace, "a", "scale")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    refused = await call(api, "PATCH", path, scale, type=APPLY, fieldManager="scaler")
    assert refused.status == 409
    assert [field for field, _ in refused.causes] == [".spec.replicas"]
    forced = await call(api, "PATCH", path, scale, type=APPLY, fieldManager="scaler", force="true")
    assert forced.body["spec"] == {"replicas": 2}
    live = await api.client.get(builtin.Deployment, namespace, "a")
    owners = [
        entry for entry in live["metadata"]["managedFields"] if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    ]
    assert [(entry["manager"], entry["operation"], entry["subresource"]) for entry in owners] == [
        ("scaler", "Apply", "scale")
    ]
    assert owners[0]["apiVersion"] == "apps/v1"


async def test_a_generated_prefix_matters_at_creation(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    await call(api, "POST", builtin.Deployment.path(namespace), {"metadata": {"name": "a"}, "spec": spec})
    await call(api, "POST", builtin.ConfigMap.path(namespace), {"metadata": {"name": "a"}})
    prefix = {"metadata": {"generateName": "Bad_"}}
    kept = await call(api, "PATCH", builtin.Deployment.path(namespace, "a"), prefix, type=MERGE)
    assert kept.status == 200
    refused = await call(api, "PATCH", builtin.ConfigMap.path(namespace, "a"), prefix, type=MERGE)
    assert [field for field, _ in refused.causes] == ["metadata.generateName"]


async def test_a_service_without_a_name_gets_no_address(api: Api) -> None:
    answer = await call(api, "POST", builtin.Service.path(await api.namespace()), {"spec": {"ports": [{"port": 80}]}})
    assert [field for field, _ in answer.causes] == ["spec.clusterIPs"]


async def test_a_list_of_any_state_is_whole(api: Api) -> None:
    namespace = await api.namespace()
    for name in ("a", "b", "c"):
        await call(api, "POST", builtin.Secret.path(namespace), {"metadata": {"name": name}})
    answer = await call(api, "GET", builtin.Secret.path(namespace), limit="1", resourceVersion="0")
    assert "continue" not in answer.body["metadata"]


async def test_labels_of_an_endpoint_slice_count(api: Api) -> None:
    namespace = await api.namespace()
    await call(
        api,
        "POST",
        builtin.EndpointSlice.path(namespace),
        {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []},
    )
    change = {"metadata": {"labels": {"a": "b"}}}
    answer = await call(api, "PATCH", builtin.EndpointSlice.path(namespace, "a"), change, type=MERGE)
    assert answer.body["metadata"]["generation"] == 2


async def test_what_pods_are_told_when_they_go(api: Api) -> None:
    namespace = await api.namespace()
    await call(api, "POST", builtin.Pod.path(namespace), {"metadata": {"name": "a"}, "spec": TEMPLATE["spec"]})
    answer = await call(api, "DELETE", builtin.Pod.path(namespace, "a"))
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert answer.body["metadata"]["generation"] == 2


async def test_an_apply_without_metadata_gives_up_the_name_with_it(api: Api) -> None:
    path = builtin.ConfigMap.path(await api.namespace(), "a")
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    noted = {**kind, "metadata": {"name": "a", "annotations": {"note": "x"}}}
    assert (await call(api, "PATCH", path, noted, type=APPLY, fieldManager="x")).status == 201
    answer = await call(api, "PATCH", path, kind, type=APPLY, fieldManager="x")
    assert answer.status == 400
    assert answer.message == "the name of the object (a based on URL) was undeterminable: name must be provided"


async def test_owners_by_update_keep_replicas_that_an_apply_to_the_scale_shares(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "replicas": 2}
    await call(
        api, "POST", builtin.Deployment.path(namespace), {"metadata": {"name": "a"}, "spec": spec}, fieldManager="x"
    )
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    path = builtin.Deployment.path(namespace, "a", "scale")
    assert (await call(api, "PATCH", path, scale, type=APPLY, fieldManager="scaler")).status == 200
    live = await api.client.get(builtin.Deployment, namespace, "a")
    owners = [
        entry for entry in live["metadata"]["managedFields"] if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    ]
    assert sorted((entry["manager"], "time" in entry) for entry in owners) == [("scaler", False), ("x", False)]


async def test_what_a_status_creates_gets_no_address(api: Api) -> None:
    path = builtin.Service.path(await api.namespace(), "a", "status")
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    answer = await call(api, "PUT", path, body)
    assert answer.status == 201
    assert "clusterIP" not in answer.body["spec"]


@pytest.mark.parametrize("kind", [builtin.Lease, builtin.PodDisruptionBudget], ids=lambda kind: kind.kind)
async def test_finalizers_of_some_kinds_need_no_domain(api: Api, kind: Kind) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["hold"]}, "spec": {}}
    path = kind.path(await api.namespace())
    assert (await call(api, "POST", path, body)).status == 201
    done = await call(api, "PATCH", f"{path}/a", {"metadata": {"finalizers": None}}, type=MERGE)
    assert done.status == 200


async def test_numbers_of_options_are_read_before_selectors(api: Api) -> None:
    path = builtin.ConfigMap.path(await api.namespace())
    answer = await call(api, "GET", path, labelSelector="a=b=c", limit="x")
    assert (answer.status, answer.message) == (400, 'strconv.ParseInt: parsing "x": invalid syntax')
