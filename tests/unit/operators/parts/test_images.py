"""When an image is pulled."""

from __future__ import annotations

import pytest

from modelyard.operators.parts.images import pull_policy


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("host:5000/x", "Always"),
        ("host:5000/x:latest", "Always"),
        ("x:latest@sha256:0", "Always"),
        ("x:1", "IfNotPresent"),
        ("host:5000/x:1", "IfNotPresent"),
        ("x@sha256:0", "IfNotPresent"),
        ("host:5000/x@sha256:0", "IfNotPresent"),
    ],
)
def test_a_moving_tag_is_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy
