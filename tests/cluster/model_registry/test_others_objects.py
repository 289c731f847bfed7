"""Objects that others make, keep or delete, on an API server: Secrets, accounts and bindings with a registry's names."""

from __future__ import annotations

import base64
from collections.abc import Callable

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, name_of
from modelyard.operators.parts.references import CONFIG_DIGEST
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_registry.scenarios.gateway import begin
from tests.cluster.model_registry.scenarios.scene import GENERATED, POSTGRES, REGISTRY, RegistryScene
from tests.cluster.stories import Server
from tests.ground import ApiGround

CREDENTIALS = "mr-postgres-credentials"


def encoded(**values: str) -> Object:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


async def test_a_server_outlives_the_secret_it_has_read(scene: RegistryScene) -> None:
    await scene.ground.create(builtin.Secret, "db-secret", data=encoded(pw="a/b#c"))
    await scene.start()
    await scene.create(postgres=POSTGRES)
    await scene.make_ready()
    await scene.condition("Available", status="True")
    before = (await scene.server()).template
    assert CONFIG_DIGEST in before["metadata"]["annotations"]
    await scene.ground.delete(builtin.Secret, "db-secret")
    await scene.says("ReferencesFound", "Secret db-secret does not exist: create it with the key pw", status="False")
    assert (await scene.server()).template == before
    await scene.condition("Available", status="True")
    await scene.ground.create(builtin.Secret, "db-secret", data=encoded(pw="a/b#c"))
    await scene.ground.until(
        builtin.Deployment, "mr", lambda deployment: Server(deployment, "rest-container").template == before
    )
    await scene.ground.quiet()
    assert "ReferencesFound" not in {one["type"] for one in (await scene.status())["conditions"]}


async def test_credentials_made_beforehand_are_used(scene: RegistryScene) -> None:
    data = encoded(username="ann", password="chosen")
    await scene.ground.create(builtin.Secret, CREDENTIALS, data=data)
    await scene.start()
    await scene.create(postgres={**GENERATED, "username": "ann", "database": "shop"})
    server = await scene.server()
    assert server.args[3].endswith("postgresql://ann:$(POSTGRES_PASSWORD)@mr-postgres:5432/shop")
    await scene.ground.until(builtin.Deployment, "mr-postgres")
    kept = await scene.ground.get(builtin.Secret, CREDENTIALS)
    assert (kept["data"], kept["metadata"].get("ownerReferences")) == (data, None)


async def test_a_registry_does_not_run_as_a_foreign_account(scene: RegistryScene) -> None:
    await scene.ground.create(builtin.ServiceAccount, "deployer")
    await scene.start()
    await scene.create("deployer", kubeRBACProxy={})
    await scene.says("Available", "nothing is started: a ServiceAccount named deployer exists", "deployer")
    await scene.ground.absent(builtin.Deployment, "deployer")
    await scene.ground.absent(builtin.ClusterRoleBinding, f"deployer-auth-delegator.{scene.namespace}")
    # Whose the account is does not change, and once it is away the registry gets one of its own.
    account = await scene.ground.get(builtin.ServiceAccount, "deployer")
    assert not account["metadata"].get("ownerReferences")
    await scene.ground.delete(builtin.ServiceAccount, "deployer")
    await scene.ground.until(builtin.Deployment, "deployer")


async def test_registries_of_one_name_in_two_namespaces_have_a_binding_each(scene: RegistryScene) -> None:
    other = f"{scene.namespace}-b"
    await scene.ground.create(builtin.Namespace, other)
    # Without webhooks: with them a second registry of this name is refused.
    await scene.start(anywhere=True)
    for namespace in (scene.namespace, other):
        await scene.create(namespace=namespace, kubeRBACProxy={})
        binding = await scene.ground.until(builtin.ClusterRoleBinding, f"mr-auth-delegator.{namespace}")
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mr", "namespace": namespace}]
    await scene.ground.quiet()
    assert isinstance(scene.ground, ApiGround)
    bindings = (await scene.ground.client.list(builtin.ClusterRoleBinding)).items
    assert len([one for one in bindings if name_of(one).startswith("mr-auth-delegator")]) == 2


async def test_the_end_waits_for_a_route_that_someone_holds_and_names_it(scene: RegistryScene) -> None:
    routes, name = await begin(scene), "model-registry-mr"

    def held(*finalizers: str) -> Callable[[Object], None]:
        return lambda route: route["metadata"].update(finalizers=list(finalizers))

    await scene.ground.until(builtin.HTTPRoute, name, namespace=routes)
    await scene.ground.edit(builtin.HTTPRoute, name, held("example.com/hold"), namespace=routes)
    await scene.ground.delete(REGISTRY, "mr")
    waiting = f"waiting for HTTPRoute {routes}/{name} to be gone, which its finalizers example.com/hold hold"

    def told(registry: Object) -> bool:
        found = find_condition(conditions_of(registry), "Degraded") or {}
        return (found.get("status"), found.get("reason")) == ("Unknown", "Finalizing") and waiting in found["message"]

    try:
        await scene.ground.until(REGISTRY, "mr", told)
        await scene.ground.quiet()
        assert await scene.ground.find(REGISTRY, "mr") is not None
    finally:
        await scene.ground.edit(builtin.HTTPRoute, name, held(), namespace=routes)
    await scene.ground.gone(REGISTRY, "mr")
    assert await scene.ground.find(builtin.HTTPRoute, name, namespace=routes) is None


async def test_the_policy_of_an_image_that_is_taken_back_is_the_default_images(scene: RegistryScene) -> None:
    """The API fills a policy in only once, and keeps it when the image changes: so we always say it."""

    def policy(deployment: Object) -> str:
        return str(Server(deployment, "rest-container").container["imagePullPolicy"])

    await scene.start()
    await scene.create(rest={"image": "example.com/mine:1"})
    await scene.ground.until(builtin.Deployment, "mr", lambda found: policy(found) == "IfNotPresent")
    await scene.edit(rest={})
    await scene.ground.until(builtin.Deployment, "mr", lambda found: policy(found) == "Always")


async def test_empty_resources_are_a_choice_and_none_get_the_defaults(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(rest={"resources": {}})
    assert (await scene.server()).container.get("resources") in (None, {})
    assert "resources" not in (await scene.status())["specDefaults"]
    await scene.edit(rest={})
    await scene.ground.until(
        builtin.Deployment, "mr", lambda found: "requests" in Server(found, "rest-container").container["resources"]
    )


async def test_a_long_refusal_is_told_from_its_start(scene: RegistryScene) -> None:
    assert isinstance(scene.ground, ApiGround)

    def forbid(request: AdmissionRequest) -> Denied | None:
        return Denied("no quota: " + "x" * 40_000, code=400) if request.namespace == scene.namespace else None

    hook = Webhook(
        "forbid.example.com", "validating", "/forbid", forbid, kinds=(builtin.Deployment,), operations=("CREATE",)
    )
    await scene.start()
    await scene.ground.serve_webhooks(Operator("forbidding", "", "", [], webhooks=[hook]))
    await scene.create()
    start = (
        'unexpected reconcile error: Deployment mr: admission webhook "forbid.example.com" denied the request: no quota'
    )
    await scene.says("Available", start, status="False")
