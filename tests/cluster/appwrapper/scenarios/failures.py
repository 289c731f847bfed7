"""Scenarios 47-57: what fails, is tried again, is deleted, and what nodes have to do with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import is_deleting, status_of, uid_of
from modelyard.operators.codeflare.appwrapper import nodes
from modelyard.operators.codeflare.appwrapper.api import FINALIZER
from modelyard.operators.codeflare.appwrapper.config import Autopilot
from tests.cluster.appwrapper.scenarios.scene import (
    AW,
    HOLD,
    NAME,
    AppWrapperScene,
    Book,
    deployment,
    faults,
    gpu_spec,
    job,
    pod,
    template_of,
)

book = Book()
failures = book.scenario


@failures(47)
async def a_failed_pod_that_is_replaced_in_time_resets_nothing(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(deployment(replicas=1), annotations=faults(failureGracePeriodDuration="30s"))
    (failed,) = await scene.pods_of(builtin.Deployment, "web", 1, "Failed")
    await scene.condition("Unhealthy", status="True", reason="FoundFailedPods")
    await scene.phase("Running")
    await scene.ground.delete(builtin.Pod, failed)
    await scene.pods_of(builtin.Deployment, "web", 1, "Running")
    await scene.condition("Unhealthy", status="False", reason="FoundNoFailedPods")
    await scene.condition("PodsReady", status="True")
    assert "resettingCount" not in status_of(await scene.phase("Running"))


@failures(48)
async def a_job_that_fails_again_and_again_is_tried_as_often_as_allowed(scene: AppWrapperScene) -> None:
    await scene.start()
    given = faults(failureGracePeriodDuration="0s", retryLimit=2, retryPausePeriodDuration="1s")
    await scene.running(job(), annotations=given)
    before = ""
    for attempt in range(3):
        found = await scene.ground.until(builtin.Job, "job", _another_than(before))
        before = uid_of(found)
        await scene.phase("Running")
        await scene.pods_of(builtin.Job, "job", 1, "Failed")
        if attempt < 2:
            await scene.ground.until(AW, NAME, _reset_times(attempt + 1))
            await scene.ground.pass_time(2)
    found = await scene.phase("Failed")
    assert status_of(found)["resettingCount"] == 2
    await scene.condition("QuotaReserved", status="False", reason="Failed")


def _another_than(uid: str) -> Callable[[Object], bool]:
    return lambda obj: uid_of(obj) != uid


def _reset_times(number: int) -> Callable[[Object], bool]:
    return lambda appwrapper: status_of(appwrapper).get("resettingCount") == number


@failures(49)
async def pods_that_do_not_come_or_do_not_start_are_not_waited_for_forever(scene: AppWrapperScene) -> None:
    await scene.start()
    given = faults(admissionGracePeriodDuration="1s", warmupGracePeriodDuration="2s", retryPausePeriodDuration="1h")
    await scene.create(deployment(replicas=2), annotations=given)
    if not scene.ground.fills_in:
        await scene.phase("Running")
    await scene.ground.pass_time(3)
    found = await scene.phase("Resetting")
    assert status_of(found)["resettingCount"] == 1
    late = await scene.condition("Unhealthy", status="True", reason="InsufficientPodsReady")
    assert late["message"] == "0 pods pending; 0 pods running; 0 pods succeeded"
    component = {"template": template_of(builtin.Pod, "slow", spec=pod()["template"]["spec"])}
    await scene.create(component, name="slow", annotations=given)
    await scene.ground.until(builtin.Pod, "slow")
    await scene.report("slow", "Pending")
    await scene.ground.pass_time(3)
    await scene.phase("Resetting", "slow")
    late = await scene.ground.condition(AW, "slow", "Unhealthy", status="True", reason="InsufficientPodsReady")
    assert late["message"] == "1 pods pending; 0 pods running; 0 pods succeeded"


@failures(50, needs_api=True)
async def a_component_that_the_api_calls_invalid_ends_it_at_once(scene: AppWrapperScene) -> None:
    await scene.start()
    broken = pod("broken")
    broken["template"]["spec"]["containers"] = [{"name": "main"}]
    await scene.create(pod("first"), broken, annotations=faults(deletionOnFailureGracePeriodDuration="1h"))
    found = await scene.phase("Failed")
    assert "resettingCount" not in status_of(found)
    reason = await scene.condition("Unhealthy", status="True", reason="CreateFailed")
    assert "error creating components: " in reason["message"]
    assert "image" in reason["message"]
    assert await scene.ground.find(builtin.Pod, "first") is not None
    await scene.edit(suspend=True)
    await scene.ground.gone(builtin.Pod, "first")


@failures(51)
async def a_wrapped_object_that_is_deleted_ends_it(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(pod(), pod("other"))
    await scene.ground.delete(builtin.Pod, "other")
    await scene.phase("Failed")
    found = await scene.condition("Unhealthy", status="True", reason="MissingComponent")
    assert found["message"] == "Only found 1 deployed components, but was expecting 2"


@failures(52)
async def a_job_that_says_it_failed_is_reset_without_grace(scene: AppWrapperScene) -> None:
    await scene.start()
    given = faults(failureGracePeriodDuration="1h", retryPausePeriodDuration="1h")
    await scene.running(job(), annotations=given)
    await scene.ground.job_fails("job", at="2026-01-01T11:50:00Z")
    found = await scene.phase("Resetting")
    assert status_of(found)["resettingCount"] == 1
    assert (await scene.condition("Unhealthy", status="True"))["reason"] == "FailedComponent"


@failures(53)
async def pods_leave_a_node_whose_gpus_are_not_well(scene: AppWrapperScene) -> None:
    await scene.start()
    node = f"gpu-{scene.namespace}"
    await scene.ground.create(builtin.Node, node)
    spec = gpu_spec() | {"nodeName": node}
    given = faults(retryPausePeriodDuration="1h")
    await scene.running({"template": template_of(builtin.Pod, "gpu", spec=spec)}, annotations=given)
    await scene.report("gpu", "Running")
    await scene.condition("PodsReady", status="True")
    await _label(scene, node, **{"autopilot.ibm.com/gpuhealth": "EVICT"})
    found = await scene.phase("Resetting")
    assert "resettingCount" not in status_of(found)
    said = f"Workload contains pods using NoExecute resources on Nodes: {node}"
    await scene.condition("Unhealthy", status="True", reason="AutopilotNoExecute", message=said)


async def _label(scene: AppWrapperScene, node: str, **labels: str) -> None:
    def change(obj: Object) -> None:
        obj["metadata"].setdefault("labels", {}).update(labels)

    await scene.ground.edit(builtin.Node, node, change)


@failures(54)
async def what_failed_may_stay_a_while_to_be_looked_at(scene: AppWrapperScene) -> None:
    await scene.start()
    given = faults(deletionOnFailureGracePeriodDuration="1h", failureGracePeriodDuration="0s", retryLimit=0)
    await scene.running(pod(), annotations=given)
    await scene.report("pod", "Failed")
    await scene.phase("Failed")
    found = await scene.condition("DeletingResources", status="False", reason="DeletionPaused")
    assert found["message"].endswith("/deletionOnFailureGracePeriodDuration has value 1h0m0s")
    assert await scene.ground.find(builtin.Pod, "pod") is not None
    await scene.edit(suspend=True)
    said = "Kueue forced resource deletion by suspending AppWrapper"
    await scene.condition("ResourcesDeployed", status="False", reason="Failed", message=said)
    await scene.ground.absent(builtin.Pod, "pod")
    await scene.phase("Failed")


@failures(55)
async def it_goes_when_all_that_it_made_has_gone(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(pod())
    await scene.hold(builtin.Pod, "pod")
    await scene.ground.delete(AW, NAME)
    found = await scene.phase("Terminating")
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert is_deleting(await scene.ground.get(builtin.Pod, "pod"))
    await scene.let_go(builtin.Pod, "pod")
    await scene.ground.gone(AW, NAME)
    await scene.ground.absent(builtin.Pod, "pod")


@failures(56)
async def what_does_not_go_by_itself_is_deleted_by_force(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(deployment(replicas=1), annotations=faults(forcefulDeletionGracePeriodDuration="1s"))
    (running,) = await scene.pods_of(builtin.Deployment, "web", 1, "Running")
    await scene.hold(builtin.Deployment, "web")
    await scene.ground.delete(AW, NAME)
    await scene.phase("Terminating")
    await scene.ground.pass_time(3)
    await scene.ground.gone(builtin.Pod, running)
    web = await scene.ground.until(builtin.Deployment, "web", is_deleting)
    assert web["metadata"]["finalizers"] == [HOLD]
    assert await scene.ground.find(AW, NAME) is not None
    await scene.let_go(builtin.Deployment, "web")
    await scene.ground.gone(AW, NAME)


@failures(57)
async def nodes_that_are_not_well_are_known_with_what_they_have(scene: AppWrapperScene) -> None:
    autopilot, node = Autopilot(), f"n-{scene.namespace}"
    await scene.ground.create(builtin.Node, node)
    capacity = {"cpu": "4", "pods": "110", "nvidia.com/gpu": "2"}
    await scene.ground.set_status(builtin.Node, node, {"capacity": capacity})

    async def seen() -> tuple[Any, Any]:
        found = [await scene.ground.get(builtin.Node, node)]
        return nodes.no_schedule(found, autopilot).get(node), nodes.no_execute(found, autopilot).get(node)

    # A real cluster takes a node that nobody runs out of service by itself.
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    await scene.ground.edit(builtin.Node, node, lambda obj: obj.setdefault("spec", {}).update(taints=[taint]))
    assert await seen() == ({"cpu": "4", "nvidia.com/gpu": "2"}, None)
    await scene.ground.edit(builtin.Node, node, lambda obj: obj["spec"].pop("taints", None))
    await _label(scene, node, **{"autopilot.ibm.com/gpuhealth": "EVICT"})
    assert (await seen())[1] == {"nvidia.com/gpu"}
    await scene.ground.edit(builtin.Node, node, lambda obj: obj["spec"].update(unschedulable=True))
    assert (await seen())[0] == {"cpu": "4", "nvidia.com/gpu": "2"}
    await scene.ground.edit(builtin.Node, node, lambda obj: obj["metadata"].update(labels={}))
    assert (await seen())[1] is None
