"""What upstream's controller does wrong (section 12) and ours does not, one story each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, is_deleting, status_of, uid_of
from tests.cluster.appwrapper.scenarios.admission import job_set
from tests.cluster.appwrapper.scenarios.scene import (
    AW,
    HOLD,
    LABEL,
    NAME,
    AppWrapperScene,
    component_state,
    deployment,
    faults,
    job,
    pod,
    pod_spec,
)
from tests.ground import ApiGround

Story = Callable[[AppWrapperScene], Awaitable[None]]
HOUR = 3600.0


async def an_object_of_someone_else_is_never_deleted(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.stranger("pod", mine="yes")
    before = uid_of(await scene.ground.get(builtin.Pod, "pod"))
    await scene.create(pod())
    await scene.phase("Failed")
    said = "error creating components: resource pod exists, but is not controlled by appwrapper"
    await scene.condition("Unhealthy", status="True", reason="CreateFailed", message=said)
    await scene.condition("ResourcesDeployed", status="False", reason="Failed")
    await scene.ground.delete(AW, NAME)
    await scene.ground.gone(AW, NAME)
    found = await scene.ground.get(builtin.Pod, "pod")
    assert uid_of(found) == before
    assert not is_deleting(found)


async def an_object_of_an_earlier_namesake_is_not_taken_for_ones_own(scene: AppWrapperScene) -> None:
    await scene.start()
    reference = {
        "apiVersion": AW.api_version,
        "kind": AW.kind,
        "name": NAME,
        "uid": "11111111-1111-1111-1111-111111111111",
        "controller": True,
    }
    finalizers = [HOLD]
    body: dict[str, Any] = {"ownerReferences": [reference], "finalizers": finalizers, "labels": {LABEL: NAME}}
    if isinstance(scene.ground, ApiGround):
        # The garbage collector will find that its owner is gone; the finalizer keeps the object.
        await scene.ground.client.create(
            builtin.Pod,
            {"metadata": {"name": "pod", "namespace": scene.namespace, **_metadata(body)}, "spec": pod_spec()},
        )
    else:
        await scene.ground.create(builtin.Pod, "pod", **body, spec=pod_spec())
    await scene.create(pod())
    found = await scene.phase("Resuming")
    assert find_condition(conditions_of(found), "ResourcesDeployed") is not None
    earlier = await scene.ground.until(builtin.Pod, "pod")
    assert earlier["metadata"]["finalizers"] == finalizers
    if isinstance(scene.ground, ApiGround):
        # What the garbage collector does, once it knows the kind of the owner.
        await scene.ground.client.delete(builtin.Pod, scene.namespace, "pod")
    await scene.ground.edit(builtin.Pod, "pod", lambda obj: obj["metadata"].update(finalizers=[]))
    if not scene.ground.fills_in:
        await scene.ground.delete(builtin.Pod, "pod")
    await scene.phase("Running")
    assert uid_of(await scene.ground.get(builtin.Pod, "pod")) != uid_of(earlier)


def _metadata(body: Object) -> Object:
    return {name: body[name] for name in ("ownerReferences", "finalizers", "labels")}


async def a_pod_that_only_has_the_label_does_not_count(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(pod(), annotations=faults(forcefulDeletionGracePeriodDuration="0s"))
    await scene.stranger("liar", **{LABEL: NAME})
    await scene.report("liar", "Failed")
    await scene.report("pod", "Running")
    await scene.condition("PodsReady", status="True", message="1 pods running; 0 pods succeeded")
    assert (await scene.states())["Unhealthy"] == "False"
    await scene.ground.delete(AW, NAME)
    await scene.ground.gone(AW, NAME)
    assert not is_deleting(await scene.ground.get(builtin.Pod, "liar"))


async def a_deployment_without_pods_has_not_succeeded(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(deployment(replicas=0))
    await scene.ground.quiet()
    await scene.condition("PodsReady", status="True")
    await scene.phase("Running")


async def a_job_has_not_succeeded_between_two_waves_of_pods(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(job(parallelism=2, completions=4))
    await scene.pods_of(builtin.Job, "job", 2, "Succeeded")
    await scene.condition("PodsReady", status="True", message="0 pods running; 2 pods succeeded")
    await scene.phase("Running")
    await scene.pods_of(builtin.Job, "job", 2, "Succeeded")
    await scene.phase("Succeeded")


async def a_generated_name_is_recorded_and_leads_to_one_object(scene: AppWrapperScene) -> None:
    await scene.start()
    component = pod()
    component["template"]["metadata"] = {"generateName": "run-"}
    found = await scene.running(component, deployment())
    name = status_of(found)["componentStatus"][0]["name"]
    assert name.startswith("run-")
    assert [each for each in await scene.ground.names(builtin.Pod) if each.startswith("run-")] == [name]
    made = await scene.ground.get(builtin.Pod, name)
    assert made["metadata"]["generateName"] == "run-"


async def what_someone_else_manages_is_left_alone(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.create(pod(), managedBy="kueue.x-k8s.io/multikueue")
    await scene.ground.quiet()
    found = await scene.ground.get(AW, NAME)
    assert not status_of(found)
    assert not found["metadata"].get("finalizers")


async def a_kind_that_comes_later_is_waited_for(scene: AppWrapperScene) -> None:
    """Upstream fails at once; here its users only have to install the definition."""

    await scene.start()
    await scene.create(job_set(), annotations=faults(admissionGracePeriodDuration="1h"))
    found = await scene.phase("Resuming")
    said = "the API does not serve jobset.x-k8s.io/v1alpha2 JobSet; it is created once its definition is there"
    await scene.ground.until(AW, NAME, lambda aw: component_state(aw).get("message") == said)
    assert component_state(found).get("status") in ("False", None)


async def success_lives_from_when_it_was_reached(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(job(), annotations=faults(successTTLDuration="1h"))
    (name,) = await scene.pods_of(builtin.Job, "job", 1, "Running")
    await scene.ground.quiet()
    await scene.ground.pass_time(5 * HOUR)
    await scene.report(name, "Succeeded")
    await scene.phase("Succeeded")
    await scene.ground.pass_time(0.9 * HOUR)
    await scene.ground.get(builtin.Job, "job")
    await scene.ground.pass_time(0.2 * HOUR)
    said = "Time to live after success of 1h0m0s expired"
    await scene.condition("ResourcesDeployed", status="False", reason="Succeeded", message=said)
    await scene.ground.absent(builtin.Job, "job")


async def the_pause_after_a_failure_comes_once(scene: AppWrapperScene) -> None:
    await scene.start()
    given = faults(deletionOnFailureGracePeriodDuration="1h", failureGracePeriodDuration="0s", retryLimit=0)
    await scene.running(pod(), annotations=given)
    await scene.hold(builtin.Pod, "pod")
    await scene.report("pod", "Failed")
    await scene.condition("DeletingResources", status="False", reason="DeletionPaused")
    await scene.ground.pass_time(1.1 * HOUR)
    await scene.condition("DeletingResources", status="True", reason="DeletionInitiated")
    await scene.ground.pass_time(60)
    await scene.ground.quiet()
    await scene.condition("DeletingResources", status="True", reason="DeletionInitiated")
    await scene.let_go(builtin.Pod, "pod")
    await scene.condition("ResourcesDeployed", status="False", message="Resources deleted for failed AppWrapper")
    await scene.condition("DeletingResources", status="False", reason="DeletionComplete")


async def pods_that_are_moved_late_get_their_grace_too(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(deployment(replicas=1))
    (name,) = await scene.pods_of(builtin.Deployment, "web", 1, "Running")
    await scene.condition("PodsReady", status="True")
    await scene.ground.pass_time(10 * HOUR)
    await scene.ground.delete(builtin.Pod, name)
    await scene.pods_of(builtin.Deployment, "web", 1, "Pending")
    await scene.condition("PodsReady", status="False", reason="InsufficientPodsReady")
    await scene.phase("Running")
    await scene.ground.pass_time(290)
    await scene.phase("Running")
    await scene.ground.pass_time(20)
    await scene.phase("Resetting")


async def grace_and_pause_follow_each_other(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(job())
    await scene.pods_of(builtin.Job, "job", 1, "Failed")
    await scene.condition("Unhealthy", status="True", reason="FoundFailedPods")
    await scene.ground.pass_time(61)
    await scene.phase("Resetting")
    await scene.ground.pass_time(80)
    await scene.phase("Resetting")
    await scene.ground.pass_time(20)
    await scene.phase("Running")
    # The second failure has a grace of its own.
    await scene.pods_of(builtin.Job, "job", 1, "Failed")
    await scene.condition("Unhealthy", status="True", reason="FoundFailedPods")
    await scene.ground.pass_time(50)
    await scene.phase("Running")
    await scene.ground.pass_time(20)
    await scene.phase("Resetting")


ANYWHERE: tuple[Story, ...] = (
    an_object_of_someone_else_is_never_deleted,
    an_object_of_an_earlier_namesake_is_not_taken_for_ones_own,
    a_pod_that_only_has_the_label_does_not_count,
    a_deployment_without_pods_has_not_succeeded,
    a_job_has_not_succeeded_between_two_waves_of_pods,
    a_generated_name_is_recorded_and_leads_to_one_object,
    what_someone_else_manages_is_left_alone,
    a_kind_that_comes_later_is_waited_for,
)
OVER_TIME: tuple[Story, ...] = (
    success_lives_from_when_it_was_reached,
    the_pause_after_a_failure_comes_once,
    pods_that_are_moved_late_get_their_grace_too,
    grace_and_pause_follow_each_other,
)
"""In memory only: they take hours."""
