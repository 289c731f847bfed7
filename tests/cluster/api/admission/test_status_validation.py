"""Which statuses the API refuses: those that cannot be."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from tests.cluster.api.admission.test_validation import changed, deployment, job
from tests.cluster.api.calls import MERGE, call
from tests.cluster.conftest import Api


class TestJobStatus:
    async def test_failed_needs_its_target_and_a_start(self, api: Api) -> None:
        change = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
        answer = await changed(api, builtin.Job, job(), change, "status")
        assert sorted(answer.causes) == [
            (
                "status.conditions",
                "Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            ),
            ("status.startTime", "Required value: startTime is required for finished job"),
        ]

    async def test_complete_needs_its_criteria_and_times(self, api: Api) -> None:
        change = {
            "status": {"conditions": [{"type": "Complete", "status": "True"}], "startTime": "2024-01-01T00:00:00Z"}
        }
        answer = await changed(api, builtin.Job, job(), change, "status")
        assert sorted(answer.causes) == [
            ("status.completionTime", "Required value: completionTime is required for Complete jobs"),
            (
                "status.conditions",
                "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ),
        ]

    async def test_finished_stays_finished(self, api: Api) -> None:
        conditions = [{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]
        first = {"status": {"startTime": "2024-01-01T00:00:00Z", "failed": 1, "conditions": conditions}}
        answer = await changed(api, builtin.Job, job(), first, "status")
        assert answer.status == 200, answer.body
        path = builtin.Job.path(answer.body["metadata"]["namespace"], "a", "status")
        again = await call(api, "PATCH", path, {"status": {"failed": 0, "conditions": []}}, type=MERGE)
        assert ("status.failed", "Invalid value: 0: cannot decrease the failed counter") in again.causes
        assert (
            "status.conditions",
            "Invalid value: cannot disable the terminal Failed=True condition",
        ) in again.causes


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"replicas": 1, "readyReplicas": 2}, "status.readyReplicas"),
        ({"replicas": -1}, "status.replicas"),
        ({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}, "status.availableReplicas"),
    ],
)
async def test_deployment_status_must_add_up(api: Api, status: Object, field: str) -> None:
    answer = await changed(api, builtin.Deployment, deployment(), {"status": status}, "status")
    assert field in [name for name, _ in answer.causes]


async def test_namespace_phase_follows_its_deletion(api: Api) -> None:
    name = await api.namespace()
    path = builtin.Namespace.path("", name, "status")
    answer = await call(api, "PATCH", path, {"status": {"phase": "Terminating"}}, type=MERGE)
    assert answer.causes == [
        ("status.Phase", "Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")
    ]
