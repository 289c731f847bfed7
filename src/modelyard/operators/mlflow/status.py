"""The status of an `MLflow`, computed from what is live after the apply. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.facts import Facts
from modelyard.operators.mlflow.migration import SUCCEEDED, MigrationState, Scale, Step
from modelyard.operators.mlflow.observe import recorded_condition
from modelyard.operators.mlflow.problems import Problem
from modelyard.operators.parts.availability import Rollout, complete_rollout
from modelyard.operators.parts.conditions import Conditions, failures_to_tell
from modelyard.runtime.declaring.desired import Failure, Live

READY = "MLflow deployment is ready and available"
COMPLETE = "MLflow reconciliation completed successfully"
_ROUTING = {
    builtin.ConsoleLink: ("ConsoleLinkFailed", "ConsoleLink"),
    builtin.HTTPRoute: ("HttpRouteFailed", "HttpRoute"),
}

_ASKED_BY = {builtin.NetworkPolicy: "spec.networkPolicyEgressRules and spec.networkPolicyAdditionalEgressRules"}
"""Fields of the spec that have other names in the child that is refused for them."""


def server_rollout(deployment: Object | None) -> Rollout:
    """How far the server's Deployment is."""
    return complete_rollout(deployment, "MLflow")


def running_status(
    mlflow: MLflow,
    facts: Facts,
    step: Step,
    live: Live,
    problems: Sequence[Problem] = (),
    module: Object | None = None,
) -> Object:
    """The status of a complete pass."""
    names = facts.names(mlflow)
    server = server_rollout(live.get(builtin.Deployment, names.namespace, names.server))
    failures = failures_to_tell(live)
    stuck = _is_job_missing(step, live)
    if stuck:
        waited = [f"{kind.kind} {key}, which is being deleted, to be gone" for kind, key in live.leaving]
        what = " and for ".join(waited) or "other objects to be in place"
        step = replace(step, message=f"Waiting for {what} before the migration Job is created")
    # What fails around a server that is up is not a reason to migrate again.
    rolled_out = server.available and not any(failure.kind == builtin.Deployment for failure in failures)
    done = step.verdict is MigrationState.ROLLOUT and rolled_out
    conditions = Conditions(mlflow.metadata.generation)
    if failures:
        reason, message = _failed(failures)
        conditions.add("Available", False, reason, message)
        conditions.add("Progressing", False, reason, message)
    else:
        _availability(conditions, step, server)
    _migration(conditions, mlflow, step, _in_the_way(failures, stuck=stuck), done=done)
    if problems:
        conditions.add("Degraded", True, problems[0].reason, "; ".join(problem.message for problem in problems))
    conditions.keep(module)
    lost_route = any(failure.kind == builtin.HTTPRoute for failure in failures)
    return _status(
        mlflow,
        facts,
        conditions.made,
        url="" if lost_route else facts.url(mlflow),
        version=facts.settings.supported_version if done else None,
    )


def stopped_status(
    mlflow: MLflow,
    facts: Facts,
    reason: str,
    message: str,
    *,
    progressing: bool = False,
    available: Object | None = None,
    module: Object | None = None,
) -> Object:
    """The status of a pass that could not go on. `available`: condition Available and Progressing stay as they are."""
    conditions = Conditions(mlflow.metadata.generation)
    if available is not None:
        conditions.keep(available)
        conditions.keep(recorded_condition(mlflow, "Progressing"))
    else:
        conditions.add("Available", False, reason, message)
        conditions.add("Progressing", progressing, reason, message)
    conditions.keep(recorded_condition(mlflow, "Migration"))
    conditions.keep(recorded_condition(mlflow, "Degraded"))
    conditions.keep(module)
    return _status(mlflow, facts, conditions.made, url=(mlflow.status and mlflow.status.url) or "")


def moving_status(mlflow: MLflow, facts: Facts, reason: str, message: str, *, progressing: bool) -> Object:
    """The status while a server stands in another namespace than it should: what is known of it stays, its address above all."""
    conditions = Conditions(mlflow.metadata.generation)
    if progressing:
        conditions.add("Available", False, reason, message)
    else:
        conditions.keep(recorded_condition(mlflow, "Available"))
    conditions.add("Progressing", progressing, reason, message)
    conditions.keep(recorded_condition(mlflow, "Migration"))
    if not progressing:
        conditions.add("Degraded", True, reason, message)
    conditions.keep(recorded_condition(mlflow, "MLflowOperatorReady"))
    status = mlflow.status
    address = (status.address.to_dict() if status and status.address else None) or {"url": facts.address(mlflow)}
    kept = _status(mlflow, facts, conditions.made, url=(status and status.url) or "")
    return {**kept, "address": address}


def _availability(conditions: Conditions, step: Step, server: Rollout) -> None:
    migrating = step.verdict in (MigrationState.PROGRESS, MigrationState.FAILURE)
    if migrating and step.scale is Scale.ZERO:
        conditions.add("Available", False, step.reason, step.message)
        conditions.add("Progressing", step.verdict is MigrationState.PROGRESS, step.reason, step.message)
        return
    if server.available:
        conditions.add("Available", True, "DeploymentReady", READY)
    else:
        conditions.add("Available", False, "DeploymentNotReady", server.message)
    if migrating:
        conditions.add("Progressing", step.verdict is MigrationState.PROGRESS, step.reason, step.message)
    elif server.available:
        conditions.add("Progressing", False, "ReconcileComplete", COMPLETE)
    else:
        conditions.add("Progressing", True, "DeploymentProgressing", server.message)


def _is_job_missing(step: Step, live: Live) -> bool:
    """Has the Job that this step makes not been made?"""
    return step.makes_job and not any(at[0] == builtin.Job and at not in live.leaving for at in live.objects)


def _in_the_way(failures: Sequence[Failure], *, stuck: bool) -> Failure | None:
    """What keeps the migration from going on."""
    return next((failure for failure in failures if stuck or failure.kind in (builtin.Job, builtin.Deployment)), None)


def _migration(conditions: Conditions, mlflow: MLflow, step: Step, broken: Failure | None, *, done: bool) -> None:
    if step.verdict is MigrationState.PROGRESS and broken is not None:
        message = f"Failed to reconcile migration: {_apply_error(broken)}"
        conditions.add("Migration", "Unknown", "MigrationError", message)
    elif step.verdict is MigrationState.FAILURE:
        conditions.add("Migration", False, step.reason, step.message)
    elif done:
        message = f"Migration for generation {mlflow.metadata.generation} completed successfully"
        conditions.add("Migration", True, SUCCEEDED, message)
    elif step.verdict is MigrationState.NONE and not _is_settled(mlflow):
        version = mlflow.status.version if mlflow.status else None
        message = (
            f"No migration is asked for any more; the one asked for before was not carried out. The databases are at "
            f"MLflow {version}, as the last migration that was completed left them"
        )
        conditions.add("Migration", True, SUCCEEDED, message)
    elif step.verdict is MigrationState.NONE:
        conditions.keep(recorded_condition(mlflow, "Migration"))
    else:
        conditions.add("Migration", "Unknown", step.reason, step.message)


def _is_settled(mlflow: MLflow) -> bool:
    """Nothing is to be migrated; a condition that says otherwise is about something that is over."""
    recorded = recorded_condition(mlflow, "Migration")
    return recorded is None or recorded.get("status") == "True"


def _failed(failures: Sequence[Failure]) -> tuple[str, str]:
    first = next((failure for failure in failures if failure.kind not in _ROUTING), failures[0])
    if first.kind in _ROUTING:
        reason, what = _ROUTING[first.kind]
        return reason, f"Failed to reconcile {what}: {first.message}"
    said = "; ".join(_apply_error(failure) for failure in failures)
    return "ApplyFailed", f"Failed to apply resources: {said}"


def _apply_error(failure: Failure) -> str:
    fields = _ASKED_BY.get(failure.kind) if failure.reason == "ApplyFailed" else None
    hint = f" (look at {fields})" if fields else ""
    return f"apply {failure.kind.kind}/{failure.key.name}: {failure.message}{hint}"


def _status(
    mlflow: MLflow, facts: Facts, conditions: Sequence[Object], *, url: str, version: str | None = None
) -> Object:
    version = version or (mlflow.status and mlflow.status.version) or None
    return {
        "conditions": list(conditions),
        "address": {"url": facts.address(mlflow)},
        "url": url or None,
        "version": version,
    }
