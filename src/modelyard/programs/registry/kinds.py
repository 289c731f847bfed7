"""The table of resources. Routing, decoding, checks, filters, storage and the OpenAPI document all read it; nothing else lists kinds or fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from modelyard.programs.filter_query import FieldType


class Holds(Enum):
    """What a field holds in JSON."""

    TEXT = "string"
    TEXTS = "list of strings"
    ID = "id"
    MILLISECONDS = "milliseconds as a string"
    NUMBER = "number"
    STEP = "whole number"

    @property
    def filter_type(self) -> FieldType | None:
        return {
            Holds.TEXT: FieldType.STRING,
            Holds.TEXTS: None,
            Holds.ID: FieldType.ID,
        }.get(self, FieldType.NUMBER)


@dataclass(frozen=True)
class Choice:
    """A closed set of words; the name is the one that error messages and the OpenAPI document use."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Field:
    name: str
    holds: Holds = Holds.TEXT
    choice: Choice | None = None
    default: str | None = None
    required: bool = False
    patchable: bool = True
    refers_to: str | None = None
    """The kind that an id in this field must name."""
    server_set: bool = False
    """Only the server writes it: callers who send it get the answer for unknown fields."""
    hidden: bool = False
    """Filters know it, answers do not show it."""


@dataclass(frozen=True)
class Family:
    """Kinds that share one sequence of ids and one set of external ids: one table."""

    name: str

    @property
    def table(self) -> str:
        return f"modelyard_registry_{self.name}"

    @property
    def properties(self) -> str:
        return f"{self.table}_property"


CONTEXTS, ARTIFACTS, SERVES = Family("context"), Family("artifact"), Family("serve")
LINKS = "modelyard_registry_link"
META = "modelyard_registry_meta"


@dataclass(frozen=True)
class Kind:
    number: int
    """Its number in the database; never changes."""
    label: str
    """As error messages call it."""
    schema: str
    """As the OpenAPI document calls it."""
    family: Family
    path: str
    single: str
    fields: tuple[Field, ...] = ()
    parent: str | None = None
    """The field with the parent's id."""
    name_required: bool = False
    alpha_only: bool = False
    artifact_type: str | None = None
    nested: tuple[str, str] | None = None
    """The parent's path and the last word of the path of its children: `/registered_models/{id}/versions`."""
    nested_updates: bool = False
    """A nested POST with an id in the body changes that row."""
    by_field: dict[str, Field] = field(init=False, repr=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_field", {each.name: each for each in self.fields})

    @property
    def parent_kind(self) -> str | None:
        return self.by_field[self.parent].refers_to if self.parent else None

    @property
    def top(self) -> bool:
        """Its names are unique in the whole kind."""
        return self.parent is None and self.artifact_type is None


LIVE = Choice("State", ("LIVE", "ARCHIVED"))
MODEL_STATE = Choice("RegisteredModelState", LIVE.words)
VERSION_STATE = Choice("ModelVersionState", LIVE.words)
EXPERIMENT_STATE = Choice("ExperimentState", LIVE.words)
RUN_STATE = Choice("ExperimentRunState", LIVE.words)
RUN_STATUS = Choice("ExperimentRunStatus", ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"))
ARTIFACT_STATE = Choice(
    "ArtifactState", ("UNKNOWN", "PENDING", "LIVE", "MARKED_FOR_DELETION", "DELETED", "ABANDONED", "REFERENCE")
)
SERVICE_STATE = Choice("InferenceServiceState", ("DEPLOYED", "UNDEPLOYED"))
EXECUTION_STATE = Choice("ExecutionState", ("UNKNOWN", "NEW", "RUNNING", "COMPLETE", "FAILED", "CACHED", "CANCELED"))
PARAMETER_TYPE = Choice("ParameterType", ("string", "number", "boolean", "object"))


def _texts(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name) for name in names)


_RUN_IDS = (
    Field("experimentId", Holds.ID, server_set=True, patchable=False),
    Field("experimentRunId", Holds.ID, server_set=True, patchable=False),
)
_ARTIFACT_STATE = Field("state", choice=ARTIFACT_STATE)


def _artifact(
    number: int, word: str, label: str, schema: str, *fields: Field, path: str = "", single: str = ""
) -> Kind:
    own = (*fields, _ARTIFACT_STATE, *_RUN_IDS)
    return Kind(number, label, schema, ARTIFACTS, path, single, own, artifact_type=word)


MODEL = Kind(
    1,
    "registered model",
    "RegisteredModel",
    CONTEXTS,
    "registered_models",
    "registered_model",
    (
        Field("state", choice=MODEL_STATE, default="LIVE"),
        *_texts("owner", "readme", "maturity"),
        Field("language", Holds.TEXTS),
        Field("tasks", Holds.TEXTS),
        *_texts("provider", "logo", "license", "licenseLink", "libraryName"),
    ),
    name_required=True,
)
VERSION = Kind(
    2,
    "model version",
    "ModelVersion",
    CONTEXTS,
    "model_versions",
    "model_version",
    (
        Field("registeredModelId", Holds.ID, required=True, patchable=False, refers_to="registered_models"),
        Field("state", choice=VERSION_STATE, default="LIVE"),
        Field("author"),
    ),
    parent="registeredModelId",
    name_required=True,
    nested=("registered_models", "versions"),
    nested_updates=True,
)
ENVIRONMENT = Kind(
    3,
    "serving environment",
    "ServingEnvironment",
    CONTEXTS,
    "serving_environments",
    "serving_environment",
    name_required=True,
)
SERVICE = Kind(
    4,
    "inference service",
    "InferenceService",
    CONTEXTS,
    "inference_services",
    "inference_service",
    (
        Field("registeredModelId", Holds.ID, required=True, patchable=False, refers_to="registered_models"),
        Field("servingEnvironmentId", Holds.ID, required=True, patchable=False, refers_to="serving_environments"),
        Field("modelVersionId", Holds.ID, refers_to="model_versions"),
        Field("runtime"),
        Field("desiredState", choice=SERVICE_STATE, default="DEPLOYED"),
    ),
    parent="servingEnvironmentId",
    nested=("serving_environments", "inference_services"),
)
EXPERIMENT = Kind(
    5,
    "experiment",
    "Experiment",
    CONTEXTS,
    "experiments",
    "experiment",
    (Field("state", choice=EXPERIMENT_STATE, default="LIVE"), Field("owner")),
    name_required=True,
    alpha_only=True,
)
RUN = Kind(
    6,
    "experiment run",
    "ExperimentRun",
    CONTEXTS,
    "experiment_runs",
    "experiment_run",
    (
        Field("experimentId", Holds.ID, required=True, patchable=False, refers_to="experiments"),
        Field("startTimeSinceEpoch", Holds.MILLISECONDS, patchable=False),
        Field("endTimeSinceEpoch", Holds.MILLISECONDS),
        Field("status", choice=RUN_STATUS, default="RUNNING"),
        Field("state", choice=RUN_STATE, default="LIVE"),
        Field("owner"),
    ),
    parent="experimentId",
    alpha_only=True,
    nested=("experiments", "experiment_runs"),
    nested_updates=True,
)
SERVE = Kind(
    20,
    "serve model",
    "ServeModel",
    SERVES,
    "",
    "",
    (
        Field("modelVersionId", Holds.ID, required=True, patchable=False, refers_to="model_versions"),
        Field("lastKnownState", choice=EXECUTION_STATE, default="UNKNOWN"),
        Field(
            "inferenceServiceId",
            Holds.ID,
            patchable=False,
            refers_to="inference_services",
            server_set=True,
            hidden=True,
        ),
    ),
    parent="inferenceServiceId",
    nested=("inference_services", "serves"),
)
MODEL_ARTIFACT = _artifact(
    10,
    "model-artifact",
    "model artifact",
    "ModelArtifact",
    *_texts(
        "uri",
        "modelFormatName",
        "modelFormatVersion",
        "storageKey",
        "storagePath",
        "serviceAccountName",
        "modelSourceKind",
        "modelSourceClass",
        "modelSourceGroup",
        "modelSourceId",
        "modelSourceName",
    ),
    path="model_artifacts",
    single="model_artifact",
)
DOC_ARTIFACT = _artifact(11, "doc-artifact", "doc artifact", "DocArtifact", Field("uri"))
DATASET_ARTIFACT = _artifact(
    12,
    "dataset-artifact",
    "dataset artifact",
    "DataSet",
    *_texts("uri", "digest", "sourceType", "source", "schema", "profile"),
)
_METRIC_FIELDS = (
    Field("value", Holds.NUMBER),
    Field("timestamp", Holds.MILLISECONDS),
    Field("step", Holds.STEP),
)
METRIC = _artifact(13, "metric", "metric", "Metric", *_METRIC_FIELDS)
PARAMETER = _artifact(
    14, "parameter", "parameter", "Parameter", Field("value"), Field("parameterType", choice=PARAMETER_TYPE)
)
METRIC_HISTORY = Kind(
    15, "metric", "Metric", ARTIFACTS, "", "", (*_METRIC_FIELDS, _ARTIFACT_STATE, *_RUN_IDS), parent="experimentRunId"
)

ARTIFACT_KINDS = (MODEL_ARTIFACT, DOC_ARTIFACT, DATASET_ARTIFACT, METRIC, PARAMETER)
BY_ARTIFACT_TYPE = {kind.artifact_type: kind for kind in ARTIFACT_KINDS}
PLAIN_KINDS = (MODEL, VERSION, ENVIRONMENT, SERVICE, EXPERIMENT, RUN)
"""The kinds with the five usual operations under their own path."""
KINDS = (*PLAIN_KINDS, SERVE, *ARTIFACT_KINDS, METRIC_HISTORY)
BY_PATH = {kind.path: kind for kind in KINDS if kind.path}
BY_NUMBER = {kind.number: kind for kind in KINDS}
FAMILIES = (CONTEXTS, ARTIFACTS, SERVES)

COMMON_PATCHABLE = ("externalId", "description")
SERVER_MADE = ("id", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch")
