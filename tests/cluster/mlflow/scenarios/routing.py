"""Scenarios 40-50: reconciling, routing, and the end."""

from __future__ import annotations

from base64 import b64encode

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import owners_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.parts.network import BackendTLSPolicy
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.story import JOB, Book, Server, Story

book = Book()
routing = book.scenario
GC_OBJECTS = (
    (builtin.CronJob, "mlflow-gc"),
    (builtin.ServiceAccount, "mlflow-gc-sa"),
    (builtin.ClusterRoleBinding, "mlflow-gc"),
    (builtin.ClusterRole, "mlflow-gc"),
)
ARCHIVAL_OBJECTS = (
    (builtin.CronJob, "mlflow-trace-archival"),
    (builtin.ServiceAccount, "mlflow-trace-archival-sa"),
    (builtin.ConfigMap, "mlflow-trace-archival-config"),
)
SERVER_OBJECTS = (
    (builtin.Deployment, "mlflow"),
    (builtin.Service, "mlflow"),
    (builtin.ServiceAccount, "mlflow-sa"),
    (builtin.NetworkPolicy, "mlflow"),
    (builtin.NetworkPolicy, "mlflow-migration"),
    (builtin.ClusterRoleBinding, "mlflow"),
    (builtin.Job, JOB),
)
PLATFORM_OBJECTS = (
    (builtin.HTTPRoute, "mlflow"),
    (BackendTLSPolicy, "mlflow"),
    (builtin.ConfigMap, "mlflow-serving-ca"),
    (builtin.ConsoleLink, "mlflow"),
    (builtin.ServiceMonitor, "mlflow-metrics-monitor"),
)
EVERYTHING = (*SERVER_OBJECTS, *GC_OBJECTS, *ARCHIVAL_OBJECTS, *PLATFORM_OBJECTS)


async def with_everything(story: Story) -> None:
    """A settled MLflow that has every child there is."""
    kinds = (builtin.HTTPRoute, BackendTLSPolicy, builtin.ConsoleLink, builtin.ServiceMonitor)
    ca = b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    await story.yard.create(builtin.Secret, "mlflow-tls", data={"tls.crt": ca, "tls.key": "eA==", "ca.crt": ca})
    await story.start(*kinds, url="https://gw.example.com", url_configured=True)
    await story.settled(garbageCollection=GC, traceArchival=ARCHIVAL, storage={})


TEMPLATE: Object = {"spec": {"containers": [{"name": "theirs", "image": "x"}], "restartPolicy": "Never"}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"}
FOREIGN: dict[Kind, Object] = {
    builtin.CronJob: {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    builtin.ServiceAccount: {},
    builtin.ConfigMap: {"data": {"a": "b"}},
    builtin.ClusterRole: {"rules": []},
    builtin.ClusterRoleBinding: {"roleRef": ROLE, "subjects": []},
}


async def namesakes_stay(story: Story, labels: dict[str, str]) -> None:
    """What someone else made under the names of gc and archival is left alone while these are off (Q9)."""
    places = (*GC_OBJECTS, *ARCHIVAL_OBJECTS)
    made = [await story.yard.create(kind, name, labels=labels, **FOREIGN[kind]) for kind, name in places]
    await story.start()
    await story.settled()
    assert [await story.yard.get(kind, name) for kind, name in places] == made
    await story.yard.delete(MLFLOW.kind, "mlflow")
    await story.yard.gone(builtin.Deployment, "mlflow")
    assert [await story.yard.get(kind, name) for kind, name in places] == made


@routing(40)
async def without_a_gateway_there_is_only_the_address(story: Story) -> None:
    await story.start()
    await story.settled()
    status = await story.status()
    assert not status.get("url")
    assert status["address"] == {"url": f"https://mlflow.{story.namespace}.svc:8443/mlflow"}


@routing(41)
async def a_gateway_gives_an_http_route_and_a_url(story: Story) -> None:
    await story.start(builtin.HTTPRoute, url="https://gw.example.com", url_configured=True)
    await story.settled()
    spec = (await story.yard.get(builtin.HTTPRoute, "mlflow"))["spec"]
    (parent,) = spec["parentRefs"]
    assert (parent["name"], parent["namespace"]) == ("data-science-gateway", "openshift-ingress")
    rewritten, plain = spec["rules"]
    assert rewritten["matches"] == [{"path": {"type": "PathPrefix", "value": "/mlflow/v1"}}]
    (rewrite,) = rewritten["filters"]
    assert rewrite["urlRewrite"]["path"] == {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}
    assert plain["matches"] == [{"path": {"type": "PathPrefix", "value": "/mlflow"}}]
    for rule in (rewritten, plain):
        (backend,) = rule["backendRefs"]
        assert (backend["name"], backend["port"], backend["weight"]) == ("mlflow", 8443, 1)
    assert (await story.status())["url"] == "https://gw.example.com/mlflow"


@routing(42)
async def a_console_gives_a_link(story: Story) -> None:
    url = "https://gw.example.com/"
    await story.start(builtin.ConsoleLink, url=url, url_configured=True, section_title="Data science")
    await story.settled()
    spec = (await story.yard.get(builtin.ConsoleLink, "mlflow"))["spec"]
    assert (spec["text"], spec["location"]) == ("MLflow", "ApplicationMenu")
    assert spec["applicationMenu"]["section"] == "Data science"
    assert spec["applicationMenu"]["imageURL"].startswith("data:image/svg+xml;base64,")
    assert spec["href"] == "https://gw.example.com/mlflow"


@routing(43)
async def a_missing_ca_bundle_is_said_and_waited_for(story: Story) -> None:
    await story.start()
    await story.create(caBundleConfigMap={"name": "nope"})
    message = f'CA bundle ConfigMap "nope" not found in namespace "{story.namespace}"'
    await story.condition("Available", status="False", reason="CABundleConfigMapError", message=message)
    await story.yard.absent(builtin.Deployment, "mlflow")
    await story.yard.create(builtin.ConfigMap, "nope", data={"ca.crt": "x"})
    server = Server(await story.yard.until(builtin.Deployment, "mlflow"))
    assert server.volumes["ca-bundle-0"]["configMap"]["name"] == "nope"
    await story.condition("Available", status="False", reason="MigrationRunning")
    await story.condition("Progressing", status="True", reason="MigrationRunning")
    await story.migrate()
    await story.condition("Available", status="True", reason="DeploymentReady")


@routing(44)
async def an_edited_deployment_is_put_right(story: Story) -> None:
    await story.start()
    await story.settled()
    image = story.settings.image

    def stomp(deployment: Object) -> None:
        deployment["spec"]["replicas"] = 7
        Server(deployment).container["image"] = "evil"

    await story.yard.edit(builtin.Deployment, "mlflow", stomp)
    await story.yard.until(
        builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1 and Server(d).container["image"] == image
    )


@routing(45)
async def the_cluster_role_is_restored(story: Story) -> None:
    await story.start()
    await story.settled()
    rules = (await story.yard.get(builtin.ClusterRole, "mlflow"))["rules"]
    await story.yard.edit(builtin.ClusterRole, "mlflow", lambda role: role.update(rules=[]))
    await story.yard.until(builtin.ClusterRole, "mlflow", lambda role: role.get("rules") == rules)
    await story.yard.delete(builtin.ClusterRole, "mlflow")
    await story.yard.until(builtin.ClusterRole, "mlflow", lambda role: role.get("rules") == rules)


@routing(46)
async def what_is_turned_off_is_removed(story: Story) -> None:
    await story.start()
    await story.settled(garbageCollection=GC, traceArchival=ARCHIVAL)
    for kind, name in (*GC_OBJECTS, *ARCHIVAL_OBJECTS):
        await story.yard.until(kind, name)
    await story.edit(garbageCollection=None)
    for kind, name in GC_OBJECTS:
        await story.yard.gone(kind, name)
    for off in ({**ARCHIVAL, "enabled": False}, None):
        await story.edit(traceArchival=ARCHIVAL)
        for kind, name in ARCHIVAL_OBJECTS:
            await story.yard.until(kind, name)
        await story.edit(traceArchival=off)
        for kind, name in ARCHIVAL_OBJECTS:
            await story.yard.gone(kind, name)
        subjects = (await story.yard.get(builtin.ClusterRoleBinding, "mlflow"))["subjects"]
        assert [subject["name"] for subject in subjects] == ["mlflow-sa"]
        server = await story.server()
        assert "trace-archival-config" not in server.volumes
        assert "MLFLOW_TRACE_ARCHIVAL_CONFIG" not in server.env


@routing(47)
async def the_platforms_ca_bundle_comes_and_goes(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.yard.create(builtin.ConfigMap, "odh-trusted-ca-bundle", data={"ca-bundle.crt": "y"})
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: "initContainers" in Server(d).pod)
    await story.yard.delete(builtin.ConfigMap, "odh-trusted-ca-bundle")
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: not Server(d).pod.get("initContainers"))


@routing(48)
async def availability_follows_the_deployment(story: Story) -> None:
    await story.start()
    await story.settled(replicas=2)
    message = "MLflow deployment not ready: 0/2 replicas ready"
    await story.yard.deployment_has("mlflow", 2, ready=0)
    await story.condition("Available", status="False", reason="DeploymentNotReady", message=message)
    await story.condition("Progressing", status="True", reason="DeploymentProgressing", message=message)
    await story.yard.deployment_has("mlflow", 2)
    await story.condition("Available", status="True", reason="DeploymentReady")
    await story.condition("Progressing", status="False", reason="ReconcileComplete")


@routing(49)
async def every_child_names_its_owner(story: Story) -> None:
    await with_everything(story)
    uid = (await story.mlflow())["metadata"]["uid"]
    for kind, name in EVERYTHING:
        (owner,) = owners_of(await story.yard.get(kind, name))
        assert (owner["kind"], owner["uid"], owner.get("controller")) == ("MLflow", uid, True), (kind, name)
    (shared,) = owners_of(await story.yard.get(builtin.ClusterRole, "mlflow"))
    assert (shared["uid"], shared.get("controller")) == (uid, None)
    # The volume outlives its MLflow, so it has no owner that would take it along.
    assert not owners_of(await story.yard.get(builtin.PersistentVolumeClaim, "mlflow-pvc"))


@routing(50)
async def deleting_the_mlflow_deletes_all_but_the_data(story: Story) -> None:
    await with_everything(story)
    everything = (*EVERYTHING, (builtin.ClusterRole, "mlflow"))
    for kind, name in everything:
        await story.yard.get(kind, name)
    await story.yard.delete(MLFLOW.kind, "mlflow")
    for kind, name in everything:
        await story.yard.gone(kind, name)
    kept = await story.yard.get(builtin.PersistentVolumeClaim, "mlflow-pvc")
    await story.create(storage={})
    await story.yard.until(builtin.Deployment, "mlflow")
    adopted = await story.yard.get(builtin.PersistentVolumeClaim, "mlflow-pvc")
    assert adopted["metadata"]["uid"] == kept["metadata"]["uid"]
