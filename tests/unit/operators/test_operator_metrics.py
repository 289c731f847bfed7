"""The metrics of all operators can be served by one process."""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from modelyard.operators.registry import BUILT, load
from modelyard.runtime.declaring.operator_metrics import OwnMetrics


def test_no_two_metrics_of_our_operators_are_in_each_others_way() -> None:
    metrics = [metric for operator in load(BUILT, {}) for metric in operator.metrics]
    OwnMetrics(metrics, lambda controller: None).register(CollectorRegistry())
