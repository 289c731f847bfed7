"""The Jobs of a migration: the one that migrates, and the one that looks into an image before a server is stopped for it."""

from __future__ import annotations

import copy
import hashlib
import re
from importlib import resources

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.children import MIGRATION_COMPONENT
from modelyard.operators.mlflow.environment import READ_REPLICA
from modelyard.operators.mlflow.facts import Facts
from modelyard.operators.mlflow.server import container_base, server_deployment
from modelyard.operators.parts import build

MIGRATION_JOB = "mlflow.opendatahub.io/migration-job"
MIGRATION_INSTANCE = "mlflow.opendatahub.io/migration-instance"
PREFLIGHT = "mlflow.opendatahub.io/preflight"
CONTAINER = "db-migrate"
DEFAULT_TTL = 86400
_NAME_MAX = 63

# The server's image has Python 3.12; a local build may have another.
_PYTHON = "if command -v python3.12 >/dev/null 2>&1; then exec python3.12 {0}; fi; exec python3 {0}"
_CHECK_VERSION = """\
import os, sys
from mlflow.version import VERSION
def normalised(version):
    return version.strip().removeprefix("v").split("+", 1)[0]
sys.exit(0 if normalised(VERSION) == normalised(os.environ["SUPPORTED_MLFLOW_VERSION"]) else 10)
"""


def job_name(mlflow: MLflow, facts: Facts) -> str:
    """`mlflow-mg-3140-g1`: one Job for each version and generation."""
    return _name(mlflow, facts, "mg", f"g{mlflow.metadata.generation}")


def preflight_name(mlflow: MLflow, facts: Facts) -> str:
    """`mlflow-pf-3140-g1-5e884898`: what one image said is not a word about another."""
    image = hashlib.sha256(facts.image(mlflow).encode()).hexdigest()[:8]
    return _name(mlflow, facts, "pf", f"g{mlflow.metadata.generation}-{image}")


def _name(mlflow: MLflow, facts: Facts, kind: str, end: str) -> str:
    version = re.sub(r"[^a-z0-9]", "", facts.settings.supported_version.lower()).removeprefix("v") or "unknown"
    tail = f"-{kind}-{version}-{end}"
    return facts.names(mlflow).server[: _NAME_MAX - len(tail)] + tail


def migration_job(mlflow: MLflow, facts: Facts) -> Object:
    """The Job that migrates the databases: the server's own pod, with another program and without what only a server needs."""
    template = server_deployment(mlflow, facts)["spec"]["template"]
    pod: Object = copy.deepcopy(template["spec"])
    pod.pop("resourceClaims", None)
    server = next(container for container in pod["containers"] if container["name"] == "mlflow")
    for field in ("ports", "livenessProbe", "readinessProbe"):
        server.pop(field)
    server["resources"].pop("claims", None)
    own_env = [build.env(READ_REPLICA, ""), *_program(migration_script(), facts)]
    server |= {
        "name": CONTAINER,
        "command": ["/bin/sh", "-ec"],
        "args": [_PYTHON.format('-c "$MIGRATION_PYTHON_SCRIPT"')],
        "env": [*(one for one in server["env"] if one["name"] not in {own["name"] for own in own_env}), *own_env],
    }
    pod["containers"] = [server]
    kept = [server, *pod.get("initContainers", [])]
    mounted = {mount["name"] for container in kept for mount in container["volumeMounts"]}
    pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] in mounted]
    # Without the server's labels the pods are under the migration's network policy alone.
    labels = {
        name: value
        for name, value in template["metadata"]["labels"].items()
        if name not in ("app", "app.kubernetes.io/instance")
    }
    return _job(mlflow, facts, job_name(mlflow, facts), pod, labels, backoff_limit=3)


def preflight_job(mlflow: MLflow, facts: Facts) -> Object:
    """The Job that only asks the image for its MLflow version. It touches no data."""
    container = {
        "name": "check-version",
        **container_base(mlflow, facts),
        "command": ["/bin/sh", "-ec"],
        "args": [_PYTHON.format('-c "$MIGRATION_PYTHON_SCRIPT"')],
        "env": _program(_CHECK_VERSION, facts),
        "volumeMounts": [build.mount("tmp", "/tmp")],
        "resources": build.resources({"cpu": "100m", "memory": "256Mi"}, {"cpu": "1", "memory": "1Gi"}),
    }
    rendered = server_deployment(mlflow, facts)["spec"]["template"]["spec"]
    pod = {
        field: rendered[field]
        for field in ("serviceAccountName", "securityContext", "nodeSelector", "affinity", "tolerations")
        if field in rendered
    }
    pod |= {
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [build.empty_dir("tmp", "1Gi")],
    }
    name = preflight_name(mlflow, facts)
    return _job(mlflow, facts, name, pod, {PREFLIGHT: "true"}, backoff_limit=0)


def is_preflight(job: Object) -> bool:
    return PREFLIGHT in labels_of(job)


def _program(script: str, facts: Facts) -> list[Object]:
    """What a container needs to run a script of ours."""
    return [
        build.env("MIGRATION_PYTHON_SCRIPT", script),
        build.env("SUPPORTED_MLFLOW_VERSION", facts.settings.supported_version),
    ]


def migration_script() -> str:
    """The program that the migration Job runs."""
    return resources.files("modelyard.operators.mlflow.scripts").joinpath("migrate.py").read_text(encoding="utf-8")


def _job(mlflow: MLflow, facts: Facts, name: str, pod: Object, labels: dict[str, str], *, backoff_limit: int) -> Object:
    labels = {
        **labels,
        "component": MIGRATION_COMPONENT,
        MIGRATION_JOB: "true",
        MIGRATION_INSTANCE: mlflow.name,
    }
    ttl = mlflow.spec.migration.ttl_seconds_after_finished
    spec = {
        "backoffLimit": backoff_limit,
        "ttlSecondsAfterFinished": DEFAULT_TTL if ttl is None else ttl,
        "template": {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "Never"}},
    }
    return build.obj(builtin.Job, name, facts.settings.target_namespace, labels, spec=spec)
