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
    # A change that needs no migration leaves the last one standing.
    of_their_time=frozenset({"Migration"}),
)


NOT_SWEPT = {
    "resources.requests.*": "changed as a whole, to a name that a pod can ask for",
    "resources.limits.*": "changed as a whole, to a name that a pod can ask for",
    "storage.resources.requests.*": "changed as a whole: a volume has only one, `storage`",
}
"""Leaves of the schema without a change of their own, and why."""


def test_every_field_of_the_schema_is_swept() -> None:
    leaves, swept = set(SWEEP.leaves()), {change.path for change in SWEEP.changes()}
    assert len(leaves) > 200
    assert leaves - swept == NOT_SWEPT.keys()
    assert {path.removesuffix(".*") for path in NOT_SWEPT} <= swept


def test_a_changed_field_ends_as_if_created_that_way_and_goes_back() -> None:
    SWEEP.run()


def test_so_it_does_with_all_operators_loaded() -> None:
    SWEEP.among_all().run()
