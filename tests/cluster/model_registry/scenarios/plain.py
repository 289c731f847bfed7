"""Scenarios 15-27: a registry on plain Kubernetes."""

from __future__ import annotations

import json

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import finalizers_of, resource_version_of, uid_of
from modelyard.operators.model_registry.facts import FINALIZER
from tests.cluster.model_registry.scenarios.story import POSTGRES, REGISTRY, Book, Story

book = Book()
plain = book.scenario
CHILDREN: tuple[tuple[Kind, str], ...] = (
    (builtin.ServiceAccount, "mr"),
    (builtin.Service, "mr"),
    (builtin.Deployment, "mr"),
    (builtin.Role, "registry-user-mr"),
)


@plain(15)
async def a_plain_registry_has_four_children(story: Story) -> None:
    await story.start()
    uid = uid_of(await story.create())
    for kind, name in CHILDREN:
        (owner,) = (await story.yard.until(kind, name))["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (uid, True, True)
    assert finalizers_of(await story.registry()) == [FINALIZER]
    for kind in (builtin.RoleBinding, builtin.NetworkPolicy):
        assert await story.yard.names(kind) == []
    assert "mr-kube-rbac-proxy-config" not in await story.yard.names(builtin.ConfigMap)
    await story.yard.absent(builtin.ClusterRoleBinding, "mr-auth-delegator")


@plain(16)
async def the_service_has_one_plain_port(story: Story) -> None:
    await story.start()
    await story.create()
    service = await story.yard.until(builtin.Service, "mr")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["appProtocol"]) == ("http-api", 8080, "http")
    assert service["spec"]["selector"] == {"app": "mr", "component": "model-registry", "app.kubernetes.io/name": "mr"}


@plain(17)
async def mysql_is_given_by_argument(story: Story) -> None:
    await story.start()
    await story.create()
    server = await story.server()
    assert server.args == [
        "--hostname=0.0.0.0",
        "--port=8080",
        "--embedmd-database-type=mysql",
        "--embedmd-database-dsn=u:$(MYSQL_PASSWORD)@tcp(h:3306)/db?charset=utf8mb4",
    ]
    assert server.env == {"MYSQL_PASSWORD": {"secretKeyRef": {"name": "db-secret", "key": "pw"}}}


@plain(18)
async def an_external_postgres_is_used_as_it_is(story: Story) -> None:
    await story.start()
    await story.create(postgres=POSTGRES)
    server = await story.server()
    assert server.args[3].endswith("@pg:5432/db?sslmode=disable")
    await story.yard.absent(builtin.Deployment, "mr-postgres")
    await story.yard.absent(builtin.NetworkPolicy, "mr-postgres")


@plain(19)
async def the_databases_ca_is_mounted(story: Story) -> None:
    await story.start()
    tls = {"sslMode": "verify-full", "sslRootCertificateConfigMap": {"name": "cm", "key": "ca.crt"}}
    await story.create(postgres={**POSTGRES, **tls})
    server = await story.server()
    assert "--embedmd-database-ssl-root-cert=/etc/postgres_ssl_rootcert/ca.crt" in server.args
    volume = server.volumes["postgres-ssl-rootcert"]["configMap"]
    assert (volume["name"], volume["defaultMode"]) == ("cm", 384)
    assert server.mounts["/etc/postgres_ssl_rootcert"]["readOnly"]


@plain(20)
async def the_service_is_described_like_the_registry(story: Story) -> None:
    described = {"openshift.io/display-name": "Shop", "openshift.io/description": "Models of the shop"}
    await story.start()
    await story.create(annotations=described)
    service = await story.yard.until(builtin.Service, "mr")
    assert service["metadata"]["annotations"].items() >= described.items()

    def bare(registry: Object) -> None:
        del registry["metadata"]["annotations"]

    def is_bare(service: Object) -> bool:
        return not described.keys() & (service["metadata"].get("annotations") or {}).keys()

    await story.yard.edit(REGISTRY, "mr", bare)
    await story.yard.until(builtin.Service, "mr", is_bare)


@plain(21)
async def resources_have_defaults(story: Story) -> None:
    await story.start()
    await story.create()
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}
    assert (await story.server()).container["resources"] == resources
    status = await story.status()
    assert json.loads(status["specDefaults"]) == {
        "rest": {"image": "quay.io/opendatahub/model-registry:latest", "resources": resources}
    }
    assert " " not in status["specDefaults"]


@plain(22)
async def a_ready_registry_is_available(story: Story) -> None:
    await story.start()
    await story.create()
    await story.make_ready()
    await story.condition("Available", status="True", reason="DeploymentAvailable", message="Deployment is available")
    await story.condition("Progressing", status="False", reason="CreatedDeployment")
    status = await story.status()
    hosts = [f"mr.{story.namespace}.svc.cluster.local", f"mr.{story.namespace}", "mr"]
    assert (status["hosts"], status["hostsStr"]) == (hosts, ",".join(hosts))


@plain(23)
async def a_deployment_that_says_nothing_is_unavailable(story: Story) -> None:
    await story.start()
    await story.create()
    await story.says("Available", "Deployment is unavailable:", status="False", reason="DeploymentUnavailable")


@plain(24)
async def a_deployment_cools_down(story: Story) -> None:
    await story.start()
    await story.create()
    await story.pod()
    await story.endpoints()
    await story.deployment_up(since=story.soon())
    await story.condition(
        "Available", status="False", reason="DeploymentCooldown", message="Deployment only recently available"
    )
    await story.yard.pass_time(6)
    await story.condition("Available", status="True")


@plain(25)
async def drift_is_repaired(story: Story) -> None:
    await story.start()
    await story.create()
    await story.yard.until(builtin.Deployment, "mr")
    await story.yard.edit(builtin.Deployment, "mr", lambda deployment: deployment["spec"].update(replicas=3))
    await story.yard.until(builtin.Deployment, "mr", lambda deployment: deployment["spec"]["replicas"] == 1)
    gone = uid_of(await story.yard.get(builtin.Service, "mr"))
    await story.yard.delete(builtin.Service, "mr")
    if gone.startswith("uid-"):
        await story.yard.until(builtin.Service, "mr")
    else:
        await story.yard.until(builtin.Service, "mr", lambda service: uid_of(service) != gone)


@plain(26)
async def a_foreign_label_is_left_alone(story: Story) -> None:
    await story.start()
    await story.create()
    await story.yard.until(builtin.Service, "mr")
    await story.yard.quiet()
    edited = await story.yard.edit(builtin.Service, "mr", lambda service: service["metadata"]["labels"].update(x="y"))
    after = await story.yard.get(builtin.Service, "mr")
    assert resource_version_of(after) == resource_version_of(edited)
    assert after["metadata"]["labels"]["x"] == "y"


@plain(27, needs_api=True)
async def a_deployment_with_another_selector_is_replaced(story: Story) -> None:
    registry = await story.create()
    reference = {
        "apiVersion": REGISTRY.api_version,
        "kind": REGISTRY.kind,
        "name": "mr",
        "uid": uid_of(registry),
        "controller": True,
    }
    labels = {"app": "other"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    old = await story.yard.create(
        builtin.Deployment,
        "mr",
        labels={"app.kubernetes.io/created-by": "model-registry-operator"},
        ownerReferences=[reference],
        spec={"selector": {"matchLabels": labels}, "template": template},
    )
    await story.start()
    new = await story.yard.until(builtin.Deployment, "mr", lambda deployment: uid_of(deployment) != uid_of(old))
    assert new["spec"]["selector"]["matchLabels"]["app"] == "mr"
