"""What tests wait for in the status of a pod."""

from __future__ import annotations

from collections.abc import Callable

from modelyard.kube.kinds import Object


def is_running(status: Object) -> bool:
    return bool(status["phase"] == "Running")


def is_ready(status: Object) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in status["conditions"])


def is_over(status: Object) -> bool:
    return status["phase"] in ("Succeeded", "Failed")


def restarts(count: int, container: str = "main") -> Callable[[Object], bool]:
    def reached(status: Object) -> bool:
        return any(item["name"] == container and item["restartCount"] >= count for item in status["containerStatuses"])

    return reached
