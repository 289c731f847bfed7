"""The server's Deployment: its arguments, volumes and containers."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import MLflow, MLflowSpec
from modelyard.operators.mlflow.environment import archival, server_environment
from modelyard.operators.mlflow.facts import COMPONENT, PORT, PREFIX, Facts, Names
from modelyard.operators.mlflow.rules import RESERVED_LABELS
from modelyard.operators.parts import build, ca_bundle, security
from modelyard.operators.parts.references import digest_annotation
from modelyard.operators.parts.resources import merged

DEFAULT_ARTIFACTS = "file:///mlflow/artifacts"
TLS_DIRECTORY = "/etc/tls/private"
SERVER_RESOURCES = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "3Gi"}}
CONTAINER_SECURITY: Object = {**security.CONTAINER, "readOnlyRootFilesystem": True}


def server_deployment(mlflow: MLflow, facts: Facts, *, replicas: int | None = None) -> Object:
    """The Deployment, with its own number of replicas or another (none while the database is migrated)."""
    names, spec = facts.names(mlflow), mlflow.spec
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return build.deployment(
        names.server,
        names.namespace,
        labels=names.labels,
        annotations=facts.read,
        replicas=spec.replicas if replicas is None else replicas,
        strategy={"type": "Recreate"} if spec.storage is not None else rolling,
        selector={"app": names.server},
        pod_labels=_pod_labels(spec, names),
        pod_annotations=_pod_annotations(spec, facts),
        pod=_pod(mlflow, facts, names),
    )


def _pod_labels(spec: MLflowSpec, names: Names) -> dict[str, str]:
    reserved = dict.fromkeys(RESERVED_LABELS, names.server)
    return {**reserved, "component": COMPONENT, **(spec.pod_labels or {}), **reserved}


def _pod_annotations(spec: MLflowSpec, facts: Facts) -> dict[str, str]:
    return {**(spec.pod_annotations or {}), **digest_annotation(facts.digest)}


def _pod(mlflow: MLflow, facts: Facts, names: Names) -> Object:
    spec, sources = mlflow.spec, facts.ca_sources(mlflow)
    base = container_base(mlflow, facts)
    containers = [_server(mlflow, facts)]
    if sources:
        containers.append(ca_bundle.watcher(sources, base))
    return {
        **pod_base(mlflow, facts, facts.account(mlflow)),
        **build.filled(resourceClaims=spec.resource_claims),
        "containers": containers,
        "volumes": [
            *storage_volumes(spec, names),
            build.secret_volume("mlflow-tls", facts.settings.tls_secret, mode=0o640 if facts.openshift else 0o644),
            *ca_bundle.volumes(sources),
            *([build.empty_dir("metrics", "100Mi")] if facts.metrics else []),
            *archival_volumes(spec, names),
        ],
    }


def _server(mlflow: MLflow, facts: Facts) -> Object:
    spec = mlflow.spec
    ready = f"{PREFIX}/api/3.0/mlflow/server-info" if facts.api_under_prefix else f"{PREFIX}/health"
    return {
        "name": "mlflow",
        **container_base(mlflow, facts),
        "command": ["mlflow"],
        "args": server_arguments(spec, facts),
        "env": server_environment(mlflow, facts),
        **build.filled(envFrom=spec.env_from),
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": [
            *storage_mounts(spec),
            build.mount("mlflow-tls", TLS_DIRECTORY, read_only=True),
            *ca_bundle.mounts(facts.ca_sources(mlflow)),
            *([build.mount("metrics", "/prometheus")] if facts.metrics else []),
            *archival_mounts(spec),
        ],
        "livenessProbe": _probe(f"{PREFIX}/health", initial_delay=30, period=10),
        "readinessProbe": _probe(ready, initial_delay=5, period=5),
        "resources": merged(SERVER_RESOURCES, spec.resources),
    }


def _probe(path: str, *, initial_delay: int, period: int) -> Object:
    return build.probe(
        path, "https", scheme="HTTPS", initial_delay=initial_delay, timeout=1, period=period, success=1, failure=3
    )


def server_arguments(spec: MLflowSpec, facts: Facts) -> list[str]:
    """The arguments of `mlflow`, in order. Stores go by environment, since they may hold passwords."""
    if spec.serve_artifacts:
        artifacts = ["--serve-artifacts", f"--artifacts-destination={spec.artifacts_destination or DEFAULT_ARTIFACTS}"]
    else:
        artifacts = ["--no-serve-artifacts"]
    uvicorn = f"--ssl-keyfile={TLS_DIRECTORY}/tls.key --ssl-certfile={TLS_DIRECTORY}/tls.crt --proxy-headers"
    return [
        "server",
        *artifacts,
        *([f"--default-artifact-root={spec.default_artifact_root}"] if spec.default_artifact_root else []),
        "--app-name=kubernetes-auth",
        "--enable-workspaces",
        "--workspace-store-uri=kubernetes://",
        "--host=0.0.0.0",
        f"--port={PORT}",
        f"--workers={spec.workers}",
        f"--uvicorn-opts={uvicorn}",
        "--allowed-hosts",
        "*",
        f"--static-prefix={PREFIX}",
        *(["--expose-prometheus=/prometheus"] if facts.metrics else []),
    ]


def pod_base(mlflow: MLflow, facts: Facts, account: str) -> Object:
    """What the pods of the server and of its jobs have in common."""
    spec, sources = mlflow.spec, facts.ca_sources(mlflow)
    init = [ca_bundle.init_container(sources, container_base(mlflow, facts))] if sources else []
    return build.filled(
        serviceAccountName=account,
        automountServiceAccountToken=True,
        securityContext=spec.pod_security_context or security.POD,
        nodeSelector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        initContainers=init,
    )


def container_base(mlflow: MLflow, facts: Facts) -> Object:
    """What all containers have in common."""
    policy = mlflow.spec.image.image_pull_policy if mlflow.spec.image else None
    return build.present(
        image=facts.image(mlflow),
        imagePullPolicy=policy,
        securityContext=mlflow.spec.security_context or CONTAINER_SECURITY,
    )


def storage_volumes(spec: MLflowSpec, names: Names) -> list[Object]:
    size = spec.temporary_storage.size_limit if spec.temporary_storage else None
    scratch = build.empty_dir("tmp", "1Gi" if size is None else size)
    return [scratch, build.claim_volume("mlflow-storage", names.claim)] if spec.storage is not None else [scratch]


def storage_mounts(spec: MLflowSpec) -> list[Object]:
    scratch = build.mount("tmp", "/tmp")
    return [scratch, build.mount("mlflow-storage", "/mlflow")] if spec.storage is not None else [scratch]


def archival_volumes(spec: MLflowSpec, names: Names) -> list[Object]:
    return [build.config_map_volume("trace-archival-config", names.archival_config)] if archival(spec) else []


def archival_mounts(spec: MLflowSpec) -> list[Object]:
    return [build.mount("trace-archival-config", "/etc/mlflow", read_only=True)] if archival(spec) else []
