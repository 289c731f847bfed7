"""The controller of `ModelRegistry`: what it watches, and a reconcile that reads the world and says what should be true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import (
    controller_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
)
from modelyard.kube.openshift import MARKS, is_openshift
from modelyard.operators.model_registry.api import MODEL_REGISTRY, ModelRegistry
from modelyard.operators.model_registry.children import TRACKED, Wanted, account, children, credentials
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.database import references
from modelyard.operators.model_registry.effective import effective, migrated, with_proxy
from modelyard.operators.model_registry.facts import (
    COMPONENT,
    CREATED_BY,
    FINALIZER,
    NAMESPACE_LABEL,
    Names,
    ReferenceGrant,
    predecessor,
)
from modelyard.operators.model_registry.observe import observe_facts, observe_health
from modelyard.operators.model_registry.rules import spec_errors
from modelyard.operators.model_registry.status import (
    COOLDOWN,
    CREATING,
    UPDATING,
    finalizing_status,
    invalid_status,
    recorded,
    registry_status,
)
from modelyard.operators.parts import rbac_proxy
from modelyard.operators.parts.availability import SERVICE_NAME, cooling, rollout
from modelyard.operators.parts.mappings import everyone, readers, users
from modelyard.operators.parts.network import OWN_HOSTS, BackendTLSPolicy
from modelyard.operators.parts.platform import ClusterIngress
from modelyard.runtime.acting.ownership import is_reference_to
from modelyard.runtime.declaring.controller import Controller, Owns, Permission, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Edit, EventNote, Hold, Live, Stage
from modelyard.runtime.declaring.world import World
from modelyard.runtime.webhooks import FieldError


def registry_controller(settings: Settings) -> Controller:
    """The controller, for all namespaces or for the one that the settings name."""
    where = settings.namespace or None
    controller = Controller(
        "modelregistry",
        MODEL_REGISTRY,
        owns=[
            Owns(builtin.Service, labels=CREATED_BY, namespace=where, serving_certificates=True),
            Owns(builtin.ServiceAccount, labels=CREATED_BY, namespace=where),
            Owns(builtin.Deployment, labels=CREATED_BY, namespace=where),
            Owns(builtin.Role, labels=CREATED_BY, namespace=where),
            Owns(builtin.NetworkPolicy, labels=CREATED_BY, namespace=where),
            Owns(builtin.RoleBinding, labels=CREATED_BY, namespace=where),
            Owns(builtin.PersistentVolumeClaim, labels=CREATED_BY, namespace=where),
            Owns(builtin.Secret, labels=CREATED_BY, namespace=where),
            Owns(builtin.ConfigMap, labels=CREATED_BY, namespace=where),
            Owns(builtin.ClusterRoleBinding, labels=CREATED_BY),
            Owns(builtin.Route, labels=CREATED_BY, namespace=where, optional=True),
            Owns(builtin.Group, labels=CREATED_BY, optional=True),
            Owns(builtin.HTTPRoute, labels=CREATED_BY, optional=True),
            Owns(ReferenceGrant, namespace=where, optional=True),
            Owns(BackendTLSPolicy, labels=CREATED_BY, namespace=where, optional=True),
        ],
        watches=[
            # Anyone's: what is in them is read only where a registry names them.
            Watch(builtin.Secret, to=users(_READERS), namespace=where, metadata_only=True),
            Watch(builtin.ConfigMap, to=users(_READERS), namespace=where, metadata_only=True),
            Watch(builtin.Pod, to=_server, labels={"component": COMPONENT}, namespace=where),
            # They carry the labels of their Service.
            Watch(builtin.EndpointSlice, to=_served, labels=CREATED_BY, namespace=where),
            Watch(builtin.StorageClass),
            Watch(ClusterIngress, to=everyone(MODEL_REGISTRY.kind), optional=True),
        ],
        finalizer=FINALIZER,
        ready_condition="Available",
        permissions=_GRANTED,
        concurrency=8,
        predecessor=predecessor(settings),
        asks=MARKS,
        indexes=[_READERS],
    )

    @controller.reconcile
    async def reconcile(registry: ModelRegistry, world: World) -> Desired | Hold:
        return await reconcile_registry(registry, world, settings)

    @controller.cleanup
    def cleanup(registry: ModelRegistry, world: World) -> Desired:
        return finish(registry, world)

    return controller


_GRANTED = (
    *rbac_proxy.GRANTED,
    Permission(("",), ("pods/log",), ("get",)),
    OWN_HOSTS,
    Permission((MODEL_REGISTRY.group,), ("modelregistries/finalizers",), ("update",)),
)
"""What the roles that we bind grant, too: the API lets nobody grant what they do not have."""


async def reconcile_registry(registry: ModelRegistry, world: World, settings: Settings) -> Desired | Hold:
    """One pass: the checks, the facts, the children, the status."""
    if errors := _errors(registry, settings):
        message = "; ".join(map(str, errors))
        events = [EventNote("ConfigurationError", message, "Warning")]
        return Hold("ConfigurationError", message, status=invalid_status(registry, message), events=events)
    assert registry.spec is not None
    patch = migrated(registry, openshift=is_openshift(world))
    stored = with_proxy(registry.spec) if patch else registry.spec
    names = Names.of(registry)
    facts = await observe_facts(stored, names, settings, world)
    wanted = Wanted(registry, stored, effective(stored, facts, names), facts, names)
    health = await observe_health(names, world)
    before = {(kind, key_of(obj)): resource_version_of(obj) for kind in _KINDS for obj in world.owned(kind)}

    def status(resource: ModelRegistry, live: Live) -> Object:
        return registry_status(wanted, health, live, before)

    up = rollout(world.get(builtin.Deployment, names.namespace, names.name))
    wait = cooling(up, world.now, COOLDOWN)
    return Desired(
        stages=_stages(wanted, world),
        status=status,
        patch=patch,
        events=_events(wanted),
        requeue_after=wait if wait > 0 else None,
        keep=[] if wanted.generated else [(builtin.PersistentVolumeClaim, Key(names.namespace, names.claim))],
        delete=_legacy(wanted, world),
        edits=[*_unmarked(wanted), *_replaced_binding(wanted, world)],
    )


_KINDS = (
    builtin.Service,
    builtin.ServiceAccount,
    builtin.Deployment,
    builtin.Role,
    builtin.NetworkPolicy,
    builtin.RoleBinding,
    builtin.PersistentVolumeClaim,
    builtin.Secret,
    builtin.ConfigMap,
    builtin.ClusterRoleBinding,
    builtin.Route,
    builtin.Group,
    builtin.HTTPRoute,
    ReferenceGrant,
    BackendTLSPolicy,
)


def _errors(registry: ModelRegistry, settings: Settings) -> list[FieldError]:
    errors = list(spec_errors(registry.spec))
    if settings.namespace and registry.namespace != settings.namespace:
        text = f'Invalid value: "{registry.namespace}": namespace must be {settings.namespace}'
        errors.insert(0, FieldError("metadata.namespace", text))
    return errors


def _stages(wanted: Wanted, world: World) -> list[Stage]:
    """Nothing starts before its account is ours; nor before the API keeps the database's password, and we have seen what
    it keeps."""
    own = Stage([account(wanted.names)])
    if not wanted.generated:
        return [own, Stage(children(wanted))]
    if _is_provided(wanted):
        complete = not wanted.facts.missing
        return [own, Stage([], ready=lambda live: complete), Stage(children(wanted))]
    secret: Child = credentials(wanted, world.token(24))
    known = wanted.facts.credentials is not None
    return [own, Stage([secret], ready=lambda live: known), Stage(children(wanted))]


def _is_provided(wanted: Wanted) -> bool:
    """Did someone make the database's credentials before us? Then they are used as they are. Those of a registry that had
    this name before are not: they go with it."""
    secret = wanted.facts.secret
    if secret is None or is_deleting(secret):
        return False
    holder = controller_of(secret)
    return holder is None or not is_reference_to(holder, MODEL_REGISTRY.kind)


def _unmarked(wanted: Wanted) -> list[Edit]:
    """Credentials that upstream made carry no labels; without them nobody would see that they are there."""
    secret, names = wanted.facts.secret, wanted.names
    if secret is None or (controller_of(secret) or {}).get("uid") != wanted.registry.metadata.uid:
        return []
    if labels_of(secret).items() >= CREATED_BY.items():
        return []
    labels: Object = {"metadata": {"labels": names.postgres_labels}}
    return [Edit(builtin.Secret, key_of(secret), resource_version_of(secret), labels)]


def _replaced_binding(wanted: Wanted, world: World) -> list[Edit]:
    """The binding that upstream made under the old name, once ours is there. The one of our earlier versions is pruned."""
    if world.get(builtin.ClusterRoleBinding, "", wanted.names.auth_delegator) is None:
        return []
    left = _left_by_upstream(wanted.registry, world)
    return [
        Edit(kind, key_of(obj), resource_version_of(obj), None)
        for kind, obj in left
        if kind == builtin.ClusterRoleBinding
    ]


def _events(wanted: Wanted) -> list[EventNote]:
    """What a person would want to know, once. Changes are told by the pass after them, from what they left in the status."""
    names = wanted.names
    notes = [EventNote("SpecNotHonoured", problem, "Warning") for problem in wanted.facts.problems]
    reason = (recorded(wanted.registry, "Progressing") or {}).get("reason")
    where = f"service for custom resource {names.name} in namespace {names.namespace}"
    if reason == CREATING[0]:
        notes.append(EventNote("ServiceCreated", f"Created {where}"))
    elif reason == UPDATING[0]:
        notes.append(EventNote("ServiceUpdated", f"Updated {where}"))
    return notes


def _legacy(wanted: Wanted, world: World) -> list[tuple[Kind, Key]]:
    """What older operators left behind for a registry's own catalog, where this very registry controls it."""
    base = f"{wanted.names.name}-catalog"
    old = [
        (builtin.Deployment, base),
        (builtin.Service, base),
        (builtin.Route, f"{base}-https"),
        (builtin.NetworkPolicy, f"{base}-https-route"),
    ]
    uid, namespace = wanted.registry.metadata.uid, wanted.names.namespace
    return [
        (kind, Key(namespace, name))
        for kind, name in old
        if world.serves(kind)
        and (found := world.get(kind, namespace, name)) is not None
        and (controller_of(found) or {}).get("uid") == uid != ""
    ]


def finish(registry: ModelRegistry, world: World) -> Desired:
    """The end of a registry: what the garbage collector cannot reach goes first, then the finalizer."""
    owned = [(kind, obj) for kind in TRACKED if world.serves(kind) for obj in world.owned(kind)]
    left = list(_left_by_upstream(registry, world))
    held = [
        f"{kind.kind} {key_of(obj)} to be gone, which its finalizers {', '.join(finalizers_of(obj))} hold"
        for kind, obj in (*owned, *left)
        if finalizers_of(obj)
    ]
    begun = recorded(registry, "Degraded") is not None
    message = f"Custom Resource {registry.name} is being deleted from the namespace {registry.namespace}"
    return Desired(
        prune=False,
        delete=[(kind, key_of(obj)) for kind, obj in owned],
        edits=[Edit(kind, key_of(obj), resource_version_of(obj), None) for kind, obj in left if not is_deleting(obj)],
        status_first=None if begun else finalizing_status(registry, done=False),
        status=finalizing_status(registry, done=not held, waiting=" and for ".join(held)),
        events=[EventNote("Deleting", message, "Warning")],
    )


def _left_by_upstream(registry: ModelRegistry, world: World) -> Iterator[tuple[Kind, Object]]:
    """What upstream made for a registry that ends before we have taken it over."""
    names = Names.of(registry)
    for kind, name, more in (
        (builtin.Group, names.users, {}),
        # A registry of this name in another namespace has one that differs in this label only.
        (builtin.ClusterRoleBinding, names.old_auth_delegator, {NAMESPACE_LABEL: names.namespace}),
        (builtin.HTTPRoute, names.gateway_route, {}),
    ):
        ours = {key_of(obj) for obj in world.owned(kind)} if world.serves(kind) else set()
        for obj in world.list(kind, labels=names.labels(name) | more) if world.serves(kind) else ():
            if name_of(obj) == name and key_of(obj) not in ours:
                yield kind, obj


def _server(pod: Object, reader: Reader) -> Iterable[Key]:
    """A pod wakes the registry that it says it is of."""
    app = labels_of(pod).get("app")
    return [Key(namespace_of(pod), app)] if app else []


def _served(piece: Object, reader: Reader) -> Iterable[Key]:
    """An EndpointSlice wakes the registry whose Service it is of."""
    service = labels_of(piece).get(SERVICE_NAME)
    key = Key(namespace_of(piece), service or "")
    return [key] if service and reader.get(MODEL_REGISTRY.kind, *key) is not None else []


def _names_read_by(data: Object) -> set[str]:
    try:
        registry = ModelRegistry.parse(data)
    except msgspec.ValidationError:
        return set()  # Its own pass says what is wrong with it.
    names = {name for _, name, _ in references(registry.spec)} if registry.spec else set()
    return names | {Names.of(registry).serving_cert}


_READERS = readers(MODEL_REGISTRY.kind, _names_read_by)
