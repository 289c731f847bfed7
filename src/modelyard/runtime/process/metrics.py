"""Prometheus metrics under the names that controller-runtime made known, so that existing dashboards work."""

from __future__ import annotations

from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from modelyard.kube.errors import Unreachable
from modelyard.kube.transport import Around, Response, Sent, Transport

_RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0,
    2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
_QUEUE_BUCKETS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
RESULTS = ("success", "error", "requeue", "requeue_after")


M = TypeVar("M", Counter, Gauge, Histogram)


class Series(Generic[M]):
    """The series of one metric, each looked up once: the library's own way costs more than the counting."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._known: dict[tuple[str, ...], M] = {}

    def labels(self, *values: str) -> M:
        found = self._known.get(values)
        if found is None:
            found = self._known[values] = self._metric.labels(*values)
        return found


class QueueMeter:
    """The metrics of one work queue."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        labels = {"name": name, "controller": name}
        self._depth = metrics.queue_depth.labels(**labels, priority="0")
        self._adds = metrics.queue_adds.labels(**labels)
        self._waited = metrics.queue_waited.labels(**labels)
        self._worked = metrics.queue_worked.labels(**labels)
        self._retries = metrics.queue_retries.labels(**labels)

    def depth(self, ready: int) -> None:
        self._depth.set(ready)

    def added(self) -> None:
        self._adds.inc()

    def waited(self, seconds: float) -> None:
        self._waited.observe(seconds)

    def worked(self, seconds: float) -> None:
        self._worked.observe(seconds)

    def retried(self) -> None:
        self._retries.inc()


class Metrics:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._reconciles = Series(
            Counter(
                "controller_runtime_reconcile",
                "Reconciliations per controller and result",
                ["controller", "result"],
                registry=registry,
            )
        )
        self._errors = Series(
            Counter(
                "controller_runtime_reconcile_errors",
                "Reconciliations per controller that failed",
                ["controller"],
                registry=registry,
            )
        )
        self._seconds = Series(
            Histogram(
                "controller_runtime_reconcile_time_seconds",
                "Time per reconciliation",
                ["controller"],
                buckets=_RECONCILE_BUCKETS,
                registry=registry,
            )
        )
        self._active = Series(
            Gauge("controller_runtime_active_workers", "Workers in a reconciliation", ["controller"], registry=registry)
        )
        self._workers = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers per controller", ["controller"], registry=registry
        )
        names = ["name", "controller"]
        self.queue_depth = Gauge("workqueue_depth", "Keys that are ready", [*names, "priority"], registry=registry)
        self.queue_adds = Counter("workqueue_adds", "Keys added", names, registry=registry)
        self.queue_retries = Counter("workqueue_retries", "Keys added again after a failure", names, registry=registry)
        self.queue_waited = Histogram(
            "workqueue_queue_duration_seconds",
            "From ready to taken",
            names,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.queue_worked = Histogram(
            "workqueue_work_duration_seconds",
            "From taken to done",
            names,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self._requests = Series(
            Counter("rest_client_requests", "Requests to the API", ["code", "method", "host"], registry=registry)
        )
        self._leader = Gauge("leader_election_master_status", "1 while this process leads", ["name"], registry=registry)
        self.webhook_requests = Counter(
            "controller_runtime_webhook_requests",
            "Admission requests by HTTP code",
            ["webhook", "code"],
            registry=registry,
        )
        self.webhook_seconds = Histogram(
            "controller_runtime_webhook_latency_seconds", "Time per admission request", ["webhook"], registry=registry
        )

    def declare(self, controller: str, workers: int) -> None:
        """Makes the series of a controller exist before its first pass."""
        for result in RESULTS:
            self._reconciles.labels(controller, result)
        self._errors.labels(controller)
        self._workers.labels(controller).set(workers)
        self._active.labels(controller).set(0)

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        self._reconciles.labels(controller, result).inc()
        self._seconds.labels(controller).observe(seconds)
        if result == "error":
            self._errors.labels(controller).inc()

    def active(self, controller: str, workers: int) -> None:
        self._active.labels(controller).set(workers)

    def queue(self, name: str) -> QueueMeter:
        return QueueMeter(self, name)

    def requested(self, method: str, code: str, host: str) -> None:
        self._requests.labels(code, method, host).inc()

    def leading(self, name: str, leads: bool) -> None:
        self._leader.labels(name).set(1 if leads else 0)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)


class MeteredTransport(Around):
    """A transport that counts its requests."""

    def __init__(self, inner: Transport, metrics: Metrics, host: str = "") -> None:
        super().__init__(inner)
        self._metrics = metrics
        self._host = host

    async def pass_on(self, sent: Sent) -> Response:
        try:
            response = await super().pass_on(sent)
        except Unreachable:
            self._metrics.requested(sent.method, "<error>", self._host)
            raise
        self._metrics.requested(sent.method, str(response.status), self._host)
        return response
