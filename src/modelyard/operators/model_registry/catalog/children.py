"""What should exist for the model catalog: pure functions from the facts to objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.model_registry.catalog import sources
from modelyard.operators.model_registry.children import reference_grant
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.facts import (
    CREATED_BY,
    DESCRIPTION,
    DISPLAY_NAME,
    EXTERNAL_ADDRESS,
    INGRESS_NAMESPACES,
    NAMESPACE_LABEL,
    OPERATOR,
    REQUIRED_SCC,
    route_namespace,
)
from modelyard.operators.parts import build, postgres, rbac_proxy, security
from modelyard.operators.parts.images import pull_policy
from modelyard.operators.parts.missing_references import Missing
from modelyard.operators.parts.network import backend_tls, http_route, network_policy, path_rule, route, tcp
from modelyard.operators.parts.references import digest_annotation
from modelyard.operators.parts.storage import kept_claim
from modelyard.runtime.declaring.desired import Child, Policy

NAME = "model-catalog"
DATABASE = "model-catalog-postgres"
HEALTH = "model-catalog-health"
PROXY_CONFIG = "model-catalog-kube-rbac-proxy-config"
SERVING_CERT_SECRET = "model-catalog-kube-rbac-proxy"
AUTHENTICATED = "model-catalog-authenticated"
ADMIN = "model-catalog-admin"
ADMIN_BINDING = "model-catalog-admin-binding"
AUTH_DELEGATOR = "model-catalog-auth-delegator"
ROUTE = "model-catalog-https"
ROUTE_POLICY = "model-catalog-https-route"
PROXY_POLICY = "model-catalog-proxy"
SERVING_CA = "model-catalog-serving-ca"
GATEWAY_PATH = "/catalog/"
COOKIE_SECRET = "model-catalog-oauth-cookie-secret"
PORT = 8443
SERVER_PORT = 8080
PODS = {"app": NAME, "component": NAME, "app.kubernetes.io/name": NAME}
DATABASE_PODS = {"app": NAME, "component": NAME, "app.kubernetes.io/name": DATABASE}
RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}
SECRET_KEYS = ("database-name", "database-user", "database-password")


@dataclass(frozen=True)
class CatalogFacts:
    """What the cluster and the settings say."""

    settings: Settings
    openshift: bool = False
    domain: str = ""
    platform: Object | None = None
    """A reference to the platform's own resource, which then owns the catalog."""
    admin_groups: tuple[str, ...] = ()
    labelled: tuple[str, ...] = ()
    """The ConfigMaps that a label makes sources."""
    labelled_secrets: tuple[str, ...] = ()
    claim: Object | None = None
    storage_class: Object | None = None
    digest: str = ""
    """Of the database's credentials."""
    missing: tuple[Missing, ...] = ()
    """What the server reads at start and the cluster does not have."""
    health: str = ""
    """Why the catalog is not available; empty where it is."""
    gateway: bool = False
    """HTTPRoutes are served, and we know the Gateway's domain."""
    grants: bool = False
    """ReferenceGrants are served, and the namespace has none of ours."""
    serving_ca: str = ""
    """The authority behind the proxy's certificate, in base64; empty where a gateway need not be told."""

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    @property
    def route_namespace(self) -> str:
        return route_namespace(self.settings, self.namespace, openshift=self.openshift)


def labels(instance: str = NAME, component: str = NAME, name: str = NAME) -> dict[str, str]:
    return {
        "app": NAME,
        "component": component,
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": NAME,
        "app.kubernetes.io/managed-by": OPERATOR,
        **CREATED_BY,
    }


def database_labels() -> dict[str, str]:
    return labels(DATABASE, DATABASE, DATABASE)


def children(facts: CatalogFacts, missing: Sequence[str]) -> list[Child]:
    """Everything but the database's credentials. `missing` are the users' ConfigMaps that are not there."""
    made = [
        _child(build.service_account(NAME, facts.namespace, labels()), facts),
        _child(build.config_map(sources.DEFAULTS, facts.namespace, _text(sources.default_sources()), labels()), facts),
        *(
            Child(build.config_map(name, facts.namespace, _text(sources.USER_TEXTS[name]), labels()), Policy.ONCE)
            for name in missing
        ),
        _child(rbac_proxy.config_map(PROXY_CONFIG, facts.namespace, NAME, labels(PROXY_CONFIG)), facts),
        Child(
            rbac_proxy.auth_delegator(
                AUTH_DELEGATOR, NAME, facts.namespace, labels(AUTH_DELEGATOR) | {NAMESPACE_LABEL: facts.namespace}
            ),
            policy=Policy.RECREATE,
        ),
    ]
    if facts.settings.catalog_database:
        made += database_children(facts)
    made += [
        _child(deployment(facts), facts, Policy.RECREATE),
        _child(service(facts), facts),
        *(_child(one, facts, Policy.RECREATE) for one in access(facts)),
        _child(policy(facts), facts),
        _child(health(facts), facts),
    ]
    if facts.openshift:
        made.append(_child(catalog_route(facts), facts))
    if facts.gateway:
        made += gateway_children(facts)
    return made


def _child(obj: Object, facts: CatalogFacts, policy: Policy = Policy.APPLY) -> Child:
    return Child(owned(obj, facts), policy)


def owned(obj: Object, facts: CatalogFacts) -> Object:
    """The object as one of the platform's, where there is a platform."""
    if facts.platform is not None:
        obj["metadata"]["ownerReferences"] = [facts.platform]
    return obj


def _text(text: str) -> dict[str, str]:
    return {sources.KEY: text}


def deployment(facts: CatalogFacts) -> Object:
    settings = facts.settings
    made = build.deployment(
        NAME,
        facts.namespace,
        labels=labels(),
        replicas=1,
        selector=PODS,
        pod_annotations={**REQUIRED_SCC, **digest_annotation(facts.digest)},
        pod={
            "serviceAccountName": NAME,
            "securityContext": security.pod(None if facts.openshift else security.SERVER_GROUP),
            "initContainers": [
                _copy("catalog-data", settings.catalog_data_image, "cp /app/data/*.yaml /shared-data/", "/shared-data"),
                _copy(
                    "benchmark-data",
                    settings.benchmark_data_image,
                    "cp -r /app/benchmarks/* /shared-benchmark-data/ || true",
                    "/shared-benchmark-data",
                ),
            ],
            "containers": [_server(facts), _proxy(facts)],
            "volumes": _volumes(facts),
        },
    )
    made["spec"]["revisionHistoryLimit"] = 0
    return made


def _copy(data: str, image: str, script: str, directory: str) -> Object:
    """Brings the data of an image into a volume."""
    return {
        "name": f"{data}-init",
        "image": image,
        "imagePullPolicy": pull_policy(image),
        "command": ["/bin/sh", "-c"],
        "args": [script],
        "securityContext": security.CONTAINER,
        "volumeMounts": [build.mount(data, directory)],
    }


def _server(facts: CatalogFacts) -> Object:
    # The defaults first, then the users', then those that a label adds.
    ordered = [path for path, _ in (*_LISTS[-1:], *_LISTS[:-1], *_labelled_directories(facts))]
    return {
        "name": "catalog",
        "image": facts.settings.rest_image,
        "imagePullPolicy": pull_policy(facts.settings.rest_image),
        "command": ["/model-registry", "catalog"],
        "args": [
            f"--listen=0.0.0.0:{SERVER_PORT}",
            *(f"--catalogs-path=/data/{directory}/{sources.KEY}" for directory in ordered),
            "--performance-metrics=/shared-benchmark-data",
        ],
        "env": [
            build.env("PGHOST", DATABASE),
            build.env_from_secret("PGDATABASE", DATABASE, "database-name"),
            build.env_from_secret("PGUSER", DATABASE, "database-user"),
            build.env_from_secret("PGPASSWORD", DATABASE, "database-password"),
        ],
        "ports": [{"name": "http-api", "containerPort": SERVER_PORT, "protocol": "TCP"}],
        "livenessProbe": {
            "tcpSocket": {"port": "http-api"},
            "initialDelaySeconds": 30,
            "periodSeconds": 5,
            "timeoutSeconds": 2,
        },
        "readinessProbe": build.probe("/readyz", "http-api", initial_delay=3, period=5, timeout=2),
        "resources": RESOURCES,
        "securityContext": security.CONTAINER,
        "volumeMounts": _mounts(facts),
    }


_LISTS = (
    ("user-model-sources", sources.USER_MODELS),
    ("user-mcp-sources", sources.USER_MCP),
    ("user-agent-sources", sources.USER_AGENTS),
    ("default-sources", sources.DEFAULTS),
)
"""The directories below `/data` and the ConfigMaps behind them, in the order of the volumes."""


def _labelled_directories(facts: CatalogFacts) -> list[tuple[str, str]]:
    return [(f"labeled-sources/{name}", name) for name in facts.labelled]


def _mounts(facts: CatalogFacts) -> list[Object]:
    return [
        *(build.mount(path, f"/data/{path}") for path, _ in _LISTS),
        build.mount("catalog-data", "/shared-data"),
        build.mount("benchmark-data", "/shared-benchmark-data"),
        *(build.mount(f"labeled-{name}", f"/data/labeled-sources/{name}") for name in facts.labelled),
    ]


def _volumes(facts: CatalogFacts) -> list[Object]:
    return [
        *(build.config_map_volume(path, config_map) for path, config_map in _LISTS),
        build.empty_dir("catalog-data"),
        build.empty_dir("benchmark-data"),
        *(build.config_map_volume(f"labeled-{name}", name) for name in facts.labelled),
        build.secret_volume("kube-rbac-proxy-tls", SERVING_CERT_SECRET, mode=0o600),
        rbac_proxy.config_volume(PROXY_CONFIG),
    ]


def _proxy(facts: CatalogFacts) -> Object:
    sidecar = rbac_proxy.Sidecar(facts.settings.proxy_image, PORT, SERVER_PORT, "/etc/tls/tls.crt", "/etc/tls/tls.key")
    return rbac_proxy.container(sidecar, [build.mount("kube-rbac-proxy-tls", "/etc/tls")])


def service(facts: CatalogFacts) -> Object:
    host = f"{NAME}.{facts.domain}:443" if facts.domain else ""
    outside = f"{facts.settings.gateway_domain}{GATEWAY_PATH.rstrip('/')}" if facts.gateway else host
    address = {EXTERNAL_ADDRESS: outside} if outside else {}
    return build.service(
        NAME,
        facts.namespace,
        labels=labels(),
        annotations=address,
        serving_certificate=SERVING_CERT_SECRET,
        selector=PODS,
        ports=[{"name": "https-api", "port": PORT, "protocol": "TCP", "appProtocol": "https"}],
    )


def catalog_route(facts: CatalogFacts) -> Object:
    return route(
        ROUTE,
        facts.namespace,
        service=NAME,
        port="https-api",
        termination="reencrypt",
        host=f"{NAME}.{facts.domain}" if facts.domain else None,
        labels=labels(ROUTE),
    )


def gateway_children(facts: CatalogFacts) -> list[Child]:
    """The way in through the platform's Gateway, and how that checks the proxy's certificate."""
    settings, origin = facts.settings, facts.route_namespace
    rule = path_rule(GATEWAY_PATH, NAME, PORT, rewrite="/")
    rule["backendRefs"][0]["namespace"] = facts.namespace
    way = http_route(
        NAME,
        origin,
        gateway=settings.gateway_name,
        gateway_namespace=settings.gateway_namespace,
        rules=[rule],
        labels=labels(),
    )
    made = [Child(way)]
    if facts.grants and origin != facts.namespace:
        made.append(Child(reference_grant(origin, facts.namespace), Policy.ONCE, keep=True, adopt=True))
    if facts.serving_ca:
        host = f"{NAME}.{facts.namespace}.svc"
        trust = backend_tls(
            NAME, facts.namespace, host=host, ca=facts.serving_ca, bundle=SERVING_CA, labels=labels(SERVING_CA)
        )
        made += [_child(each, facts) for each in trust]
    return made


def policy(facts: CatalogFacts) -> Object:
    """Only the proxy is reached: by the router where there is one, else by everyone in the cluster."""
    name = ROUTE_POLICY if facts.openshift else PROXY_POLICY
    peers = {"from": [{"namespaceSelector": INGRESS_NAMESPACES}]} if facts.openshift else {}
    return network_policy(
        name,
        facts.namespace,
        pods=PODS,
        labels=labels(name),
        ingress=[{**peers, "ports": tcp(PORT)}],
        types=("Ingress",),
    )


def health(facts: CatalogFacts) -> Object:
    """How the catalog fares, for people: there is no custom resource whose status could say it."""
    said = [facts.health or "the catalog is available", *(one.remedy for one in facts.missing)]
    data = {"available": "false" if facts.health else "true", "message": "; ".join(said)}
    return build.config_map(HEALTH, facts.namespace, data, labels(HEALTH))


def access(facts: CatalogFacts) -> list[Object]:
    """Everyone who is known may read; the platform's admins may edit the lists."""
    names, namespace = labels(), facts.namespace
    names.pop("app.kubernetes.io/instance")
    user = build.role(
        NAME,
        namespace,
        [build.rule([""], [resource], ["get"], [NAME]) for resource in ("services", "endpoints")],
        names,
    )
    everyone = build.role_binding(
        AUTHENTICATED, namespace, NAME, [build.group_subject("system:authenticated")], labels(AUTHENTICATED)
    )
    admin = build.role(ADMIN, namespace, _admin_rules(facts), labels(ADMIN))
    _describe(user, "Model catalog User", "Can access model catalog")
    _describe(admin, "Model Catalog Admin", "Admin access to model catalog ConfigMaps and Secrets")
    made = [user, everyone, admin]
    if facts.admin_groups:
        subjects = [build.group_subject(group) for group in facts.admin_groups]
        binding = build.role_binding(ADMIN_BINDING, namespace, ADMIN, subjects, labels(ADMIN_BINDING))
        _describe(binding, "Model Catalog Admin Binding", "Binds admin groups to model catalog admin role")
        made.append(binding)
    return made


def _admin_rules(facts: CatalogFacts) -> list[Object]:
    """The lists, by name; and Secrets that carry the label of a source. Not everything that is in the namespace."""
    verbs = ["get", "list", "watch", "update", "patch"]
    lists = [sources.DEFAULTS, *sources.USER_TEXTS, *facts.labelled]
    rules = [build.rule([""], ["configmaps"], verbs, lists)]
    if facts.labelled_secrets:
        rules.append(build.rule([""], ["secrets"], verbs, list(facts.labelled_secrets)))
    return rules


def _describe(obj: Object, name: str, description: str) -> None:
    obj["metadata"]["annotations"] = {DISPLAY_NAME: name, DESCRIPTION: description}


def credentials(facts: CatalogFacts, password: str) -> Child:
    """The password is generated when the Secret is made, and never again."""
    settings = facts.settings
    secret = build.obj(builtin.Secret, DATABASE, facts.namespace, database_labels())
    generated = {
        "database-name": settings.catalog_database_name,
        "database-user": settings.catalog_user,
        "database-password": password,
    }
    return Child(owned(secret, facts), generate=lambda: {"stringData": generated})


def database_children(facts: CatalogFacts) -> list[Child]:
    made = database(facts)
    selector = {"app": NAME, "app.kubernetes.io/name": DATABASE}
    port = {
        "name": "postgresql",
        "port": postgres.PORT,
        "targetPort": postgres.PORT,
        "protocol": "TCP",
        "appProtocol": "tcp",
    }
    uri = 'postgres://{.spec.clusterIP}:{.spec.ports[?(@.name=="postgresql")].port}'
    service = build.service(
        DATABASE,
        facts.namespace,
        labels=made.labels,
        annotations={"template.openshift.io/expose-uri": uri},
        selector=selector,
        ports=[port],
    )
    service["spec"]["sessionAffinity"] = "None"
    claim = owned(postgres.claim(made), facts)
    return [
        kept_claim(claim, facts.claim, facts.storage_class, keep=False),
        _child(postgres.deployment(made), facts, Policy.RECREATE),
        _child(service, facts),
        _child(postgres.policy(made), facts),
    ]


def database(facts: CatalogFacts) -> postgres.Database:
    ready = "psql -w -U $POSTGRESQL_USER -d $POSTGRESQL_DATABASE -c 'SELECT 1'"
    alive = "/usr/bin/pg_isready -U $POSTGRESQL_USER -d $POSTGRESQL_DATABASE"
    return postgres.Database(
        name=DATABASE,
        namespace=facts.namespace,
        image=facts.settings.postgres_image,
        container="postgresql",
        labels=database_labels(),
        pods=DATABASE_PODS,
        clients=PODS,
        claim=DATABASE,
        volume="model-catalog-postgres-data",
        env=[
            build.env_from_secret("POSTGRESQL_USER", DATABASE, "database-user"),
            build.env_from_secret("POSTGRESQL_PASSWORD", DATABASE, "database-password"),
            build.env_from_secret("POSTGRESQL_DATABASE", DATABASE, "database-name"),
        ],
        liveness=postgres.exec_probe(["bash", "-c", alive], initial_delay=30, timeout=2),
        readiness=postgres.exec_probe(["bash", "-c", ready], initial_delay=10, timeout=5),
        pod_labels={"sidecar.istio.io/inject": "false"},
        pod_annotations=digest_annotation(facts.digest),
        annotations={"template.alpha.openshift.io/wait-for-ready": "true"},
        pull_policy="IfNotPresent",
        history=0,
        group=None if facts.openshift else security.POSTGRES_GROUP,
    )
