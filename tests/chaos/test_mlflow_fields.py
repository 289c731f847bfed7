"""Every field of an MLflow's spec, changed one at a time."""

from __future__ import annotations

from dataclasses import replace

from modelyard.kube import builtin
from modelyard.kube.kinds import Key
from modelyard.operators.mlflow.api import MLFLOW
from tests.chaos.fields import FieldSweep
from tests.chaos.mlflow_story import LIFE, NS

POSTGRES = "postgresql://u:p@db/other"
SWEEP = FieldSweep(
    story=replace(
        LIFE,
        setup=[
            *LIFE.setup,
            (builtin.ConfigMap, {"metadata": {"name": "my-ca", "namespace": NS}, "data": {"ca.crt": "x"}}),
        ],
    ),
    definition=MLFLOW,
    key=Key("", "mlflow"),
    spec={
        "serveArtifacts": True,
        "defaultArtifactRoot": "s3://bucket/root",
        "backendStoreUri": "postgresql://u:p@db/mlflow",
        "storage": {"resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "fast"},
        "garbageCollection": {"schedule": "0 2 * * 0"},
        "traceArchival": {"enabled": True, "location": "s3://b/t", "retention": "30d"},
        "migration": {"mode": "Automatic"},
    },
    texts={
        "backendStoreUri": POSTGRES,
        "registryStoreUri": POSTGRES,
        "readReplicaBackendStoreUri": POSTGRES,
        "artifactsDestination": "s3://bucket/artifacts",
        "caBundleConfigMap.name": "my-ca",
        "serveArtifacts": False,
        "image.image": "quay.io/me/mlflow:2",
        "storage.resources.requests": {"storage": "9Gi"},
        "resources.requests": {"memory": "8Gi"},
        "resources.limits": {"memory": "1Gi"},
    },
    lasting={
        "storage.resources.requests": "StorageNotUpdated",
        "storage.accessModes[]": "StorageNotUpdated",
        "storage.storageClassName": "StorageNotUpdated",
    },
    refusals=("ApplyFailed", "RenderFailed", "CABundleConfigMapError"),
)


def test_every_field_of_the_schema_is_swept() -> None:
    swept = {change.top for change in SWEEP.changes()}
    assert swept == {
        "image", "replicas", "migration", "resources", "serviceAccountName", "storage", "temporaryStorage", "backendStoreUri",
        "backendStoreUriFrom", "readReplicaBackendStoreUri", "readReplicaBackendStoreUriFrom", "registryStoreUri",
        "registryStoreUriFrom", "artifactsDestination", "defaultArtifactRoot", "serveArtifacts", "workers", "extraAllowedOrigins",
        "workspaceLabelSelector", "env", "envFrom", "podLabels", "podAnnotations", "podSecurityContext", "securityContext",
        "nodeSelector", "tolerations", "affinity", "resourceClaims", "caBundleConfigMap", "networkPolicyEgressRules",
        "networkPolicyAdditionalEgressRules", "garbageCollection", "traceArchival",
    }  # fmt: skip


def test_a_changed_field_ends_as_if_created_that_way_and_goes_back() -> None:
    SWEEP.run()
