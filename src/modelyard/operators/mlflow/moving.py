"""A server that stands in another namespace than the settings say: found, named, and moved where the admin asks for it. Pure.

Two servers must not share one database: one may migrate it under the other. So nothing is made in the new namespace while a
server may run in the old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import is_deleting, key_of, name_of
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.facts import Facts, Names
from modelyard.operators.mlflow.observe import is_unfinished_migration, server_pods
from modelyard.operators.mlflow.status import moving_status
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.runtime.declaring.controller import MapFn, Owns, Watch
from modelyard.runtime.declaring.desired import Desired, EventNote, Hold
from modelyard.runtime.declaring.world import World

CHANGED = "NamespaceChanged"
MOVING = "NamespaceMoving"
SETTING = "MLFLOW_PREVIOUS_NAMESPACE"
LOOK_AGAIN = 10.0

_REMOVED = (
    builtin.Deployment,
    builtin.CronJob,
    builtin.Job,
    builtin.HTTPRoute,
    BackendTLSPolicy,
    builtin.Service,
    builtin.ServiceMonitor,
    builtin.NetworkPolicy,
    builtin.ConfigMap,
    builtin.Secret,
    builtin.ServiceAccount,
)
"""What is deleted in the old namespace. Volume claims are not: they hold data."""
_OPTIONAL = frozenset((builtin.HTTPRoute, BackendTLSPolicy, builtin.ServiceMonitor))


def owns_before(settings: Settings) -> list[Owns]:
    """What the operator has to see, and may delete, in the namespace that it is to leave."""
    namespace = settings.namespace_before
    kinds = (*_REMOVED, builtin.PersistentVolumeClaim) if namespace else ()
    return [
        Owns(
            kind,
            namespace=namespace,
            optional=kind in _OPTIONAL,
            verbs=_verbs(kind),
            serving_certificates=kind == builtin.Service,
        )
        for kind in kinds
    ]


def _verbs(kind: Kind) -> tuple[str, ...]:
    read = ("get", "list", "watch")
    return read if kind == builtin.PersistentVolumeClaim else (*read, "delete")


def watches_before(settings: Settings, to: MapFn) -> list[Watch]:
    """The pods there, and whose they are."""
    namespace = settings.namespace_before
    if not namespace:
        return []
    return [
        Watch(builtin.Pod, to=to, namespace=namespace),
        Watch(builtin.ReplicaSet, to=to, namespace=namespace, metadata_only=True),
    ]


def left_behind(mlflow: MLflow, facts: Facts, world: World) -> Desired | Hold | None:
    """What to do about a server in another namespace; None: there is none, go on."""
    settings = facts.settings
    recorded = recorded_namespace(mlflow)
    elsewhere = recorded not in ("", settings.target_namespace)
    if elsewhere and recorded != settings.namespace_before:
        if world.get(builtin.Namespace, "", recorded) is None:
            return None  # It went with all that was in it.
        return _hold(mlflow, facts, CHANGED, _offer(mlflow, Names.of(mlflow, recorded), settings))
    if not settings.namespace_before:
        return None
    before = Names.of(mlflow, settings.namespace_before)
    if elsewhere and (data := _data_at_stake(mlflow, before, settings, world)):
        return _hold(mlflow, facts, CHANGED, data)
    return _remove(mlflow, facts, before, world)


def recorded_namespace(mlflow: MLflow) -> str:
    """Where the server was when the status was last written; empty where nothing is recorded."""
    address = mlflow.status and mlflow.status.address and mlflow.status.address.url
    host = (urlsplit(address or "").hostname or "").split(".")
    return host[1] if len(host) == 3 and host[2] == "svc" else ""


def _offer(mlflow: MLflow, before: Names, settings: Settings) -> str:
    storage = f" and volume claim {before.claim}" if mlflow.spec.storage is not None else ""
    return (
        f"the server stands in namespace {before.namespace} (Deployment and Service {before.server}{storage}), but the setting "
        f"MLFLOW_NAMESPACE is {settings.target_namespace} now. Both would use the same databases, so nothing is changed. Set "
        f"MLFLOW_NAMESPACE back to {before.namespace}, or let the operator remove the server there before it starts the new "
        f"one: set {SETTING}={before.namespace} and install the roles again"
    )


def _data_at_stake(mlflow: MLflow, before: Names, settings: Settings, world: World) -> str:
    """A volume cannot change its namespace: without a claim in the new one the server would start without its data."""
    if mlflow.spec.storage is None or world.get(builtin.PersistentVolumeClaim, before.namespace, before.claim) is None:
        return ""
    target = settings.target_namespace
    if world.get(builtin.PersistentVolumeClaim, target, before.claim) is not None:
        return ""
    return (
        f"the server's data is in the volume claim {before.claim} of namespace {before.namespace}, and a volume cannot move to "
        f"namespace {target}. The server there is left as it is. Scale Deployment {before.server} in {before.namespace} to 0, "
        f"copy the data into a claim named {before.claim} in namespace {target}, and the move goes on"
    )


def _remove(mlflow: MLflow, facts: Facts, before: Names, world: World) -> Desired | Hold | None:
    left = list(_belongings(before, world))
    migrating = [name_of(obj) for kind, obj in left if kind == builtin.Job and is_unfinished_migration(obj)]
    if migrating:
        message = (
            f"waiting for migration Job {before.namespace}/{migrating[0]} to finish before the server there is removed"
        )
        return _hold(mlflow, facts, MOVING, message)
    doomed = [(kind, key_of(obj)) for kind, obj in left if not is_deleting(obj)]
    pods = server_pods(before, world.get(builtin.Deployment, before.namespace, before.server), world)
    if not left and not pods:
        return None
    names = [f"{kind.kind} {key_of(obj)}" for kind, obj in left] or [f"Pod {key_of(pod)}" for pod in pods]
    message = (
        f"the server moves from namespace {before.namespace} to {facts.settings.target_namespace}; waiting for "
        f"{', '.join(names[:5])}{' and others' if len(names) > 5 else ''} to be gone"
    )
    events = [EventNote(MOVING, f"removing the server in namespace {before.namespace}")]
    return Desired(
        status=moving_status(mlflow, facts, MOVING, message, progressing=True),
        events=events,
        requeue_after=LOOK_AGAIN,
        prune=False,
        delete=doomed,
    )


def _belongings(before: Names, world: World) -> Iterator[tuple[Kind, Object]]:
    for kind in _REMOVED:
        if kind in _OPTIONAL and not world.serves(kind):
            continue
        for obj in world.owned(kind):
            if key_of(obj).namespace == before.namespace:
                yield kind, obj


def kept_before(facts: Facts, world: World) -> list[tuple[Kind, Key]]:
    """Volume claims in other namespaces: no pass in the new one prunes them."""
    claims = world.owned(builtin.PersistentVolumeClaim)
    target = facts.settings.target_namespace
    return [(builtin.PersistentVolumeClaim, key_of(one)) for one in claims if key_of(one).namespace != target]


def _hold(mlflow: MLflow, facts: Facts, reason: str, message: str) -> Hold:
    status = moving_status(mlflow, facts, reason, message, progressing=reason == MOVING)
    return Hold(
        reason, message, status=status, events=[EventNote(reason, message, "Warning")], requeue_after=LOOK_AGAIN
    )
