"""Rewrites registries that are stored in an old version, once, and then says that none is left. Only where an admin asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from modelyard.kube import builtin
from modelyard.kube.conditions import is_false, is_true
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import annotations_of, conditions_of, key_of, name_of, resource_version_of, status_of
from modelyard.kube.times import format_time, parse_time
from modelyard.operators.model_registry.api import GROUP, MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.facts import OPERATOR, predecessor
from modelyard.operators.parts import build
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns, Permission, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Edit, Policy
from modelyard.runtime.declaring.world import World

CRD = f"{MODEL_REGISTRY.plural}.{GROUP}"
DOMAIN = "storage-migration.opendatahub.io"
MIGRATED = f"{DOMAIN}/migrated-v1alpha1-to-v1beta1"
LAST_VERSION = f"{DOMAIN}/last-migrated-rv"
KEY = Key("", "modelregistry-storage")
PATIENCE = 600.0
"""So many seconds the cluster's migrator has; then the registries are written here."""

StorageVersionMigration = Kind(
    "migration.k8s.io", "v1alpha1", "StorageVersionMigration", "storageversionmigrations", namespaced=False
)


def storage_controller(settings: Settings) -> Controller:
    """One fixed key: the stored registries of the cluster."""
    controller = Controller(
        "modelregistry-storage",
        Fixed((KEY,)),
        owns=[Owns(StorageVersionMigration, optional=True)],
        watches=[
            Watch(builtin.CustomResourceDefinition, to=lambda crd, reader: [KEY] if name_of(crd) == CRD else []),
            Watch(MODEL_REGISTRY.kind, to=lambda registry, reader: [KEY]),
        ],
        permissions=[
            Permission((GROUP,), (MODEL_REGISTRY.plural,), ("patch",)),
            Permission(
                (builtin.CustomResourceDefinition.group,),
                ("customresourcedefinitions/status",),
                ("patch",),
                names=(CRD,),
                everywhere=True,
            ),
        ],
        predecessor=predecessor(settings),
    )

    @controller.reconcile
    def reconcile(_: Key, world: World) -> Desired:
        return migrate(settings, world)

    return controller


def migrate(settings: Settings, world: World) -> Desired:
    """One pass: the cluster's own migrator where there is one, else every registry is written once."""
    source, target = settings.migrate_from, settings.migrate_to
    crd = world.get(builtin.CustomResourceDefinition, "", CRD)
    stored = status_of(crd or {}).get("storedVersions") or []
    if crd is None or source == target or source not in stored:
        return Desired(prune=False)
    children: list[Child] = []
    if world.serves(StorageVersionMigration):
        name = f"modelregistry-{source}-to-{target}-migration"
        begun = world.get(StorageVersionMigration, "", name) or {}
        conditions = conditions_of(begun)
        failed = is_false(conditions, "Succeeded") or is_true(conditions, "Failed")
        done = is_true(conditions, "Succeeded")
        left = _patience_left(begun, world)
        if not failed and (done or left > 0):
            children.append(Child(_migration(name, target), policy=Policy.ONCE))
            trimmed = [_trim(crd, stored, source)] if done else []
            return Desired(children, prune=False, edits=trimmed, requeue_after=None if done else left)
    edits = list(_rewrites(settings, world))
    return Desired(prune=False, edits=edits or [_trim(crd, stored, source)])


def _patience_left(migration: Object, world: World) -> float:
    """For so many seconds more the cluster's migrator may take its time."""
    created = (migration.get("metadata") or {}).get("creationTimestamp")
    waited = (world.now - parse_time(created)).total_seconds() if created else 0.0
    return PATIENCE - waited


def _migration(name: str, target: str) -> Object:
    labels = {
        "app.kubernetes.io/name": OPERATOR,
        "app.kubernetes.io/component": "storage-migration",
        "app.kubernetes.io/managed-by": OPERATOR,
    }
    resource = {"group": GROUP, "version": target, "resource": MODEL_REGISTRY.plural}
    return build.obj(StorageVersionMigration, name, labels=labels, spec={"resource": resource})


def _rewrites(settings: Settings, world: World) -> Iterator[Edit]:
    """Any write stores an object in the present version; the annotation says that it was done."""
    mark = f"{DOMAIN}/migrated-{settings.migrate_from}-to-{settings.migrate_to}"
    for registry in world.list(MODEL_REGISTRY.kind):
        if mark in annotations_of(registry):
            continue
        version = resource_version_of(registry)
        notes = {mark: format_time(world.now), LAST_VERSION: version}
        yield Edit(MODEL_REGISTRY.kind, key_of(registry), version, {"metadata": {"annotations": notes}})


def _trim(crd: Object, stored: list[str], source: str) -> Edit:
    """No registry is stored in the old version any more: the definition may say so."""
    left = {"status": {"storedVersions": [version for version in stored if version != source]}}
    return Edit(builtin.CustomResourceDefinition, key_of(crd), resource_version_of(crd), left, subresource="status")
