"""What should exist for a `ModelRegistry`: pure functions from the resource and the facts to objects."""

from __future__ import annotations

from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.openshift import SERVING_CERTIFICATE
from modelyard.operators.model_registry.api import ModelRegistry, ModelRegistrySpec
from modelyard.operators.model_registry.effective import GENERATED_DATABASE, GENERATED_USER
from modelyard.operators.model_registry.facts import (
    COMPONENT,
    CREATED_BY,
    DATABASE,
    DESCRIPTION,
    DISPLAY_NAME,
    EXTERNAL_ADDRESS,
    GRANT,
    INGRESS_NAMESPACES,
    NAMESPACE_LABEL,
    OPERATOR,
    PLATFORM_NAMESPACES,
    Facts,
    Names,
    ReferenceGrant,
)
from modelyard.operators.model_registry.server import server_deployment
from modelyard.operators.parts import build, postgres, rbac_proxy, security
from modelyard.operators.parts.network import backend_tls, http_route, network_policy, path_rule, route, tcp
from modelyard.operators.parts.references import digest_annotation
from modelyard.operators.parts.storage import kept_claim
from modelyard.runtime.declaring.desired import Child, Policy


@dataclass(frozen=True)
class Wanted:
    """A registry in all that its children are made of."""

    registry: ModelRegistry
    stored: ModelRegistrySpec
    deployed: ModelRegistrySpec
    facts: Facts
    names: Names

    @property
    def generated(self) -> bool:
        """Is a database made for it?"""
        return self.stored.postgres is not None and self.stored.postgres.is_generated

    @property
    def https_route(self) -> bool:
        """Is it reached through a Route to its proxy?"""
        proxy = self.deployed.kube_rbac_proxy
        return self.facts.openshift and proxy is not None and proxy.service_route == "enabled"

    @property
    def http_route(self) -> bool:
        """Is it reached through a plain Route? With a proxy in front there is no plain port to lead to."""
        enabled = self.deployed.rest.service_route == "enabled"
        return self.facts.openshift and enabled and self.deployed.kube_rbac_proxy is None

    @property
    def external_host(self) -> str:
        """The host of its Route; empty where none is known."""
        proxy = self.deployed.kube_rbac_proxy
        domain = proxy.domain if proxy else None
        return f"{self.names.name}-rest.{domain}" if self.https_route and domain else ""

    @property
    def gateway_address(self) -> str:
        """Where it is below the Gateway; empty where it is not."""
        return f"{self.facts.settings.gateway_domain}/model-registry/{self.names.name}" if self.facts.gateway else ""

    @property
    def service_port(self) -> int:
        proxy = self.deployed.kube_rbac_proxy
        return proxy.port if proxy else self.deployed.rest.port


def account(names: Names) -> Child:
    """The account that the server runs as. Nothing is made before it is ours: a server must not run as someone else."""
    return Child(build.service_account(names.name, names.namespace, names.labels(names.name)))


def children(wanted: Wanted) -> list[Child]:
    """Everything but the account and a generated password, in a fixed order: what others refer to comes first."""
    facts, names = wanted.facts, wanted.names
    made: list[Child] = []
    if wanted.generated:
        made += generated_database(wanted)
    made += [
        Child(service(wanted)),
        Child(server_deployment(wanted.deployed, facts, names), policy=Policy.RECREATE),
        Child(user_role(names)),
    ]
    if facts.openshift:
        if facts.user_api:
            made.append(Child(build.obj(builtin.Group, names.users, labels=names.labels(names.users))))
        made.append(Child(user_binding(names), policy=Policy.RECREATE))
    if facts.gateway:
        origin = facts.route_namespace(names.namespace)
        if facts.grants and origin != names.namespace:
            made.append(Child(reference_grant(origin, names.namespace), policy=Policy.ONCE, keep=True, adopt=True))
        made.append(Child(gateway_route(wanted)))
        made += map(Child, backend_trust(wanted))
    if wanted.http_route:
        made.append(Child(plain_route(names)))
    if wanted.deployed.kube_rbac_proxy is not None:
        made += proxy_objects(wanted)
    return made


def service(wanted: Wanted) -> Object:
    names, proxy = wanted.names, wanted.deployed.kube_rbac_proxy
    scheme = "https" if proxy else "http"
    port = {"name": f"{scheme}-api", "port": wanted.service_port, "protocol": "TCP", "appProtocol": scheme}
    return build.service(
        names.name,
        names.namespace,
        labels=names.labels(names.name),
        annotations=_service_annotations(wanted),
        selector=names.pods,
        ports=[port],
    )


def _service_annotations(wanted: Wanted) -> dict[str, str]:
    names, stored, deployed = wanted.names, wanted.stored.kube_rbac_proxy, wanted.deployed.kube_rbac_proxy
    made = {}
    if stored is not None and stored.tls_certificate_secret is None:
        made[SERVING_CERTIFICATE] = names.serving_cert
    if deployed is not None:
        host = f"{wanted.external_host}:{deployed.route_port}" if wanted.external_host else ""
        if address := wanted.gateway_address or host:
            made[EXTERNAL_ADDRESS] = address
    shown = wanted.registry.metadata.annotations
    return made | {name: shown[name] for name in (DISPLAY_NAME, DESCRIPTION) if name in shown}


def user_role(names: Names) -> Object:
    """Whoever has it may use the registry."""
    rules = [build.rule([""], [resource], ["get"], [names.name]) for resource in ("services", "endpoints")]
    made = build.role(names.role, names.namespace, rules, names.labels(names.role))
    made["metadata"]["annotations"] = {
        DISPLAY_NAME: f"Registry User {names.name}",
        DESCRIPTION: f"Can access Model Registry {names.name}",
    }
    return made


def user_binding(names: Names) -> Object:
    subjects = [build.group_subject(names.users)]
    return build.role_binding(names.users, names.namespace, names.role, subjects, names.labels(names.users))


def plain_route(names: Names) -> Object:
    labels = names.labels(names.http_route)
    return route(names.http_route, names.namespace, service=names.name, port="http-api", labels=labels)


def gateway_route(wanted: Wanted) -> Object:
    """The way in through the platform's Gateway."""
    names, settings = wanted.names, wanted.facts.settings
    rule = path_rule(f"/model-registry/{names.name}/", names.name, wanted.service_port, rewrite="/")
    rule["backendRefs"][0]["namespace"] = names.namespace
    return http_route(
        names.gateway_route,
        wanted.facts.route_namespace(names.namespace),
        gateway=settings.gateway_name,
        gateway_namespace=settings.gateway_namespace,
        rules=[rule],
        labels=names.labels(names.gateway_route),
    )


def backend_trust(wanted: Wanted) -> list[Object]:
    """How the Gateway checks the proxy's certificate, where it is not the author's own."""
    names, facts, proxy = wanted.names, wanted.facts, wanted.stored.kube_rbac_proxy
    if not facts.serving_ca or proxy is None or proxy.tls_certificate_secret is not None:
        return []
    return backend_tls(
        names.name,
        names.namespace,
        host=f"{names.name}.{names.namespace}.svc",
        ca=facts.serving_ca,
        bundle=names.serving_ca,
        labels=names.labels(names.serving_ca),
    )


def reference_grant(source: str, namespace: str) -> Object:
    """Lets HTTPRoutes of the platform's namespace lead here. It is there once for the catalog and all registries, and stays."""
    labels = {
        "component": COMPONENT,
        "app.kubernetes.io/component": COMPONENT,
        "app.kubernetes.io/part-of": COMPONENT,
        "app.kubernetes.io/managed-by": OPERATOR,
        **CREATED_BY,
    }
    origin = {"group": builtin.HTTPRoute.group, "kind": builtin.HTTPRoute.kind, "namespace": source}
    spec = {"from": [origin], "to": [{"group": "", "kind": builtin.Service.kind}]}
    return build.obj(ReferenceGrant, GRANT, namespace, labels, spec=spec)


def proxy_objects(wanted: Wanted) -> list[Child]:
    """What the proxy needs besides its container, and the way to it. Nothing else reaches the pods."""
    names = wanted.names
    labels = names.labels(names.old_auth_delegator) | {NAMESPACE_LABEL: names.namespace}
    delegator = rbac_proxy.auth_delegator(names.auth_delegator, names.name, names.namespace, labels)
    config = rbac_proxy.config_map(names.proxy_config, names.namespace, names.name, names.labels(names.name))
    made = [Child(config), Child(delegator, policy=Policy.RECREATE)]
    if wanted.https_route:
        return [*made, Child(secure_route(wanted)), Child(route_policy(wanted))]
    return [*made, Child(proxy_policy(wanted))]


def secure_route(wanted: Wanted) -> Object:
    names = wanted.names
    return route(
        names.https_route,
        names.namespace,
        service=names.name,
        port="https-api",
        termination="reencrypt",
        host=wanted.external_host or None,
        labels=names.labels(names.https_route),
    )


def route_policy(wanted: Wanted) -> Object:
    """Where there is a Route, the proxy is for the router and for the platform's namespaces."""
    peers: list[Object] = [{"namespaceSelector": INGRESS_NAMESPACES}, {"namespaceSelector": PLATFORM_NAMESPACES}]
    return _policy(wanted, wanted.names.route_policy, {"from": peers})


def proxy_policy(wanted: Wanted) -> Object:
    """Elsewhere it is for everyone in the cluster; the server behind it is for no one."""
    return _policy(wanted, wanted.names.proxy_policy, {})


def _policy(wanted: Wanted, name: str, rule: Object) -> Object:
    names = wanted.names
    return network_policy(
        name,
        names.namespace,
        pods=names.pods,
        labels=names.labels(name),
        ingress=[{**rule, "ports": tcp(wanted.service_port)}],
        types=("Ingress",),
    )


def credentials(wanted: Wanted, password: str) -> Child:
    """Made once: nothing else of the database is made before the API keeps its password."""
    asked, names = wanted.stored.postgres, wanted.names
    user = (asked and asked.username) or GENERATED_USER
    database = (asked and asked.database) or GENERATED_DATABASE
    secret = build.obj(builtin.Secret, names.credentials, names.namespace, names.postgres_labels, {DATABASE: database})
    return Child(secret, policy=Policy.ONCE, generate=lambda: {"stringData": {"username": user, "password": password}})


def generated_database(wanted: Wanted) -> list[Child]:
    """The volume, the server, its Service, and the policy that keeps others away."""
    made = database(wanted)
    facts = wanted.facts
    claim = postgres.claim(made)
    claim["metadata"]["annotations"] = {DATABASE: database_name(wanted)}
    port = {"port": made.port, "targetPort": postgres.PORT, "protocol": "TCP"}
    selector = {"app": wanted.names.name, "app.kubernetes.io/name": made.name}
    return [
        kept_claim(claim, facts.claim, facts.storage_class, keep=False),
        Child(postgres.deployment(made), policy=Policy.RECREATE),
        Child(build.service(made.name, made.namespace, labels=made.labels, selector=selector, ports=[port], type=None)),
        Child(postgres.policy(made)),
    ]


def database_name(wanted: Wanted) -> str:
    asked = wanted.deployed.postgres
    return (asked and asked.database) or GENERATED_DATABASE


def database(wanted: Wanted) -> postgres.Database:
    names, facts, asked = wanted.names, wanted.facts, wanted.deployed.postgres
    assert asked is not None
    check = "/usr/libexec/check-container"
    image = wanted.stored.postgres.image if wanted.stored.postgres else None
    return postgres.Database(
        name=names.postgres,
        namespace=names.namespace,
        image=image or facts.settings.postgres_image,
        container="postgres",
        labels=names.postgres_labels,
        pods=names.postgres_pods,
        clients=names.pods,
        claim=names.claim,
        volume="postgres-storage",
        env=[
            build.env("POSTGRESQL_DATABASE", database_name(wanted)),
            build.env_from_secret("POSTGRESQL_USER", names.credentials, "username"),
            build.env_from_secret("POSTGRESQL_PASSWORD", names.credentials, "password"),
        ],
        readiness=postgres.exec_probe([check], initial_delay=5, period=10, timeout=5, failure=3),
        liveness=postgres.exec_probe([check, "--live"], initial_delay=30, period=10, timeout=5, failure=3),
        port=asked.port,
        pod_annotations=digest_annotation(facts.database_digest),
        group=None if facts.openshift else security.POSTGRES_GROUP,
    )


TRACKED: tuple[Kind, ...] = (builtin.Group, builtin.ClusterRoleBinding, builtin.HTTPRoute)
"""The kinds of children that no owner reference reaches: the finalizer removes them."""
