"""Registries that are stored in an old version: rewritten once, by the cluster's migrator or by us."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import annotations_of, status_of
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.storage import (
    CRD,
    KEY,
    MIGRATED,
    PATIENCE,
    StorageVersionMigration,
    storage_controller,
)
from modelyard.runtime.testing import Bench, bench

NAME = "modelregistry-v1alpha1-to-v1beta1-migration"


def ground(*, migrator: bool = False) -> Bench:
    settings = Settings(migrate_from="v1alpha1", migrate_to="v1beta1")
    crd = {
        "apiVersion": builtin.CustomResourceDefinition.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "status": {"storedVersions": ["v1alpha1", "v1beta1"]},
    }
    kind = MODEL_REGISTRY.kind
    registry: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "mr", "namespace": "shop"},
    }
    served = [StorageVersionMigration] if migrator else []
    return bench(storage_controller(settings), KEY, [crd, registry], served=served)


def is_marked(made: Bench) -> bool:
    return MIGRATED in annotations_of(made.cluster.get(MODEL_REGISTRY.kind, Key("shop", "mr")) or {})


def stored(made: Bench) -> Any:
    return status_of(made.cluster.get(builtin.CustomResourceDefinition, Key("", CRD)) or {})["storedVersions"]


def answer(made: Bench, **condition: str) -> None:
    made.edit(StorageVersionMigration, "", NAME, lambda obj: obj.update(status={"conditions": [condition]}))


def test_q25_without_a_migrator_every_registry_is_written_once_and_the_old_version_is_struck_off() -> None:
    made = ground()
    made.settle()
    assert is_marked(made)
    assert stored(made) == ["v1beta1"]
    assert made.run().writes == ()


def test_q25_the_clusters_migrator_goes_first() -> None:
    made = ground(migrator=True)
    made.settle()
    assert not is_marked(made)
    answer(made, type="Succeeded", status="True")
    made.settle()
    assert stored(made) == ["v1beta1"]
    assert not is_marked(made)


def test_q25_a_migrator_that_failed_is_replaced() -> None:
    made = ground(migrator=True)
    made.settle()
    answer(made, type="Failed", status="True")
    made.settle()
    assert is_marked(made)
    assert stored(made) == ["v1beta1"]


def test_q25_a_migrator_that_hangs_is_not_waited_for() -> None:
    made = ground(migrator=True)
    assert made.settle().requeue_after == PATIENCE
    made.cluster.advance(PATIENCE + 1)
    made.settle()
    assert is_marked(made)
    assert stored(made) == ["v1beta1"]
