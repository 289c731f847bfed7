"""What is accepted and still will not work as its author thinks: said in the condition `Degraded` and in Events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelyard.kube.kinds import Object
from modelyard.kube.objects import name_of, spec_of
from modelyard.operators.mlflow.api import MLflow, MLflowSpec
from modelyard.operators.mlflow.environment import DEFAULT_BACKEND, FROM_FIELDS, PROTECTED, archival, workspace_selector
from modelyard.operators.mlflow.rules import RESERVED_LABELS
from modelyard.operators.mlflow.server import DEFAULT_ARTIFACTS
from modelyard.operators.parts.cron import schedule_problem


@dataclass(frozen=True)
class Problem:
    """One thing to tell people: which field, what happens, what to do."""

    reason: str
    message: str


def spec_problems(mlflow: MLflow, claim: Object | None = None, differences: Sequence[str] = ()) -> list[Problem]:
    """Everything that can be seen from the spec, and from our volume claim that exists and what cannot be had of it."""
    spec = mlflow.spec
    return [
        *_storage(spec, claim, differences),
        *_schedules(spec),
        *_labels(spec),
        *_variables(spec),
        *_files_without_storage(spec),
        *_shared_files(spec, claim),
    ]


def _storage(spec: MLflowSpec, claim: Object | None, differences: Sequence[str]) -> Iterator[Problem]:
    for text in differences:
        yield Problem("StorageNotUpdated", f"spec.storage asks for another volume: {text}")
    if spec.storage is None and claim is not None:
        text = (
            f"spec.storage is not set; the volume claim {name_of(claim)} and its data are kept and not used. "
            "Set spec.storage to use them again, or delete the claim"
        )
        yield Problem("StorageNotUpdated", text)


def _schedules(spec: MLflowSpec) -> Iterator[Problem]:
    jobs = [("garbageCollection", spec.garbage_collection), ("traceArchival", spec.trace_archival)]
    for field, job in jobs:
        if job is None or (field == "traceArchival" and not archival(spec)):
            continue
        if problem := schedule_problem(job.schedule):
            text = f'spec.{field}.schedule "{job.schedule}" is not a cron schedule: {problem}; the job is not scheduled'
            yield Problem("InvalidSchedule", text)


def _labels(spec: MLflowSpec) -> Iterator[Problem]:
    taken = [name for name in RESERVED_LABELS if (spec.pod_labels or {}).get(name, "mlflow") != "mlflow"]
    if taken:
        text = f"spec.podLabels sets {', '.join(taken)}, which select the server's pods; the operator's values are used"
        yield Problem("ReservedLabel", text)


def _variables(spec: MLflowSpec) -> Iterator[Problem]:
    named = {variable["name"] for variable in spec.env or ()}
    for name in sorted(named & PROTECTED):
        yield Problem("EnvIgnored", f"spec.env sets {name}, which only the operator may set; the entry is ignored")
    used = {
        "readReplicaBackendStoreUri": spec.read_replica_backend_store_uri or spec.read_replica_backend_store_uri_from,
        "workspaceLabelSelector": workspace_selector(spec),
        "traceArchival": archival(spec),
    }
    for name in sorted(named & FROM_FIELDS.keys()):
        if used[FROM_FIELDS[name]]:
            text = f"spec.env sets {name}, but spec.{FROM_FIELDS[name]} does too; the entry in spec.env is ignored"
            yield Problem("EnvIgnored", text)


def _files_without_storage(spec: MLflowSpec) -> Iterator[Problem]:
    if spec.storage is not None:
        return
    remedy = "without spec.storage that is not a lasting place; set spec.storage or use another store"
    destination = spec.artifacts_destination or DEFAULT_ARTIFACTS
    if spec.serve_artifacts and destination.startswith("file://"):
        yield Problem("StorageMissing", f"artifacts are served from {destination}, and {remedy}")
    if (spec.default_artifact_root or "").startswith("file://"):
        yield Problem("StorageMissing", f"spec.defaultArtifactRoot is {spec.default_artifact_root}, and {remedy}")
    for field, uri in _stores(spec):
        if uri.startswith("sqlite"):
            yield Problem("StorageMissing", f"spec.{field} is a SQLite file, and {remedy}")


def _shared_files(spec: MLflowSpec, claim: Object | None) -> Iterator[Problem]:
    if spec.replicas < 2:
        return
    for field, uri in _stores(spec):
        if uri.startswith("sqlite"):
            text = (
                f"spec.replicas is {spec.replicas}, but spec.{field} is a SQLite file, which only one server may write"
            )
            yield Problem("StoreNotShareable", text)
    if spec.storage is not None:
        modes = spec_of(claim or {}).get("accessModes") or spec.storage.get("accessModes") or ["ReadWriteOnce"]
        if modes[0] in ("ReadWriteOnce", "ReadWriteOncePod"):
            text = f"spec.replicas is {spec.replicas}, but the volume is {modes[0]}: servers on other nodes cannot mount it"
            yield Problem("StoreNotShareable", text)


def _stores(spec: MLflowSpec) -> Iterator[tuple[str, str]]:
    """The metadata stores that are given in plain text."""
    if spec.backend_store_uri_from is None:
        yield "backendStoreUri", spec.backend_store_uri or DEFAULT_BACKEND
    if spec.registry_store_uri:
        yield "registryStoreUri", spec.registry_store_uri
    if spec.read_replica_backend_store_uri:
        yield "readReplicaBackendStoreUri", spec.read_replica_backend_store_uri
