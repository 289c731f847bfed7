"""Scenarios 9-26: what is made around a RayCluster."""

from __future__ import annotations

import json
from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, controller_of, finalizers_of, labels_of
from modelyard.kube.openshift import SERVING_CERTIFICATE
from modelyard.operators.codeflare.config import CONFIG_KEY, CONFIG_MAP
from modelyard.operators.codeflare.ray_cluster.names import CLUSTER_NAME, CLUSTER_NAMESPACE, FINALIZER, RayCluster
from modelyard.operators.codeflare.ray_cluster.observe import DSCInitialization
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.cluster.ray_cluster.scenarios.scene import OPENSHIFT, Book, RayScene, group
from tests.ground import ApiGround

book = Book()
UNGUARDED = {"rayDashboardOAuthEnabled": False, "ingressDomain": "kind"}


def is_of_demo(obj: Object) -> bool:
    owner = controller_of(obj) or {}
    return (owner.get("kind"), owner.get("name"), owner.get("controller")) == ("RayCluster", "demo", True)


@book.scenario(9)
async def a_new_cluster_gets_the_finalizer(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(RayCluster, "demo", lambda cluster: FINALIZER in finalizers_of(cluster))


@book.scenario(10)
async def on_openshift_everything_for_the_dashboard_is_made(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    ground, names = scene.ground, scene.names
    dashboard = await ground.get(builtin.Route, "ray-dashboard-demo")
    assert dashboard["spec"]["to"]["name"] == names.oauth_service
    assert dashboard["spec"]["port"] == {"targetPort": "oauth-proxy"}
    assert dashboard["spec"]["tls"] == {"termination": "reencrypt", "insecureEdgeTerminationPolicy": "Redirect"}
    client = await ground.get(builtin.Route, "rayclient-demo")
    assert client["spec"]["to"] == {"kind": "Service", "name": "demo-head-svc", "weight": 100}
    assert (client["spec"]["port"], client["spec"]["tls"]) == ({"targetPort": "client"}, {"termination": "passthrough"})
    service = await ground.get(builtin.Service, names.oauth_service)
    assert annotations_of(service)[SERVING_CERTIFICATE] == names.serving_certificate
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("oauth-proxy", 443, "oauth-proxy")
    assert service["spec"]["selector"] == {"ray.io/cluster": "demo", "ray.io/node-type": "head"}
    account = await ground.get(builtin.ServiceAccount, names.account)
    (said,) = [text for name, text in annotations_of(account).items() if "oauth-redirectreference" in name]
    assert json.loads(said)["reference"] == {"kind": "Route", "name": "ray-dashboard-demo"}
    assert (await scene.secret(names.oauth_config)).keys() == {"cookie_secret"}
    for kind in (builtin.Route, builtin.Service, builtin.ServiceAccount, builtin.Secret):
        for name in await scene.ours(kind):
            assert is_of_demo(await ground.get(kind, name)), f"{kind.kind} {name}"
    binding = await ground.get(builtin.ClusterRoleBinding, names.binding)
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": names.account, "namespace": scene.namespace}]
    expected = {CLUSTER_NAME: "demo", CLUSTER_NAMESPACE: scene.namespace}
    assert expected.items() <= labels_of(binding).items()


@book.scenario(11)
async def a_suspended_cluster_gets_no_way_in(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create(suspend=True)
    names = scene.names
    assert await scene.ours(builtin.Secret) == [names.ca]
    assert await scene.ours(builtin.NetworkPolicy) == sorted([names.head_policy, names.workers_policy])
    for kind in (builtin.Route, builtin.Service, builtin.ServiceAccount, builtin.ClusterRoleBinding):
        assert await scene.ours(kind) == []
    await scene.suspend(False)
    await scene.ground.until(builtin.Route, "ray-dashboard-demo")
    assert len(await scene.ours(builtin.Route)) == 2


@book.scenario(12)
async def what_there_is_stays_while_a_cluster_is_suspended(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    kinds = (builtin.Route, builtin.Service, builtin.ServiceAccount, builtin.Secret, builtin.ClusterRoleBinding)
    before = [await scene.ours(kind) for kind in kinds]
    await scene.suspend(True)
    assert [await scene.ours(kind) for kind in kinds] == before
    assert all(before)


@book.scenario(13)
async def elsewhere_ingresses_lead_to_a_dashboard_without_a_proxy(scene: RayScene) -> None:
    await scene.start(kuberay=UNGUARDED)
    await scene.create()
    dashboard = await scene.ground.get(builtin.Ingress, "ray-dashboard-demo")
    (rule,) = dashboard["spec"]["rules"]
    assert rule["host"] == f"ray-dashboard-demo-{scene.namespace}.kind"
    (path,) = rule["http"]["paths"]
    assert (path["path"], path["pathType"]) == ("/", "Prefix")
    assert path["backend"] == {"service": {"name": "demo-head-svc", "port": {"name": "dashboard"}}}
    assert not dashboard["spec"].get("ingressClassName")
    client = await scene.ground.get(builtin.Ingress, "rayclient-demo")
    (rule,) = client["spec"]["rules"]
    assert (client["spec"]["ingressClassName"], rule["host"]) == ("nginx", f"rayclient-demo-{scene.namespace}.kind")
    (path,) = rule["http"]["paths"]
    assert path["backend"] == {"service": {"name": "demo-head-svc", "port": {"number": 10001}}}
    said = {name.partition("/")[2]: text for name, text in annotations_of(client).items() if name.startswith("nginx")}
    assert said == {"rewrite-target": "/", "ssl-redirect": "true", "ssl-passthrough": "true"}


@book.scenario(14)
async def a_service_that_someone_changes_or_deletes_comes_back(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    name = scene.names.oauth_service
    right = (await scene.ground.get(builtin.Service, name))["spec"]["selector"]

    def is_right(service: Object) -> bool:
        return bool(service["spec"]["selector"] == right)

    await scene.ground.edit(builtin.Service, name, lambda obj: obj["spec"]["selector"].update({"ray.io/cluster": "x"}))
    await scene.ground.until(builtin.Service, name, is_right)
    await scene.ground.delete(builtin.Service, name)
    await scene.ground.until(builtin.Service, name, is_right)


@book.scenario(15)
async def the_ca_keeps_its_key_whatever_becomes_of_its_labels(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    name = scene.names.ca
    before = await scene.secret(name)
    await scene.ground.edit(builtin.Secret, name, lambda obj: obj["metadata"]["labels"].update({"team": "a"}))
    await scene.ground.edit(builtin.Secret, name, lambda obj: obj["metadata"]["labels"].pop(CLUSTER_NAME))
    after = await scene.ground.until(builtin.Secret, name, lambda obj: CLUSTER_NAME in labels_of(obj))
    assert labels_of(after)["team"] == "a"
    assert after["data"] == before


@book.scenario(16)
async def a_ca_that_is_deleted_is_followed_by_another(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    name = scene.names.ca
    before = await scene.secret(name)
    await scene.ground.delete(builtin.Secret, name)
    after = await scene.ground.until(builtin.Secret, name)
    assert after["data"]["ca.key"] != before["ca.key"]


@book.scenario(17)
async def a_binding_that_someone_changes_is_put_right(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    name = scene.names.binding
    right = (await scene.ground.get(builtin.ClusterRoleBinding, name))["subjects"]
    await scene.ground.edit(builtin.ClusterRoleBinding, name, lambda obj: obj["subjects"][0].update(name="someone"))
    await scene.ground.until(builtin.ClusterRoleBinding, name, lambda obj: obj["subjects"] == right)


@book.scenario(18, needs_api=True)
async def the_binding_goes_before_the_cluster_does(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    await scene.ground.until(builtin.ClusterRoleBinding, scene.names.binding)
    await scene.ground.delete(RayCluster, "demo")
    await scene.ground.gone(RayCluster, "demo")
    await scene.ground.gone(builtin.ClusterRoleBinding, scene.names.binding)


async def _head_without_secrets(scene: RayScene, **head: Any) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create(headGroupSpec=group("ray-head", **head))
    await scene.pod("demo-head-1", "head")
    secrets = [{"name": "puller"}]
    await scene.ground.until(builtin.ServiceAccount, scene.names.account)
    await scene.ground.edit(
        builtin.ServiceAccount, scene.names.account, lambda obj: obj.update(imagePullSecrets=secrets)
    )


@book.scenario(19)
async def a_head_without_the_secrets_of_its_account_is_made_again(scene: RayScene) -> None:
    await _head_without_secrets(scene)
    await scene.ground.gone(builtin.Pod, "demo-head-1")


@book.scenario(20)
async def a_head_with_secrets_of_its_own_stays(scene: RayScene) -> None:
    await _head_without_secrets(scene, imagePullSecrets=[{"name": "mine"}])
    await scene.ground.get(builtin.Pod, "demo-head-1")


async def kuberay_namespaces(scene: RayScene, *expected: str) -> None:
    """Those from which the head's policy admits KubeRay."""

    def admitted(policy: Object) -> list[str]:
        (peer,) = policy["spec"]["ingress"][2]["from"]
        found: list[str] = peer["namespaceSelector"]["matchExpressions"][0]["values"]
        return found

    await scene.ground.until(
        builtin.NetworkPolicy, scene.names.head_policy, lambda policy: admitted(policy) == list(expected)
    )


@book.scenario(21)
async def kuberay_is_admitted_from_where_it_runs(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    await kuberay_namespaces(scene, "ray-system")
    operator = {"app.kubernetes.io/component": "kuberay-operator"}
    await scene.ground.create(
        builtin.Pod, "kuberay", labels=operator, spec={"containers": [{"name": "manager", "image": "x"}]}
    )
    await kuberay_namespaces(scene, scene.namespace)


@book.scenario(22)
async def on_openshift_the_platform_says_where_kuberay_runs(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    await kuberay_namespaces(scene, "opendatahub", "redhat-ods-applications")
    await scene.ground.serve(DSCInitialization)
    await kuberay_namespaces(scene, "opendatahub", "redhat-ods-applications")
    await scene.ground.create(DSCInitialization, "default-dsci", spec={"applicationsNamespace": "odh-apps"})
    await kuberay_namespaces(scene, "odh-apps")


@book.scenario(23)
async def the_proxy_and_encrypted_clients_are_for_everyone(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    policy = await scene.ground.get(builtin.NetworkPolicy, scene.names.head_policy)
    last = policy["spec"]["ingress"][-1]
    assert not last.get("from")
    assert [port["port"] for port in last["ports"]] == [8443, 10001]


@book.scenario(24, needs_api=True)
async def clusters_are_served_as_soon_as_their_kind_is(scene: RayScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    definition = f"{RayCluster.plural}.{RayCluster.group}"
    await scene.ground.delete(builtin.CustomResourceDefinition, definition)
    await scene.ground.gone(builtin.CustomResourceDefinition, definition)
    await scene.start()
    await scene.ground.install([RAY_CLUSTER])
    made = await scene.create()
    assert "oauth" in made["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"]
    await scene.ground.until(builtin.NetworkPolicy, scene.names.head_policy)


@book.scenario(25)
async def the_config_map_is_made_and_a_bad_one_is_told(scene: RayScene) -> None:
    await scene.start()
    made = await scene.ground.until(builtin.ConfigMap, CONFIG_MAP)
    assert list(made["data"]) == [CONFIG_KEY]
    document = yaml.safe_load(made["data"][CONFIG_KEY])
    assert document["kuberay"] == {"rayDashboardOAuthEnabled": True, "ingressDomain": "", "mTLSEnabled": True}
    await scene.create()
    await scene.ground.until(builtin.NetworkPolicy, scene.names.head_policy)
    await scene.ground.edit(builtin.ConfigMap, CONFIG_MAP, lambda obj: obj["data"].update({"second.yaml": ""}))
    await scene.ground.told(RayCluster, "demo", "keep exactly one key in it")
    assert await scene.ours(builtin.NetworkPolicy), "what there is stays"


@book.scenario(26)
async def without_a_domain_there_is_no_way_in_but_a_guarded_service(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.get(builtin.Service, scene.names.oauth_service)
    assert await scene.ours(builtin.Ingress) == []
    await scene.ground.told(RayCluster, "demo", "set kuberay.ingressDomain in ConfigMap")
