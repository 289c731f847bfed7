"""Reads the world for one `MLflow`: the facts its children depend on, and where its migration stands."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import timedelta

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Object
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
from modelyard.kube.openshift import is_openshift
from modelyard.kube.secrets import encoded, encoded_value_of
from modelyard.kube.times import parse_time
from modelyard.operators.mlflow import migration_job
from modelyard.operators.mlflow.api import MLflow, MLflowSpec
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.facts import FORCE_MIGRATE, PLATFORM_CA, Facts, Names
from modelyard.operators.mlflow.migration import JobSeen, JobState, Observed
from modelyard.operators.parts.missing_references import Need, lasting_digest, missing, read_annotation
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.ownership import is_foreign
from modelyard.operators.parts.references import digest
from modelyard.operators.parts.storage import class_of
from modelyard.runtime.acting.ownership import controller_of
from modelyard.runtime.declaring.world import World

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
    tls = world.get(builtin.Secret, namespace, settings.tls_secret)
    claim = world.get(builtin.PersistentVolumeClaim, namespace, names.claim)
    if claim is not None and is_deleting(claim):
        claim = None  # The next one is made as asked.
    needed = tuple(needs(mlflow, settings))
    deployment = world.get(builtin.Deployment, namespace, names.server)
    lacking = missing(world, namespace, needed, deployment)
    return Facts(
        settings,
        openshift=is_openshift(world),
        routes=world.serves(builtin.HTTPRoute),
        console=world.serves(builtin.ConsoleLink),
        monitors=world.serves(builtin.ServiceMonitor),
        backend_tls=world.serves(BackendTLSPolicy),
        platform_ca=world.get(builtin.ConfigMap, namespace, PLATFORM_CA) is not None,
        serving_ca=_serving_ca(names, tls, world),
        claim=claim,
        storage_class=class_of(claim, world),
        foreign_claim=is_foreign(world, builtin.PersistentVolumeClaim, claim),
        foreign_account=is_foreign(
            world,
            builtin.ServiceAccount,
            world.get(builtin.ServiceAccount, namespace, Facts(settings).account(mlflow)),
        ),
        digest=lasting_digest(
            digest(world, namespace, (need.reference for need in needed)),
            deployment,
            [one for one in lacking if one.lost],
        ),
        read=read_annotation(needed, lacking),
        missing=lacking,
    )


def _pem(encoded: str) -> str:
    """A certificate in base64 as it came, if it is text that clients can read; else nothing is known of it."""
    try:
        text = b64decode(encoded).decode()
    except ValueError:
        return ""
    return encoded if "-----BEGIN CERTIFICATE-----" in text else ""


def needs(mlflow: MLflow, settings: Settings) -> Iterator[Need]:
    """The Secrets and ConfigMaps that the server reads at start."""
    yield Need(builtin.Secret, settings.tls_secret, "tls.crt", "the server's certificate (setting MLFLOW_TLS_SECRET)")
    yield from authors_needs(mlflow.spec)


def authors_needs(spec: MLflowSpec) -> Iterator[Need]:
    """Those of them that the author names."""
    stores = {
        "backendStoreUriFrom": spec.backend_store_uri_from,
        "readReplicaBackendStoreUriFrom": spec.read_replica_backend_store_uri_from,
        "registryStoreUriFrom": spec.registry_store_uri_from,
    }
    for name, store in stores.items():
        if store is not None:
            yield Need(builtin.Secret, store.name, store.key, f"spec.{name}", bool(store.optional))
    for variable in spec.env or ():
        source = variable.get("valueFrom") or {}
        for field, kind in (("secretKeyRef", builtin.Secret), ("configMapKeyRef", builtin.ConfigMap)):
            if found := source.get(field):
                where = f"spec.env {variable.get('name', '')}"
                yield Need(kind, found.get("name", ""), found.get("key", ""), where, bool(found.get("optional")))
    for group in spec.env_from or ():
        for field, kind in (("secretRef", builtin.Secret), ("configMapRef", builtin.ConfigMap)):
            if found := group.get(field):
                yield Need(kind, found.get("name", ""), "", "spec.envFrom", bool(found.get("optional")))


def _serving_ca(names: Names, tls: Object | None, world: World) -> str:
    """While the certificate's Secret is away, what the gateway was told of its CA stays: the server still shows that certificate."""
    if tls is not None:
        return _pem(encoded_value_of(tls, "ca.crt"))
    bundle = next((own for own in world.owned(builtin.ConfigMap) if name_of(own) == names.serving_ca), {})
    text = (bundle.get("data") or {}).get("ca.crt") or ""
    return _pem(encoded(text))


def observe_migration(mlflow: MLflow, facts: Facts, world: World) -> Observed:
    """Where the migration stands."""
    settings, names = facts.settings, facts.names(mlflow)
    namespace = names.namespace
    jobs = {name_of(job): job for job in world.owned(builtin.Job)}
    name, preflight = migration_job.job_name(mlflow, facts), migration_job.preflight_name(mlflow, facts)
    deployment = world.get(builtin.Deployment, namespace, names.server)
    pods = server_pods(names, deployment, world)
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
        missing="; ".join(one.what for one in facts.missing if one.lost),
        remaining=max(len(pods), _replicas(deployment)),
        remaining_pods=tuple(f"pod {name_of(pod)}{' is being deleted' if is_deleting(pod) else ''}" for pod in pods),
        asks_for_pods=deployment is not None and spec_of(deployment).get("replicas") != 0,
        scaled_down=_is_scaled_down(deployment),
        other_job=next((job for job in sorted(jobs) if job != name and is_unfinished_migration(jobs[job])), ""),
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


def server_pods(names: Names, deployment: Object | None, world: World) -> list[Object]:
    """The pods in which a server of our Deployment may still run. One that only carries their label is none of them."""
    sets = {uid_of(found): found for found in world.list(builtin.ReplicaSet, names.namespace)}
    pods = world.list(builtin.Pod, names.namespace, {"app": names.server})
    return sorted((pod for pod in pods if _is_server(pod, names, deployment, sets)), key=name_of)


def _is_server(pod: Object, names: Names, deployment: Object | None, sets: Mapping[str, Object]) -> bool:
    if status_of(pod).get("phase") in ("Succeeded", "Failed"):
        return False
    owner = controller_of(pod)
    if owner is None or owner.get("kind") != builtin.ReplicaSet.kind:
        return False
    made_by = sets.get(owner.get("uid", ""))
    if made_by is None:
        return True  # Its ReplicaSet has gone before it: the collector takes it, and until then it runs.
    holder = controller_of(made_by)
    if holder is None:
        return True  # Our Deployment adopts a ReplicaSet without an owner whose pods it selects.
    if deployment is not None and holder.get("uid") == uid_of(deployment):
        return True
    # A Deployment of ours that was deleted, whose pods are still being collected.
    return holder.get("kind") == builtin.Deployment.kind and holder.get("name") == names.server


def is_unfinished_migration(job: Object) -> bool:
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
