"""The controller of the model catalog: it runs because the operator does, for one fixed key, and can be switched off."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import (
    controller_of,
    key_of,
    labels_of,
    name_of,
    owner_reference,
    resource_version_of,
    spec_of,
)
from modelyard.kube.openshift import MARKS, is_openshift
from modelyard.kube.secrets import encoded, encoded_value_of
from modelyard.operators.model_registry.catalog import children as made
from modelyard.operators.model_registry.catalog import sources
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME, SECRET_KEYS, CatalogFacts
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.facts import CREATED_BY, GRANT, ReferenceGrant, predecessor
from modelyard.operators.parts import rbac_proxy
from modelyard.operators.parts.availability import rollout
from modelyard.operators.parts.mappings import fixed
from modelyard.operators.parts.missing_references import Need, lasting_digest, missing
from modelyard.operators.parts.network import OWN_HOSTS, BackendTLSPolicy
from modelyard.operators.parts.ownership import is_foreign
from modelyard.operators.parts.platform import AUTH_NAME, Auth, ClusterIngress, cluster_domain
from modelyard.operators.parts.references import digest
from modelyard.operators.parts.storage import class_of
from modelyard.runtime.acting.ownership import DOMAIN
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns, Permission, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Edit, Hold, Stage
from modelyard.runtime.declaring.world import World

log = logging.getLogger(__name__)

PlatformRegistry = Kind(
    "components.platform.opendatahub.io", "v1alpha1", "ModelRegistry", "modelregistries", namespaced=False
)
PLATFORM_NAME = "default-modelregistry"
"""The platform's resource that owns the catalog, where it exists."""


def catalog_controller(settings: Settings) -> Controller:
    """The controller, for the namespace of the registries. Without one it has nothing to do."""
    where, key = settings.namespace or None, Key(settings.namespace, NAME)
    wake = fixed(key)
    controller = Controller(
        "modelcatalog",
        Fixed((key,)),
        owns=[
            Owns(builtin.Deployment, labels=CREATED_BY, namespace=where),
            Owns(builtin.ConfigMap, labels=CREATED_BY, namespace=where),
            Owns(builtin.Secret, labels=CREATED_BY, namespace=where),
            Owns(builtin.ServiceAccount, labels=CREATED_BY, namespace=where),
            Owns(builtin.Service, labels=CREATED_BY, namespace=where, serving_certificates=True),
            Owns(builtin.PersistentVolumeClaim, labels=CREATED_BY, namespace=where),
            Owns(builtin.ClusterRoleBinding, labels=CREATED_BY),
            Owns(builtin.Role, labels=CREATED_BY, namespace=where),
            Owns(builtin.RoleBinding, labels=CREATED_BY, namespace=where),
            Owns(builtin.NetworkPolicy, labels=CREATED_BY, namespace=where),
            Owns(builtin.Route, labels=CREATED_BY, namespace=where, optional=True),
            Owns(builtin.HTTPRoute, labels=CREATED_BY, optional=True),
            Owns(ReferenceGrant, namespace=where, optional=True),
            Owns(BackendTLSPolicy, labels=CREATED_BY, namespace=where, optional=True),
        ],
        watches=[
            # What users made carries no label of ours: it is a source by its label, or has a name that counts.
            Watch(builtin.ConfigMap, to=wake, labels=sources.SOURCE_LABEL, namespace=where),
            Watch(builtin.Secret, to=wake, labels=sources.SOURCE_LABEL, namespace=where),
            *(Watch(builtin.ConfigMap, to=wake, name=name, namespace=where) for name in _NAMED_MAPS),
            *(Watch(builtin.Secret, to=wake, name=name, namespace=where) for name in _NAMED_SECRETS),
            Watch(Auth, to=wake, optional=True),
            Watch(PlatformRegistry, to=wake, optional=True),
            Watch(ClusterIngress, to=wake, optional=True),
            Watch(builtin.StorageClass),
        ],
        # Admins may change every list of sources, whatever its name.
        permissions=[*_GRANTED, Permission(("",), ("configmaps",), ("update",), namespace=where)],
        predecessor=predecessor(settings),
        asks=MARKS,
    )

    @controller.reconcile
    def reconcile(_: Key, world: World) -> Desired | Hold:
        return reconcile_catalog(settings, world)

    return controller


_GRANTED = (
    *rbac_proxy.GRANTED,
    OWN_HOSTS,
)
"""What the roles that we bind grant, too: the API lets nobody grant what they do not have."""


_NAMED_SECRETS = (DATABASE, made.COOKIE_SECRET, made.SERVING_CERT_SECRET)
_NAMED_MAPS = (*sources.USER_TEXTS, sources.LEGACY_DEFAULTS)


def reconcile_catalog(settings: Settings, world: World) -> Desired | Hold:
    """One pass."""
    if not settings.namespace:
        message = "the model catalog needs a namespace: set REGISTRIES_NAMESPACE, or ENABLE_MODEL_CATALOG=false"
        log.info("%s", message)
        return Hold("NoNamespace", message)
    if not settings.catalog:
        return switched_off(settings)
    facts = observe(settings, world)
    absent = [name for name in sources.USER_TEXTS if world.get(builtin.ConfigMap, settings.namespace, name) is None]
    return Desired(
        stages=_stages(facts, absent, world),
        keep=_kept(settings),
        edits=[*_list_edits(settings, world), *_leftovers(settings, world), *_database_edits(facts, world)],
    )


def switched_off(settings: Settings) -> Desired:
    """Everything goes but what users keep: their lists and, unless they ask for it, the database's volume and password."""
    lists = [(builtin.ConfigMap, Key(settings.namespace, sources.DEFAULTS))]
    data = [] if settings.catalog_delete_data else _data(settings)
    return Desired(keep=[*lists, *data, *_kept(settings)])


def _data(settings: Settings) -> list[tuple[Kind, Key]]:
    key = Key(settings.namespace, DATABASE)
    return [(builtin.PersistentVolumeClaim, key), (builtin.Secret, key)]


def _kept(settings: Settings) -> list[tuple[Kind, Key]]:
    """What is never taken away: the users' lists; and a database that is not ours to make."""
    kept = [(builtin.ConfigMap, Key(settings.namespace, name)) for name in sources.USER_TEXTS]
    if settings.catalog_database:
        return kept
    key = Key(settings.namespace, DATABASE)
    others = (builtin.Deployment, builtin.Service, builtin.NetworkPolicy)
    return [*kept, *_data(settings), *((kind, key) for kind in others)]


def _stages(facts: CatalogFacts, absent: list[str], world: World) -> list[Stage]:
    """Nothing starts before the API keeps the password of the database, and we have seen what it keeps."""
    objects = made.children(facts, absent)
    if not facts.settings.catalog_database:
        return [Stage(objects)]
    secret = world.get(builtin.Secret, facts.namespace, DATABASE)
    if is_foreign(world, builtin.Secret, secret):
        return [Stage(objects)]  # Someone provides the credentials; only what they lack is added.
    known = secret is not None
    return [Stage([_credentials(facts, secret, world)], ready=lambda live: known), Stage(objects)]


def _credentials(facts: CatalogFacts, secret: Object | None, world: World) -> Child:
    return made.credentials(facts, world.token(24))


def _list_edits(settings: Settings, world: World) -> Iterator[Edit]:
    """Older versions wrote their own entry into the users' lists; it goes, all else stays."""
    for name in sources.USER_TEXTS:
        found = world.get(builtin.ConfigMap, settings.namespace, name)
        text = (found or {}).get("data", {}).get(sources.KEY)
        stripped = sources.without_default_catalog(text) if isinstance(text, str) else None
        if found is not None and stripped is not None:
            patch = {"data": {sources.KEY: stripped}}
            yield Edit(builtin.ConfigMap, key_of(found), resource_version_of(found), patch)


def _leftovers(settings: Settings, world: World) -> Iterator[Edit]:
    """What older versions made and nobody needs any more."""
    legacy = world.get(builtin.ConfigMap, settings.namespace, sources.LEGACY_DEFAULTS)
    if legacy is not None and labels_of(legacy).items() >= CREATED_BY.items():
        yield Edit(builtin.ConfigMap, key_of(legacy), resource_version_of(legacy), None)
    cookie = world.get(builtin.Secret, settings.namespace, made.COOKIE_SECRET)
    if cookie is not None and controller_of(cookie) is None:
        yield Edit(builtin.Secret, key_of(cookie), resource_version_of(cookie), None)


def _database_edits(facts: CatalogFacts, world: World) -> Iterator[Edit]:
    """Completes credentials that lack something; no value that is there changes. And keeps the claim's labels ours."""
    settings = facts.settings
    if not settings.catalog_database:
        return
    secret = world.get(builtin.Secret, facts.namespace, DATABASE)
    if secret is not None:
        data: Object = secret.get("data") or {}
        values = {"database-name": settings.catalog_database_name, "database-user": settings.catalog_user}
        lacking = {key: encoded(values.get(key) or world.token(24)) for key in SECRET_KEYS if key not in data}
        wanted = {"component": DATABASE, **CREATED_BY}
        marks = {name: value for name, value in wanted.items() if labels_of(secret).get(name) != value}
        patch = ({"data": lacking} if lacking else {}) | ({"metadata": {"labels": marks}} if marks else {})
        if patch:
            yield Edit(builtin.Secret, key_of(secret), resource_version_of(secret), patch)
    if facts.claim is not None and _is_tracked(facts.claim):
        ours = made.database_labels()
        foreign = [name for name in labels_of(facts.claim) if name not in ours and not name.startswith(f"{DOMAIN}/")]
        if foreign:
            bare: Object = {"metadata": {"labels": dict.fromkeys(foreign)}}
            yield Edit(builtin.PersistentVolumeClaim, key_of(facts.claim), resource_version_of(facts.claim), bare)


def _is_tracked(claim: Object) -> bool:
    return any(name.startswith(f"{DOMAIN}/") for name in labels_of(claim))


def observe(settings: Settings, world: World) -> CatalogFacts:
    """What the cluster says."""
    namespace = settings.namespace
    found, wrong = sources.labelled(world.list(builtin.ConfigMap, namespace, sources.SOURCE_LABEL))
    for text in wrong:
        log.info("%s", text)
    claim = world.get(builtin.PersistentVolumeClaim, namespace, DATABASE)
    running = world.get(builtin.Deployment, namespace, NAME)
    state = rollout(running)
    credentials = [Need(builtin.Secret, DATABASE, key) for key in SECRET_KEYS]
    lacking = missing(world, namespace, credentials)
    read = digest(world, namespace, (need.reference for need in credentials))
    secrets = world.list(builtin.Secret, namespace, sources.SOURCE_LABEL)
    return CatalogFacts(
        settings,
        openshift=is_openshift(world),
        domain=settings.default_domain or cluster_domain(world),
        platform=_platform(world),
        admin_groups=_admin_groups(world),
        labelled=tuple(found),
        labelled_secrets=tuple(sorted(map(name_of, secrets))),
        claim=claim,
        storage_class=class_of(claim, world),
        digest=lasting_digest(read, running, lacking),
        missing=() if settings.catalog_database else lacking,
        gateway=bool(settings.gateway_domain) and world.serves(builtin.HTTPRoute),
        grants=world.serves(ReferenceGrant) and world.get(ReferenceGrant, namespace, GRANT) is None,
        serving_ca=_serving_ca(namespace, world),
        health="" if state.available else state.message or "the Deployment is not available yet",
    )


def _serving_ca(namespace: str, world: World) -> str:
    if not world.serves(BackendTLSPolicy):
        return ""
    return encoded_value_of(world.get(builtin.Secret, namespace, made.SERVING_CERT_SECRET), "ca.crt")


def _platform(world: World) -> Object | None:
    found = world.get(PlatformRegistry, "", PLATFORM_NAME) if world.serves(PlatformRegistry) else None
    return owner_reference(found, controller=False, block_deletion=False) if found is not None else None


def _admin_groups(world: World) -> tuple[str, ...]:
    auth = world.get(Auth, "", AUTH_NAME) if world.serves(Auth) else None
    groups = spec_of(auth or {}).get("adminGroups")
    if not isinstance(groups, list) or not all(isinstance(group, str) and group for group in groups):
        return ()
    return tuple(dict.fromkeys(groups))
