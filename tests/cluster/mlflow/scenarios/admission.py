"""Scenarios 1-16: what the API admits."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import spec_of
from modelyard.operators.mlflow.api import MLFLOW, MLFLOW_CONFIG
from tests.cluster.mlflow.scenarios.scene import Book, MLflowScene, refused

book = Book()
admission = book.scenario
SCHEME = "must use a supported SQL metadata store URI scheme"


async def accepted(scene: MLflowScene, **spec: Any) -> None:
    await scene.create(**spec)
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await scene.ground.gone(MLFLOW.kind, "mlflow")


@admission(1, needs_api=True)
async def a_valid_mlflow_is_stored_with_its_defaults(scene: MLflowScene) -> None:
    made = spec_of(await scene.create())
    assert made["replicas"] == 1
    assert made["workers"] == 1
    assert made["serviceAccountName"] == "mlflow-sa"
    assert made["migration"] == {"mode": "Automatic"}


@admission(2, needs_api=True)
async def another_name_is_refused(scene: MLflowScene) -> None:
    await refused(scene.create("invalid-name"), "MLflow resource name must be 'mlflow'")


@admission(3, needs_api=True)
async def an_artifact_root_is_needed_unless_artifacts_are_served(scene: MLflowScene) -> None:
    message = "defaultArtifactRoot must be set when serveArtifacts is not true"
    await refused(scene.create(serveArtifacts=False), message)
    await refused(scene.create(serveArtifacts=None), message)


@admission(4, needs_api=True)
async def a_backend_store_is_needed(scene: MLflowScene) -> None:
    await refused(scene.create(backendStoreUri=None), "backendStoreUri or backendStoreUriFrom must be set")
    await accepted(scene, backendStoreUri=None, backendStoreUriFrom={"name": "db", "key": "uri"})


@admission(5, needs_api=True)
async def a_store_is_given_in_one_form_only(scene: MLflowScene) -> None:
    for field in ("backendStoreUri", "registryStoreUri", "readReplicaBackendStoreUri"):
        both: Object = {field: "postgresql://h/db", f"{field}From": {"name": "db", "key": "uri"}}
        await refused(scene.create(**both), f"{field} and {field}From are mutually exclusive")


@admission(6, needs_api=True)
async def a_metadata_store_is_an_sql_store(scene: MLflowScene) -> None:
    await refused(scene.create(backendStoreUri="file:///x"), f"backendStoreUri {SCHEME}")
    for uri in ("mysql+pymysql://h/db", "postgresql+psycopg2://h/db"):
        await accepted(scene, backendStoreUri=uri)


@admission(7, needs_api=True)
async def a_file_as_backend_store_needs_storage(scene: MLflowScene) -> None:
    message = "storage must be configured when using file-based backend store (sqlite:// or file:// prefix)"
    await refused(scene.create(backendStoreUri="sqlite:////mlflow/mlflow.db"), message)


@admission(8, needs_api=True)
async def a_read_replica_follows_the_same_rules(scene: MLflowScene) -> None:
    message = "storage must be configured when using a file-based read-replica backend store (sqlite:// prefix)"
    await refused(scene.create(readReplicaBackendStoreUri="sqlite:////mlflow/r.db"), message)
    await refused(scene.create(readReplicaBackendStoreUri="file:///r"), f"readReplicaBackendStoreUri {SCHEME}")
    empty = scene.create(readReplicaBackendStoreUriFrom={"name": "db", "key": ""})
    await refused(empty, "readReplicaBackendStoreUriFrom.name and readReplicaBackendStoreUriFrom.key must be non-empty")


@admission(9, needs_api=True)
async def artifacts_in_files_must_be_served(scene: MLflowScene) -> None:
    spec: Object = {"artifactsDestination": "file:///mlflow/artifacts", "storage": {}, "serveArtifacts": False}
    message = "serveArtifacts must be enabled when artifactsDestination uses file-based storage (file:// prefix)"
    await refused(scene.create(**spec, defaultArtifactRoot="s3://b/r"), message)


@admission(10, needs_api=True)
async def two_variables_are_the_operators_alone(scene: MLflowScene) -> None:
    messages = {
        "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": (
            "setting the MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE environment variable is not allowed"
        ),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": (
            "setting the MLFLOW_SERVER_ENABLE_JOB_EXECUTION environment variable is not allowed; "
            "the operator manages job execution lifecycle"
        ),
    }
    for name, message in messages.items():
        await refused(scene.create(env=[{"name": name, "value": "true"}]), message)


@admission(11, needs_api=True)
async def an_empty_egress_rule_is_refused(scene: MLflowScene) -> None:
    message = "each networkPolicyAdditionalEgressRules entry must specify at least one port or one destination"
    await refused(scene.create(networkPolicyAdditionalEgressRules=[{}]), message)


@admission(12, needs_api=True)
async def garbage_collection_needs_a_schedule_and_a_readable_age(scene: MLflowScene) -> None:
    for age in ("", "12h7d"):
        await refused(scene.create(garbageCollection={"schedule": "0 2 * * 0", "olderThan": age}), "olderThan")
    for age in ("30d", "7d12h", "1.5h"):
        await accepted(scene, garbageCollection={"schedule": "0 2 * * 0", "olderThan": age})
    await refused(scene.create(garbageCollection={}), "schedule")


@admission(13, needs_api=True)
async def finished_migrations_stay_for_an_hour_at_least(scene: MLflowScene) -> None:
    await refused(scene.create(migration={"ttlSecondsAfterFinished": 60}), "ttlSecondsAfterFinished")
    await accepted(scene, migration={"ttlSecondsAfterFinished": 3600})


@admission(14, needs_api=True)
async def trace_archival_needs_a_place_and_an_age(scene: MLflowScene) -> None:
    full = {"enabled": True, "location": "s3://b/t", "retention": "30d"}
    for field in ("location", "retention"):
        archival = {name: value for name, value in full.items() if name != field}
        message = f"traceArchival.{field} is required when traceArchival.enabled is true"
        await refused(scene.create(traceArchival=archival), message)
    await refused(scene.create(traceArchival={**full, "retention": "30w"}), "retention")
    made = spec_of(await scene.create(traceArchival=full))["traceArchival"]
    assert made["schedule"] == "0 */6 * * *"
    assert made["maxTracesPerPass"] == 1000


@admission(15, needs_api=True)
async def a_resource_claim_has_one_source(scene: MLflowScene) -> None:
    message = (
        "each resourceClaims entry must set exactly one non-empty value: resourceClaimName or resourceClaimTemplateName"
    )
    both = {"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}
    for claim in (both, {"name": "gpu"}):
        await refused(scene.create(resourceClaims=[claim]), message)


@admission(16, needs_api=True)
async def an_mlflow_config_names_the_one_secret(scene: MLflowScene) -> None:
    ground, kind = scene.ground, MLFLOW_CONFIG.kind
    spec = {"artifactRootSecret": "mlflow-artifact-connection"}
    await refused(ground.create(kind, "other", spec=spec), "MLflowConfig resource name must be 'mlflow'")
    await ground.create(kind, "mlflow", spec=spec)
    elsewhere = f"{ground.namespace}-too"
    await ground.create(builtin.Namespace, elsewhere)
    await ground.create(kind, "mlflow", namespace=elsewhere, spec=spec)
    wrong = ground.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootSecret="wrong"))
    await refused(wrong, "artifactRootSecret must be 'mlflow-artifact-connection'")
    absolute = ground.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootPath="/abs"))
    await refused(absolute, "artifactRootPath must be relative")
    outside = ground.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootPath="a/../b"))
    await refused(outside, "artifactRootPath must not contain '..' path segments")
    await ground.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootPath="a/..b"))
