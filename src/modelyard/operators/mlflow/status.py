"""The status of an `MLflow`, computed from what is live after the apply. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from modelyard.kube import builtin
from modelyard.kube.conditions import ConditionStatus, condition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import generation_of, spec_of, status_of
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.facts import Facts
from modelyard.operators.mlflow.migration import SUCCEEDED, Scale, Step, Verdict
from modelyard.operators.mlflow.observe import recorded_condition
from modelyard.operators.mlflow.problems import Problem
from modelyard.runtime.desired import Failure, Live

READY = "MLflow deployment is ready and available"
COMPLETE = "MLflow reconciliation completed successfully"
_ROUTING = {
    builtin.ConsoleLink: ("ConsoleLinkFailed", "ConsoleLink"),
    builtin.HTTPRoute: ("HttpRouteFailed", "HttpRoute"),
}

_ASKED_BY = {builtin.NetworkPolicy: "spec.networkPolicyEgressRules and spec.networkPolicyAdditionalEgressRules"}
"""Fields of the spec that have other names in the child that is refused for them."""


@dataclass(frozen=True)
class Rollout:
    """How far the server's Deployment is."""

    ready: bool
    message: str = ""


def rollout(deployment: Object | None) -> Rollout:
    """Ready means: the present template, all of it, and nothing older left. Then the version that answers is the one asked for."""
    if deployment is None:
        return Rollout(False, "MLflow deployment does not exist yet")
    status = status_of(deployment)
    asked = spec_of(deployment).get("replicas")
    desired = 1 if asked is None else int(asked)
    ready, updated, total = (int(status.get(f) or 0) for f in ("readyReplicas", "updatedReplicas", "replicas"))
    if desired == 0:
        return Rollout(False, "MLflow deployment scaled to zero replicas")
    if ready < desired:
        return Rollout(False, f"MLflow deployment not ready: {ready}/{desired} replicas ready")
    if int(status.get("observedGeneration") or 0) < generation_of(deployment) or updated < desired or total > updated:
        return Rollout(False, f"MLflow deployment not ready: {min(updated, desired)}/{desired} replicas updated")
    return Rollout(True)


@dataclass(frozen=True)
class Conditions:
    """The conditions being put together; all are about one generation."""

    generation: int
    made: list[Object] = field(default_factory=list)

    def add(self, type: str, status: ConditionStatus | bool, reason: str, message: str) -> None:
        self.made.append(condition(type, status, reason, message, observed_generation=self.generation))

    def keep(self, existing: Object | None) -> None:
        if existing is not None:
            self.made.append(existing)


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
    server = rollout(live.get(builtin.Deployment, names.namespace, names.server))
    failures = [failure for failure in live.failures if failure.reason != "NotServed"]
    stuck = _is_job_missing(step, live)
    if stuck:
        step = replace(step, message="Waiting for other objects to be in place before the migration Job is created")
    # What fails around a server that is up is no reason to migrate again.
    rolled_out = server.ready and not any(failure.kind == builtin.Deployment for failure in failures)
    done = step.verdict is Verdict.ROLLOUT and rolled_out
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


def _availability(conditions: Conditions, step: Step, server: Rollout) -> None:
    migrating = step.verdict in (Verdict.PROGRESS, Verdict.FAILURE)
    if migrating and step.scale is Scale.ZERO:
        conditions.add("Available", False, step.reason, step.message)
        conditions.add("Progressing", step.verdict is Verdict.PROGRESS, step.reason, step.message)
        return
    if server.ready:
        conditions.add("Available", True, "DeploymentReady", READY)
    else:
        conditions.add("Available", False, "DeploymentNotReady", server.message)
    if migrating:
        conditions.add("Progressing", step.verdict is Verdict.PROGRESS, step.reason, step.message)
    elif server.ready:
        conditions.add("Progressing", False, "ReconcileComplete", COMPLETE)
    else:
        conditions.add("Progressing", True, "DeploymentProgressing", server.message)


def _is_job_missing(step: Step, live: Live) -> bool:
    """Has the Job that this step makes not been made?"""
    return step.makes_job and not any(kind == builtin.Job for kind, _ in live.objects)


def _in_the_way(failures: Sequence[Failure], *, stuck: bool) -> Failure | None:
    """What keeps the migration from going on."""
    return next((failure for failure in failures if stuck or failure.kind in (builtin.Job, builtin.Deployment)), None)


def _migration(conditions: Conditions, mlflow: MLflow, step: Step, broken: Failure | None, *, done: bool) -> None:
    if step.verdict is Verdict.PROGRESS and broken is not None:
        message = f"Failed to reconcile migration: {_apply_error(broken)}"
        conditions.add("Migration", "Unknown", "MigrationError", message)
    elif step.verdict is Verdict.FAILURE:
        conditions.add("Migration", False, step.reason, step.message)
    elif done or (step.verdict is Verdict.NONE and not _is_settled(mlflow)):
        message = f"Migration for generation {mlflow.metadata.generation} completed successfully"
        conditions.add("Migration", True, SUCCEEDED, message)
    elif step.verdict is Verdict.NONE:
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
