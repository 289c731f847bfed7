"""Scenarios 28-37: the proxy, and OpenShift around it."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.operators.model_registry.facts import PLAIN_HTTP, SERVING_CERT
from tests.cluster.model_registry.scenarios.story import OPENSHIFT, REGISTRY, Book, Story

book = Book()
proxy = book.scenario
CONFIG = "mr-kube-rbac-proxy-config"
DELEGATOR = "mr-auth-delegator"
ADDRESS = "routing.opendatahub.io/external-address-rest"
HELD = ("example.com/hold",)
"""Keeps a pod that was deleted, as one that takes its time to end."""


@proxy(28)
async def the_proxy_stands_before_the_server(story: Story) -> None:
    await story.start()
    await story.create(kubeRBACProxy={})
    server = await story.server(container="kube-rbac-proxy")
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
    service = await story.yard.get(builtin.Service, "mr")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["appProtocol"]) == ("https-api", 8443, "https")
    config = (await story.yard.get(builtin.ConfigMap, CONFIG))["data"]["config-file.yaml"]
    assert f"namespace: {story.namespace}\n" in config
    assert "name: mr\n" in config
    binding = await story.yard.get(builtin.ClusterRoleBinding, DELEGATOR)
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mr", "namespace": story.namespace}]
    # Upstream leaves the server open to the cluster here; a policy admits the proxy's port only.
    (policy,) = await story.yard.names(builtin.NetworkPolicy)
    (rule,) = (await story.yard.get(builtin.NetworkPolicy, policy))["spec"]["ingress"]
    assert (policy, rule) == ("mr-proxy", {"ports": [{"protocol": "TCP", "port": 8443}]})


@proxy(29)
async def what_the_proxy_needed_goes_with_it(story: Story) -> None:
    await story.start()
    await story.create(kubeRBACProxy={})
    await story.yard.until(builtin.ClusterRoleBinding, DELEGATOR)
    await story.edit(kubeRBACProxy=None)
    await story.yard.gone(builtin.ClusterRoleBinding, DELEGATOR)
    await story.yard.gone(builtin.ConfigMap, CONFIG)
    await story.yard.gone(builtin.NetworkPolicy, "mr-proxy")
    ports = (await story.yard.get(builtin.Service, "mr"))["spec"]["ports"]
    assert [(port["name"], port["port"]) for port in ports] == [("http-api", 8080)]


@proxy(30)
async def openshift_has_a_way_in(story: Story) -> None:
    await story.start(*OPENSHIFT, default_domain="example.com")
    await story.create(kubeRBACProxy={})
    route = await story.yard.until(builtin.Route, "mr-https")
    assert route["spec"]["host"] == "mr-rest.example.com"
    assert route["spec"]["tls"] == {"termination": "reencrypt"}
    assert route["spec"]["port"] == {"targetPort": "https-api"}
    policy = await story.yard.get(builtin.NetworkPolicy, "mr-https-route")
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8443}]
    assert [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"]] == [
        {"network.openshift.io/policy-group": "ingress"},
        {"opendatahub.io/generated-namespace": "true"},
    ]
    await story.yard.get(builtin.Group, "mr-users")
    binding = await story.yard.get(builtin.RoleBinding, "mr-users")
    assert binding["roleRef"]["name"] == "registry-user-mr"
    service = await story.yard.get(builtin.Service, "mr")
    assert service["metadata"]["annotations"][ADDRESS] == "mr-rest.example.com:443"
    assert (await story.status())["hosts"][0] == "mr-rest.example.com"


@proxy(31)
async def the_way_in_can_be_closed(story: Story) -> None:
    await story.start(*OPENSHIFT, default_domain="example.com")
    await story.create(kubeRBACProxy={})
    await story.yard.until(builtin.Route, "mr-https")
    await story.edit(kubeRBACProxy={"serviceRoute": "disabled"})
    await story.yard.gone(builtin.Route, "mr-https")
    await story.yard.gone(builtin.NetworkPolicy, "mr-https-route")
    service = await story.yard.get(builtin.Service, "mr")
    assert ADDRESS not in service["metadata"]["annotations"]
    await story.yard.get(builtin.NetworkPolicy, "mr-proxy")


@proxy(32)
async def a_certificate_of_ones_own_is_used(story: Story) -> None:
    await story.start()
    own = {"tlsCertificateSecret": {"name": "mine", "key": "crt"}, "tlsKeySecret": {"name": "mine-key", "key": "key"}}
    await story.create(kubeRBACProxy=own)
    server = await story.server(container="kube-rbac-proxy")
    assert server.volumes["kube-rbac-proxy-cert"]["secret"]["secretName"] == "mine"
    assert server.volumes["kube-rbac-proxy-key"]["secret"]["secretName"] == "mine-key"
    assert "--tls-cert-file=/etc/tls/private-cert/crt" in server.args
    assert "--tls-private-key-file=/etc/tls/private-key/key" in server.args
    service = await story.yard.get(builtin.Service, "mr")
    assert SERVING_CERT not in (service["metadata"].get("annotations") or {})


@proxy(33)
async def a_plain_route_leads_to_a_plain_port(story: Story) -> None:
    # On OpenShift a proxy is added unless this is said; with one there is no plain port to lead to.
    await story.start(*OPENSHIFT)
    await story.create(annotations={PLAIN_HTTP: "true"}, rest={"serviceRoute": "enabled"})
    route = await story.yard.until(builtin.Route, "mr-http")
    assert route["spec"]["port"] == {"targetPort": "http-api"}
    assert "tls" not in route["spec"]
    await story.edit(rest={"serviceRoute": "disabled"})
    await story.yard.gone(builtin.Route, "mr-http")


@proxy(34)
async def a_route_must_be_admitted(story: Story) -> None:
    await story.start(*OPENSHIFT, default_domain="example.com")
    await story.create(kubeRBACProxy={})
    await story.make_ready(proxy=True)
    message = "KubeRBACProxy Route mr-https is unavailable: "
    for type in ("KubeRBACProxyAvailable", "Available"):
        await story.says(type, message, status="False", reason="ResourcesUnavailable")
    await story.admit("mr-https")
    await story.condition("KubeRBACProxyAvailable", status="True", reason="ResourcesAvailable")
    await story.condition("Available", status="True", reason="DeploymentAvailable")


@proxy(35)
async def one_ready_pod_is_enough(story: Story) -> None:
    await story.start()
    await story.create(kubeRBACProxy={})
    names = ["rest-container", "kube-rbac-proxy"]
    await story.pod("mr-2", proxy=True, unready=("kube-rbac-proxy",), finalizers=HELD)
    await story.pod("mr-1", proxy=True, finalizers=HELD)
    await story.endpoints()
    await story.deployment_up()
    await story.condition("Available", status="True")
    await story.condition("KubeRBACProxyAvailable", status="True")
    await story.pod_status("mr-1", names, unready=("kube-rbac-proxy",))
    unready = "container kube-rbac-proxy not ready in Pod mr-"
    await story.says("KubeRBACProxyAvailable", unready, status="False", reason="ResourcesUnavailable")
    await story.says("Available", unready, status="False", reason="ResourcesUnavailable")
    for pod in ("mr-1", "mr-2"):
        await story.pod_status(pod, names)
        await story.yard.delete(builtin.Pod, pod)
    for type in ("KubeRBACProxyAvailable", "Available"):
        await story.condition(
            type, status="False", reason="ResourcesUnavailable", message="No active Pods found for Deployment mr"
        )
    for pod in ("mr-1", "mr-2"):
        await story.yard.edit(builtin.Pod, pod, lambda obj: obj["metadata"].update(finalizers=[]))


@proxy(36)
async def a_stored_old_proxy_is_rewritten(story: Story) -> None:
    await story.create(oauthProxy={"port": 9443, "image": "old"})
    await story.start()
    registry = await story.yard.until(REGISTRY, "mr", lambda registry: "oauthProxy" not in registry["spec"])
    assert registry["spec"]["kubeRBACProxy"]["port"] == 9443
    assert "image" not in registry["spec"]["kubeRBACProxy"]
    server = await story.server(container="kube-rbac-proxy")
    assert server.containers == ["rest-container", "kube-rbac-proxy"]
    assert "--secure-listen-address=0.0.0.0:9443" in server.args


@proxy(37)
async def without_the_user_api_there_is_a_binding_only(story: Story) -> None:
    await story.start(builtin.Route)
    await story.create(kubeRBACProxy={})
    binding = await story.yard.until(builtin.RoleBinding, "mr-users")
    assert [subject["name"] for subject in binding["subjects"]] == ["mr-users"]
