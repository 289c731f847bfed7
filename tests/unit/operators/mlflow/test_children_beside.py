"""The objects beside an MLflow server: its scheduled jobs, its migration, its ways in."""

from __future__ import annotations

from typing import Any

from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.migration_job import migration_job, migration_script
from tests.unit.operators.mlflow.test_children import (
    CA_ENV,
    CA_VOLUMES,
    COMBINED,
    CONFIG,
    CONFIG_VOLUME,
    DB,
    EVERYTHING,
    FULL,
    FULL_SERVER_ENV,
    IMAGE,
    INIT,
    NS,
    PLACING,
    POD_SECURITY,
    SECURITY,
    STORAGE,
    STORAGE_VOLUME,
    TMP,
    TMP_VOLUME,
    amounts,
    env,
    made,
    metadata,
    mlflow,
)


def cron_job(name: str, schedule: str, container: Object, volumes: list[Object]) -> Object:
    pod = {
        "serviceAccountName": f"{name}-sa",
        "automountServiceAccountToken": True,
        "securityContext": POD_SECURITY,
        **PLACING,
        "restartPolicy": "Never",
        "initContainers": [INIT],
        "containers": [container],
        "volumes": volumes,
    }
    labels = {"app": name, "app.kubernetes.io/instance": "mlflow", "component": "mlflow"}
    job = {"backoffLimit": 1, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {
        "schedule": schedule,
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {"spec": job},
    }


def job_container(name: str, **more: Any) -> Object:
    base = {"name": name, "image": IMAGE, "imagePullPolicy": "Always", "securityContext": SECURITY}
    return {**base, "envFrom": EVERYTHING["envFrom"], "resources": amounts("100m", "256Mi", "500m", "512Mi"), **more}


def test_5_9_garbage_collection() -> None:
    found = made(FULL, **EVERYTHING)["CronJob mlflow-gc"]
    assert found["metadata"] == metadata("mlflow-gc", {"app": "mlflow-gc", "component": "mlflow"})
    variables = [
        *env(
            MLFLOW_DISABLE_TELEMETRY="true",
            MLFLOW_ENABLE_WORKSPACES="true",
            MLFLOW_WORKSPACE_STORE_URI="kubernetes://",
            MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR="team=a",
            MLFLOW_BACKEND_STORE_URI=DB,
            # With the prefix, and with the author's variables: upstream's collection works with neither (Q8).
            MLFLOW_TRACKING_URI=f"https://mlflow.{NS}.svc:8443/mlflow",
            MLFLOW_TRACKING_INSECURE_TLS="false",
            MLFLOW_TRACKING_AUTH="kubernetes",
            MLFLOW_TRACKING_SERVER_CERT_PATH="/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt",
            MINE="x",
        ),
        *CA_ENV,
    ]
    args = ["gc", f"--backend-store-uri={DB}", "--older-than=30d", "--all-workspaces"]
    container = job_container(
        "mlflow-gc", command=["mlflow"], args=args, env=variables, volumeMounts=[TMP, STORAGE, COMBINED]
    )
    assert found["spec"] == cron_job("mlflow-gc", "0 2 * * 0", container, [TMP_VOLUME, STORAGE_VOLUME, *CA_VOLUMES])


def test_5_9_trace_archival() -> None:
    found = made(FULL, **EVERYTHING)
    job = found["CronJob mlflow-trace-archival"]
    own = {"app": "mlflow-trace-archival", "component": "mlflow"}
    assert job["metadata"] == metadata("mlflow-trace-archival", own)
    variables = [
        *env(
            MLFLOW_DISABLE_TELEMETRY="true",
            MLFLOW_TRACE_ARCHIVAL_CONFIG="/etc/mlflow/trace-archival.yaml",
            MLFLOW_ENABLE_WORKSPACES="true",
            MLFLOW_WORKSPACE_STORE_URI="kubernetes://",
            MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR="team=a",
            MLFLOW_BACKEND_STORE_URI=DB,
        ),
        *CA_ENV,
        *env(MINE="x", UVICORN_SSL_CIPHERS="PROFILE=SYSTEM"),
    ]
    program = (
        "from mlflow.tracing.trace_archival_service import run_trace_archival_scheduler; run_trace_archival_scheduler()"
    )
    container = job_container(
        "mlflow-trace-archival",
        command=["python", "-c", program],
        env=variables,
        volumeMounts=[TMP, CONFIG, STORAGE, COMBINED],
    )
    volumes = [TMP_VOLUME, CONFIG_VOLUME, STORAGE_VOLUME, *CA_VOLUMES]
    assert job["spec"] == cron_job("mlflow-trace-archival", "0 */6 * * *", container, volumes)
    config = found["ConfigMap mlflow-trace-archival-config"]
    assert config["metadata"] == metadata("mlflow-trace-archival-config")
    text = (
        'trace_archival:\n  enabled: true\n  location: "s3://b/t"\n  retention: "30d"\n  max_traces_per_pass: 500\n'
        '  long_retention_allowlist:\n    - "7"\n    - "8"\n'
    )
    assert config["data"] == {"trace-archival.yaml": text}


def test_5_10_the_migration_job() -> None:
    job = migration_job(mlflow(**EVERYTHING), FULL)
    labels = {
        "component": "mlflow-migration",
        "team": "a",
        "mlflow.opendatahub.io/migration-job": "true",
        "mlflow.opendatahub.io/migration-instance": "mlflow",
    }
    assert job["metadata"] == metadata("mlflow-mg-3140-g1", labels)
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (3, 86400)
    template = spec["template"]
    assert template["metadata"] == {"labels": labels}
    (container,) = template["spec"]["containers"]
    assert container["args"] == [
        'if command -v python3.12 >/dev/null 2>&1; then exec python3.12 -c "$MIGRATION_PYTHON_SCRIPT"; fi; '
        'exec python3 -c "$MIGRATION_PYTHON_SCRIPT"'
    ]
    kept = [one for one in FULL_SERVER_ENV if one["name"] != "MLFLOW_READ_REPLICA_BACKEND_STORE_URI"]
    last = env(
        MLFLOW_READ_REPLICA_BACKEND_STORE_URI="",
        MIGRATION_PYTHON_SCRIPT=migration_script(),
        SUPPORTED_MLFLOW_VERSION="3.14.0",
    )
    assert container["env"] == [*kept, *last]
    assert set(container) == {
        "name", "image", "imagePullPolicy", "securityContext", "command", "args", "env", "envFrom", "volumeMounts", "resources",
    }  # fmt: skip
    assert (container["name"], container["command"]) == ("db-migrate", ["/bin/sh", "-ec"])
    pod = template["spec"]
    assert pod["initContainers"] == [INIT]
    assert PLACING.items() <= pod.items()
    assert (pod["restartPolicy"], pod["serviceAccountName"], pod["securityContext"]) == (
        "Never",
        "mlflow-sa",
        POD_SECURITY,
    )
    assert not {"resourceClaims", "terminationGracePeriodSeconds"} & pod.keys()
    names = ["tmp", "mlflow-storage", "mlflow-tls", "ca-bundle-0", "ca-bundle-1", "combined-ca-bundle", "metrics"]
    assert [volume["name"] for volume in pod["volumes"]] == [*names, "trace-archival-config"]


def test_5_11_the_route() -> None:
    route = made(FULL)["HTTPRoute mlflow"]
    backend = [{"group": "", "kind": "Service", "name": "mlflow", "port": 8443, "weight": 1}]
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}
    assert route["metadata"] == metadata("mlflow", {"app": "mlflow"})
    assert route["spec"] == {
        "parentRefs": [
            {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "name": "data-science-gateway",
                "namespace": "openshift-ingress",
            }
        ],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/mlflow/v1"}}],
                "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
                "backendRefs": backend,
            },
            {"matches": [{"path": {"type": "PathPrefix", "value": "/mlflow"}}], "backendRefs": backend},
        ],
    }


def test_5_12_the_console_link() -> None:
    link = made(FULL)["ConsoleLink mlflow"]
    assert link["metadata"] == metadata("mlflow", {"app": "mlflow"}, namespaced=False)
    menu = link["spec"].pop("applicationMenu")
    assert menu.pop("imageURL").startswith("data:image/svg+xml;base64,")
    assert menu == {"section": "MLflow"}
    assert link["spec"] == {
        "text": "MLflow",
        "href": "https://gw.example.com/mlflow",
        "location": "ApplicationMenu",
    }
