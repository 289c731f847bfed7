"""Every field of every child (section 5 of the specification), order of arguments and variables included, written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.children import children
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.facts import Facts
from modelyard.operators.mlflow.migration_job import migration_job
from modelyard.operators.parts.ca_bundle import COMBINE_SCRIPT, WATCH_SCRIPT

NS = "opendatahub"
IMAGE = Settings().image
DB = "postgresql://u:p@db:5432/mlflow"
LABELS = {"app": "mlflow", "component": "mlflow"}
BUNDLE = "/etc/pki/tls/certs/combined/ca-bundle.crt"
PLAIN = Facts(Settings(namespace=NS))
EVERYTHING: Object = {
    "storage": {"resources": {"requests": {"storage": "20Gi"}}, "storageClassName": "fast"},
    "garbageCollection": {"schedule": "0 2 * * 0", "olderThan": "30d"},
    "traceArchival": {
        "enabled": True,
        "location": "s3://b/t",
        "retention": "30d",
        "maxTracesPerPass": 500,
        "longRetentionAllowlist": ["7", "8"],
    },
    "caBundleConfigMap": {"name": "my-ca"},
    "readReplicaBackendStoreUri": "postgresql://replica/db",
    "workspaceLabelSelector": {"matchLabels": {"team": "a"}},
    "defaultArtifactRoot": "s3://b/r",
    "env": [{"name": "MINE", "value": "x"}],
    "envFrom": [{"secretRef": {"name": "aws"}}],
    "podLabels": {"team": "a"},
    "podAnnotations": {"note": "b"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
    "image": {"imagePullPolicy": "Always"},
}
FULL = replace(
    PLAIN,
    openshift=True,
    console=True,
    routes=True,
    monitors=True,
    platform_ca=True,
    settings=Settings(namespace=NS, url="https://gw.example.com", url_configured=True),
)


def mlflow(**spec: Any) -> MLflow:
    metadata = {"name": "mlflow", "uid": "u", "generation": 1}
    body = {"serveArtifacts": True, "backendStoreUri": DB, **spec}
    return MLflow.parse(
        {"apiVersion": "mlflow.opendatahub.io/v1", "kind": "MLflow", "metadata": metadata, "spec": body}
    )


def made(facts: Facts, **spec: Any) -> dict[str, Object]:
    return {
        f"{child.object['kind']} {child.object['metadata']['name']}": child.object
        for child in children(mlflow(**spec), facts)
    }


def metadata(name: str, labels: dict[str, str] = LABELS, *, namespaced: bool = True, **more: Any) -> Object:
    place: Object = {"name": name, "namespace": NS} if namespaced else {"name": name}
    return {**place, "labels": labels, **more}


def env(**values: str) -> list[Object]:
    return [{"name": name, "value": value} for name, value in values.items()]


def tcp(*ports: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]


ALWAYS = {
    "ServiceAccount mlflow-sa",
    "ClusterRole mlflow",
    "ClusterRoleBinding mlflow",
    "NetworkPolicy mlflow",
    "NetworkPolicy mlflow-migration",
    "Service mlflow",
    "Deployment mlflow",
}
DNS = [{"protocol": protocol, "port": port} for port in (53, 5353) for protocol in ("UDP", "TCP")]
CORS = [
    "https://mlflow:8443",
    f"https://mlflow.{NS}.svc:8443",
    f"https://mlflow.{NS}.svc.cluster.local:8443",
    "localhost:*",
    "127.0.0.1:*",
]
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
CA_ENV = [
    *env(
        SSL_CERT_FILE=BUNDLE,
        REQUESTS_CA_BUNDLE=BUNDLE,
        CURL_CA_BUNDLE=BUNDLE,
        AWS_CA_BUNDLE=BUNDLE,
        PGSSLROOTCERT=BUNDLE,
        PGSSLMODE="verify-full",
        MLFLOW_MYSQL_CA=BUNDLE,
        MLFLOW_S3_IGNORE_TLS="false",
    )
]
TMP = {"name": "tmp", "mountPath": "/tmp"}
STORAGE = {"name": "mlflow-storage", "mountPath": "/mlflow"}
COMBINED = {"name": "combined-ca-bundle", "mountPath": "/etc/pki/tls/certs/combined", "readOnly": True}
CONFIG = {"name": "trace-archival-config", "mountPath": "/etc/mlflow", "readOnly": True}


def probe(path: str, delay: int, period: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "https", "scheme": "HTTPS"},
        "initialDelaySeconds": delay,
        "timeoutSeconds": 1,
        "periodSeconds": period,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def amounts(cpu: str, memory: str, most_cpu: str, most_memory: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": most_cpu, "memory": most_memory}}


def test_the_defaults_make_these_objects_and_no_others() -> None:
    assert set(made(PLAIN)) == ALWAYS


def test_all_that_can_be_asked_for_makes_these() -> None:
    assert set(made(FULL, **EVERYTHING)) == ALWAYS | {
        "PersistentVolumeClaim mlflow-pvc",
        "ServiceAccount mlflow-gc-sa",
        "ClusterRole mlflow-gc",
        "ClusterRoleBinding mlflow-gc",
        "CronJob mlflow-gc",
        "ServiceAccount mlflow-trace-archival-sa",
        "ConfigMap mlflow-trace-archival-config",
        "CronJob mlflow-trace-archival",
        "ServiceMonitor mlflow-metrics-monitor",
        "HTTPRoute mlflow",
        "ConsoleLink mlflow",
    }


def test_5_1_service_accounts() -> None:
    found = made(FULL, **EVERYTHING)
    for name, app in (
        ("mlflow-sa", "mlflow"),
        ("mlflow-gc-sa", "mlflow-gc"),
        ("mlflow-trace-archival-sa", "mlflow-trace-archival"),
    ):
        account = found[f"ServiceAccount {name}"]
        assert account["metadata"] == metadata(name, {"app": app, "component": "mlflow"})
        assert account["automountServiceAccountToken"] is False


def test_5_2_roles_and_bindings() -> None:
    found = made(FULL, **EVERYTHING)
    read = ["get", "list", "watch"]
    role = found["ClusterRole mlflow"]
    assert role["metadata"] == metadata("mlflow", namespaced=False)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": read},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": read, "resourceNames": ["mlflow-artifact-connection"]},
        {"apiGroups": ["mlflow.kubeflow.org"], "resources": ["mlflowconfigs"], "verbs": read},
    ]
    group = "rbac.authorization.k8s.io"
    accounts = {
        name: {"kind": "ServiceAccount", "name": name, "namespace": NS}
        for name in ("mlflow-sa", "mlflow-gc-sa", "mlflow-trace-archival-sa")
    }
    binding = found["ClusterRoleBinding mlflow"]
    assert binding["metadata"] == metadata("mlflow", namespaced=False)
    assert binding["roleRef"] == {"apiGroup": group, "kind": "ClusterRole", "name": "mlflow"}
    assert binding["subjects"] == [accounts["mlflow-sa"], accounts["mlflow-trace-archival-sa"]]
    assert made(PLAIN)["ClusterRoleBinding mlflow"]["subjects"] == [accounts["mlflow-sa"]]
    gc_labels = {"app": "mlflow-gc", "component": "mlflow"}
    gc = found["ClusterRoleBinding mlflow-gc"]
    assert gc["metadata"] == metadata("mlflow-gc", gc_labels, namespaced=False)
    assert gc["roleRef"] == {"apiGroup": group, "kind": "ClusterRole", "name": "mlflow-gc"}
    assert gc["subjects"] == [accounts["mlflow-gc-sa"]]
    assert found["ClusterRole mlflow-gc"]["metadata"] == metadata("mlflow-gc", gc_labels, namespaced=False)
    assert found["ClusterRole mlflow-gc"]["rules"] == [
        {"apiGroups": ["mlflow.kubeflow.org"], "resources": ["experiments"], "verbs": ["get", "list", "update"]},
        # Not upstream's: without it the workspaces cannot be found (Q8).
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": read},
    ]


def test_5_3_the_server_by_default() -> None:
    deployment = made(PLAIN)["Deployment mlflow"]
    assert deployment["metadata"] == metadata("mlflow")
    container = {
        "name": "mlflow",
        "image": IMAGE,
        "securityContext": SECURITY,
        "command": ["mlflow"],
        "args": [
            "server",
            "--serve-artifacts",
            "--artifacts-destination=file:///mlflow/artifacts",
            "--app-name=kubernetes-auth",
            "--enable-workspaces",
            "--workspace-store-uri=kubernetes://",
            "--host=0.0.0.0",
            "--port=8443",
            "--workers=1",
            "--uvicorn-opts=--ssl-keyfile=/etc/tls/private/tls.key --ssl-certfile=/etc/tls/private/tls.crt --proxy-headers",
            "--allowed-hosts",
            "*",
            "--static-prefix=/mlflow",
        ],
        "env": env(
            MLFLOW_DISABLE_TELEMETRY="true",
            MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
            MLFLOW_BACKEND_STORE_URI=DB,
            MLFLOW_REGISTRY_STORE_URI=DB,
            MLFLOW_K8S_AUTH_AUTHORIZATION_MODE="self_subject_access_review",
            MLFLOW_SERVER_CORS_ALLOWED_ORIGINS=",".join([*CORS, "https://mlflow.example.com"]),
            MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE="false",
        ),
        "ports": [{"name": "https", "containerPort": 8443, "protocol": "TCP"}],
        "volumeMounts": [TMP, {"name": "mlflow-tls", "mountPath": "/etc/tls/private", "readOnly": True}],
        "livenessProbe": probe("/mlflow/health", 30, 10),
        "readinessProbe": probe("/mlflow/api/3.0/mlflow/server-info", 5, 5),
        "resources": amounts("1", "2Gi", "4", "3Gi"),
    }
    assert deployment["spec"] == {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": {"app": "mlflow"}},
        "template": {
            "metadata": {"labels": {"app": "mlflow", "app.kubernetes.io/instance": "mlflow", "component": "mlflow"}},
            "spec": {
                "serviceAccountName": "mlflow-sa",
                "automountServiceAccountToken": True,
                "securityContext": POD_SECURITY,
                "containers": [container],
                "volumes": [
                    {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
                    {"name": "mlflow-tls", "secret": {"secretName": "mlflow-tls", "defaultMode": 420}},
                ],
            },
        },
    }


def test_an_object_stored_without_a_backend_store_falls_back_to_a_file() -> None:
    found = made(PLAIN, backendStoreUri=None, garbageCollection={"schedule": "0 2 * * 0"}, storage={})
    file = "sqlite:////mlflow/mlflow.db"
    stores = env(MLFLOW_BACKEND_STORE_URI=file, MLFLOW_REGISTRY_STORE_URI=file)
    (server,) = found["Deployment mlflow"]["spec"]["template"]["spec"]["containers"]
    assert [one for one in server["env"] if one["name"].endswith("_STORE_URI")] == stores
    (gc,) = found["CronJob mlflow-gc"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert gc["args"][1] == f"--backend-store-uri={file}"
    job = migration_job(mlflow(backendStoreUri=None, storage={}), PLAIN)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert stores[0] in container["env"]


def helper(name: str, script: str, resources: Object, *more: Object) -> Object:
    variables = env(
        CA_BUNDLE_FILE_PATHS="/etc/pki/tls/certs/ca-bundle.crt",
        CA_BUNDLE_MOUNT_PATHS="/etc/pki/tls/certs/platform /etc/pki/tls/certs/custom",
        CA_BUNDLE_OUTPUT=BUNDLE,
    )
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Always",
        "securityContext": SECURITY,
        "command": ["/bin/sh", "-c"],
        "args": [script],
        "env": [*variables, *more],
        "volumeMounts": [
            TMP,
            {"name": "combined-ca-bundle", "mountPath": "/etc/pki/tls/certs/combined"},
            {"name": "ca-bundle-0", "mountPath": "/etc/pki/tls/certs/platform", "readOnly": True},
            {"name": "ca-bundle-1", "mountPath": "/etc/pki/tls/certs/custom", "readOnly": True},
        ],
        "resources": resources,
    }


INIT = helper("combine-ca-bundles", COMBINE_SCRIPT, amounts("10m", "16Mi", "100m", "64Mi"))
CA_VOLUMES = [
    {"name": "ca-bundle-0", "configMap": {"name": "odh-trusted-ca-bundle", "optional": True}},
    {"name": "ca-bundle-1", "configMap": {"name": "my-ca", "optional": True}},
    {"name": "combined-ca-bundle", "emptyDir": {}},
]
TMP_VOLUME = {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}
STORAGE_VOLUME = {"name": "mlflow-storage", "persistentVolumeClaim": {"claimName": "mlflow-pvc"}}
CONFIG_VOLUME = {"name": "trace-archival-config", "configMap": {"name": "mlflow-trace-archival-config"}}
PLACING = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
FULL_SERVER_ENV = [
    *env(
        MLFLOW_DISABLE_TELEMETRY="true",
        MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
        MLFLOW_TRACE_ARCHIVAL_CONFIG="/etc/mlflow/trace-archival.yaml",
        MLFLOW_BACKEND_STORE_URI=DB,
        MLFLOW_READ_REPLICA_BACKEND_STORE_URI="postgresql://replica/db",
        MLFLOW_REGISTRY_STORE_URI=DB,
        MLFLOW_K8S_AUTH_AUTHORIZATION_MODE="self_subject_access_review",
        MLFLOW_SERVER_CORS_ALLOWED_ORIGINS=",".join([*CORS, "https://gw.example.com"]),
        MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR="team=a",
        MINE="x",
        UVICORN_SSL_CIPHERS="PROFILE=SYSTEM",
        MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE="false",
    ),
    *CA_ENV,
]


def test_5_3_the_server_with_everything() -> None:
    spec = made(FULL, **EVERYTHING)["Deployment mlflow"]["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    template, pod = spec["template"], spec["template"]["spec"]
    assert template["metadata"] == {
        "labels": {"app": "mlflow", "app.kubernetes.io/instance": "mlflow", "component": "mlflow", "team": "a"},
        "annotations": {"note": "b"},
    }
    assert PLACING.items() <= pod.items()
    assert pod["resourceClaims"] == EVERYTHING["resourceClaims"]
    assert pod["initContainers"] == [INIT]
    server, watcher = pod["containers"]
    interval = {"name": "CA_BUNDLE_WATCH_INTERVAL", "value": "30"}
    assert watcher == helper("ca-bundle-watcher", WATCH_SCRIPT, amounts("5m", "8Mi", "50m", "32Mi"), interval)
    assert server["args"][1:4] == [
        "--serve-artifacts",
        "--artifacts-destination=file:///mlflow/artifacts",
        "--default-artifact-root=s3://b/r",
    ]
    assert server["args"][-1] == "--expose-prometheus=/prometheus"
    assert server["env"] == FULL_SERVER_ENV
    assert server["envFrom"] == EVERYTHING["envFrom"]
    assert server["imagePullPolicy"] == "Always"
    assert server["volumeMounts"] == [
        TMP,
        STORAGE,
        {"name": "mlflow-tls", "mountPath": "/etc/tls/private", "readOnly": True},
        COMBINED,
        {"name": "metrics", "mountPath": "/prometheus"},
        CONFIG,
    ]
    assert pod["volumes"] == [
        TMP_VOLUME,
        STORAGE_VOLUME,
        {"name": "mlflow-tls", "secret": {"secretName": "mlflow-tls", "defaultMode": 416}},
        *CA_VOLUMES,
        {"name": "metrics", "emptyDir": {"sizeLimit": "100Mi"}},
        CONFIG_VOLUME,
    ]


def test_5_4_the_service() -> None:
    service = made(PLAIN)["Service mlflow"]
    annotations = {"service.beta.openshift.io/serving-cert-secret-name": "mlflow-tls"}
    assert service["metadata"] == metadata("mlflow", annotations=annotations)
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": {"app": "mlflow"},
        "ports": [{"name": "https", "protocol": "TCP", "port": 8443, "targetPort": "https"}],
    }


@pytest.mark.parametrize(
    ("asked", "spec"),
    [
        ({}, {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}),
        (
            {
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "20Gi"}, "limits": {"storage": "30Gi"}},
                "volumeMode": "Block",
            },
            {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "20Gi"}},
            },
        ),
        (
            {"storageClassName": ""},
            {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        ),
    ],
)
def test_5_5_the_volume_claim(asked: Object, spec: Object) -> None:
    claim = made(PLAIN, storage=asked)["PersistentVolumeClaim mlflow-pvc"]
    assert claim["metadata"] == metadata("mlflow-pvc")
    assert claim["spec"] == spec


def test_5_6_and_5_7_network_policies() -> None:
    found = made(PLAIN)
    server = found["NetworkPolicy mlflow"]
    assert server["metadata"] == metadata("mlflow")
    assert server["spec"] == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/instance": "mlflow"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {}}, {"namespaceSelector": {}}], "ports": tcp(8443)}],
        "egress": [
            {"ports": DNS},
            {"ports": tcp(443, 6443, 8443)},
            {"ports": tcp(5432)},
            {"ports": tcp(3306)},
            {"ports": tcp(9000, 8333, 8334)},
        ],
    }
    migration = found["NetworkPolicy mlflow-migration"]
    only = {"component": "mlflow-migration"}
    assert migration["metadata"] == metadata("mlflow-migration", only)
    assert not migration["spec"].pop("ingress", [])
    assert migration["spec"] == {
        "podSelector": {"matchLabels": only},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"ports": DNS}, {"ports": tcp(5432, 3306)}],
    }


def test_5_6_egress_rules_replace_or_add() -> None:
    one, two = {"ports": tcp(1)}, {"ports": tcp(2)}
    both = made(PLAIN, networkPolicyEgressRules=[one], networkPolicyAdditionalEgressRules=[two])
    assert both["NetworkPolicy mlflow"]["spec"]["egress"] == [one, two]


@pytest.mark.parametrize(
    ("facts", "tls"),
    [
        (replace(PLAIN, monitors=True), {"insecureSkipVerify": True}),
        (
            FULL,
            {
                "ca": {"configMap": {"name": "openshift-service-ca.crt", "key": "service-ca.crt"}},
                "serverName": f"mlflow.{NS}.svc",
            },
        ),
    ],
)
def test_5_8_the_service_monitor(facts: Facts, tls: Object) -> None:
    monitor = made(facts)["ServiceMonitor mlflow-metrics-monitor"]
    assert monitor["metadata"] == metadata("mlflow-metrics-monitor")
    endpoint = {"path": "/metrics", "port": "https", "scheme": "https", "tlsConfig": tls}
    assert monitor["spec"] == {"selector": {"matchLabels": {"app": "mlflow"}}, "endpoints": [endpoint]}
