"""Upstream's defects, shown mended on an API server."""

from __future__ import annotations

import pytest

from modelyard.kube.kinds import Kind
from modelyard.kube.objects import status_of
from tests.cluster.appwrapper.scenarios.admission import job_set
from tests.cluster.appwrapper.scenarios.defects import ANYWHERE, Story
from tests.cluster.appwrapper.scenarios.scene import AW, NAME, AppWrapperScene, faults

JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


@pytest.mark.parametrize("story", ANYWHERE, ids=lambda story: story.__name__)
async def test_defect(story: Story, scene: AppWrapperScene) -> None:
    await story(scene)


async def test_an_appwrapper_comes_to_life_when_the_kind_that_it_wraps_arrives(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.create(job_set(), annotations=faults(admissionGracePeriodDuration="1h"))
    await scene.phase("Resuming")
    await scene.ground.serve(JOB_SET)
    await scene.phase("Running")
    await scene.ground.until(JOB_SET, "js")
    # It is followed now: its end is seen at once.
    await scene.ground.delete(JOB_SET, "js")
    await scene.ground.until(AW, NAME, lambda aw: status_of(aw).get("phase") == "Failed")
