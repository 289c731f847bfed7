"""Every field of a ModelRegistry's spec, changed one at a time."""

from __future__ import annotations

from modelyard.kube.kinds import Key
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from tests.chaos.fields import FieldSweep
from tests.chaos.registry_story import LIFE, NS, POSTGRES

SWEEP = FieldSweep(
    story=LIFE,
    definition=MODEL_REGISTRY,
    key=Key(NS, "mr"),
    spec={"rest": {"port": 8080}, "postgres": POSTGRES, "kubeRBACProxy": {"port": 8443}},
    texts={
        "rest.resources.requests": {"cpu": "1"},
        "rest.resources.limits": {"memory": "3Gi"},
        "grpc.resources.requests": {"cpu": "1"},
        "grpc.resources.limits": {"memory": "3Gi"},
        "postgres.database": "other",
    },
    refusals=("ConfigurationError",),
)


def test_every_field_of_the_schema_is_swept() -> None:
    assert {change.top for change in SWEEP.changes()} == {
        "rest", "grpc", "postgres", "mysql", "enable_database_upgrade", "downgrade_db_schema_version", "oauthProxy",
        "kubeRBACProxy",
    }  # fmt: skip


def test_a_changed_field_ends_as_if_created_that_way_and_goes_back() -> None:
    SWEEP.run()


def test_so_it_does_with_all_operators_loaded() -> None:
    SWEEP.among_all().run()
