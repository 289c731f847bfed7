"""Pods of a deleted Job end with it, whenever it is deleted."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Job, Pod
from modelyard.kube.client import Propagation
from modelyard.kube.kinds import Object
from modelyard.local.workloads import job_controller, job_orphans_controller
from modelyard.local.workloads.job import TRACKING
from modelyard.runtime.process.manager import Manager
from tests.cluster.api.calls import eventually
from tests.cluster.conftest import Api


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_a_job_ends_its_pods(api: Api, propagation: Propagation) -> None:
    namespace = await api.namespace()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}

    async def pods() -> list[Object]:
        return (await api.client.list(Pod, namespace)).items

    async def gone() -> bool:
        return not await pods() and await api.client.find(Job, namespace, "work") is None

    async with Manager(api.client, [job_controller(), job_orphans_controller()]):
        await api.client.create(
            Job, {"metadata": {"name": "work", "namespace": namespace}, "spec": {"template": template}}
        )
        (pod,) = await eventually(pods)
        assert pod["metadata"]["finalizers"] == [TRACKING]
        await api.client.delete(Job, namespace, "work", propagation=propagation)
        await eventually(gone)
