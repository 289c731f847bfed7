"""How a status is put together: the controller's word, the engine's own conditions, and times that stay."""

from __future__ import annotations

from datetime import UTC, datetime

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.conditions import condition
from modelyard.kube.crd import Model
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.acting import status
from modelyard.runtime.acting.memory import REMAKES, WINDOW, ChildMemory
from modelyard.runtime.declaring.desired import Failure, Hold, Live

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class PhaseStatus(Model):
    phase: str
    note: str | None = None


def test_typed_plain_and_computed_statuses_come_out_the_same() -> None:
    typed = PhaseStatus(phase="Up")
    assert status.compute(typed, None, Live()) == {"phase": "Up"}
    assert status.compute({"phase": "Up", "note": None}, None, Live()) == {"phase": "Up"}
    assert status.compute(lambda resource, live: typed, None, Live()) == {"phase": "Up"}
    assert status.compute(None, None, Live()) is None


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    old: Object = {"conditions": [condition("Ready", True, "A") | {"lastTransitionTime": "then"}]}
    same = status.keep_times({"conditions": [condition("Ready", True, "B")]}, old, NOW)
    assert same["conditions"][0]["lastTransitionTime"] == "then"
    other = status.keep_times({"conditions": [condition("Ready", False, "B")]}, old, NOW)
    assert other["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_controller_may_count_a_new_reason_as_a_transition() -> None:
    old: Object = {"conditions": [condition("Ready", True, "A") | {"lastTransitionTime": "then"}]}
    for reason, kept in (("A", "then"), ("B", "now")):
        new = {"conditions": [condition("Ready", True, reason) | {"lastTransitionTime": "now"}]}
        assert status.keep_times(new, old, NOW)["conditions"][0]["lastTransitionTime"] == kept


def test_a_time_that_the_api_dropped_is_not_sent_again_and_again() -> None:
    old: Object = {"conditions": [condition("Ready", True, "A")]}
    assert (
        "lastTransitionTime"
        not in status.keep_times({"conditions": [condition("Ready", True, "A")]}, old, NOW)["conditions"][0]
    )


def test_a_hold_keeps_the_rest_of_the_status() -> None:
    held = status.held({"phase": "Up"}, Hold("SecretMissing", "no secret"), "Ready", 3)
    assert held["phase"] == "Up"
    assert held["conditions"][0] == condition("Ready", False, "SecretMissing", "no secret", observed_generation=3)


def test_engine_marks_go_when_nothing_is_wrong_any_more() -> None:
    marks = [
        condition("Reconciled", False, "Foreign"),
        condition("Ready", False, "Foreign"),
        condition("Other", True, "X"),
    ]
    assert status.without_engine_marks({"conditions": marks}, "Ready") == {"conditions": [marks[2]]}
    own = {"conditions": [condition("Ready", False, "Starting")]}
    assert status.without_engine_marks(own, "Ready") is own


def test_all_failures_are_told_and_cut_to_what_a_condition_holds() -> None:
    failures = [Failure(ConfigMap, Key("shop", name), "ApplyFailed", "no " * 300) for name in ("a", "b")]
    said = status.failed(failures, 1)
    assert said["reason"] == "ApplyFailed"
    assert said["message"].startswith("ConfigMap shop/a: no no")
    assert len(said["message"]) == 1024


def test_a_message_that_the_api_would_refuse_is_cut_behind_its_reason() -> None:
    long = {"conditions": [condition("Available", False, "X", "denied: " + "no " * 20_000), "odd"], "hosts": ["a"]}
    (cut, odd) = status.fitted(long)["conditions"]
    assert (len(cut["message"]), odd) == (status.LONGEST_MESSAGE, "odd")
    assert cut["message"].startswith("denied: no no")
    short = {"conditions": [condition("Available", False, "X", "no")]}
    assert status.fitted(short) is short


def test_a_contested_child_may_be_repaired_again_when_the_window_has_passed() -> None:
    memory = ChildMemory()
    for second in range(REMAKES + 1):
        assert memory.contested_for(1, float(second)) == 0
        memory.applied(1, (), "7", float(second))
    wait = memory.contested_for(1, float(REMAKES))
    assert 0 < wait <= WINDOW
    assert memory.contested_for(1, REMAKES + wait) == 0
    assert memory.contested_for(2, float(REMAKES)) == 0, "what is desired again is not contested"
