"""Scenarios 1-16: what the API admits."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import spec_of
from modelyard.operators.mlflow.api import MLFLOW, MLFLOW_CONFIG
from tests.cluster.mlflow.scenarios.story import Book, Story, refused

book = Book()
admission = book.scenario
SCHEME = "must use a supported SQL metadata store URI scheme"


async def accepted(story: Story, **spec: Any) -> None:
    await story.create(**spec)
    await story.yard.delete(MLFLOW.kind, "mlflow")
    await story.yard.gone(MLFLOW.kind, "mlflow")


@admission(1, needs_api=True)
async def a_valid_mlflow_is_stored_with_its_defaults(story: Story) -> None:
    made = spec_of(await story.create())
    assert made["replicas"] == 1
    assert made["workers"] == 1
    assert made["serviceAccountName"] == "mlflow-sa"
    assert made["migration"] == {"mode": "Automatic"}


@admission(2, needs_api=True)
async def another_name_is_refused(story: Story) -> None:
    await refused(story.create("invalid-name"), "MLflow resource name must be 'mlflow'")


@admission(3, needs_api=True)
async def an_artifact_root_is_needed_unless_artifacts_are_served(story: Story) -> None:
    message = "defaultArtifactRoot must be set when serveArtifacts is not true"
    await refused(story.create(serveArtifacts=False), message)
    await refused(story.create(serveArtifacts=None), message)


@admission(4, needs_api=True)
async def a_backend_store_is_needed(story: Story) -> None:
    await refused(story.create(backendStoreUri=None), "backendStoreUri or backendStoreUriFrom must be set")
    await accepted(story, backendStoreUri=None, backendStoreUriFrom={"name": "db", "key": "uri"})


@admission(5, needs_api=True)
async def a_store_is_given_in_one_form_only(story: Story) -> None:
    for field in ("backendStoreUri", "registryStoreUri", "readReplicaBackendStoreUri"):
        both: Object = {field: "postgresql://h/db", f"{field}From": {"name": "db", "key": "uri"}}
        await refused(story.create(**both), f"{field} and {field}From are mutually exclusive")


@admission(6, needs_api=True)
async def a_metadata_store_is_an_sql_store(story: Story) -> None:
    await refused(story.create(backendStoreUri="file:///x"), f"backendStoreUri {SCHEME}")
    for uri in ("mysql+pymysql://h/db", "postgresql+psycopg2://h/db"):
        await accepted(story, backendStoreUri=uri)


@admission(7, needs_api=True)
async def a_file_as_backend_store_needs_storage(story: Story) -> None:
    message = "storage must be configured when using file-based backend store (sqlite:// or file:// prefix)"
    await refused(story.create(backendStoreUri="sqlite:////mlflow/mlflow.db"), message)


@admission(8, needs_api=True)
async def a_read_replica_follows_the_same_rules(story: Story) -> None:
    message = "storage must be configured when using a file-based read-replica backend store (sqlite:// prefix)"
    await refused(story.create(readReplicaBackendStoreUri="sqlite:////mlflow/r.db"), message)
    await refused(story.create(readReplicaBackendStoreUri="file:///r"), f"readReplicaBackendStoreUri {SCHEME}")
    empty = story.create(readReplicaBackendStoreUriFrom={"name": "db", "key": ""})
    await refused(empty, "readReplicaBackendStoreUriFrom.name and readReplicaBackendStoreUriFrom.key must be non-empty")


@admission(9, needs_api=True)
async def artifacts_in_files_must_be_served(story: Story) -> None:
    spec: Object = {"artifactsDestination": "file:///mlflow/artifacts", "storage": {}, "serveArtifacts": False}
    message = "serveArtifacts must be enabled when artifactsDestination uses file-based storage (file:// prefix)"
    await refused(story.create(**spec, defaultArtifactRoot="s3://b/r"), message)


@admission(10, needs_api=True)
async def two_variables_are_the_operators_alone(story: Story) -> None:
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
        await refused(story.create(env=[{"name": name, "value": "true"}]), message)


@admission(11, needs_api=True)
async def an_empty_egress_rule_is_refused(story: Story) -> None:
    message = "each networkPolicyAdditionalEgressRules entry must specify at least one port or one destination"
    await refused(story.create(networkPolicyAdditionalEgressRules=[{}]), message)


@admission(12, needs_api=True)
async def garbage_collection_needs_a_schedule_and_a_readable_age(story: Story) -> None:
    for age in ("", "12h7d"):
        await refused(story.create(garbageCollection={"schedule": "0 2 * * 0", "olderThan": age}), "olderThan")
    for age in ("30d", "7d12h", "1.5h"):
        await accepted(story, garbageCollection={"schedule": "0 2 * * 0", "olderThan": age})
    await refused(story.create(garbageCollection={}), "schedule")


@admission(13, needs_api=True)
async def finished_migrations_stay_for_an_hour_at_least(story: Story) -> None:
    await refused(story.create(migration={"ttlSecondsAfterFinished": 60}), "ttlSecondsAfterFinished")
    await accepted(story, migration={"ttlSecondsAfterFinished": 3600})


@admission(14, needs_api=True)
async def trace_archival_needs_a_place_and_an_age(story: Story) -> None:
    full = {"enabled": True, "location": "s3://b/t", "retention": "30d"}
    for field in ("location", "retention"):
        archival = {name: value for name, value in full.items() if name != field}
        message = f"traceArchival.{field} is required when traceArchival.enabled is true"
        await refused(story.create(traceArchival=archival), message)
    await refused(story.create(traceArchival={**full, "retention": "30w"}), "retention")
    made = spec_of(await story.create(traceArchival=full))["traceArchival"]
    assert made["schedule"] == "0 */6 * * *"
    assert made["maxTracesPerPass"] == 1000


@admission(15, needs_api=True)
async def a_resource_claim_has_one_source(story: Story) -> None:
    message = (
        "each resourceClaims entry must set exactly one non-empty value: resourceClaimName or resourceClaimTemplateName"
    )
    both = {"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}
    for claim in (both, {"name": "gpu"}):
        await refused(story.create(resourceClaims=[claim]), message)


@admission(16, needs_api=True)
async def an_mlflow_config_names_the_one_secret(story: Story) -> None:
    yard, kind = story.yard, MLFLOW_CONFIG.kind
    spec = {"artifactRootSecret": "mlflow-artifact-connection"}
    await refused(yard.create(kind, "other", spec=spec), "MLflowConfig resource name must be 'mlflow'")
    await yard.create(kind, "mlflow", spec=spec)
    elsewhere = f"{yard.namespace}-too"
    await yard.create(builtin.Namespace, elsewhere)
    await yard.create(kind, "mlflow", namespace=elsewhere, spec=spec)
    wrong = yard.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootSecret="wrong"))
    await refused(wrong, "artifactRootSecret must be 'mlflow-artifact-connection'")
    absolute = yard.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootPath="/abs"))
    await refused(absolute, "artifactRootPath must be relative")
    outside = yard.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootPath="a/../b"))
    await refused(outside, "artifactRootPath must not contain '..' path segments")
    await yard.edit(kind, "mlflow", lambda config: config["spec"].update(artifactRootPath="a/..b"))
