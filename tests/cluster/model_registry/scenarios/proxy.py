"""Scenarios 28-37: the proxy, and OpenShift around it."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.openshift import SERVING_CERTIFICATE
from modelyard.operators.model_registry.facts import PLAIN_HTTP
from tests.cluster.model_registry.scenarios.scene import OPENSHIFT, REGISTRY, Book, RegistryScene

book = Book()
proxy = book.scenario
CONFIG = "mr-kube-rbac-proxy-config"
ADDRESS = "routing.opendatahub.io/external-address-rest"
HELD = ("example.com/hold",)
"""Keeps a pod that was deleted, as one that takes its time to end."""


@proxy(28)
async def the_proxy_stands_before_the_server(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(kubeRBACProxy={})
    server = await scene.server(container="kube-rbac-proxy")
    assert server.containers == ["rest-container", "kube-rbac-proxy"]
    assert server.args == [
        "--secure-listen-address=0.0.0.0:8443",
        "--upstream=http://127.0.0.1:8080/",
        "--proxy-endpoints-port=8888",
        "--logtostderr=true",
        "--v=0",
        "--config-file=/etc/kube-rbac-proxy/config-file.yaml",
        "--tls-cert-file=/etc/tls/private-cert/tls.crt",
        "--tls-private-key-file=/etc/tls/private-key/tls.key",
    ]
    service = await scene.ground.get(builtin.Service, "mr")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["appProtocol"]) == ("https-api", 8443, "https")
    config = (await scene.ground.get(builtin.ConfigMap, CONFIG))["data"]["config-file.yaml"]
    assert f"namespace: {scene.namespace}\n" in config
    assert "name: mr\n" in config
    binding = await scene.ground.get(builtin.ClusterRoleBinding, scene.delegator)
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mr", "namespace": scene.namespace}]
    # Upstream leaves the server open to the cluster here; a policy admits the proxy's port only.
    (policy,) = await scene.ground.names(builtin.NetworkPolicy)
    (rule,) = (await scene.ground.get(builtin.NetworkPolicy, policy))["spec"]["ingress"]
    assert (policy, rule) == ("mr-proxy", {"ports": [{"protocol": "TCP", "port": 8443}]})


@proxy(29)
async def what_the_proxy_needed_goes_with_it(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(kubeRBACProxy={})
    await scene.ground.until(builtin.ClusterRoleBinding, scene.delegator)
    await scene.edit(kubeRBACProxy=None)
    await scene.ground.gone(builtin.ClusterRoleBinding, scene.delegator)
    await scene.ground.gone(builtin.ConfigMap, CONFIG)
    await scene.ground.gone(builtin.NetworkPolicy, "mr-proxy")
    ports = (await scene.ground.get(builtin.Service, "mr"))["spec"]["ports"]
    assert [(port["name"], port["port"]) for port in ports] == [("http-api", 8080)]


@proxy(30)
async def openshift_has_a_way_in(scene: RegistryScene) -> None:
    await scene.start(*OPENSHIFT, default_domain="example.com")
    await scene.create(kubeRBACProxy={})
    route = await scene.ground.until(builtin.Route, "mr-https")
    assert route["spec"]["host"] == "mr-rest.example.com"
    assert route["spec"]["tls"] == {"termination": "reencrypt"}
    assert route["spec"]["port"] == {"targetPort": "https-api"}
    policy = await scene.ground.get(builtin.NetworkPolicy, "mr-https-route")
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8443}]
    assert [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"]] == [
        {"network.openshift.io/policy-group": "ingress"},
        {"opendatahub.io/generated-namespace": "true"},
    ]
    await scene.ground.get(builtin.Group, "mr-users")
    binding = await scene.ground.get(builtin.RoleBinding, "mr-users")
    assert binding["roleRef"]["name"] == "registry-user-mr"
    service = await scene.ground.get(builtin.Service, "mr")
    assert service["metadata"]["annotations"][ADDRESS] == "mr-rest.example.com:443"
    assert (await scene.status())["hosts"][0] == "mr-rest.example.com"


@proxy(31)
async def the_way_in_can_be_closed(scene: RegistryScene) -> None:
    await scene.start(*OPENSHIFT, default_domain="example.com")
    await scene.create(kubeRBACProxy={})
    await scene.ground.until(builtin.Route, "mr-https")
    await scene.edit(kubeRBACProxy={"serviceRoute": "disabled"})
    await scene.ground.gone(builtin.Route, "mr-https")
    await scene.ground.gone(builtin.NetworkPolicy, "mr-https-route")
    service = await scene.ground.get(builtin.Service, "mr")
    assert ADDRESS not in service["metadata"]["annotations"]
    await scene.ground.get(builtin.NetworkPolicy, "mr-proxy")


@proxy(32)
async def a_certificate_of_ones_own_is_used(scene: RegistryScene) -> None:
    await scene.start()
    own = {"tlsCertificateSecret": {"name": "mine", "key": "crt"}, "tlsKeySecret": {"name": "mine-key", "key": "key"}}
    await scene.create(kubeRBACProxy=own)
    server = await scene.server(container="kube-rbac-proxy")
    assert server.volumes["kube-rbac-proxy-cert"]["secret"]["secretName"] == "mine"
    assert server.volumes["kube-rbac-proxy-key"]["secret"]["secretName"] == "mine-key"
    assert "--tls-cert-file=/etc/tls/private-cert/crt" in server.args
    assert "--tls-private-key-file=/etc/tls/private-key/key" in server.args
    service = await scene.ground.get(builtin.Service, "mr")
    assert SERVING_CERTIFICATE not in (service["metadata"].get("annotations") or {})


@proxy(33)
async def a_plain_route_leads_to_a_plain_port(scene: RegistryScene) -> None:
    # On OpenShift a proxy is added unless this is said; with one there is no plain port to lead to.
    await scene.start(*OPENSHIFT)
    await scene.create(annotations={PLAIN_HTTP: "true"}, rest={"serviceRoute": "enabled"})
    route = await scene.ground.until(builtin.Route, "mr-http")
    assert route["spec"]["port"] == {"targetPort": "http-api"}
    assert "tls" not in route["spec"]
    await scene.edit(rest={"serviceRoute": "disabled"})
    await scene.ground.gone(builtin.Route, "mr-http")


@proxy(34)
async def a_route_must_be_admitted(scene: RegistryScene) -> None:
    await scene.start(*OPENSHIFT, default_domain="example.com")
    await scene.create(kubeRBACProxy={})
    await scene.make_ready(proxy=True)
    message = "KubeRBACProxy Route mr-https is unavailable: "
    for type in ("KubeRBACProxyAvailable", "Available"):
        await scene.says(type, message, status="False", reason="ResourcesUnavailable")
    await scene.admit("mr-https")
    await scene.condition("KubeRBACProxyAvailable", status="True", reason="ResourcesAvailable")
    await scene.condition("Available", status="True", reason="DeploymentAvailable")


@proxy(35)
async def one_ready_pod_is_enough(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(kubeRBACProxy={})
    names = ["rest-container", "kube-rbac-proxy"]
    await scene.pod("mr-2", proxy=True, unready=("kube-rbac-proxy",), finalizers=HELD)
    await scene.pod("mr-1", proxy=True, finalizers=HELD)
    await scene.endpoints()
    await scene.deployment_up()
    await scene.condition("Available", status="True")
    await scene.condition("KubeRBACProxyAvailable", status="True")
    await scene.pod_status("mr-1", names, unready=("kube-rbac-proxy",))
    unready = "container kube-rbac-proxy not ready in Pod mr-"
    await scene.says("KubeRBACProxyAvailable", unready, status="False", reason="ResourcesUnavailable")
    await scene.says("Available", unready, status="False", reason="ResourcesUnavailable")
    for pod in ("mr-1", "mr-2"):
        await scene.pod_status(pod, names)
        await scene.ground.delete(builtin.Pod, pod)
    for type in ("KubeRBACProxyAvailable", "Available"):
        await scene.condition(
            type, status="False", reason="ResourcesUnavailable", message="No active Pods found for Deployment mr"
        )
    for pod in ("mr-1", "mr-2"):
        await scene.ground.edit(builtin.Pod, pod, lambda obj: obj["metadata"].update(finalizers=[]))


@proxy(36)
async def a_stored_old_proxy_is_rewritten(scene: RegistryScene) -> None:
    await scene.create(oauthProxy={"port": 9443, "image": "old"})
    await scene.start()
    registry = await scene.ground.until(REGISTRY, "mr", lambda registry: "oauthProxy" not in registry["spec"])
    assert registry["spec"]["kubeRBACProxy"]["port"] == 9443
    assert "image" not in registry["spec"]["kubeRBACProxy"]
    server = await scene.server(container="kube-rbac-proxy")
    assert server.containers == ["rest-container", "kube-rbac-proxy"]
    assert "--secure-listen-address=0.0.0.0:9443" in server.args


@proxy(37)
async def without_the_user_api_there_is_a_binding_only(scene: RegistryScene) -> None:
    await scene.start(builtin.Route)
    await scene.create(kubeRBACProxy={})
    binding = await scene.ground.until(builtin.RoleBinding, "mr-users")
    assert [subject["name"] for subject in binding["subjects"]] == ["mr-users"]
