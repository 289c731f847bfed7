"""Small questions to plain objects, conditions, times and percentages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from modelyard.kube import objects
from modelyard.kube.conditions import (
    condition,
    find_condition,
    is_false,
    is_true,
    merge_conditions,
    remove_condition,
    set_condition,
)
from modelyard.kube.intstr import number_or_name, scaled
from modelyard.kube.kinds import Key
from modelyard.kube.times import format_micro_time, format_time, parse_time

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 3,
        "ownerReferences": [{"uid": "other"}, {"uid": "o1", "controller": True}],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
}


def test_metadata_is_read() -> None:
    assert objects.key_of(POD) == Key("shop", "web")
    assert (objects.uid_of(POD), objects.resource_version_of(POD), objects.generation_of(POD)) == ("u1", "7", 3)
    assert objects.controller_of(POD) == {"uid": "o1", "controller": True}
    assert objects.is_deleting(POD)
    assert objects.describe(POD) == "Pod shop/web"
    assert objects.is_controlled_by(POD, {"metadata": {"uid": "o1"}})
    assert not objects.is_controlled_by(POD, {"metadata": {"uid": "other"}})
    assert objects.is_owned_by(POD, {"metadata": {"uid": "other"}})


@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None}, {"metadata": {"labels": None, "ownerReferences": None, "name": None}}]
)
def test_absent_and_null_are_the_same(obj: dict[str, Any]) -> None:
    assert objects.key_of(obj) == Key("", "")
    assert objects.labels_of(obj) == objects.annotations_of(obj) == {}
    assert objects.owners_of(obj) == objects.conditions_of(obj) == []
    assert objects.finalizers_of(obj) == []
    assert objects.controller_of(obj) is None
    assert not objects.is_deleting(obj)
    assert not objects.is_controlled_by(obj, obj)


def test_owner_reference_names_the_owner() -> None:
    assert objects.owner_reference(POD) == {
        "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1", "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    assert objects.owner_reference(POD, controller=False, block_deletion=False) == {
        "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1",
    }  # fmt: skip


def test_owner_that_was_not_read_from_the_api_is_refused() -> None:
    with pytest.raises(ValueError, match="Pod 'web' cannot be an owner"):
        objects.owner_reference({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}})


def test_lookup_follows_a_path() -> None:
    assert objects.lookup(POD, "metadata", "name") == "web"
    assert objects.lookup(POD, "spec", "template", "spec") is None
    assert objects.lookup(POD, "metadata", "name", "more") is None


OLD = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 2, 1, tzinfo=UTC)


def test_transition_time_stays_while_the_status_is_the_same() -> None:
    before = [{"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": OLD}]
    after = set_condition(before, condition("Ready", True, "StillUp", "well"), NOW)
    assert after == [
        {"type": "Ready", "status": "True", "reason": "StillUp", "message": "well", "lastTransitionTime": OLD}
    ]
    assert before[0]["reason"] == "Up"


def test_transition_time_is_new_when_the_status_changed() -> None:
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": OLD}]
    assert (
        set_condition(before, condition("Ready", False, "Down"), NOW)[0]["lastTransitionTime"] == "2026-02-01T00:00:00Z"
    )


def test_conditions_keep_their_order_and_new_ones_come_last() -> None:
    before = [condition("A", True, "x"), condition("B", True, "x")]
    after = merge_conditions(
        before, [condition("C", "Unknown", "x"), condition("A", False, "y", observed_generation=4)], NOW
    )
    assert [(each["type"], each["status"]) for each in after] == [("A", "False"), ("B", "True"), ("C", "Unknown")]
    assert after[0]["observedGeneration"] == 4
    assert find_condition(after, "C") == after[2]
    assert is_true(after, "B")
    assert is_false(after, "A")
    assert not is_true(after, "C")
    assert not is_true(None, "A")
    assert remove_condition(after, "B") == [after[0], after[2]]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5Z", datetime(2026, 1, 31, 12, 0, 0, 500000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789Z", datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T12:00:00-05:30", datetime(2026, 1, 31, 17, 30, tzinfo=UTC)),
    ],
)
def test_times_are_read(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-31", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z", "2026-02-30T12:00:00Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text)


def test_times_are_written_in_utc() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 1234, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(moment) == "2026-01-31T10:00:00Z"
    assert format_micro_time(moment) == "2026-01-31T10:00:00.001234Z"
    with pytest.raises(ValueError, match="without a zone"):
        format_time(datetime(2026, 1, 31))


@pytest.mark.parametrize(
    ("value", "total", "round_up", "expected"),
    [(3, 10, True, 3), ("25%", 10, True, 3), ("25%", 10, False, 2), ("0%", 10, True, 0), ("100%", 7, False, 7), ("150%", 3, True, 5)],
)  # fmt: skip
def test_percentages_count_of_the_total(value: int | str, total: int, round_up: bool, expected: int) -> None:
    assert scaled(value, total, round_up=round_up) == expected


@pytest.mark.parametrize("value", ["", "5", "x%", "%", "1.5%"])
def test_what_is_no_percentage_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="neither a number nor a percentage"):
        scaled(value, 10, round_up=True)


def test_port_in_quotes_is_a_number() -> None:
    assert (number_or_name("8080"), number_or_name(80), number_or_name("http")) == (8080, 80, "http")
