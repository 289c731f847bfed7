"""The settings of AppWrappers: the section of the ConfigMap, and the annotations of one AppWrapper."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.appwrapper import durations
from modelyard.operators.codeflare.appwrapper.api import ANNOTATIONS
from modelyard.operators.codeflare.appwrapper.config import (
    DEFAULT_SECTION,
    AppWrapperSettings,
    FaultTolerance,
    Taint,
    annotation_warnings,
    tolerance,
)
from modelyard.runtime.declaring.settings import SettingError


def config_map(**section: Any) -> Object:
    text = yaml.safe_dump({"appwrapper": section})
    return {"metadata": {"name": "c", "namespace": "n"}, "data": {"config.yaml": text}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("300ms", 0.3),
        ("0", 0.0),
        ("-1m", -60.0),
        ("168h0m0s", 604800),
    ],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert durations.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "1d", "s", "1m 30s", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (300, "5m0s"), (604800, "168h0m0s"), (0.3, "300ms"), (1.5, "1.5s"), (3661, "1h1m1s")],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert durations.text(seconds) == text


def test_the_section_that_is_written_says_what_holds_without_it() -> None:
    assert AppWrapperSettings.of(config_map(**DEFAULT_SECTION)) == AppWrapperSettings.of(None)


@pytest.mark.parametrize("nested", [True, False], ids=["in Config", "beside enabled"])
@pytest.mark.parametrize("minute", ["1m", 60_000_000_000], ids=["text", "nanoseconds"])
def test_values_are_taken_in_every_form(nested: bool, minute: object) -> None:
    values = {"defaultQueueName": "q", "faultTolerance": {"resetPause": minute, "retryLimit": 7}}
    found = AppWrapperSettings.of(config_map(enabled=True, **({"config": values} if nested else values)))
    assert (found.enabled, found.default_queue) == (True, "q")
    assert (found.faults.reset_pause, found.faults.retry_limit) == (60.0, 7)


def test_taints_of_one_resource_replace_those_of_that_resource() -> None:
    taints = {"example.com/tpu": [{"key": "k", "value": "v", "effect": "NoExecute"}]}
    found = AppWrapperSettings.of(config_map(Config={"autopilot": {"resourceTaints": taints}}))
    assert found.autopilot.resource_taints["example.com/tpu"] == (Taint("k", "v", "NoExecute"),)
    assert len(found.autopilot.resource_taints["nvidia.com/gpu"]) == 3


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"resetPause": "soon"}, "appwrapper.Config.faultTolerance.resetPause of ConfigMap n/c='soon'"),
        ({"failureGracePeriod": "25h"}, "25h0m0s exceeds gracePeriodCeiling 24h0m0s"),
        ({"admissionGracePeriod": "10m"}, "it may not be longer than warmupGracePeriod"),
        ({"successTTLCeiling": 0}, "use a duration above 0"),
        ({"retryLimit": -1}, "use a whole number from 0"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(faults: Object, said: str) -> None:
    with pytest.raises(SettingError, match="cannot be used") as refusal:
        AppWrapperSettings.of(config_map(Config={"faultTolerance": faults}))
    assert said in str(refusal.value)


def given(**annotations: str) -> dict[str, str]:
    return {f"{ANNOTATIONS}{name}": value for name, value in annotations.items()}


def test_annotations_count_within_limits() -> None:
    found = tolerance(
        given(
            admissionGracePeriodDuration="-5s",
            warmupGracePeriodDuration="99h",
            failureGracePeriodDuration="soon",
            retryLimit="-1",
            successTTLDuration="1000h",
            terminalExitCodes="1, 2,3,x",
        ),
        FaultTolerance(),
    )
    assert (found.admission, found.warmup, found.failure) == (0.0, 24 * 3600.0, 60.0)
    assert (found.retry_limit, found.success_ttl) == (-1, 168 * 3600.0)
    assert found.terminal_codes == {1, 3}


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (given(delectionOnFailureGracePeriodDuration="1h"), "did you mean .*deletionOnFailureGracePeriodDuration"),
        (given(retryLimit="many"), "'many' is not a whole number"),
        (given(successTTLDuration="1d"), "'1d' is not a duration like 90s"),
        (given(terminalExitCodes="1, 2"), "' 2' are no exit codes"),
    ],
)
def test_an_annotation_without_effect_is_warned_of(annotations: dict[str, str], said: str) -> None:
    (warning,) = annotation_warnings(annotations)
    assert re.search(said, warning)
