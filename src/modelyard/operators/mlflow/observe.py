"""Reads the world for one `MLflow`: the facts its children depend on, and where its migration stands."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from datetime import timedelta

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import (
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    lookup,
    metadata_of,
    name_of,
    owners_of,
    spec_of,
    status_of,
    uid_of,
)
from modelyard.kube.times import parse_time
from modelyard.operators.mlflow import migration_job
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.facts import FORCE_MIGRATE, PLATFORM_CA, Facts, Names
from modelyard.operators.mlflow.migration import JobSeen, JobState, Observed
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.references import digest
from modelyard.runtime.world import World

_EXIT_CODES: dict[int, tuple[bool, str]] = {
    10: (True, "migration image reports an unexpected MLflow version; expected {supported}"),
    11: (True, "operator-managed migration only supports SQL backend store URIs"),
    12: (True, "operator-managed migration only supports SQL registry store URIs"),
    13: (True, "migration completed but the resulting schema revision does not match the image's Alembic head"),
    14: (True, "migration failed because Alembic could not resolve the schema revision graph"),
    15: (False, "migration failed due to a retryable database or migration error"),
}
"""`code: (terminal, message)`; any other code is worth another try."""
_ORDINARY_WAITING = frozenset(("", "ContainerCreating", "PodInitializing"))
_POD_EXPECTED = timedelta(seconds=60)
"""A Job without a pod for so long is refused one: by a quota, by admission, for want of its account."""


def observe_facts(mlflow: MLflow, settings: Settings, world: World) -> Facts:
    """What the cluster says."""
    namespace = settings.target_namespace
    names = Names.of(mlflow, namespace)
    openshift = world.serves(builtin.ConsoleLink)
    tls = world.get(builtin.Secret, namespace, settings.tls_secret)
    claim = world.get(builtin.PersistentVolumeClaim, namespace, names.claim)
    if claim is not None and is_deleting(claim):
        claim = None  # The next one is made as asked.
    class_name = spec_of(claim or {}).get("storageClassName")
    return Facts(
        settings,
        openshift=openshift,
        routes=world.serves(builtin.HTTPRoute),
        console=openshift,
        monitors=world.serves(builtin.ServiceMonitor),
        backend_tls=world.serves(BackendTLSPolicy),
        platform_ca=world.get(builtin.ConfigMap, namespace, PLATFORM_CA) is not None,
        serving_ca=_pem((tls or {}).get("data", {}).get("ca.crt") or ""),
        claim=claim,
        storage_class=world.get(builtin.StorageClass, "", class_name) if class_name else None,
        foreign_claim=_is_foreign(world, builtin.PersistentVolumeClaim, claim),
        foreign_account=_is_foreign(
            world,
            builtin.ServiceAccount,
            world.get(builtin.ServiceAccount, namespace, Facts(settings).account(mlflow)),
        ),
        digest=digest(world, namespace, references(mlflow, settings)),
    )


def _pem(encoded: str) -> str:
    """A certificate in base64 as it came, if it is text that clients can read; else nothing is known of it."""
    try:
        text = b64decode(encoded).decode()
    except ValueError:
        return ""
    return encoded if "-----BEGIN CERTIFICATE-----" in text else ""


def _is_foreign(world: World, kind: Kind, found: Object | None) -> bool:
    return found is not None and all(key_of(own) != key_of(found) for own in world.owned(kind))


def references(mlflow: MLflow, settings: Settings) -> Iterator[tuple[Kind, str, str]]:
    """The Secrets and ConfigMaps that the server reads at start, as `(kind, name, key)`; an empty key means all of it."""
    spec = mlflow.spec
    yield builtin.Secret, settings.tls_secret, "tls.crt"
    for store in (spec.backend_store_uri_from, spec.read_replica_backend_store_uri_from, spec.registry_store_uri_from):
        if store is not None:
            yield builtin.Secret, store.name, store.key
    for variable in spec.env or ():
        source = variable.get("valueFrom") or {}
        for field, kind in (("secretKeyRef", builtin.Secret), ("configMapKeyRef", builtin.ConfigMap)):
            if reference := source.get(field):
                yield kind, reference.get("name", ""), reference.get("key", "")
    for group in spec.env_from or ():
        for field, kind in (("secretRef", builtin.Secret), ("configMapRef", builtin.ConfigMap)):
            if reference := group.get(field):
                yield kind, reference.get("name", ""), ""


def observe_migration(mlflow: MLflow, facts: Facts, world: World) -> Observed:
    """Where the migration stands."""
    settings, names = facts.settings, facts.names(mlflow)
    namespace = names.namespace
    jobs = {name_of(job): job for job in world.owned(builtin.Job)}
    name, preflight = migration_job.job_name(mlflow, facts), migration_job.preflight_name(mlflow, facts)
    deployment = world.get(builtin.Deployment, namespace, names.server)
    pods = [pod for pod in world.list(builtin.Pod, namespace, {"app": names.server}) if _is_server(pod)]
    status = mlflow.status
    return Observed(
        generation=mlflow.metadata.generation,
        mode=mlflow.spec.migration.mode,
        version=(status and status.version) or "",
        supported=settings.supported_version,
        image=facts.image(mlflow),
        forced=FORCE_MIGRATE in mlflow.metadata.annotations,
        condition=recorded_condition(mlflow, "Migration"),
        job=_job_seen(name, jobs.get(name), facts, world),
        preflight=_job_seen(preflight, jobs.get(preflight), facts, world),
        now=world.now,
        remaining=max(len(pods), _replicas(deployment)),
        asks_for_pods=deployment is not None and spec_of(deployment).get("replicas") != 0,
        scaled_down=_is_scaled_down(deployment),
        other_job=next((job for job in sorted(jobs) if job != name and _is_unfinished_migration(jobs[job])), ""),
        image_vouched=settings.image_vouched and facts.image(mlflow) == settings.image,
        image_from_spec=facts.image(mlflow) != settings.image,
    )


def recorded_condition(mlflow: MLflow, type: str) -> Object | None:
    conditions = (mlflow.status.conditions if mlflow.status else None) or []
    return find_condition([condition.to_dict() for condition in conditions], type)


def _replicas(deployment: Object | None) -> int:
    return int(status_of(deployment or {}).get("replicas") or 0)


def _is_scaled_down(deployment: Object | None) -> bool:
    """No pods are asked for, and the Deployment's controller knows. One that was never seen by it has no pods either."""
    if deployment is None:
        return True
    seen = status_of(deployment).get("observedGeneration")
    return spec_of(deployment).get("replicas") == 0 and (seen is None or int(seen) >= generation_of(deployment))


def _is_server(pod: Object) -> bool:
    """Does a server of the Deployment still run in it? A pod that only carries its label is none."""
    ended = status_of(pod).get("phase") in ("Succeeded", "Failed")
    return not ended and any(owner.get("kind") == "ReplicaSet" for owner in owners_of(pod))


def _is_unfinished_migration(job: Object) -> bool:
    ours = labels_of(job).get(migration_job.MIGRATION_JOB) == "true" and not migration_job.is_preflight(job)
    return ours and _state(job) is JobState.RUNNING


def _state(job: Object | None) -> JobState:
    if job is None:
        return JobState.ABSENT
    if _failed_condition(job) is not None:
        return JobState.FAILED
    return JobState.SUCCEEDED if status_of(job).get("succeeded") else JobState.RUNNING


def _failed_condition(job: Object) -> Object | None:
    condition = find_condition(status_of(job).get("conditions"), "Failed")
    return condition if condition is not None and condition.get("status") == "True" else None


def _job_seen(name: str, job: Object | None, facts: Facts, world: World) -> JobSeen:
    state = _state(job)
    if job is None or state is JobState.SUCCEEDED:
        return JobSeen(name, state)
    pods = [pod for pod in world.list(builtin.Pod, facts.settings.target_namespace) if _belongs_to(pod, uid_of(job))]
    pod = max(pods, key=lambda pod: str(metadata_of(pod).get("creationTimestamp") or ""), default=None)
    if state is JobState.RUNNING:
        return JobSeen(name, state, waiting=_waiting(job, pod, facts, world))
    condition = _failed_condition(job) or {}
    since = condition.get("lastTransitionTime") or metadata_of(job).get("creationTimestamp")
    terminal, failure, code = _failure(job, condition, pod, facts.settings.supported_version)
    return JobSeen(
        name,
        state,
        failure=failure,
        terminal=terminal,
        exit_code=code,
        failed_at=parse_time(since) if since else None,
    )


def _belongs_to(pod: Object, job_uid: str) -> bool:
    """Is this a pod of that very Job, and not of one that had its name before?"""
    labels = labels_of(pod)
    return job_uid in (
        labels.get("batch.kubernetes.io/controller-uid"),
        labels.get("controller-uid"),
        *(owner.get("uid") for owner in owners_of(pod)),
    )


def _failure(job: Object, condition: Object, pod: Object | None, supported: str) -> tuple[bool, str, int | None]:
    """`(terminal, message, exit code)`. What a container wrote is never copied: it may hold credentials."""
    terminated = _terminated(pod) if pod is not None else None
    if terminated is not None:
        code = int(terminated.get("exitCode") or 0)
        if code in _EXIT_CODES:
            terminal, message = _EXIT_CODES[code]
            return terminal, message.format(supported=supported) + ("" if terminal else "."), code
        reason = terminated.get("reason") or ""
        why = f" ({reason})" if reason not in ("", "Error", "Completed") else ""
        return False, f"migration Job container exited with code {code}{why}.", code
    failed = int(status_of(job).get("failed") or 0)
    counted = f"migration Job failed after {failed} attempt(s)" if failed else "migration Job failed"
    return False, condition.get("message") or condition.get("reason") or counted, None


def _terminated(pod: Object) -> Object | None:
    """How the migration ended in this pod: its own container, else any that ended."""
    statuses = status_of(pod).get("containerStatuses") or []
    statuses = sorted(statuses, key=lambda one: one.get("name") != migration_job.CONTAINER)
    found = (lookup(one, "state", "terminated") for one in statuses)
    return next((one for one in found if one is not None), None)


def _waiting(job: Object, pod: Object | None, facts: Facts, world: World) -> str:
    """Why a Job's pod does not start, as far as can be seen; empty while all is well."""
    if pod is None:
        created = metadata_of(job).get("creationTimestamp")
        overdue = created is not None and world.now - parse_time(created) > _POD_EXPECTED
        return (
            f"it has no pod; kubectl -n {key_of(job).namespace} describe job {name_of(job)} says why" if overdue else ""
        )
    secret = facts.settings.tls_secret
    status = status_of(pod)
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = lookup(one, "state", "waiting") or {}
        if waiting.get("reason", "") not in _ORDINARY_WAITING:
            return ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
    scheduled = find_condition(status.get("conditions"), "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return f"{scheduled.get('reason')}: {scheduled.get('message')}"
    mounted = _is_running(pod) or world.get(builtin.Secret, facts.settings.target_namespace, secret)
    return "" if mounted else f"Secret {secret} with the serving certificate does not exist"


def _is_running(pod: Object) -> bool:
    return status_of(pod).get("phase") == "Running"
