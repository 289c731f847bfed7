"""Which hardware to take for a model: replicas for a load, and the measurements that are worth their price. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelyard.programs.catalog.items import PERFORMANCE, Artifact, Item, made_artifact, property_value
from modelyard.programs.catalog.lists import is_true
from modelyard.programs.filter_query import Scalar
from modelyard.programs.web import ApiError, Query

_MOST_RPS = 10**9
_GAIN, _GAIN_WHEN_FAST, _FAST = 0.05, 0.10, 100
_PROPERTIES = {
    "latency": "ttft_p90",
    "rps": "requests_per_second",
    "count": "hardware_count",
    "hardware": "hardware_type",
}
_PARAMETERS = {
    "latency": "latencyProperty",
    "rps": "rpsProperty",
    "count": "hardwareCountProperty",
    "hardware": "hardwareTypeProperty",
}


@dataclass(frozen=True)
class Wanted:
    """What a request asks of performance data."""

    target: int = 0
    recommendations: bool = False
    latency: str = _PROPERTIES["latency"]
    rps: str = _PROPERTIES["rps"]
    count: str = _PROPERTIES["count"]
    hardware: str = _PROPERTIES["hardware"]
    named: tuple[str, ...] = ()
    """The properties that the caller named, which must exist somewhere."""

    @classmethod
    def of(cls, query: Query) -> Wanted:
        names = {field: query.get(parameter) for field, parameter in _PARAMETERS.items()}

        def name(field: str) -> str:
            return _bare(names[field] or _PROPERTIES[field])

        return cls(
            target=_target(query.get("targetRPS")),
            recommendations=is_true(query, "recommendations"),
            latency=name("latency"),
            rps=name("rps"),
            count=name("count"),
            hardware=name("hardware"),
            named=tuple(given for given in names.values() if given),
        )


def _target(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > _MOST_RPS:
        raise ApiError(400, f"invalid targetRPS {text[:40]!r}: expected a whole number up to {_MOST_RPS}")
    return int(text)


def _bare(name: str) -> str:
    """Callers may write a property as filters do: with its type."""
    for suffix in (".double_value", ".int_value", ".string_value"):
        name = name.removesuffix(suffix)
    return name.removeprefix("artifacts.")


def measured(artifacts: Iterable[Artifact]) -> list[Artifact]:
    return [artifact for artifact in artifacts if artifact.metrics_type == PERFORMANCE]


def check_named(wanted: Wanted, artifacts: Sequence[Artifact]) -> None:
    """400 for a property that none of them has."""
    missing = [name for name in wanted.named if artifacts and not any(_bare(name) in each.custom for each in artifacts)]
    if missing:
        raise ApiError(400, f"properties not found in any performance artifacts: {missing}")


def with_load(artifact: Artifact, wanted: Wanted) -> Artifact:
    """The measurement with the replicas that the wanted load takes."""
    if not wanted.target:
        return artifact
    rate = _rate(artifact, wanted)
    replicas = _replicas(rate, wanted.target)
    added: dict[str, Scalar] = {"replicas": replicas, "total_requests_per_second": float(replicas * rate)}
    properties = {key: property_value(value) for key, value in added.items()}
    doc = artifact.doc | {"customProperties": artifact.doc["customProperties"] | properties}
    return made_artifact(doc)


def recommended(artifacts: Sequence[Artifact], wanted: Wanted) -> list[Artifact]:
    """Those worth their price, for each type of hardware, in the order given."""
    by_hardware: dict[str, list[Artifact]] = {}
    for artifact in artifacts:
        by_hardware.setdefault(str(artifact.custom.get(wanted.hardware, "")), []).append(artifact)
    kept = {artifact.id for group in by_hardware.values() for artifact in _worthwhile(group, wanted)}
    return [artifact for artifact in artifacts if artifact.id in kept]


def _worthwhile(group: Sequence[Artifact], wanted: Wanted) -> list[Artifact]:
    priced: list[tuple[float, float, Artifact]] = []
    for artifact in sorted(group, key=lambda each: (_latency(each, wanted), _count(each, wanted))):
        price = _count(artifact, wanted) * _replicas(_rate(artifact, wanted), max(wanted.target, 1))
        if all(price < cheaper for _, cheaper, _ in priced[-1:]):
            priced.append((_latency(artifact, wanted), price, artifact))
    kept: list[tuple[float, Artifact]] = []
    for latency, _, artifact in reversed(priced):
        last = kept[-1][0] if kept else math.inf
        gain = _GAIN_WHEN_FAST if last <= _FAST else _GAIN
        if not kept or latency < last * (1 - gain):
            kept.append((latency, artifact))
    return [artifact for _, artifact in kept]


def best_latency(item: Item, artifacts: Sequence[Artifact], wanted: Wanted) -> float | None:
    """The smallest latency that is recommended; None for a model without such data."""
    found = [_latency(artifact, wanted) for artifact in recommended(artifacts, wanted)]
    return min((latency for latency in found if latency < math.inf), default=None)


def _number(artifact: Artifact, name: str) -> float:
    value = artifact.custom.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _latency(artifact: Artifact, wanted: Wanted) -> float:
    return _number(artifact, wanted.latency) if _number(artifact, wanted.latency) > 0 else math.inf


def _count(artifact: Artifact, wanted: Wanted) -> float:
    return max(_number(artifact, wanted.count), 0) or 1.0


def _rate(artifact: Artifact, wanted: Wanted) -> float:
    return _number(artifact, wanted.rps) if _number(artifact, wanted.rps) > 0 else 1.0


def _replicas(rate: float, target: int) -> int:
    return max(1, math.ceil(target / rate)) if target / rate < 10**15 else 10**15
