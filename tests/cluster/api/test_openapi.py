"""OpenAPI documents: what kubectl reads from them."""

from __future__ import annotations

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import call, eventually
from tests.cluster.api.definitions import definition, install, spec, version
from tests.cluster.conftest import Api


async def document(api: Api, key: str) -> Object:
    index = (await call(api, "GET", "/openapi/v3")).body["paths"]
    path, _, digest = index[key]["serverRelativeURL"].partition("?hash=")
    body: Object = (await call(api, "GET", path, hash=digest)).body
    return body


async def test_index_names_each_group_version_with_a_hash(api: Api) -> None:
    paths = (await call(api, "GET", "/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/apiextensions.k8s.io/v1"} <= set(paths)
    assert paths["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")


async def test_kind_is_found_by_path_and_schema(api: Api) -> None:
    body = await document(api, "apis/apps/v1")
    assert body["openapi"] == "3.0.0"
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    item = body["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert item["get"]["x-kubernetes-group-version-kind"] == kind
    assert item["patch"]["x-kubernetes-action"] == "patch"
    schemas = body["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [kind]
    assert deployment["properties"]["spec"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}
    ]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]


async def test_patch_offers_field_validation_and_its_media_types(api: Api) -> None:
    body = await document(api, "apis/apps/v1")
    patch = body["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= {p["name"] for p in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


async def test_every_reference_can_be_followed(api: Api) -> None:
    for key in ("api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "apis/autoscaling/v2"):
        body = await document(api, key)
        names = {f"#/components/schemas/{name}" for name in body["components"]["schemas"]}
        assert set(references(body)) <= names, key


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        here = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return here + [r for child in value.values() for r in references(child)]
    return [r for child in value for r in references(child)] if isinstance(value, list) else []


async def test_definitions_come_and_go(api: Api) -> None:
    custom = await install(api, definition(version(schema=spec(size={"type": "integer"}))))
    group, kind = custom.kind.group, custom.kind.kind
    key = f"apis/{group}/v1"

    async def there() -> bool:
        return key in (await call(api, "GET", "/openapi/v3")).body["paths"]

    await eventually(there)
    body = await document(api, key)
    name = ".".join(reversed(group.split("."))) + f".v1.{kind}"
    schema = body["components"]["schemas"][name]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": group, "kind": kind, "version": "v1"}]
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer"}
    patch = body["paths"][f"/apis/{group}/v1/namespaces/{{namespace}}/{custom.kind.plural}/{{name}}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    await api.client.delete(CustomResourceDefinition, "", custom.name)

    async def gone() -> bool:
        return not await there()

    await eventually(gone)


async def test_version_two_as_json(api: Api) -> None:
    body = (await call(api, "GET", "/openapi/v2")).body
    assert body["swagger"] == "2.0"
    reference = body["definitions"]["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]["$ref"]
    assert reference == "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"
    item = body["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert item["get"]["x-kubernetes-group-version-kind"]["kind"] == "Deployment"


async def test_documents_have_etags(api: Api) -> None:
    first = await call(api, "GET", "/openapi/v3/apis/batch/v1")
    again = await api.client.transport.send(
        "GET",
        "/openapi/v3/apis/batch/v1",
        headers={"If-None-Match": first.headers["ETag"], "Accept": "application/json"},
    )
    assert again.status == 304
    await again.read()


async def custom_schema(api: Api, kind: Kind, name: str, path: str) -> Object:
    """A custom kind's schema; the real server publishes it a moment after it serves the kind."""
    found: Object = {}

    async def published() -> bool:
        body = (await call(api, "GET", path)).body
        schemas = body.get("definitions") or body.get("components", {}).get("schemas") or {} if body else {}
        found.update(schemas)
        return any(key.endswith(f".{kind.kind}") for key in schemas)

    await eventually(published)
    return found if not name else next(schema for key, schema in found.items() if key.endswith(name))


async def test_what_every_object_has_is_described(api: Api) -> None:
    kind = (await install(api, definition())).kind
    found = await custom_schema(api, kind, "", f"/openapi/v3/apis/{kind.api_version}")
    [schema] = [s for name, s in found.items() if name.endswith(f".{kind.kind}")]
    assert schema["properties"]["apiVersion"]["description"].startswith("APIVersion defines")
    assert "Standard object's metadata" in schema["properties"]["metadata"]["description"]
    metadata = found["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert metadata["creationTimestamp"]["description"].startswith("CreationTimestamp is a timestamp")


OPEN = {"x-kubernetes-preserve-unknown-fields": True}
PARTS: Object = {
    "open": {"type": "object", "description": "anything", **OPEN, "properties": {"a": {"type": "string"}}},
    "maybe": {"type": "string", "nullable": True},
    "either": {"x-kubernetes-int-or-string": True},
    "checked": {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]},
}


async def test_the_old_document_leaves_open_what_it_has_no_words_for(api: Api) -> None:
    kind = (await install(api, definition(version("v1", spec(**PARTS))))).kind
    schema = await custom_schema(api, kind, f".{kind.kind}", "/openapi/v2")
    assert schema["properties"]["spec"]["properties"] == {
        "open": {"description": "anything", **OPEN},
        "maybe": {},
        "either": {"x-kubernetes-int-or-string": True},
        "checked": {"type": "object", "properties": {"a": {"type": "string"}}},
    }


async def test_the_new_document_spells_extensions_out(api: Api) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, **OPEN}
    kind = (await install(api, definition(version("v1", spec(embedded=embedded, **PARTS))))).kind
    schema = await custom_schema(api, kind, f".{kind.kind}", f"/openapi/v3/apis/{kind.api_version}")
    found = schema["properties"]["spec"]["properties"]
    assert found["open"] == PARTS["open"]
    assert found["either"] == PARTS["either"] | {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert found["embedded"]["required"] == ["kind", "apiVersion"]
    assert set(found["embedded"]["properties"]) == {"apiVersion", "kind", "metadata"}


async def test_a_kind_that_is_open_at_its_root_is_an_object_and_no_more_in_the_old_document(api: Api) -> None:
    open_version = version() | {"schema": {"openAPIV3Schema": {"type": "object", **OPEN}}}
    kind = (await install(api, definition(open_version))).kind
    schema = await custom_schema(api, kind, f".{kind.kind}", "/openapi/v2")
    entry = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    assert schema == {"type": "object", "x-kubernetes-group-version-kind": [entry]}
