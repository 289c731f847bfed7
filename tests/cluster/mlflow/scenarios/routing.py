"""Scenarios 40-50: reconciling, routing, and the end."""

from __future__ import annotations

from base64 import b64encode

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import owners_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.parts.network import BackendTLSPolicy
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.scene import JOB, Book, MLflowScene, Server

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


async def with_everything(scene: MLflowScene) -> None:
    """A settled MLflow that has every child there is."""
    kinds = (builtin.HTTPRoute, BackendTLSPolicy, builtin.ConsoleLink, builtin.ServiceMonitor)
    ca = b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    await scene.ground.create(builtin.Secret, "mlflow-tls", data={"tls.crt": ca, "tls.key": "eA==", "ca.crt": ca})
    await scene.start(*kinds, url="https://gw.example.com", url_configured=True)
    await scene.settled(garbageCollection=GC, traceArchival=ARCHIVAL, storage={})


TEMPLATE: Object = {"spec": {"containers": [{"name": "theirs", "image": "x"}], "restartPolicy": "Never"}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"}
FOREIGN: dict[Kind, Object] = {
    builtin.CronJob: {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    builtin.ServiceAccount: {},
    builtin.ConfigMap: {"data": {"a": "b"}},
    builtin.ClusterRole: {"rules": []},
    builtin.ClusterRoleBinding: {"roleRef": ROLE, "subjects": []},
}


async def namesakes_stay(scene: MLflowScene, labels: dict[str, str]) -> None:
    """What someone else made under the names of gc and archival is left alone while these are off (Q9)."""
    places = (*GC_OBJECTS, *ARCHIVAL_OBJECTS)
    made = [await scene.ground.create(kind, name, labels=labels, **FOREIGN[kind]) for kind, name in places]
    await scene.start()
    await scene.settled()
    assert [await scene.ground.get(kind, name) for kind, name in places] == made
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await scene.ground.gone(builtin.Deployment, "mlflow")
    assert [await scene.ground.get(kind, name) for kind, name in places] == made


@routing(40)
async def without_a_gateway_there_is_only_the_address(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    status = await scene.status()
    assert not status.get("url")
    assert status["address"] == {"url": f"https://mlflow.{scene.namespace}.svc:8443/mlflow"}


@routing(41)
async def a_gateway_gives_an_http_route_and_a_url(scene: MLflowScene) -> None:
    await scene.start(builtin.HTTPRoute, url="https://gw.example.com", url_configured=True)
    await scene.settled()
    spec = (await scene.ground.get(builtin.HTTPRoute, "mlflow"))["spec"]
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
    assert (await scene.status())["url"] == "https://gw.example.com/mlflow"


@routing(42)
async def a_console_gives_a_link(scene: MLflowScene) -> None:
    url = "https://gw.example.com/"
    await scene.start(builtin.ConsoleLink, url=url, url_configured=True, section_title="Data science")
    await scene.settled()
    spec = (await scene.ground.get(builtin.ConsoleLink, "mlflow"))["spec"]
    assert (spec["text"], spec["location"]) == ("MLflow", "ApplicationMenu")
    assert spec["applicationMenu"]["section"] == "Data science"
    assert spec["applicationMenu"]["imageURL"].startswith("data:image/svg+xml;base64,")
    assert spec["href"] == "https://gw.example.com/mlflow"


@routing(43)
async def a_missing_ca_bundle_is_said_and_waited_for(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(caBundleConfigMap={"name": "nope"})
    message = f'CA bundle ConfigMap "nope" not found in namespace "{scene.namespace}"'
    await scene.condition("Available", status="False", reason="CABundleConfigMapError", message=message)
    await scene.ground.absent(builtin.Deployment, "mlflow")
    await scene.ground.create(builtin.ConfigMap, "nope", data={"ca.crt": "x"})
    server = Server(await scene.ground.until(builtin.Deployment, "mlflow"))
    assert server.volumes["ca-bundle-0"]["configMap"]["name"] == "nope"
    await scene.condition("Available", status="False", reason="MigrationRunning")
    await scene.condition("Progressing", status="True", reason="MigrationRunning")
    await scene.migrate()
    await scene.condition("Available", status="True", reason="DeploymentReady")


@routing(44)
async def an_edited_deployment_is_put_right(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    image = scene.settings.image

    def stomp(deployment: Object) -> None:
        deployment["spec"]["replicas"] = 7
        Server(deployment).container["image"] = "evil"

    await scene.ground.edit(builtin.Deployment, "mlflow", stomp)
    await scene.ground.until(
        builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1 and Server(d).container["image"] == image
    )


@routing(45)
async def the_cluster_role_is_restored(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    rules = (await scene.ground.get(builtin.ClusterRole, "mlflow"))["rules"]
    await scene.ground.edit(builtin.ClusterRole, "mlflow", lambda role: role.update(rules=[]))
    await scene.ground.until(builtin.ClusterRole, "mlflow", lambda role: role.get("rules") == rules)
    await scene.ground.delete(builtin.ClusterRole, "mlflow")
    await scene.ground.until(builtin.ClusterRole, "mlflow", lambda role: role.get("rules") == rules)


@routing(46)
async def what_is_turned_off_is_removed(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(garbageCollection=GC, traceArchival=ARCHIVAL)
    for kind, name in (*GC_OBJECTS, *ARCHIVAL_OBJECTS):
        await scene.ground.until(kind, name)
    await scene.edit(garbageCollection=None)
    for kind, name in GC_OBJECTS:
        await scene.ground.gone(kind, name)
    for off in ({**ARCHIVAL, "enabled": False}, None):
        await scene.edit(traceArchival=ARCHIVAL)
        for kind, name in ARCHIVAL_OBJECTS:
            await scene.ground.until(kind, name)
        await scene.edit(traceArchival=off)
        for kind, name in ARCHIVAL_OBJECTS:
            await scene.ground.gone(kind, name)
        subjects = (await scene.ground.get(builtin.ClusterRoleBinding, "mlflow"))["subjects"]
        assert [subject["name"] for subject in subjects] == ["mlflow-sa"]
        server = await scene.server()
        assert "trace-archival-config" not in server.volumes
        assert "MLFLOW_TRACE_ARCHIVAL_CONFIG" not in server.env


@routing(47)
async def the_platforms_ca_bundle_comes_and_goes(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.ground.create(builtin.ConfigMap, "odh-trusted-ca-bundle", data={"ca-bundle.crt": "y"})
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: "initContainers" in Server(d).pod)
    await scene.ground.delete(builtin.ConfigMap, "odh-trusted-ca-bundle")
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: not Server(d).pod.get("initContainers"))


@routing(48)
async def availability_follows_the_deployment(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(replicas=2)
    message = "MLflow deployment not ready: 0/2 replicas ready"
    await scene.ground.deployment_has("mlflow", 2, ready=0)
    await scene.condition("Available", status="False", reason="DeploymentNotReady", message=message)
    await scene.condition("Progressing", status="True", reason="DeploymentProgressing", message=message)
    await scene.ground.deployment_has("mlflow", 2)
    await scene.condition("Available", status="True", reason="DeploymentReady")
    await scene.condition("Progressing", status="False", reason="ReconcileComplete")


@routing(49)
async def every_child_names_its_owner(scene: MLflowScene) -> None:
    await with_everything(scene)
    uid = (await scene.resource())["metadata"]["uid"]
    for kind, name in EVERYTHING:
        (owner,) = owners_of(await scene.ground.get(kind, name))
        assert (owner["kind"], owner["uid"], owner.get("controller")) == ("MLflow", uid, True), (kind, name)
    (shared,) = owners_of(await scene.ground.get(builtin.ClusterRole, "mlflow"))
    assert (shared["uid"], shared.get("controller")) == (uid, None)
    # The volume outlives its MLflow, so it has no owner that would take it along.
    assert not owners_of(await scene.ground.get(builtin.PersistentVolumeClaim, "mlflow-pvc"))


@routing(50)
async def deleting_the_mlflow_deletes_all_but_the_data(scene: MLflowScene) -> None:
    await with_everything(scene)
    everything = (*EVERYTHING, (builtin.ClusterRole, "mlflow"))
    for kind, name in everything:
        await scene.ground.get(kind, name)
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    for kind, name in everything:
        await scene.ground.gone(kind, name)
    kept = await scene.ground.get(builtin.PersistentVolumeClaim, "mlflow-pvc")
    await scene.create(storage={})
    await scene.ground.until(builtin.Deployment, "mlflow")
    adopted = await scene.ground.get(builtin.PersistentVolumeClaim, "mlflow-pvc")
    assert adopted["metadata"]["uid"] == kept["metadata"]["uid"]
