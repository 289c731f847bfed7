"""Scenarios 38-46: from new to running, succeeded, suspended and failed."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.objects import annotations_of, controller_of, labels_of, spec_of, status_of, uid_of
from modelyard.operators.codeflare.appwrapper.api import FINALIZER
from tests.cluster.appwrapper.scenarios.scene import (
    AW,
    LABEL,
    NAME,
    AppWrapperScene,
    Book,
    component_state,
    deployment,
    faults,
    gpu_spec,
    job,
    pod,
    service,
    template_of,
)

book = Book()
life = book.scenario


@life(38)
async def a_suspended_appwrapper_is_only_recorded(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.create(job(parallelism=2, completions=4), suspend=True)
    found = await scene.phase("Suspended")
    (entry,) = status_of(found)["componentStatus"]
    assert (entry["name"], entry["kind"], entry["apiVersion"]) == ("", "", "")
    assert [(each["path"], each["replicas"]) for each in entry["podSets"]] == [("template.spec.template", 2)]
    settled = await scene.ground.get(AW, NAME)
    assert not status_of(settled).get("conditions")
    assert not settled["metadata"].get("finalizers")
    await scene.ground.absent(builtin.Job, "job")


@life(39)
async def an_appwrapper_that_may_run_reserves_quota_first(scene: AppWrapperScene) -> None:
    await scene.start()
    # Its component cannot be made yet, so the phase can be looked at.
    later = {"apiVersion": "none.example.com/v1", "kind": "Later", "metadata": {"name": "x"}}
    await scene.create({"template": later})
    found = await scene.phase("Resuming")
    assert found["metadata"]["finalizers"] == [FINALIZER]
    states = {one["type"]: (one["status"], one["reason"]) for one in status_of(found)["conditions"]}
    expected = {"QuotaReserved": "True", "ResourcesDeployed": "True", "PodsReady": "False", "Unhealthy": "False"}
    assert {type: state for type, (state, _) in states.items() if type in expected} == expected
    assert {reason for type, (_, reason) in states.items() if type in expected} == {"Resuming"}


@life(40)
async def components_are_created_as_the_appwrappers_own(scene: AppWrapperScene) -> None:
    await scene.start()
    found = await scene.running(deployment(), service())
    web = await scene.ground.get(builtin.Deployment, "web")
    assert labels_of(web)[LABEL] == NAME
    assert labels_of(web["spec"]["template"])[LABEL] == NAME
    holder = controller_of(web)
    assert holder is not None
    assert (holder["name"], holder["uid"], holder["kind"]) == (NAME, uid_of(found), "AppWrapper")
    assert (await scene.ground.get(builtin.Service, "svc"))["metadata"]["ownerReferences"]
    for index, (kind, name) in enumerate((("Deployment", "web"), ("Service", "svc"))):
        entry = status_of(found)["componentStatus"][index]
        assert (entry["kind"], entry["name"]) == (kind, name)
        state = component_state(found, index)
        assert (state["status"], state["reason"]) == ("True", "ComponentCreatedSuccessfully")


@life(41)
async def what_the_queue_asks_for_is_in_the_pods(scene: AppWrapperScene) -> None:
    await scene.start()
    component = deployment(annotations={"mine": "1"})
    spec = component["template"]["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"disk": "ssd"}
    spec["tolerations"] = [{"key": "own", "operator": "Exists"}]
    component["podSetInfos"] = [
        {
            "annotations": {"queue": "a"},
            "labels": {"flavor": "b"},
            "nodeSelector": {"zone": "c"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            "schedulingGates": [{"name": "example.com/gate"}],
        }
    ]
    await scene.running(component)
    made = (await scene.ground.get(builtin.Deployment, "web"))["spec"]["template"]
    assert annotations_of(made) == {"mine": "1", "queue": "a"}
    assert labels_of(made).items() >= {"app": "web", "flavor": "b", LABEL: NAME}.items()
    assert made["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "c"}
    assert [each["key"] for each in made["spec"]["tolerations"]] == ["own", "spot"]
    assert made["spec"]["schedulingGates"] == [{"name": "example.com/gate"}]


@life(42)
async def pods_that_ask_for_a_gpu_avoid_nodes_that_are_not_well(scene: AppWrapperScene) -> None:
    await scene.start()
    gpu = {"template": template_of(builtin.Pod, "gpu", spec=gpu_spec())}
    await scene.running(gpu, pod("plain"))
    node = spec_of(await scene.ground.get(builtin.Pod, "gpu"))["affinity"]["nodeAffinity"]
    required = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expression = {"key": "autopilot.ibm.com/gpuhealth", "operator": "NotIn"}
    assert required == [{"matchExpressions": [{**expression, "values": ["TESTING", "EVICT"]}]}]
    (preferred,) = node["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred == {"weight": 50, "preference": {"matchExpressions": [{**expression, "values": ["WARN"]}]}}
    assert "affinity" not in spec_of(await scene.ground.get(builtin.Pod, "plain"))


@life(43)
async def it_is_ready_when_all_expected_pods_run(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(deployment(replicas=2))
    await scene.pods_of(builtin.Deployment, "web", 1, "Running")
    assert (await scene.states())["PodsReady"] == "False"
    await scene.pods_of(builtin.Deployment, "web", 1, "Running")
    found = await scene.condition("PodsReady", status="True")
    assert (found["reason"], found["message"]) == ("SufficientPodsReady", "2 pods running; 0 pods succeeded")
    await scene.phase("Running")


@life(44)
async def it_has_succeeded_when_all_pods_have(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(job(parallelism=2, completions=2))
    await scene.pods_of(builtin.Job, "job", 2, "Succeeded")
    await scene.phase("Succeeded")
    said = "2 pods succeeded and no running, pending, or failed pods"
    await scene.condition("QuotaReserved", status="False", reason="Succeeded", message=said)
    await scene.condition("ResourcesDeployed", status="True", reason="Succeeded", message=said)
    assert await scene.ground.find(builtin.Job, "job") is not None


@life(45)
async def it_is_suspended_while_it_runs(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(pod())
    await scene.report("pod", "Running")
    await scene.condition("PodsReady", status="True")
    await scene.hold(builtin.Pod, "pod")
    await scene.edit(suspend=True)
    await scene.phase("Suspending")
    states = await scene.states()
    assert (states["QuotaReserved"], states["ResourcesDeployed"]) == ("True", "True")
    await scene.ground.told(AW, NAME, "Suspending: Externally suspended while in the Running phase")
    await scene.let_go(builtin.Pod, "pod")
    await scene.phase("Suspended")
    states = await scene.states()
    assert {states[type] for type in ("QuotaReserved", "ResourcesDeployed", "PodsReady", "Unhealthy")} == {"False"}
    await scene.ground.absent(builtin.Pod, "pod")
    await scene.edit(suspend=False)
    await scene.phase("Running")
    await scene.ground.until(builtin.Pod, "pod")


@life(46)
async def without_retries_the_first_failure_is_the_last(scene: AppWrapperScene) -> None:
    await scene.start()
    await scene.running(pod(), annotations=faults(failureGracePeriodDuration="0s", retryLimit=0))
    await scene.report("pod", "Failed")
    await scene.phase("Failed")
    found = await scene.condition("QuotaReserved", status="False", reason="Failed")
    assert found["message"] == "No resources deployed"
    said = "Resources deleted for failed AppWrapper"
    await scene.condition("ResourcesDeployed", status="False", reason="Failed", message=said)
    await scene.ground.absent(builtin.Pod, "pod")
    await scene.ground.told(AW, NAME, "Unhealthy: FoundFailedPods: 1 failed pods")
    assert (await scene.condition("Unhealthy", status="True"))["reason"] == "FoundFailedPods"
