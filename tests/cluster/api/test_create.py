"""Create: what the server fills in, what it refuses and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment, Namespace
from modelyard.kube.errors import AlreadyExists, NotFound
from tests.cluster.api.calls import call, config_map, deployment
from tests.cluster.conftest import Api


async def test_server_fills_in_system_metadata(api: Api) -> None:
    namespace = await api.namespace()
    given = config_map(namespace, "a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", selfLink="x")
    made = await api.client.create(ConfigMap, given)
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"] > "2020"
    assert metadata["resourceVersion"].isdecimal()
    assert "generation" not in metadata
    assert "selfLink" not in metadata
    assert made["kind"] == "ConfigMap"
    assert made["apiVersion"] == "v1"


async def test_kinds_with_a_spec_start_at_generation_one(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(Deployment, deployment(namespace, "a") | {"status": {"replicas": 5}})
    assert made["metadata"]["generation"] == 1
    assert not made["status"]


async def test_created_answers_201_and_existing_409(api: Api) -> None:
    namespace = await api.namespace()
    path = ConfigMap.path(namespace)
    assert (await call(api, "POST", path, config_map(namespace, "a"))).status == 201
    again = await call(api, "POST", path, config_map(namespace, "a"))
    assert (again.status, again.reason, again.message) == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert again.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_generated_names_have_the_prefix_and_differ(api: Api) -> None:
    namespace = await api.namespace()
    made = [
        await api.client.create(ConfigMap, {"metadata": {"generateName": "web-", "namespace": namespace}})
        for _ in range(5)
    ]
    names = {obj["metadata"]["name"] for obj in made}
    assert len(names) == 5
    assert all(name.startswith("web-") and len(name) == 9 for name in names)
    assert made[0]["metadata"]["generateName"] == "web-"


async def test_long_generate_name_is_cut(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(ConfigMap, {"metadata": {"generateName": "x" * 80, "namespace": namespace}})
    assert len(made["metadata"]["name"]) == 63


async def test_namespace_must_exist(api: Api) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await api.client.create(ConfigMap, config_map("nowhere", "a"))


_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("metadata", "causes"),
    [
        ({}, [("metadata.name", "Required value: name or generateName is required")]),
        ({"name": "X"}, [("metadata.name", f'Invalid value: "X": {_SUBDOMAIN}')]),
        (
            {"name": "a", "finalizers": ["plain"]},
            [
                (
                    "metadata.finalizers[0]",
                    'Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified',
                )
            ],
        ),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
            [
                ("metadata.ownerReferences[0].name", "Required value: must not be empty"),
                ("metadata.ownerReferences[0].uid", "Required value: must not be empty"),
            ],
        ),
        (
            {"name": "a", "annotations": {"big": "x" * 262145}},
            [("metadata.annotations", "Too long: may not be more than 262144 bytes")],
        ),
        (
            {"name": "a", "labels": {"a": "-"}},
            [
                (
                    "metadata.labels",
                    'Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '
                    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
                    "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                )
            ],
        ),
        (
            {
                "name": "a",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": True}
                    for name in ("b", "c")
                ],
            },
            [
                (
                    "metadata.ownerReferences",
                    "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/b and "
                    "ConfigMap/c",
                )
            ],
        ),
    ],
)  # fmt: skip
async def test_bad_metadata_is_refused_in_kubernetes_words(
    api: Api, metadata: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    namespace = await api.namespace()
    answer = await call(api, "POST", ConfigMap.path(namespace), {"metadata": metadata})
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert [field for field, _ in answer.causes] == [field for field, _ in causes]
    for (_, found), (_, wanted) in zip(answer.causes, causes, strict=True):
        assert wanted in found
    assert answer.body["details"]["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (b"", 400, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"[]", 400, "the object provided is unrecognized (must be of type ConfigMap)"),
        ({"kind": "Foo", "apiVersion": "v1"}, 400, 'Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1"'),
        ({"kind": "ConfigMap", "apiVersion": "v2"}, 400, 'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2"'),
        ({"metadata": {"name": "a", "namespace": "other"}}, 400, "the namespace of the provided object does not match the namespace sent on the request"),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, 500, "resourceVersion should not be set on objects to be created"),
        ({"metadata": {"name": "a", "labels": {"a": 1}}}, 400, 'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string'),
    ],
)  # fmt: skip
async def test_unusable_body_is_refused(api: Api, body: Any, status: int, message: str) -> None:
    namespace = await api.namespace()
    answer = await call(api, "POST", ConfigMap.path(namespace), body)
    assert answer.status == status
    assert answer.message.startswith(message)


async def test_unknown_content_type_is_415(api: Api) -> None:
    namespace = await api.namespace()
    answer = await call(api, "POST", ConfigMap.path(namespace), b"x", type="text/plain")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
    assert answer.message.startswith(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
    )


async def test_yaml_body_is_read(api: Api) -> None:
    namespace = await api.namespace()
    body = b"metadata:\n  name: a\n  labels:\n    since: 2001-01-01\ndata:\n  text: |\n    two\n    lines\n"
    answer = await call(api, "POST", ConfigMap.path(namespace), body, type="application/yaml")
    assert answer.status == 201
    assert answer.body["data"] == {"text": "two\nlines\n"}
    assert answer.body["metadata"]["labels"] == {"since": "2001-01-01"}


async def test_dry_run_checks_but_keeps_nothing(api: Api) -> None:
    namespace = await api.namespace()
    made = await api.client.create(ConfigMap, config_map(namespace, "a"), dry_run=True)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert await api.client.find(ConfigMap, namespace, "a") is None
    await api.client.create(ConfigMap, config_map(namespace, "a"))
    with pytest.raises(AlreadyExists):
        await api.client.create(ConfigMap, config_map(namespace, "a"), dry_run=True)


async def test_bad_options_are_listed_together(api: Api) -> None:
    namespace = await api.namespace()
    answer = await call(
        api,
        "POST",
        ConfigMap.path(namespace),
        config_map(namespace, "a"),
        fieldValidation="x",
        dryRun="y",
        fieldManager="z\x01",
    )
    assert answer.status == 422
    assert answer.causes == [
        ("fieldManager", 'Invalid value: "z\\x01": invalid character U+0001 (at position 1)'),
        ("dryRun", 'Unsupported value: ["y"]: supported values: "All"'),
        ("fieldValidation", 'Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"'),
    ]


async def test_cluster_scoped_object_loses_a_namespace(api: Api) -> None:
    name = await api.namespace() + "-2"
    made = await api.client.create(Namespace, {"metadata": {"name": name, "namespace": ""}})
    assert "namespace" not in made["metadata"]
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}


async def test_body_over_three_megabytes_is_413(api: Api) -> None:
    namespace = await api.namespace()
    answer = await call(api, "POST", ConfigMap.path(namespace), config_map(namespace, "a", {"a": "x" * (3 << 20)}))
    assert answer.status == 413
    assert answer.message == "Request entity too large: limit is 3145728"


async def test_create_on_an_object_path_is_405(api: Api) -> None:
    namespace = await api.namespace()
    answer = await call(api, "POST", ConfigMap.path(namespace, "a"), config_map(namespace, "a"))
    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")


async def test_create_without_namespace_is_405(api: Api) -> None:
    answer = await call(api, "POST", "/api/v1/configmaps", config_map("default", "a"))
    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("path", "is_status"), [("/api/v1/foos", True), ("/apis/foo.example/v1/foos", False), ("/nothing", False)]
)
async def test_unknown_path_is_404(api: Api, path: str, is_status: bool) -> None:
    answer = await call(api, "GET", path)
    assert answer.status == 404
    if is_status:
        assert answer.message == "the server could not find the requested resource"
    else:
        assert answer.body == "404 page not found\n"


async def test_duplicate_owner_references_are_dropped_with_a_warning(api: Api) -> None:
    namespace = await api.namespace()
    kept = await api.client.create(ConfigMap, config_map(namespace, "owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": kept["metadata"]["uid"]}
    answer = await call(
        api, "POST", ConfigMap.path(namespace), config_map(namespace, "a", ownerReferences=[reference, reference])
    )
    assert answer.status == 201
    assert answer.body["metadata"]["ownerReferences"] == [reference]
    assert "duplicate UID(s) observed" in answer.headers["Warning"]
