"""What the public operator does wrong and we do not (section 12 of the specification), and what only we promise."""

from __future__ import annotations

from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, is_deleting, labels_of, owner_reference
from modelyard.kube.secrets import encoded, text_of
from modelyard.operators.codeflare.config import CONFIG_KEY
from modelyard.operators.codeflare.ray_cluster.certificates import NUDGED
from modelyard.operators.codeflare.ray_cluster.names import CLUSTER_NAME, RayCluster
from modelyard.operators.parts.network import BackendTLSPolicy
from tests.cluster.ray_cluster.scenarios.scene import OPENSHIFT, RayScene, Scenario, group
from tests.cluster.stories import refused

DEFECTS: dict[str, Scenario] = {}
NEEDS_API = frozenset({"what_kuberay_makes_for_a_cluster_stays_kuberays"})
"""A cluster in memory takes whatever a test puts there for the controller's own."""
GUARDED = {"ingressDomain": "kind"}
AROUND = (
    builtin.Secret, builtin.Service, builtin.ServiceAccount, builtin.NetworkPolicy, builtin.Ingress, builtin.ClusterRoleBinding,
)  # fmt: skip


def defect(function: Scenario) -> Scenario:
    DEFECTS[function.__name__] = function
    return function


def names_in(items: list[Object]) -> list[str]:
    return [item["name"] for item in items]


async def head(scene: RayScene) -> Object:
    stored = await scene.ground.get(RayCluster, "demo")
    found: Object = stored["spec"]["headGroupSpec"]["template"]["spec"]
    return found


@defect
async def by_default_a_dashboard_is_guarded_on_plain_kubernetes_too(scene: RayScene) -> None:
    await scene.start(kuberay=GUARDED)
    await scene.create()
    pod, names = await head(scene), scene.names
    assert names_in(pod["containers"]) == ["ray-head", "kube-rbac-proxy"]
    assert names_in(pod["volumes"]) == ["proxy-tls-secret", "kube-rbac-proxy-config", "ca-vol", "server-cert"]
    assert pod["serviceAccountName"] == names.account
    await scene.ground.get(builtin.ServiceAccount, names.account)
    await scene.ground.get(builtin.ClusterRoleBinding, names.binding)
    secret = await scene.ground.get(builtin.Secret, names.oauth_config)
    asked = yaml.safe_load(text_of(secret, "config-file.yaml"))["authorization"]["resourceAttributes"]
    assert asked == {"apiVersion": "v1", "resource": "pods", "verb": "get", "namespace": scene.namespace}
    service = await scene.ground.get(builtin.Service, names.oauth_service)
    assert service["spec"]["ports"][0]["targetPort"] == "https-proxy"
    dashboard = await scene.ground.get(builtin.Ingress, "ray-dashboard-demo")
    (path,) = dashboard["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == names.oauth_service
    assert annotations_of(dashboard)["nginx.ingress.kubernetes.io/backend-protocol"] == "HTTPS"


@defect
async def a_gateway_leads_to_the_proxy_and_is_told_whom_to_trust(scene: RayScene) -> None:
    await scene.start(builtin.HTTPRoute, BackendTLSPolicy, gateway_domain="g.example.com")
    await scene.create()
    names = scene.names
    route = await scene.ground.until(builtin.HTTPRoute, "ray-dashboard-demo")
    assert route["spec"]["hostnames"] == [f"ray-dashboard-demo-{scene.namespace}.g.example.com"]
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    assert (backend["name"], backend["port"]) == (names.oauth_service, 443)
    assert await scene.ours(builtin.Ingress) == []
    await scene.ground.create(builtin.Secret, names.serving_certificate, data={"ca.crt": encoded("the CA")})
    await scene.ground.until(BackendTLSPolicy, names.oauth_service)


@defect
async def a_client_is_led_to_the_head_only_where_it_must_show_a_certificate(scene: RayScene) -> None:
    await scene.start(kuberay={**GUARDED, "mTLSEnabled": False})
    await scene.create()
    assert await scene.ours(builtin.Ingress) == ["ray-dashboard-demo"]


@defect
async def an_ingress_controller_reaches_a_dashboard_that_nobody_guards(scene: RayScene) -> None:
    await scene.start(kuberay={**GUARDED, "rayDashboardOAuthEnabled": False}, ingress_namespaces=("edge",))
    await scene.create()
    policy = await scene.ground.get(builtin.NetworkPolicy, scene.names.head_policy)
    rules = [rule for rule in policy["spec"]["ingress"] if "edge" in str(rule)]
    assert [[port["port"] for port in rule["ports"]] for rule in rules] == [[8265]]


@defect
async def settings_may_change_while_the_operator_runs(scene: RayScene) -> None:
    await scene.start(kuberay=GUARDED)
    await scene.create()
    await scene.ground.until(builtin.Ingress, "ray-dashboard-demo")
    await scene.configure(ingressDomain="elsewhere")
    await scene.ground.until(
        builtin.Ingress, "ray-dashboard-demo", lambda obj: obj["spec"]["rules"][0]["host"].endswith(".elsewhere")
    )


@defect
async def what_is_switched_off_goes_as_soon_as_no_pod_needs_it(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    await scene.ground.until(builtin.Route, "ray-dashboard-demo")
    await scene.configure(rayDashboardOAuthEnabled=False, mTLSEnabled=False)
    await scene.ground.gone(builtin.Route, "ray-dashboard-demo")
    for kind in (builtin.Secret, builtin.Service, builtin.ServiceAccount, builtin.ClusterRoleBinding):
        assert await scene.ours(kind), f"the pods of the cluster still use its {kind.kind}"
    await scene.edit(lambda cluster: cluster["metadata"].setdefault("labels", {}).update({"team": "a"}))
    pod = await head(scene)
    assert names_in(pod["containers"]) == ["ray-head"]
    assert not pod.keys() & {"volumes", "initContainers", "serviceAccountName"}
    for kind, name in (
        (builtin.Secret, scene.names.ca),
        (builtin.Secret, scene.names.oauth_config),
        (builtin.Service, scene.names.oauth_service),
        (builtin.ServiceAccount, scene.names.account),
        (builtin.ClusterRoleBinding, scene.names.binding),
    ):
        await scene.ground.gone(kind, name)


@defect
async def nothing_is_made_for_a_cluster_that_someone_else_still_holds(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    await scene.edit(lambda cluster: cluster["metadata"].setdefault("finalizers", []).append("ray.io/gcs-ft-redis"))
    await scene.ground.until(builtin.ClusterRoleBinding, scene.names.binding)
    await scene.ground.delete(RayCluster, "demo")
    await scene.ground.gone(builtin.ClusterRoleBinding, scene.names.binding)
    await scene.ground.until(RayCluster, "demo", is_deleting)
    await scene.ground.delete(builtin.Service, scene.names.oauth_service)
    await scene.ground.absent(builtin.Service, scene.names.oauth_service)
    await scene.ground.absent(builtin.ClusterRoleBinding, scene.names.binding)
    await scene.edit(lambda cluster: cluster["metadata"].update(finalizers=[]))


@defect
async def what_kuberay_makes_for_a_cluster_stays_kuberays(scene: RayScene) -> None:
    await scene.start()
    cluster = await scene.create()
    owned: dict[str, Any] = {"ownerReferences": [owner_reference(cluster)], "labels": {CLUSTER_NAME: "demo"}}
    port = {"name": "dashboard", "port": 8265}
    await scene.ground.create(builtin.Service, "demo-head-svc", **owned, spec={"ports": [port]})
    await scene.ground.create(builtin.ServiceAccount, "demo-autoscaler", **owned)
    await scene.suspend(True)
    await scene.suspend(False)
    await scene.ground.get(builtin.Service, "demo-head-svc")
    await scene.ground.get(builtin.ServiceAccount, "demo-autoscaler")


@defect
async def a_namesake_of_the_cas_secret_is_neither_read_nor_changed(scene: RayScene) -> None:
    name = scene.names.new.ca
    theirs = {"ca.crt": encoded("theirs"), "ca.key": encoded("theirs")}
    await scene.ground.create(builtin.Secret, name, data=theirs)
    await scene.start()
    await scene.create()
    await scene.ground.told(RayCluster, "demo", "an object of this name exists and it is not ours")
    assert await scene.secret(name) == theirs
    await scene.ground.delete(RayCluster, "demo")
    await scene.ground.get(builtin.Secret, name)


@defect
async def a_policy_that_cannot_be_made_is_told(scene: RayScene) -> None:
    await scene.ground.create(builtin.NetworkPolicy, scene.names.new.head_policy, spec={"podSelector": {}})
    await scene.start()
    await scene.create()
    await scene.ground.told(RayCluster, "demo", f"NetworkPolicy {scene.namespace}/{scene.names.head_policy}: an object")


@defect
async def a_pod_that_only_carries_the_labels_of_a_head_stays(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    labels = {"ray.io/cluster": "demo", "ray.io/node-type": "head"}
    await scene.ground.create(
        builtin.Pod, "stranger", labels=labels, spec={"containers": [{"name": "x", "image": "x"}]}
    )
    await scene.ground.until(builtin.ServiceAccount, scene.names.account)
    puller = [{"name": "puller"}]
    await scene.ground.edit(
        builtin.ServiceAccount, scene.names.account, lambda obj: obj.update(imagePullSecrets=puller)
    )
    await scene.ground.get(builtin.Pod, "stranger")


@defect
async def cookies_last_longer_than_the_operator(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT, hooks=False)
    await scene.create(annotations={"ray.openshift.ai/version": "1"})
    name = scene.names.new.oauth_config
    before = await scene.secret(name)
    await scene.ground.halt()
    await scene.start(hooks=False)
    assert await scene.secret(name) == before


@defect
async def the_certificate_of_a_pod_is_there_as_soon_as_it_has_an_address(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    volumes = [{"name": "ca-vol", "secret": {"secretName": scene.names.ca}}]
    await scene.pod("demo-worker-1", "worker", ip="10.11.12.13", volumes=volumes)
    await scene.ground.until(
        builtin.Secret, scene.names.ca, lambda secret: text_of(secret, "addresses") == "10.11.12.13\n"
    )
    await scene.ground.until(builtin.Pod, "demo-worker-1", lambda pod: NUDGED in annotations_of(pod))


@defect
async def another_name_of_the_heads_service_is_used_everywhere(scene: RayScene) -> None:
    await scene.start(kuberay={**GUARDED, "rayDashboardOAuthEnabled": False})
    own = {"metadata": {"name": "my-head"}, "spec": {}}
    await scene.create(headGroupSpec={**group("ray-head"), "headService": own})
    dashboard = await scene.ground.get(builtin.Ingress, "ray-dashboard-demo")
    (path,) = dashboard["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == "my-head"


async def _refused(scene: RayScene, *said: str, name: str = "demo", **fields: Any) -> None:
    await scene.start()
    await refused(scene.create(name, **fields), *said)


@defect
async def a_name_that_leaves_no_room_for_those_of_children_is_refused(scene: RayScene) -> None:
    await _refused(scene, "metadata.name: Invalid value", "characters too long", name="c" * 50)


@defect
async def a_head_without_a_container_is_refused(scene: RayScene) -> None:
    empty: Object = {"rayStartParams": {}, "template": {"spec": {"containers": []}}}
    said = "spec.headGroupSpec.template.spec.containers: Required value: the first container is the one that runs Ray"
    await _refused(scene, said, headGroupSpec=empty)


@defect
async def bad_settings_stop_new_clusters_and_change_none_that_are_there(scene: RayScene) -> None:
    await scene.start()
    await scene.create()
    before = await head(scene)
    bad = {CONFIG_KEY: "kuberay: {mTLSEnabled: maybe}"}
    await scene.ground.edit(builtin.ConfigMap, "codeflare-operator-config", lambda obj: obj.update(data=bad))
    await scene.ground.told(RayCluster, "demo", "kuberay.mTLSEnabled of ConfigMap")
    await scene.suspend(True)
    assert await head(scene) == before


# What the public operator left behind


async def _made_by_upstream(scene: RayScene, cluster: Object, **data: str) -> None:
    """What it made for a cluster from before names had digests."""

    def owned() -> Object:
        return {"ownerReferences": [owner_reference(cluster)], "labels": {CLUSTER_NAME: "demo"}}

    old, create = scene.names.old, scene.ground.create
    await create(builtin.Secret, old.ca, **owned(), data=data)
    await create(builtin.Secret, old.oauth_config, **owned(), data={"cookie_secret": "eA=="})
    await create(builtin.ServiceAccount, old.account, **owned())
    await create(builtin.NetworkPolicy, old.head_policy, **owned(), spec={"podSelector": {}})
    subject = {"kind": "ServiceAccount", "name": old.account, "namespace": scene.namespace}
    role = {"apiGroup": builtin.ClusterRole.group, "kind": "ClusterRole", "name": "system:auth-delegator"}
    await create(builtin.ClusterRoleBinding, old.binding, labels=old.binding_labels, subjects=[subject], roleRef=role)


@defect
async def what_has_older_names_is_replaced_and_its_ca_signs_on(scene: RayScene) -> None:
    await scene.start(hooks=False)
    await scene.create()
    old, new = scene.names.old, scene.names.new
    ca = await scene.secret(old.ca)
    await scene.ground.halt()
    cluster = await scene.ground.get(RayCluster, "demo")
    kept = {name: ca[name] for name in ("ca.crt", "ca.key")}
    for kind, name in ((builtin.Secret, old.ca), (builtin.ServiceAccount, old.account)):
        await scene.ground.delete(kind, name)
    for kind, name in (
        (builtin.Secret, old.oauth_config),
        (builtin.NetworkPolicy, old.head_policy),
        (builtin.ClusterRoleBinding, old.binding),
    ):
        await scene.ground.delete(kind, name)
    await _made_by_upstream(scene, cluster, **kept)
    await scene.ground.edit(
        RayCluster,
        "demo",
        lambda obj: obj["metadata"].setdefault("annotations", {}).update({"ray.openshift.ai/version": "1"}),
    )
    await scene.start(hooks=False)
    for kind, name in (
        (builtin.Secret, old.ca),
        (builtin.Secret, old.oauth_config),
        (builtin.ServiceAccount, old.account),
        (builtin.NetworkPolicy, old.head_policy),
        (builtin.ClusterRoleBinding, old.binding),
    ):
        await scene.ground.gone(kind, name)
    now = await scene.secret(new.ca)
    assert {name: now[name] for name in kept} == kept


@defect
async def a_secret_with_an_older_name_stays_while_a_pod_waits_for_it(scene: RayScene) -> None:
    await scene.start(hooks=False)
    await scene.create()
    old = scene.names.old.ca
    await scene.pod("demo-1", "worker", ip="10.0.0.1", volumes=[{"name": "ca-vol", "secret": {"secretName": old}}])
    version = {"ray.openshift.ai/version": "1"}
    await scene.ground.edit(RayCluster, "demo", lambda obj: obj["metadata"].update(annotations=version))
    await scene.ground.until(builtin.Secret, scene.names.new.ca)
    await scene.ground.get(builtin.Secret, old)
    await scene.ground.set_status(builtin.Pod, "demo-1", {"phase": "Running", "podIP": "10.0.0.1"})
    await scene.ground.gone(builtin.Secret, old)


@defect
async def nothing_is_touched_while_the_public_operator_runs(scene: RayScene) -> None:
    labels = {"app.kubernetes.io/name": "codeflare-operator", "app.kubernetes.io/part-of": "codeflare"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "x"}]}}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    manager = "codeflare-operator-manager"
    await scene.ground.create(builtin.Deployment, manager, labels=labels, spec=body)
    await scene.ground.set_status(builtin.Deployment, manager, {"replicas": 1})
    await scene.start(hooks=False)
    await scene.create()
    await scene.ground.told(RayCluster, "demo", f"scale deployment {manager} --replicas=0")
    assert [await scene.ours(kind) for kind in AROUND] == [[]] * len(AROUND)
    await scene.ground.set_status(builtin.Deployment, manager, {"replicas": 0})
    policy = await scene.ground.until(builtin.NetworkPolicy, scene.names.head_policy)
    assert labels_of(policy)[CLUSTER_NAME] == "demo"
