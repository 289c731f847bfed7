"""Volume claims that hold data."""

from __future__ import annotations

from typing import Any

from modelyard.kube.kinds import Object
from modelyard.operators.parts.build import claim
from modelyard.operators.parts.storage import claim_differences, kept_claim

GROWS = {"allowVolumeExpansion": True}


def asked(size: str = "5Gi", **more: Any) -> Object:
    return claim("data", "ns", size=size, **more)


def bound(size: str = "5Gi", **more: Any) -> Object:
    return claim("data", "ns", size=size, **more) | {"status": {"phase": "Bound"}}


def size_of(obj: Object) -> str:
    size: str = obj["spec"]["resources"]["requests"]["storage"]
    return size


def test_a_new_claim_is_as_asked() -> None:
    child = kept_claim(asked("5Gi", storage_class="fast"), None, None)
    assert child.object == asked("5Gi", storage_class="fast")
    assert child.keep
    assert child.adopt


def test_a_claim_grows_where_its_class_allows_it() -> None:
    assert size_of(kept_claim(asked("10Gi"), bound(), GROWS).object) == "10Gi"
    assert size_of(kept_claim(asked("10Gi"), bound(), None).object) == "5Gi"
    assert size_of(kept_claim(asked("10Gi"), asked("5Gi"), GROWS).object) == "5Gi", "not before it is bound"


def test_a_claim_never_shrinks_or_changes_its_class() -> None:
    live = bound("5Gi", storage_class="fast")
    child = kept_claim(asked("1Gi", storage_class="slow", modes=["ReadWriteMany"]), live, GROWS)
    assert child.object["spec"] == live["spec"]


def test_a_class_that_was_filled_in_is_carried_on() -> None:
    assert kept_claim(asked(), bound(storage_class="default"), None).object["spec"]["storageClassName"] == "default"


def test_equal_sizes_in_other_words_are_no_difference() -> None:
    assert claim_differences(asked("5120Mi"), bound("5Gi"), None) == []


def test_differences_are_said() -> None:
    said = claim_differences(
        asked("1Gi", modes=["ReadWriteMany"], storage_class="slow"), bound(storage_class="fast"), None
    )
    assert len(said) == 3
