"""Metrics of an operator's own, beside those that every controller has: counters, and gauges computed from caches when they are read."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.declaring.controller import Reader

log = logging.getLogger(__name__)

LabelValues: TypeAlias = tuple[str, ...]
"""The values of a metric's labels, in the order in which it declares them."""


class Count:
    """A number that only grows. An operator makes it when it is built and gives it to whoever counts: `failures.add("timeout")`."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name = name.removesuffix("_total")
        self.help = help
        self.labels = tuple(labels)
        self._values: Counter[LabelValues] = Counter()
        if not self.labels:
            self._values[()] = 0

    def add(self, *values: str, amount: int = 1) -> None:
        if len(values) != len(self.labels):
            raise ValueError(f"metric {self.name} has the labels {self.labels}, not the values {values}")
        if amount < 0:
            raise ValueError(f"metric {self.name} only grows; {amount} was added")
        self._values[values] += amount

    def family(self) -> Metric:
        made = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for values, number in sorted(self._values.items()):
            made.add_metric(values, number)
        return made


@dataclass(frozen=True)
class CacheGauge:
    """Numbers that follow from what a controller has in its caches, computed whenever metrics are read.

    Only the process that leads shows them, so that several replicas do not count the same objects twice.
    """

    name: str
    help: str
    labels: Sequence[str]
    controller: str
    """Whose caches are read: what that controller declares, and nothing else."""
    values: Callable[[Reader], Mapping[LabelValues, float]]
    always: Sequence[LabelValues] = ()
    """Shown with 0 where `values` has none of them, so that an alert can tell 0 from nothing."""

    def family(self, reader: Reader | None) -> Metric:
        """Without a reader: no number."""
        made = GaugeMetricFamily(self.name, self.help, labels=tuple(self.labels))
        if reader is not None:
            found = {**dict.fromkeys(self.always, 0.0), **self.values(reader)}
            for values, number in sorted(found.items()):
                made.add_metric(values, number)
        return made


OwnMetric: TypeAlias = Count | CacheGauge


def counted_by(kind: Kind, labels: Callable[[Object], LabelValues]) -> Callable[[Reader], Mapping[LabelValues, float]]:
    """For a gauge: how many objects of a kind there are for each set of label values."""

    def values(reader: Reader) -> Mapping[LabelValues, float]:
        return Counter(labels(obj) for obj in reader.list(kind))

    return values


class OwnMetrics(Collector):
    """The own metrics of all operators of a process, for a Prometheus registry."""

    def __init__(self, metrics: Iterable[OwnMetric], reader: Callable[[str], Reader | None]) -> None:
        self._metrics = tuple(metrics)
        self._reader = reader
        """By the name of a controller; None while its caches do not stand for the cluster or this process does not lead."""

    def register(self, registry: CollectorRegistry) -> None:
        names = Counter(metric.name for metric in self._metrics)
        if twice := sorted(name for name, times in names.items() if times > 1):
            raise ValueError(f"two operators declare the same metric: {', '.join(twice)}")
        try:
            registry.register(self)
        except ValueError as error:
            raise ValueError(f"an operator declares a metric that every process has: {error}") from None

    def describe(self) -> Iterator[Metric]:
        """Names only: nothing is computed before someone reads."""
        for metric in self._metrics:
            yield metric.family() if isinstance(metric, Count) else metric.family(None)

    def collect(self) -> Iterator[Metric]:
        for metric in self._metrics:
            if isinstance(metric, Count):
                yield metric.family()
                continue
            try:
                yield metric.family(self._reader(metric.controller))
            except Exception:
                log.exception("metric %s could not be computed", metric.name)
