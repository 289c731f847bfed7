"""The custom resources of the MLflow operator as types; their definitions are generated from these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from modelyard.kube.crd import Column, Definition, Model, Resource, Rule, Version, default
from modelyard.operators.mlflow.rules import ACCOUNT_RULES, ENV_RULES, LABEL_VALUES, POD_LABELS, SCHEDULE, SPEC_RULES
from modelyard.operators.parts.types import (
    Affinity,
    Conditions,
    ConditionStatus,
    ConditionType,
    EnvFromSource,
    EnvVar,
    Int32,
    Int64,
    LabelSelector,
    NetworkPolicyEgressRule,
    PersistentVolumeClaimSpec,
    PodResourceClaim,
    PodSecurityContext,
    Quantity,
    ResourceRequirements,
    SecretKey,
    SecurityContext,
    Timestamp,
    Toleration,
)

MigrationMode: TypeAlias = Literal["Automatic", "Always"]
EgressRules: TypeAlias = Annotated[list[NetworkPolicyEgressRule], Meta(max_length=32)]


def _validated(*rules: Rule, **constraints: Any) -> Meta:
    """CEL rules of a field that is not an object of its own."""
    validations = [{"rule": rule.rule, "message": rule.message} for rule in rules]
    return Meta(extra_json_schema={"x-kubernetes-validations": validations}, **constraints)


class Image(Model):
    """The server's image, where it is not the operator's own."""

    image: str | None = None
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None


class Migration(Model):
    """How database migrations are run."""

    mode: MigrationMode = "Automatic"
    ttl_seconds_after_finished: Annotated[Int32, Meta(ge=3600)] | None = None


class TemporaryStorage(Model):
    """The scratch space at `/tmp`."""

    size_limit: Quantity | None = None


class CABundle(Model):
    """A ConfigMap whose `*.crt` and `*.pem` keys are trusted besides the system's."""

    name: Annotated[str, Meta(min_length=1)]


class GarbageCollection(Model):
    """Removes deleted runs and experiments for good, on a schedule."""

    schedule: Annotated[str, _validated(SCHEDULE, min_length=1)]
    older_than: (
        Annotated[str, Meta(min_length=1, pattern=r"^(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?$")]
        | None
    ) = None
    resources: ResourceRequirements | None = None


class TraceArchival(Model):
    """Moves old traces out of the database, on a schedule."""

    enabled: bool = False
    schedule: Annotated[str, _validated(SCHEDULE, min_length=1, max_length=256)] = "0 */6 * * *"
    location: Annotated[str, Meta(max_length=2048)] | None = None
    retention: Annotated[str, Meta(max_length=16, pattern=r"^\d+[mhd]$")] | None = None
    max_traces_per_pass: Annotated[Int32, Meta(ge=1)] = 1000
    long_retention_allowlist: Annotated[list[str], Meta(max_length=64)] | None = None
    resources: ResourceRequirements | None = None


class MLflowSpec(Model):
    """What the admin asks for."""

    rules: ClassVar[Sequence[Rule]] = (*SPEC_RULES, *ENV_RULES, *ACCOUNT_RULES)

    image: Image | None = None
    replicas: Annotated[Int32, Meta(ge=1)] = 1
    migration: Annotated[Migration, default({"mode": "Automatic"})] = msgspec.field(default_factory=Migration)
    resources: ResourceRequirements | None = None
    service_account_name: str = "mlflow-sa"
    storage: PersistentVolumeClaimSpec | None = None
    temporary_storage: TemporaryStorage | None = None
    backend_store_uri: str | None = None
    backend_store_uri_from: SecretKey | None = None
    read_replica_backend_store_uri: str | None = None
    read_replica_backend_store_uri_from: SecretKey | None = None
    registry_store_uri: str | None = None
    registry_store_uri_from: SecretKey | None = None
    artifacts_destination: str | None = None
    default_artifact_root: str | None = None
    serve_artifacts: bool = False
    workers: Annotated[Int32, Meta(ge=1)] = 1
    extra_allowed_origins: Annotated[list[str], Meta(max_length=64)] | None = None
    workspace_label_selector: LabelSelector | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    pod_labels: Annotated[dict[str, str], _validated(LABEL_VALUES, POD_LABELS)] | None = None
    pod_annotations: dict[str, str] | None = None
    pod_security_context: PodSecurityContext | None = None
    security_context: SecurityContext | None = None
    node_selector: Annotated[dict[str, str], _validated(LABEL_VALUES)] | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None
    resource_claims: (
        Annotated[
            list[PodResourceClaim],
            Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        ]
        | None
    ) = None
    ca_bundle_config_map: CABundle | None = None
    network_policy_egress_rules: EgressRules | None = None
    network_policy_additional_egress_rules: EgressRules | None = None
    garbage_collection: GarbageCollection | None = None
    trace_archival: TraceArchival | None = None


class Address(Model):
    """Where the server is reached inside the cluster."""

    url: Annotated[str, Meta(max_length=2048)] | None = None


class MLflowStatus(Model):
    """What is the case."""

    conditions: Conditions | None = None
    url: Annotated[str, Meta(max_length=2048)] | None = None
    address: Address | None = None
    version: Annotated[str, Meta(max_length=64)] | None = None


class MLflow(Resource, kw_only=True):
    """The tracking server of the cluster."""

    spec: MLflowSpec
    status: MLflowStatus | None = None


class MLflowConfigSpec(Model):
    """Where one namespace keeps its artifacts."""

    artifact_root_secret: Annotated[
        str,
        _validated(
            Rule("self == 'mlflow-artifact-connection'", "artifactRootSecret must be 'mlflow-artifact-connection'"),
            min_length=1,
        ),
    ]
    artifact_root_path: (
        Annotated[
            str,
            _validated(
                Rule("self == '' || !self.startsWith('/')", "artifactRootPath must be relative"),
                Rule(
                    r"self == '' || !self.matches(r'(^|.*/)\.\.(|/.*)$')",
                    "artifactRootPath must not contain '..' path segments",
                ),
                max_length=512,
            ),
        ]
        | None
    ) = None


class MLflowConfig(Resource, kw_only=True):
    """A namespace's own artifact store. The server reads it; the operator only defines it."""

    spec: MLflowConfigSpec


class Gateway(Model):
    """The platform's gateway."""

    domain: str | None = None


class MLflowOperatorSpec(Model):
    """What the platform operator tells the MLflow operator."""

    gateway: Gateway | None = None
    gateway_name: str | None = None
    section_title: str | None = None


class ModuleCondition(Model):
    """A condition in the platform operator's own shape."""

    type: ConditionType
    status: ConditionStatus
    observed_generation: Annotated[Int64, Meta(ge=0)] | None = None
    last_transition_time: Timestamp | None = None
    reason: str | None = None
    message: str | None = None
    severity: str | None = None
    last_heartbeat_time: Timestamp | None = None


class Release(Model):
    """A version that is in use."""

    name: str
    version: str | None = None
    repo_url: str | None = None


class MLflowOperatorStatus(Model):
    """What the MLflow operator tells the platform operator."""

    phase: str | None = None
    observed_generation: Int64 | None = None
    conditions: (
        Annotated[
            list[ModuleCondition],
            Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
        ]
        | None
    ) = None
    releases: (
        Annotated[
            list[Release],
            Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        ]
        | None
    ) = None


class MLflowOperator(Resource):
    """The platform's handshake with the operator."""

    spec: MLflowOperatorSpec | None = None
    status: MLflowOperatorStatus | None = None


MLFLOW = Definition(
    group="mlflow.opendatahub.io",
    kind_name="MLflow",
    plural="mlflows",
    namespaced=False,
    versions=[
        Version(
            "v1",
            MLflow,
            columns=[
                Column("Available", ".status.conditions[?(@.type=='Available')].status"),
                Column("Progressing", ".status.conditions[?(@.type=='Progressing')].status"),
                Column("Version", ".status.version"),
                Column("URL", ".status.url", priority=1),
            ],
            rules=[
                Rule("self.metadata.name == 'mlflow'", "MLflow resource name must be 'mlflow'"),
                Rule(
                    "self.metadata.name.size() <= 40",
                    "MLflow resource name must be at most 40 characters to ensure generated resource names stay within "
                    "Kubernetes 63-character limit",
                ),
            ],
        )
    ],
)

MLFLOW_CONFIG = Definition(
    group="mlflow.kubeflow.org",
    kind_name="MLflowConfig",
    plural="mlflowconfigs",
    versions=[
        Version(
            "v1",
            MLflowConfig,
            status=False,
            rules=[Rule("self.metadata.name == 'mlflow'", "MLflowConfig resource name must be 'mlflow'")],
        )
    ],
)

MLFLOW_OPERATOR = Definition(
    group="components.platform.opendatahub.io",
    kind_name="MLflowOperator",
    plural="mlflowoperators",
    namespaced=False,
    versions=[
        Version(
            "v1alpha1",
            MLflowOperator,
            columns=[
                Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
                Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
            ],
            rules=[
                Rule(
                    "self.metadata.name == 'default-mlflowoperator'",
                    "MLflowOperator name must be default-mlflowoperator",
                )
            ],
        )
    ],
)

DEFINITIONS = (MLFLOW, MLFLOW_CONFIG, MLFLOW_OPERATOR)
