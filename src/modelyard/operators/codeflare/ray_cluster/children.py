"""What a RayCluster needs around it: pure functions from the cluster and the facts to the objects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.secrets import encoded
from modelyard.operators.codeflare.config import KubeRaySettings, Settings
from modelyard.operators.codeflare.ray_cluster.injection import OAUTH_PROXY
from modelyard.operators.codeflare.ray_cluster.names import Names
from modelyard.operators.codeflare.ray_cluster.policies import CLIENT, Peers, head_policy, workers_policy
from modelyard.operators.parts import build, rbac_proxy
from modelyard.operators.parts.network import backend_tls, http_route, path_rule, route
from modelyard.runtime.declaring.desired import Child, Policy

REDIRECT = "serviceaccounts.openshift.io/oauth-redirectreference.first"
NGINX = "nginx.ingress.kubernetes.io"
COOKIE = "cookie_secret"
PORT = 443


@dataclass(frozen=True)
class Facts:
    """What the cluster and the settings say."""

    names: Names
    settings: Settings = field(default_factory=Settings)
    kuberay: KubeRaySettings = field(default_factory=KubeRaySettings)
    openshift: bool = False
    suspended: bool = False
    gateway: bool = False
    """HTTPRoutes are served, and we know the Gateway's domain."""
    domain: str = ""
    """Below which hosts are; empty: none is known."""
    serving_ca: str = ""
    """The CA that signed the proxy's certificate, in base64, where a gateway can be told of it."""
    kuberay_namespaces: tuple[str, ...] = ("ray-system",)

    @property
    def ways(self) -> tuple[str, ...]:
        """The hosts under which Ray clients call the head."""
        return (self.names.host(self.names.client, self.domain),) if self.domain else ()


def access(facts: Facts) -> list[Child]:
    """The ways in, and what guards them. Without a domain there is no way in but the Service."""
    if facts.openshift:
        return [*proxy_objects(facts), *routes(facts)] if facts.kuberay.oauth else []
    guard = proxy_objects(facts) if facts.kuberay.oauth else []
    return [*guard, *map(Child, ways_in(facts))]


# The proxy


def proxy_objects(facts: Facts) -> list[Child]:
    names = facts.names
    account = build.service_account(names.account, names.namespace, names.labels)
    if facts.openshift:
        reference = {
            "kind": "OAuthRedirectReference",
            "apiVersion": "v1",
            "reference": {"kind": "Route", "name": names.dashboard},
        }
        account["metadata"]["annotations"] = {REDIRECT: json.dumps(reference, separators=(",", ":"))}
    delegator = rbac_proxy.auth_delegator(names.binding, names.account, names.namespace, names.binding_labels)
    return [Child(account), Child(proxy_service(facts)), Child(delegator, policy=Policy.RECREATE)]


def proxy_service(facts: Facts) -> Object:
    names = facts.names
    target = OAUTH_PROXY if facts.openshift else rbac_proxy.PORT_NAME
    port = build.service_port(PORT, name=OAUTH_PROXY, target=target)
    if not facts.openshift:
        port["appProtocol"] = "https"
    return build.service(
        names.oauth_service,
        names.namespace,
        labels=names.labels,
        selector=names.head_pods,
        ports=[port],
        serving_certificate=names.serving_certificate,
    )


def proxy_secret(facts: Facts, cookie: str) -> Child:
    """What the proxy is told: on OpenShift the secret of its cookies, elsewhere who may come in."""
    names = facts.names
    told = (
        {COOKIE: cookie}
        if facts.openshift
        else {rbac_proxy.CONFIG_FILE: rbac_proxy.config_text("pods", names.namespace)}
    )
    data = {name: encoded(value) for name, value in told.items()}
    return Child(build.obj(builtin.Secret, names.oauth_config, names.namespace, names.labels, type="Opaque", data=data))


# The ways in


def routes(facts: Facts) -> list[Child]:
    names = facts.names
    dashboard = route(
        names.dashboard,
        names.namespace,
        service=names.oauth_service,
        port=OAUTH_PROXY,
        termination="reencrypt",
        insecure="Redirect",
        labels=names.labels,
    )
    if not facts.kuberay.mtls:
        return [Child(dashboard)]  # Who may call the head would not be asked who they are.
    client = route(
        names.client,
        names.namespace,
        service=names.head_service,
        port="client",
        termination="passthrough",
        labels=names.labels,
    )
    return [Child(dashboard), Child(client)]


def ways_in(facts: Facts) -> list[Object]:
    if facts.gateway:
        return gateway_route(facts)
    if not facts.domain:
        return []
    return [dashboard_ingress(facts), *([client_ingress(facts)] if facts.kuberay.mtls else [])]


def gateway_route(facts: Facts) -> list[Object]:
    """The dashboard below the platform's Gateway. It cannot pass the connections of Ray clients on."""
    names, settings = facts.names, facts.settings
    guarded = facts.kuberay.oauth
    service, port = (names.oauth_service, PORT) if guarded else (names.head_service, 8265)
    made = [
        http_route(
            names.dashboard,
            names.namespace,
            gateway=settings.gateway_name,
            gateway_namespace=settings.gateway_namespace,
            hostnames=[names.host(names.dashboard, facts.domain)],
            rules=[path_rule("/", service, port)],
            labels=names.labels,
        )
    ]
    if guarded and facts.serving_ca:
        host = f"{service}.{names.namespace}.svc"
        bundle = f"{service}-ca"
        made += backend_tls(
            service, names.namespace, host=host, ca=facts.serving_ca, bundle=bundle, labels=names.labels
        )
    return made


def dashboard_ingress(facts: Facts) -> Object:
    names = facts.names
    if not facts.kuberay.oauth:
        backend, annotations = _service(names.head_service, name="dashboard"), {}
    else:
        backend = _service(names.oauth_service, name=OAUTH_PROXY)
        annotations = {f"{NGINX}/backend-protocol": "HTTPS"}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    return _ingress(facts, names.dashboard, path, annotations)


def client_ingress(facts: Facts) -> Object:
    names = facts.names
    annotations = {f"{NGINX}/rewrite-target": "/", f"{NGINX}/ssl-redirect": "true", f"{NGINX}/ssl-passthrough": "true"}
    path = {
        "path": "/",
        "pathType": "ImplementationSpecific",
        "backend": _service(names.head_service, number=CLIENT),
    }
    return _ingress(facts, names.client, path, annotations, "nginx")


def _ingress(facts: Facts, name: str, path: Object, annotations: dict[str, str], of_class: str | None = None) -> Object:
    rule = {"host": facts.names.host(name, facts.domain), "http": {"paths": [path]}}
    spec = build.present(ingressClassName=of_class, rules=[rule])
    return build.obj(builtin.Ingress, name, facts.names.namespace, facts.names.labels, annotations, spec=spec)


def _service(service: str, **port: str | int) -> Object:
    return {"service": {"name": service, "port": port}}


# Who may reach the pods


def policies(facts: Facts) -> list[Child]:
    exposed = not facts.openshift and not facts.kuberay.oauth and bool(facts.domain)
    peers = Peers(
        kuberay=facts.kuberay_namespaces,
        monitoring=facts.settings.monitoring_namespaces or _monitoring(facts),
        dashboard=facts.settings.ingress_namespaces if exposed else (),
    )
    head = head_policy(facts.names, mtls=facts.kuberay.mtls, peers=peers)
    return [Child(head), Child(workers_policy(facts.names))]


def _monitoring(facts: Facts) -> tuple[str, ...]:
    return ("openshift-monitoring",) if facts.openshift else ("monitoring",)
