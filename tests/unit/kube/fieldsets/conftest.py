from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.fieldsets import Write
from modelyard.kube.schema import Schema, builtin_schema


@pytest.fixture
def schema() -> Schema:
    found = builtin_schema(builtin.Deployment)
    assert found is not None
    return found


@pytest.fixture
def write(schema: Schema) -> Write:
    return Write(schema, "apps/v1", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def deployment() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "web:1", "ports": [{"containerPort": 80}]}]},
            },
        },
    }
