"""What should exist for an `MLflow`: pure functions from the resource and the facts to objects."""

from __future__ import annotations

from base64 import b64encode

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.environment import RenderError, archival
from modelyard.operators.mlflow.facts import (
    ARCHIVAL_ACCOUNT,
    DELETE_STORAGE,
    PORT,
    SHARED_NAME,
    Facts,
    labels,
)
from modelyard.operators.mlflow.jobs import archival_children, archival_config, gc_children
from modelyard.operators.mlflow.rules import RESERVED_ACCOUNTS
from modelyard.operators.mlflow.server import server_deployment
from modelyard.operators.parts import build, network
from modelyard.operators.parts.network import DNS_PORTS, http_route, network_policy, path_rule, tcp, to_ports
from modelyard.operators.parts.storage import kept_claim
from modelyard.runtime.declaring.desired import Child, Ownership

MIGRATION_COMPONENT = "mlflow-migration"

_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>"
    "<path d='M4 22a12 12 0 0 1 20-11' fill='none' stroke='#0194e2' stroke-width='4'/>"
    "<path d='M28 10a12 12 0 0 1-20 11' fill='none' stroke='#43c9ed' stroke-width='4'/></svg>"
)


def children(mlflow: MLflow, facts: Facts, *, replicas: int | None = None) -> list[Child]:
    """Everything, in a fixed order: what others refer to comes first."""
    return [*server_children(mlflow, facts, replicas=replicas), *further_children(mlflow, facts)]


def server_children(mlflow: MLflow, facts: Facts, *, replicas: int | None = None) -> list[Child]:
    """What the server and the migration of its databases need."""
    spec = mlflow.spec
    return [
        *([] if facts.foreign_account else [Child(service_account(mlflow, facts))]),
        Child(cluster_role(), ownership=Ownership.SHARED),
        Child(cluster_role_binding(mlflow, facts)),
        *([] if spec.storage is None or facts.foreign_claim else [storage(mlflow, facts)]),
        Child(policy(mlflow, facts)),
        Child(migration_policy(mlflow, facts)),
        *([Child(archival_config(facts.names(mlflow), archived))] if (archived := archival(spec)) else []),
        Child(service(mlflow, facts)),
        Child(server_deployment(mlflow, facts, replicas=replicas)),
    ]


def further_children(mlflow: MLflow, facts: Facts) -> list[Child]:
    """What is done on a schedule, and the ways to the server from outside: no migration waits for any of it."""
    spec = mlflow.spec
    made: list[Child] = []
    if spec.garbage_collection:
        made += map(Child, gc_children(mlflow, facts, spec.garbage_collection))
    if archived := archival(spec):
        made += map(Child, archival_children(mlflow, facts, archived))
    if facts.monitors and facts.metrics:
        made.append(Child(service_monitor(mlflow, facts)))
    if facts.routes:
        made.append(Child(route(mlflow, facts)))
        if facts.backend_tls and facts.serving_ca:
            made += map(Child, backend_tls(mlflow, facts))
    if facts.console and facts.settings.url_configured:
        made.append(Child(console_link(mlflow, facts)))
    return made


def service_account(mlflow: MLflow, facts: Facts) -> Object:
    names = facts.names(mlflow)
    if facts.account(mlflow) in RESERVED_ACCOUNTS:
        # Stored before the rule that refuses it. With one account the scheduled job and the server would share all rights.
        message = (
            f"spec.serviceAccountName {facts.account(mlflow)} is the account of a scheduled job; choose another name"
        )
        raise RenderError(message)
    return build.service_account(facts.account(mlflow), names.namespace, names.labels, automount=False)


def cluster_role() -> Object:
    """What the server may read: it is the same for all instances."""
    read = ["get", "list", "watch"]
    rules = [
        build.rule([""], ["namespaces"], read),
        build.rule([""], ["secrets"], read, ["mlflow-artifact-connection"]),
        build.rule(["mlflow.kubeflow.org"], ["mlflowconfigs"], read),
    ]
    return build.cluster_role(SHARED_NAME, rules, labels(SHARED_NAME))


def cluster_role_binding(mlflow: MLflow, facts: Facts) -> Object:
    namespace = facts.settings.target_namespace
    subjects = [build.service_account_subject(facts.account(mlflow), namespace)]
    if archival(mlflow.spec):
        subjects.append(build.service_account_subject(ARCHIVAL_ACCOUNT, namespace))
    return build.cluster_role_binding(SHARED_NAME, SHARED_NAME, subjects, labels(SHARED_NAME))


def service(mlflow: MLflow, facts: Facts) -> Object:
    names = facts.names(mlflow)
    return build.service(
        names.server,
        names.namespace,
        labels=names.labels,
        serving_certificate=facts.settings.tls_secret,
        selector={"app": names.server},
        ports=[build.service_port(PORT, name="https", target="https")],
    )


def storage(mlflow: MLflow, facts: Facts) -> Child:
    """The volume claim. It outlives the MLflow, unless an annotation lets it go, as it may hold all data."""
    keep = mlflow.metadata.annotations.get(DELETE_STORAGE) != "true"
    return kept_claim(claim(mlflow, facts), facts.claim, facts.storage_class, keep=keep)


def claim(mlflow: MLflow, facts: Facts) -> Object:
    """The volume claim as the spec asks for it."""
    names, asked = facts.names(mlflow), mlflow.spec.storage or {}
    return build.claim(
        names.claim,
        names.namespace,
        labels=names.labels,
        size=((asked.get("resources") or {}).get("requests") or {}).get("storage") or "2Gi",
        modes=[(asked.get("accessModes") or ["ReadWriteOnce"])[0]],
        storage_class=asked.get("storageClassName"),
    )


def policy(mlflow: MLflow, facts: Facts) -> Object:
    """Who may reach the server, and what its pods may reach."""
    names, spec = facts.names(mlflow), mlflow.spec
    anyone: list[Object] = [{"podSelector": {}}, {"namespaceSelector": {}}]
    usual = [
        to_ports(DNS_PORTS),
        to_ports(tcp(443, 6443, 8443)),
        to_ports(tcp(5432)),
        to_ports(tcp(3306)),
        to_ports(tcp(9000, 8333, 8334)),
    ]
    return network_policy(
        names.server,
        names.namespace,
        labels=names.labels,
        pods={"app.kubernetes.io/instance": names.server},
        ingress=[{"from": anyone, "ports": tcp(PORT)}],
        egress=[*(spec.network_policy_egress_rules or usual), *(spec.network_policy_additional_egress_rules or [])],
    )


def migration_policy(mlflow: MLflow, facts: Facts) -> Object:
    """What a migration may reach: name service, the database, and whatever the author allows."""
    names, spec = facts.names(mlflow), mlflow.spec
    egress = [
        to_ports(DNS_PORTS),
        to_ports(tcp(5432, 3306)),
        *(spec.network_policy_egress_rules or []),
        *(spec.network_policy_additional_egress_rules or []),
    ]
    pods = {"component": MIGRATION_COMPONENT}
    return network_policy(names.migration_policy, names.namespace, labels=pods, pods=pods, egress=egress)


def service_monitor(mlflow: MLflow, facts: Facts) -> Object:
    names = facts.names(mlflow)
    trusted = {
        "ca": {"configMap": {"name": "openshift-service-ca.crt", "key": "service-ca.crt"}},
        "serverName": names.host,
    }
    endpoint = {
        "path": "/metrics",
        "port": "https",
        "scheme": "https",
        "tlsConfig": trusted if facts.openshift else {"insecureSkipVerify": True},
    }
    spec = {"selector": {"matchLabels": {"app": names.server}}, "endpoints": [endpoint]}
    return build.obj(builtin.ServiceMonitor, names.monitor, names.namespace, names.labels, spec=spec)


def route(mlflow: MLflow, facts: Facts) -> Object:
    """The way in through the gateway. Old servers answer `/api` without the prefix and get one rule more."""
    names, settings = facts.names(mlflow), facts.settings
    unprefixed = ["/v1"] if facts.api_under_prefix else ["/api", "/v1"]
    rules = [path_rule(names.path + path, names.server, PORT, rewrite=path) for path in unprefixed]
    return http_route(
        names.server,
        names.namespace,
        labels={"app": SHARED_NAME},
        gateway=settings.gateway_name,
        gateway_namespace=settings.gateway_namespace,
        hostnames=settings.hostnames,
        rules=[*rules, path_rule(names.path, names.server, PORT)],
    )


def backend_tls(mlflow: MLflow, facts: Facts) -> list[Object]:
    """How the gateway checks the server's certificate, where we know who signed it."""
    names = facts.names(mlflow)
    return network.backend_tls(
        names.server,
        names.namespace,
        host=names.host,
        ca=facts.serving_ca,
        bundle=names.serving_ca,
        labels=names.labels,
    )


def console_link(mlflow: MLflow, facts: Facts) -> Object:
    names = facts.names(mlflow)
    menu = {
        "section": facts.settings.section_title,
        "imageURL": f"data:image/svg+xml;base64,{b64encode(_ICON.encode()).decode()}",
    }
    spec = {
        "text": "MLflow",
        "href": facts.settings.url.rstrip("/") + names.path,
        "location": "ApplicationMenu",
        "applicationMenu": menu,
    }
    return build.obj(builtin.ConsoleLink, names.server, labels={"app": SHARED_NAME}, spec=spec)
