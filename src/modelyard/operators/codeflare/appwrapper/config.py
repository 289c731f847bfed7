"""What an admin and a user may set for AppWrappers: the section `appwrapper` of the ConfigMap, and annotations of one AppWrapper."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.appwrapper import durations
from modelyard.operators.codeflare.appwrapper.api import ANNOTATIONS
from modelyard.operators.codeflare.config import Section
from modelyard.runtime.declaring.settings import SettingError

log = logging.getLogger(__name__)
T = TypeVar("T")
_HEALTH = "autopilot.ibm.com/gpuhealth"


@dataclass(frozen=True)
class Taint:
    """A node label that says how healthy a resource of the node is, and what follows from it."""

    key: str
    value: str
    effect: str


GPU_TAINTS = (
    Taint(_HEALTH, "WARN", "PreferNoSchedule"),
    Taint(_HEALTH, "TESTING", "NoSchedule"),
    Taint(_HEALTH, "EVICT", "NoExecute"),
)


@dataclass(frozen=True)
class Autopilot:
    """How the health of nodes counts."""

    inject_anti_affinities: bool = True
    monitor_nodes: bool = True
    prefer_no_schedule_weight: int = 50
    resource_taints: Mapping[str, tuple[Taint, ...]] = field(default_factory=lambda: {"nvidia.com/gpu": GPU_TAINTS})


@dataclass(frozen=True)
class FaultTolerance:
    """How long things may take and how often they are tried, in seconds."""

    admission: float = 60.0
    warmup: float = 300.0
    failure: float = 60.0
    reset_pause: float = 90.0
    retry_limit: int = 3
    deletion: float = 600.0
    ceiling: float = 24 * 3600.0
    success_ttl: float = 168 * 3600.0


_PERIODS = {
    "admissionGracePeriod": "admission",
    "warmupGracePeriod": "warmup",
    "failureGracePeriod": "failure",
    "resetPause": "reset_pause",
    "deletionGracePeriod": "deletion",
    "gracePeriodCeiling": "ceiling",
    "successTTLCeiling": "success_ttl",
}
DEFAULT_SECTION: Object = {
    "enabled": False,
    "Config": {
        "autopilot": {
            "injectAntiAffinities": True,
            "monitorNodes": True,
            "preferNoScheduleWeight": 50,
            "resourceTaints": {
                "nvidia.com/gpu": [{"key": t.key, "value": t.value, "effect": t.effect} for t in GPU_TAINTS]
            },
        },
        "userRBACAdmissionCheck": True,
        "schedulerName": "",
        "defaultQueueName": "",
        "faultTolerance": {
            **{key: durations.text(getattr(FaultTolerance(), name)) for key, name in _PERIODS.items()},
            "retryLimit": FaultTolerance().retry_limit,
        },
    },
}
"""What a new ConfigMap says."""


@dataclass(frozen=True)
class AppWrapperSettings:
    """The section, checked."""

    enabled: bool = False
    autopilot: Autopilot = field(default_factory=Autopilot)
    checks_user_rights: bool = True
    scheduler_name: str = ""
    default_queue: str = ""
    faults: FaultTolerance = field(default_factory=FaultTolerance)

    @classmethod
    def of(cls, config_map: Object | None, *, enabled: bool = False) -> AppWrapperSettings:
        """From the ConfigMap. A bad value is a `SettingError` that names it. `enabled`: where the ConfigMap does not say."""
        outer = Section.of(config_map, "appwrapper")
        inner = _nested(outer)
        return cls(
            enabled=outer.flag("enabled", default=enabled),
            autopilot=_autopilot(inner.section("autopilot")),
            checks_user_rights=inner.flag("userRBACAdmissionCheck", default=True),
            scheduler_name=inner.text("schedulerName"),
            default_queue=inner.text("defaultQueueName"),
            faults=_faults(inner.section("faultTolerance")),
        )


def _nested(outer: Section) -> Section:
    """Upstream reads everything but `enabled` from a mapping `Config`; here it may also stand beside `enabled`."""
    name = next((key for key in outer.values if key.lower() == "config"), None)
    if name is None:
        return outer
    inner = outer.section(name)
    return Section({**outer.values, **inner.values}, inner.path, inner.place)


def _autopilot(part: Section) -> Autopilot:
    standard = Autopilot()
    return Autopilot(
        part.flag("injectAntiAffinities", default=True),
        part.flag("monitorNodes", default=True),
        _number(part, "preferNoScheduleWeight", standard.prefer_no_schedule_weight, at_least=1, at_most=100),
        {**standard.resource_taints, **_taints(part)},
    )


def _taints(part: Section) -> dict[str, tuple[Taint, ...]]:
    found: dict[str, tuple[Taint, ...]] = {}
    for resource, taints in part.section("resourceTaints").values.items():
        try:
            found[resource] = tuple(Taint(str(t["key"]), str(t["value"]), str(t["effect"])) for t in taints or ())
        except (TypeError, KeyError):
            remedy = "for each resource, list mappings with key, value and effect"
            raise part.wrong("resourceTaints", remedy) from None
    return found


def _faults(part: Section) -> FaultTolerance:
    standard = FaultTolerance()
    periods = {name: _period(part, key, getattr(standard, name)) for key, name in _PERIODS.items()}
    faults = FaultTolerance(retry_limit=_number(part, "retryLimit", standard.retry_limit), **periods)
    ceiling = faults.ceiling
    for key, name in _PERIODS.items():
        if name not in ("ceiling", "success_ttl") and (value := getattr(faults, name)) > ceiling:
            raise part.wrong(key, f"{durations.text(value)} exceeds gracePeriodCeiling {durations.text(ceiling)}")
    if faults.admission > faults.warmup:
        raise part.wrong("admissionGracePeriod", "it may not be longer than warmupGracePeriod")
    if faults.success_ttl <= 0:
        raise part.wrong("successTTLCeiling", "use a duration above 0")
    return faults


def _period(part: Section, name: str, standard: float) -> float:
    """Upstream has nanoseconds as a number; a text like `90s` says the same."""
    found = part.values.get(name)
    if found is None:
        return standard
    try:
        seconds = durations.parse(found) if isinstance(found, str) else _nanoseconds(found) / 1e9
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise part.wrong(name, "write it like 90s or 1m30s, or as a number of nanoseconds")
    return seconds


def _nanoseconds(found: object) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(found)
    return found


def _number(part: Section, name: str, standard: int, *, at_least: int = 0, at_most: int = 2**31 - 1) -> int:
    found = part.values.get(name)
    if found is None:
        return standard
    if not isinstance(found, int) or isinstance(found, bool) or not at_least <= found <= at_most:
        raise SettingError(
            f"{part.path}.{name} of {part.place}", str(found), f"use a whole number from {at_least} to {at_most}"
        )
    return found


# One AppWrapper

_NAMES = (
    "admissionGracePeriodDuration", "warmupGracePeriodDuration", "failureGracePeriodDuration", "retryPausePeriodDuration", "retryLimit",
    "forcefulDeletionGracePeriodDuration", "deletionOnFailureGracePeriodDuration", "successTTLDuration", "terminalExitCodes",
    "retryableExitCodes",
)  # fmt: skip
DELETION_ON_FAILURE = f"{ANNOTATIONS}deletionOnFailureGracePeriodDuration"


@dataclass(frozen=True)
class Tolerance:
    """What holds for one AppWrapper, in seconds: its annotations within the limits of the settings."""

    admission: float
    warmup: float
    failure: float
    retry_pause: float
    retry_limit: int
    forceful_deletion: float
    deletion_on_failure: float
    success_ttl: float
    terminal_codes: frozenset[int]
    retryable_codes: frozenset[int]


def tolerance(annotations: Mapping[str, str], faults: FaultTolerance) -> Tolerance:
    """A value that cannot be read does not count."""

    def period(name: str, standard: float) -> float:
        return min(max(_read(annotations, name, durations.parse, standard), 0.0), faults.ceiling)

    ttl = _read(annotations, "successTTLDuration", durations.parse, faults.success_ttl)
    return Tolerance(
        admission=period("admissionGracePeriodDuration", faults.admission),
        warmup=period("warmupGracePeriodDuration", faults.warmup),
        failure=period("failureGracePeriodDuration", faults.failure),
        retry_pause=period("retryPausePeriodDuration", faults.reset_pause),
        retry_limit=_read(annotations, "retryLimit", int, faults.retry_limit),
        forceful_deletion=period("forcefulDeletionGracePeriodDuration", faults.deletion),
        deletion_on_failure=period("deletionOnFailureGracePeriodDuration", 0.0),
        success_ttl=ttl if 0 < ttl < faults.success_ttl else faults.success_ttl,
        terminal_codes=_codes(annotations, "terminalExitCodes"),
        retryable_codes=_codes(annotations, "retryableExitCodes"),
    )


def _read(annotations: Mapping[str, str], name: str, parse: Callable[[str], T], standard: T) -> T:
    text = annotations.get(f"{ANNOTATIONS}{name}")
    if text is None:
        return standard
    try:
        return parse(text)
    except ValueError:
        log.info("annotation %s%s has the value %r, which cannot be read", ANNOTATIONS, name, text)
        return standard


def _codes(annotations: Mapping[str, str], name: str) -> frozenset[int]:
    found = set()
    for word in annotations.get(f"{ANNOTATIONS}{name}", "").split(","):
        if _is_code(word):
            found.add(int(word))
    return frozenset(found)


def _is_code(word: str) -> bool:
    return word.removeprefix("-").removeprefix("+").isdecimal() and word.isascii()


def annotation_warnings(annotations: Mapping[str, Any]) -> list[str]:
    """What in the annotations does not count, and what was probably meant."""
    found = []
    for key, value in sorted(annotations.items()):
        if not key.startswith(ANNOTATIONS):
            continue
        name = key.removeprefix(ANNOTATIONS)
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 1, 0.7)
            hint = f"did you mean {ANNOTATIONS}{near[0]}?" if near else f"there are: {', '.join(_NAMES)}"
            found.append(f"annotation {key} is not known and has no effect; {hint}")
        elif wrong := _wrong(name, str(value)):
            found.append(f"annotation {key} has no effect: {wrong}")
    return found


def _wrong(name: str, value: str) -> str:
    if name.endswith("Codes"):
        bad = [word for word in value.split(",") if not _is_code(word)]
        return f"{', '.join(map(repr, bad))} are no exit codes; write them like 1,2,137" if bad and value else ""
    try:
        int(value) if name == "retryLimit" else durations.parse(value)
    except ValueError:
        return f"{value!r} is not a whole number" if name == "retryLimit" else f"{value!r} is not a duration like 90s"
    return ""
