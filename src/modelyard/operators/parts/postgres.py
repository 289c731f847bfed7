"""A small PostgreSQL of its own for a service: one pod on one volume, reached by that service alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from modelyard.kube.kinds import Object
from modelyard.operators.parts import build, security
from modelyard.operators.parts.build import Labels
from modelyard.operators.parts.images import pull_policy
from modelyard.operators.parts.network import network_policy, tcp

PORT = 5432
DATA_DIRECTORY = "/var/lib/pgsql/data"
"""Where the image keeps its data, whatever PGDATA says."""
RESOURCES = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}
SIZE = "5Gi"


@dataclass(frozen=True)
class Database:
    """One PostgreSQL: its names, labels and what starts it."""

    name: str
    namespace: str
    image: str
    container: str
    labels: Labels
    pods: Labels
    """The labels that select its pods."""
    clients: Labels
    """The labels of the pods that may reach it."""
    claim: str
    volume: str
    env: Sequence[Object]
    liveness: Object
    readiness: Object
    port: int = PORT
    """Of its Service."""
    pod_labels: Labels = field(default_factory=dict)
    """Beside those that select."""
    pod_annotations: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    pull_policy: str | None = None
    history: int | None = None
    group: int | None = None
    """Whom the volume is handed to, where no platform assigns groups."""


def claim(database: Database) -> Object:
    return build.claim(database.claim, database.namespace, size=SIZE, labels=database.labels)


def deployment(database: Database) -> Object:
    """One pod; an old one ends before a new one starts, as both would want the one volume."""
    container = build.present(
        name=database.container,
        image=database.image,
        imagePullPolicy=database.pull_policy or pull_policy(database.image),
        env=list(database.env),
        ports=[{"containerPort": PORT, "protocol": "TCP"}],
        resources=RESOURCES,
        securityContext=security.CONTAINER,
        livenessProbe=database.liveness,
        readinessProbe=database.readiness,
        volumeMounts=[build.mount(database.volume, DATA_DIRECTORY)],
    )
    made = build.deployment(
        database.name,
        database.namespace,
        labels=database.labels,
        replicas=1,
        strategy={"type": "Recreate"},
        selector=database.pods,
        pod_labels={**database.pods, **database.pod_labels},
        pod_annotations=database.pod_annotations,
        pod={
            "securityContext": security.pod(database.group),
            "containers": [container],
            "volumes": [build.claim_volume(database.volume, database.claim)],
        },
    )
    if database.annotations:
        made["metadata"]["annotations"] = dict(database.annotations)
    if database.history is not None:
        made["spec"]["revisionHistoryLimit"] = database.history
    return made


def policy(database: Database) -> Object:
    """Only its clients reach it."""
    peers = [{"podSelector": {"matchLabels": dict(database.clients)}}]
    return network_policy(
        database.name,
        database.namespace,
        pods=database.pods,
        labels=database.labels,
        ingress=[{"from": peers, "ports": tcp(PORT)}],
        types=("Ingress",),
    )


def exec_probe(
    command: Sequence[str],
    *,
    initial_delay: int,
    timeout: int,
    period: int | None = None,
    failure: int | None = None,
) -> Object:
    return build.present(
        exec={"command": list(command)},
        initialDelaySeconds=initial_delay,
        periodSeconds=period,
        timeoutSeconds=timeout,
        failureThreshold=failure,
    )
