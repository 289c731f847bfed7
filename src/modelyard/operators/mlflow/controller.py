"""The controller of `MLflow`: what it watches, and a reconcile that reads the world and says what should be true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from modelyard.kube import builtin, openshift
from modelyard.kube.conditions import condition
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, labels_of, lookup, name_of, owners_of, spec_of
from modelyard.operators.mlflow import migration_job, module, moving
from modelyard.operators.mlflow.api import MLFLOW, MLFLOW_OPERATOR, MLflow
from modelyard.operators.mlflow.children import children, claim, further_children, server_children
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.environment import RenderError, archival
from modelyard.operators.mlflow.facts import (
    ARCHIVAL_ACCOUNT,
    FORCE_MIGRATE,
    GC_ACCOUNT,
    PLATFORM_CA,
    SHARED_NAME,
    Facts,
)
from modelyard.operators.mlflow.migration import RETRYING, JobAction, MigrationState, Observed, Scale, Step, next_step
from modelyard.operators.mlflow.migration_job import is_preflight
from modelyard.operators.mlflow.observe import (
    needs,
    observe_facts,
    observe_migration,
    recorded_condition,
)
from modelyard.operators.mlflow.problems import Problem, spec_problems
from modelyard.operators.mlflow.status import READY, running_status, server_rollout, stopped_status
from modelyard.operators.parts.mappings import everyone, readers, those, users
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.storage import claim_differences
from modelyard.runtime.declaring.controller import Controller, Owns, Permission, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, EventNote, Hold, Live, Policy, Stage
from modelyard.runtime.declaring.world import World

NOT_READY_REQUEUE = 10.0
ERROR_REQUEUE = 30.0
GATE_REQUEUE = 10.0


def mlflow_controller(settings: Settings) -> Controller:
    """The controller, for the namespace that the settings name."""
    namespace = settings.target_namespace
    component = {"component": "mlflow"}
    reading = readers(MLFLOW.kind, lambda mlflow: _names_read_by(mlflow, settings))
    controller = Controller(
        "mlflow",
        MLFLOW,
        owns=[
            Owns(builtin.PersistentVolumeClaim, namespace=namespace),
            Owns(builtin.Secret, namespace=namespace),
            Owns(builtin.Service, namespace=namespace, serving_certificates=True),
            Owns(builtin.ServiceAccount, namespace=namespace),
            Owns(builtin.HTTPRoute, namespace=namespace, optional=True),
            Owns(builtin.Deployment, namespace=namespace),
            Owns(builtin.CronJob, namespace=namespace),
            Owns(builtin.ConsoleLink, optional=True),
            Owns(builtin.ServiceMonitor, namespace=namespace, optional=True),
            Owns(builtin.ClusterRoleBinding, labels=component, verbs=(*_READ, "create")),
            Owns(builtin.Job, namespace=namespace),
            Owns(builtin.NetworkPolicy, namespace=namespace),
            Owns(builtin.ConfigMap, namespace=namespace),
            Owns(BackendTLSPolicy, namespace=namespace, optional=True),
            *moving.owns_before(settings),
        ],
        watches=[
            Watch(builtin.ClusterRole, to=_owners, labels=component),
            # The platform's CA bundle wakes all.
            Watch(builtin.Secret, to=users(reading, all_use=(PLATFORM_CA,)), namespace=namespace),
            Watch(builtin.ConfigMap, to=users(reading, all_use=(PLATFORM_CA,)), namespace=namespace),
            Watch(builtin.Pod, to=_instance, namespace=namespace),
            # They tell whose pods they are.
            Watch(builtin.ReplicaSet, to=_instance, namespace=namespace, metadata_only=True),
            Watch(builtin.StorageClass, to=those(MLFLOW.kind, lambda mlflow: "storage" in spec_of(mlflow))),
            Watch(builtin.Namespace, to=everyone(MLFLOW.kind), metadata_only=True, predicate=_came_or_went),
            *moving.watches_before(settings, _instance),
            *([Watch(MLFLOW_OPERATOR.kind, to=everyone(MLFLOW.kind), optional=True)] if settings.module else []),
        ],
        ready_condition="Available",
        permissions=_GRANTED,
        predecessor=settings.predecessor,
        asks=openshift.MARKS,
        indexes=[reading],
    )

    @controller.reconcile
    def reconcile(mlflow: MLflow, world: World) -> Desired | Hold:
        return reconcile_mlflow(mlflow, world, settings)

    return controller


_READ = ("get", "list", "watch")
_GRANTED = (
    Permission(("",), ("namespaces",), _READ, everywhere=True),
    Permission(("",), ("secrets",), _READ, names=("mlflow-artifact-connection",), everywhere=True),
    Permission(("mlflow.kubeflow.org",), ("mlflowconfigs",), _READ, everywhere=True),
    Permission(("mlflow.kubeflow.org",), ("experiments",), ("get", "list", "update"), everywhere=True),
    Permission((MLFLOW.group,), ("mlflows/finalizers",), ("update",), everywhere=True),
    Permission((builtin.ClusterRole.group,), (builtin.ClusterRole.plural,), ("create",), everywhere=True),
    Permission(
        (builtin.ClusterRole.group,),
        (builtin.ClusterRole.plural, builtin.ClusterRoleBinding.plural),
        ("update", "patch", "delete"),
        names=("mlflow", "mlflow-gc"),
        everywhere=True,
    ),
)
"""What the roles that we make grant, as the API lets nobody grant what they do not have; and of all roles, only our own to change. An MLflow
belongs to no namespace and serves them all, so they hold in the whole cluster."""


def reconcile_mlflow(mlflow: MLflow, world: World, settings: Settings) -> Desired | Hold:
    """One pass: the gate, the facts, the children, the migration."""
    ready: Object | None = None
    if settings.module:
        found = world.get(MLFLOW_OPERATOR.kind, "", module.MODULE_NAME)
        settings = module.with_module(settings, found)
        gate = module.gate(found)
        ready = condition(
            "MLflowOperatorReady",
            gate.open,
            gate.reason,
            gate.message,
            observed_generation=mlflow.metadata.generation,
        )
        if not gate.open:
            return _blocked(mlflow, Facts(settings), gate, ready)
    if (elsewhere := moving.left_behind(mlflow, Facts(settings), world)) is not None:
        return elsewhere
    facts = observe_facts(mlflow, settings, world)
    if (missing := _missing_ca(mlflow, facts, world)) is not None:
        return _stopped(mlflow, facts, "CABundleConfigMapError", missing, ready)
    observed = observe_migration(mlflow, facts, world)
    try:
        return _desired(mlflow, facts, world, observed, next_step(observed), ready)
    except RenderError as error:
        return _stopped(mlflow, facts, "RenderFailed", f"Failed to render Helm chart: {error}", ready)


def _blocked(mlflow: MLflow, facts: Facts, gate: module.Gate, ready: Object) -> Hold:
    kept = recorded_condition(mlflow, "Available") if gate.leaving else None
    status = stopped_status(mlflow, facts, gate.reason, gate.message, progressing=True, available=kept, module=ready)
    return Hold(gate.reason, gate.message, status=status, requeue_after=GATE_REQUEUE)


def _stopped(mlflow: MLflow, facts: Facts, reason: str, message: str, ready: Object | None) -> Hold:
    return Hold(
        reason,
        message,
        status=stopped_status(mlflow, facts, reason, message, module=ready),
        events=[EventNote(reason, message, "Warning")],
        requeue_after=ERROR_REQUEUE,
    )


def _missing_ca(mlflow: MLflow, facts: Facts, world: World) -> str | None:
    bundle, namespace = mlflow.spec.ca_bundle_config_map, facts.settings.target_namespace
    if bundle is None or world.get(builtin.ConfigMap, namespace, bundle.name) is not None:
        return None
    return f'CA bundle ConfigMap "{bundle.name}" not found in namespace "{namespace}"'


def _desired(
    mlflow: MLflow, facts: Facts, world: World, observed: Observed, step: Step, ready: Object | None
) -> Desired:
    names = facts.names(mlflow)
    server = (builtin.Deployment, Key(names.namespace, names.server))
    left_alone = step.scale is Scale.LEAVE
    kept: list[tuple[Kind, Key]] = [(builtin.Job, key_of(job)) for job in world.owned(builtin.Job)]
    kept += moving.kept_before(facts, world)
    if mlflow.spec.storage is None:
        kept.append((builtin.PersistentVolumeClaim, Key(names.namespace, names.claim)))
    live_server = world.get(*_place(server))
    up = server_rollout(live_server)
    if not up.available or _account_of(live_server) != facts.account(mlflow):
        # Pods of before still log in with the account of before.
        kept += [(builtin.ServiceAccount, key_of(account)) for account in world.owned(builtin.ServiceAccount)]
    finished = step.verdict is MigrationState.ROLLOUT and up.available
    problems = _problems(mlflow, facts, world, ready=up.available)
    impatient = step.verdict is not MigrationState.FAILURE and not up.available

    def status(resource: MLflow, live: Live) -> Object:
        if left_alone and live_server is not None:
            live = replace(live, objects={**live.objects, server: live_server})
        return running_status(resource, facts, step, live, problems, ready)

    return Desired(
        stages=_stages(mlflow, facts, step),
        status=status,
        patch={"metadata": {"annotations": {FORCE_MIGRATE: None}}} if finished and observed.forced else None,
        events=_events(mlflow, observed, step, problems, up.available, finished=finished),
        requeue_after=step.requeue if step.requeue is not None else NOT_READY_REQUEUE if impatient else None,
        keep=kept,
        prune=not left_alone,
        delete=[*([] if left_alone else _turned_off(mlflow, facts, world)), *_ended_jobs(observed, step, world)],
    )


_RUNNING_SERVERS = (builtin.Deployment, builtin.ConfigMap, builtin.CronJob, builtin.ClusterRoleBinding)
"""What a server that is left alone reads, runs beside, or has its rights from: made for it, and not for what the spec asks by then."""


def _stages(mlflow: MLflow, facts: Facts, step: Step) -> list[Stage]:
    match step.action:
        case JobAction.CREATE:
            job = [Child(migration_job.migration_job(mlflow, facts), policy=Policy.ONCE)]
        case JobAction.CREATE_PREFLIGHT:
            job = [Child(migration_job.preflight_job(mlflow, facts), policy=Policy.ONCE)]
        case _:
            job = []
    if step.scale is Scale.LEAVE:
        spared = {kind.kind for kind in _RUNNING_SERVERS}
        return [Stage([*job, *(child for child in children(mlflow, facts) if child.object["kind"] not in spared)])]
    needed = server_children(mlflow, facts, replicas=0 if step.scale is Scale.ZERO else None)
    further = further_children(mlflow, facts)
    # A migration begins only when what it needs, the scaled-down server above all, is in place.
    return [Stage(needed), Stage([*job, *further])] if job else [Stage([*needed, *further])]


def _turned_off(mlflow: MLflow, facts: Facts, world: World) -> list[tuple[Kind, Key]]:
    """What belongs to a job that is not asked for: it goes first, and whatever else may fail."""
    names, off = facts.names(mlflow), list[tuple[Kind, Key]]()
    if mlflow.spec.garbage_collection is None:
        off += [
            (builtin.CronJob, Key(names.namespace, names.gc)),
            (builtin.ServiceAccount, Key(names.namespace, GC_ACCOUNT)),
            (builtin.ClusterRoleBinding, Key("", names.gc)),
            (builtin.ClusterRole, Key("", names.gc)),
        ]
    if archival(mlflow.spec) is None:
        off += [
            (builtin.CronJob, Key(names.namespace, names.archival)),
            (builtin.ServiceAccount, Key(names.namespace, ARCHIVAL_ACCOUNT)),
            (builtin.ConfigMap, Key(names.namespace, names.archival_config)),
        ]
    return [place for place in off if world.get(*_place(place)) is not None]


def _ended_jobs(observed: Observed, step: Step, world: World) -> list[tuple[Kind, Key]]:
    """The Job that is to run again, and checks of what is no longer asked."""
    again = {JobAction.DELETE: observed.job.name, JobAction.DELETE_PREFLIGHT: observed.preflight.name}.get(step.action)
    return [
        (builtin.Job, key_of(job))
        for job in world.owned(builtin.Job)
        if name_of(job) == again or (is_preflight(job) and name_of(job) != observed.preflight.name)
    ]


def _account_of(deployment: Object | None) -> str:
    return str(lookup(deployment or {}, "spec", "template", "spec", "serviceAccountName") or "")


def _place(place: tuple[Kind, Key]) -> tuple[Kind, str, str]:
    return place[0], place[1].namespace, place[1].name


def _problems(mlflow: MLflow, facts: Facts, world: World, *, ready: bool) -> list[Problem]:
    differences: list[str] = []
    if mlflow.spec.storage is not None and not facts.foreign_claim:
        differences = claim_differences(claim(mlflow, facts), facts.claim, facts.storage_class)
    problems = spec_problems(mlflow, None if facts.foreign_claim else facts.claim, differences)
    secret, namespace = facts.settings.tls_secret, facts.settings.target_namespace
    if not ready and world.get(builtin.Secret, namespace, secret) is None:
        text = f"Secret {secret} with the serving certificate does not exist in namespace {namespace}; pods wait for it"
        problems.append(Problem("ServingCertificateMissing", text))
    lacking = [one for one in facts.missing if one.lost or (not ready and one.need.name != secret)]
    # What stops the server goes before what only will not work as its author thinks.
    return [*(Problem(f"{one.need.kind.kind}Missing", one.message(running=ready)) for one in lacking), *problems]


def _events(
    mlflow: MLflow, observed: Observed, step: Step, problems: list[Problem], ready: bool, *, finished: bool
) -> list[EventNote]:
    """What a person would want to know, once."""
    notes = [
        EventNote(one.reason, one.message, "Warning") for one in problems if one.reason != "ServingCertificateMissing"
    ]
    recorded = observed.condition or {}
    # Of a Job that is only about to be made, the next pass tells.
    news = (recorded.get("reason"), recorded.get("message")) != (step.reason, step.message)
    if news and step.reason and not step.makes_job:
        bad = step.verdict is MigrationState.FAILURE or step.reason == RETRYING
        notes.append(EventNote(step.reason, step.message, "Warning" if bad else "Normal"))
    if step.warning:
        notes.append(EventNote("MigrationNotStarting", step.warning, "Warning"))
    if finished:
        notes.append(EventNote("MigrationSucceeded", f"MLflow {observed.supported} is migrated and rolled out"))
    available = recorded_condition(mlflow, "Available") or {}
    if ready and step.scale is Scale.FULL and available.get("status") != "True":
        notes.append(EventNote("DeploymentReady", READY))
    return notes


def _owners(obj: Object, reader: Reader) -> Iterable[Key]:
    """The MLflows that the object names as its owners."""
    return [
        Key("", owner["name"])
        for owner in owners_of(obj)
        if owner.get("kind") == MLFLOW.kind_name and str(owner.get("apiVersion", "")).startswith(f"{MLFLOW.group}/")
    ]


def _came_or_went(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None


def _instance(pod: Object, reader: Reader) -> Iterable[Key]:
    """A pod of a server or of a migration wakes its MLflow, and so does a ReplicaSet, which carries the labels of its pods."""
    labels = labels_of(pod)
    if instance := labels.get(migration_job.MIGRATION_INSTANCE):
        return [Key("", instance)]
    app = labels.get("app", "")
    if app == SHARED_NAME:
        return [Key("", SHARED_NAME)]
    return [Key("", app.removeprefix("mlflow-"))] if app.startswith("mlflow-") else []


def _names_read_by(data: Object, settings: Settings) -> set[str]:
    try:
        mlflow = MLflow.parse(data)
    except msgspec.ValidationError:
        return set()  # Its own pass says what is wrong with it.
    bundle = mlflow.spec.ca_bundle_config_map
    return {need.name for need in needs(mlflow, settings)} | ({bundle.name} if bundle else set())
