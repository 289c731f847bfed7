"""Scenarios 15-27: a registry on plain Kubernetes."""

from __future__ import annotations

import json

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import finalizers_of, resource_version_of, uid_of
from modelyard.operators.model_registry.facts import FINALIZER
from tests.cluster.model_registry.scenarios.scene import POSTGRES, REGISTRY, Book, RegistryScene

book = Book()
plain = book.scenario
CHILDREN: tuple[tuple[Kind, str], ...] = (
    (builtin.ServiceAccount, "mr"),
    (builtin.Service, "mr"),
    (builtin.Deployment, "mr"),
    (builtin.Role, "registry-user-mr"),
)


@plain(15)
async def a_plain_registry_has_four_children(scene: RegistryScene) -> None:
    await scene.start()
    uid = uid_of(await scene.create())
    for kind, name in CHILDREN:
        (owner,) = (await scene.ground.until(kind, name))["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (uid, True, True)
    assert finalizers_of(await scene.resource()) == [FINALIZER]
    for kind in (builtin.RoleBinding, builtin.NetworkPolicy):
        assert await scene.ground.names(kind) == []
    assert "mr-kube-rbac-proxy-config" not in await scene.ground.names(builtin.ConfigMap)
    await scene.ground.absent(builtin.ClusterRoleBinding, scene.delegator)


@plain(16)
async def the_service_has_one_plain_port(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    service = await scene.ground.until(builtin.Service, "mr")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["appProtocol"]) == ("http-api", 8080, "http")
    assert service["spec"]["selector"] == {"app": "mr", "component": "model-registry", "app.kubernetes.io/name": "mr"}


@plain(17)
async def mysql_is_given_by_argument(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    server = await scene.server()
    assert server.args == [
        "--hostname=0.0.0.0",
        "--port=8080",
        "--embedmd-database-type=mysql",
        "--embedmd-database-dsn=u:$(MYSQL_PASSWORD)@tcp(h:3306)/db?charset=utf8mb4",
    ]
    assert server.env == {"MYSQL_PASSWORD": {"secretKeyRef": {"name": "db-secret", "key": "pw"}}}


@plain(18)
async def an_external_postgres_is_used_as_it_is(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(postgres=POSTGRES)
    server = await scene.server()
    assert server.args[3].endswith("@pg:5432/db?sslmode=disable")
    await scene.ground.absent(builtin.Deployment, "mr-postgres")
    await scene.ground.absent(builtin.NetworkPolicy, "mr-postgres")


@plain(19)
async def the_databases_ca_is_mounted(scene: RegistryScene) -> None:
    await scene.start()
    tls = {"sslMode": "verify-full", "sslRootCertificateConfigMap": {"name": "cm", "key": "ca.crt"}}
    await scene.create(postgres={**POSTGRES, **tls})
    server = await scene.server()
    assert "--embedmd-database-ssl-root-cert=/etc/postgres_ssl_rootcert/ca.crt" in server.args
    volume = server.volumes["postgres-ssl-rootcert"]["configMap"]
    assert (volume["name"], volume["defaultMode"]) == ("cm", 384)
    assert server.mounts["/etc/postgres_ssl_rootcert"]["readOnly"]


@plain(20)
async def the_service_is_described_like_the_registry(scene: RegistryScene) -> None:
    described = {"openshift.io/display-name": "Shop", "openshift.io/description": "Models of the shop"}
    await scene.start()
    await scene.create(annotations=described)
    service = await scene.ground.until(builtin.Service, "mr")
    assert service["metadata"]["annotations"].items() >= described.items()

    def bare(registry: Object) -> None:
        del registry["metadata"]["annotations"]

    def is_bare(service: Object) -> bool:
        return not described.keys() & (service["metadata"].get("annotations") or {}).keys()

    await scene.ground.edit(REGISTRY, "mr", bare)
    await scene.ground.until(builtin.Service, "mr", is_bare)


@plain(21)
async def resources_have_defaults(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}
    assert (await scene.server()).container["resources"] == resources
    status = await scene.status()
    assert json.loads(status["specDefaults"]) == {
        "rest": {"image": "quay.io/opendatahub/model-registry:latest", "resources": resources}
    }
    assert " " not in status["specDefaults"]


@plain(22)
async def a_ready_registry_is_available(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    await scene.make_ready()
    await scene.condition("Available", status="True", reason="DeploymentAvailable", message="Deployment is available")
    await scene.condition("Progressing", status="False", reason="CreatedDeployment")
    status = await scene.status()
    hosts = [f"mr.{scene.namespace}.svc.cluster.local", f"mr.{scene.namespace}", "mr"]
    assert (status["hosts"], status["hostsStr"]) == (hosts, ",".join(hosts))


@plain(23)
async def a_deployment_that_says_nothing_is_unavailable(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    await scene.says("Available", "Deployment is unavailable:", status="False", reason="DeploymentUnavailable")


@plain(24)
async def a_deployment_cools_down(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    await scene.pod()
    await scene.endpoints()
    await scene.deployment_up(since=scene.soon())
    await scene.condition(
        "Available", status="False", reason="DeploymentCooldown", message="Deployment only recently available"
    )
    await scene.ground.pass_time(6)
    await scene.condition("Available", status="True")


@plain(25)
async def drift_is_repaired(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Deployment, "mr")
    await scene.ground.edit(builtin.Deployment, "mr", lambda deployment: deployment["spec"].update(replicas=3))
    await scene.ground.until(builtin.Deployment, "mr", lambda deployment: deployment["spec"]["replicas"] == 1)
    gone = uid_of(await scene.ground.get(builtin.Service, "mr"))
    await scene.ground.delete(builtin.Service, "mr")
    if gone.startswith("uid-"):
        await scene.ground.until(builtin.Service, "mr")
    else:
        await scene.ground.until(builtin.Service, "mr", lambda service: uid_of(service) != gone)


@plain(26)
async def a_foreign_label_is_left_alone(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Service, "mr")
    await scene.ground.quiet()
    edited = await scene.ground.edit(builtin.Service, "mr", lambda service: service["metadata"]["labels"].update(x="y"))
    after = await scene.ground.get(builtin.Service, "mr")
    assert resource_version_of(after) == resource_version_of(edited)
    assert after["metadata"]["labels"]["x"] == "y"


@plain(27, needs_api=True)
async def a_deployment_with_another_selector_is_replaced(scene: RegistryScene) -> None:
    registry = await scene.create()
    reference = {
        "apiVersion": REGISTRY.api_version,
        "kind": REGISTRY.kind,
        "name": "mr",
        "uid": uid_of(registry),
        "controller": True,
    }
    labels = {"app": "other"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    old = await scene.ground.create(
        builtin.Deployment,
        "mr",
        labels={"app.kubernetes.io/created-by": "model-registry-operator"},
        ownerReferences=[reference],
        spec={"selector": {"matchLabels": labels}, "template": template},
    )
    await scene.start()
    new = await scene.ground.until(builtin.Deployment, "mr", lambda deployment: uid_of(deployment) != uid_of(old))
    assert new["spec"]["selector"]["matchLabels"]["app"] == "mr"
