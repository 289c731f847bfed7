"""The scheduled jobs: garbage collection and trace archival, with the accounts and rights that they need."""

from __future__ import annotations

import json

from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import GarbageCollection, MLflow, TraceArchival
from modelyard.operators.mlflow.environment import archival_environment, backend_argument, gc_environment
from modelyard.operators.mlflow.facts import (
    ARCHIVAL_ACCOUNT,
    COMPONENT,
    GC_ACCOUNT,
    SERVING_CA_DIRECTORY,
    Facts,
    Names,
    labels,
)
from modelyard.operators.mlflow.server import (
    archival_mounts,
    archival_volumes,
    container_base,
    pod_base,
    storage_mounts,
    storage_volumes,
)
from modelyard.operators.parts import build, ca_bundle
from modelyard.operators.parts.cron import schedule_problem
from modelyard.operators.parts.resources import merged

JOB_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}
_ARCHIVE = (
    "from mlflow.tracing.trace_archival_service import run_trace_archival_scheduler; run_trace_archival_scheduler()"
)


def gc_children(mlflow: MLflow, facts: Facts, collection: GarbageCollection) -> list[Object]:
    """All that garbage collection needs. A schedule that is none gives no CronJob; the status says so."""
    names = facts.names(mlflow)
    own = labels(names.gc)
    rules = [
        build.rule(["mlflow.kubeflow.org"], ["experiments"], ["get", "list", "update"]),
        build.rule([""], ["namespaces"], ["get", "list", "watch"]),
    ]
    subject = build.service_account_subject(GC_ACCOUNT, names.namespace)
    children = [
        build.service_account(GC_ACCOUNT, names.namespace, own, automount=False),
        build.cluster_role(names.gc, rules, own),
        build.cluster_role_binding(names.gc, names.gc, [subject], own),
    ]
    if schedule_problem(collection.schedule) is None:
        children.append(_cron_job(names, names.gc, collection.schedule, _gc_pod(mlflow, facts, collection)))
    return children


def archival_children(mlflow: MLflow, facts: Facts, archival: TraceArchival) -> list[Object]:
    """All that trace archival needs besides the configuration that the server reads too."""
    names = facts.names(mlflow)
    own = labels(names.archival)
    children = [build.service_account(ARCHIVAL_ACCOUNT, names.namespace, own, automount=False)]
    if schedule_problem(archival.schedule) is None:
        children.append(_cron_job(names, names.archival, archival.schedule, _archival_pod(mlflow, facts, archival)))
    return children


def archival_config(names: Names, archival: TraceArchival) -> Object:
    """The ConfigMap that the server and the job read."""
    lines = ["trace_archival:", "  enabled: true"]
    if archival.location:
        lines.append(f"  location: {_quoted(archival.location)}")
    if archival.retention:
        lines.append(f"  retention: {_quoted(archival.retention)}")
    lines.append(f"  max_traces_per_pass: {archival.max_traces_per_pass}")
    if archival.long_retention_allowlist:
        lines.append("  long_retention_allowlist:")
        lines += [f"    - {_quoted(experiment)}" for experiment in archival.long_retention_allowlist]
    data = {"trace-archival.yaml": "\n".join(lines) + "\n"}
    return build.config_map(names.archival_config, names.namespace, data, names.labels)


def _quoted(text: str) -> str:
    """A JSON string is a YAML double-quoted string."""
    return json.dumps(text)


def _cron_job(names: Names, name: str, schedule: str, pod: Object) -> Object:
    pod_labels = {"app": name, "app.kubernetes.io/instance": names.server, "component": COMPONENT}
    return build.cron_job(
        name, names.namespace, schedule=schedule, pod=pod, labels=labels(name), pod_labels=pod_labels, backoff_limit=1
    )


def _gc_pod(mlflow: MLflow, facts: Facts, collection: GarbageCollection) -> Object:
    spec, names, sources = mlflow.spec, facts.names(mlflow), facts.ca_sources(mlflow)
    trusted, mounted = [], []
    if facts.serving_ca:
        trusted = [build.secret_volume("serving-ca", facts.settings.tls_secret, items={"ca.crt": "ca.crt"})]
        mounted = [build.mount("serving-ca", SERVING_CA_DIRECTORY, read_only=True)]
    container = {
        "name": "mlflow-gc",
        **container_base(mlflow, facts),
        "command": ["mlflow"],
        "args": [
            "gc",
            f"--backend-store-uri={backend_argument(spec)}",
            *([f"--older-than={collection.older_than}"] if collection.older_than else []),
            "--all-workspaces",
        ],
        "env": gc_environment(mlflow, facts),
        **build.filled(envFrom=spec.env_from),
        "volumeMounts": [*storage_mounts(spec), *ca_bundle.mounts(sources), *mounted],
        "resources": merged(JOB_RESOURCES, collection.resources),
    }
    return {
        **pod_base(mlflow, facts, GC_ACCOUNT),
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [*storage_volumes(spec, names), *ca_bundle.volumes(sources), *trusted],
    }


def _archival_pod(mlflow: MLflow, facts: Facts, archival: TraceArchival) -> Object:
    spec, names, sources = mlflow.spec, facts.names(mlflow), facts.ca_sources(mlflow)
    scratch, *storage = storage_volumes(spec, names)
    scratch_mount, *storage_mount = storage_mounts(spec)
    container = {
        "name": "mlflow-trace-archival",
        **container_base(mlflow, facts),
        "command": ["python", "-c", _ARCHIVE],
        "env": archival_environment(mlflow, facts),
        **build.filled(envFrom=spec.env_from),
        "volumeMounts": [scratch_mount, *archival_mounts(spec), *storage_mount, *ca_bundle.mounts(sources)],
        "resources": merged(JOB_RESOURCES, archival.resources),
    }
    return {
        **pod_base(mlflow, facts, ARCHIVAL_ACCOUNT),
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [scratch, *archival_volumes(spec, names), *storage, *ca_bundle.volumes(sources)],
    }
