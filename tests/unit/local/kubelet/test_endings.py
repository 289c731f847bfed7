"""How pods end, and what of them outlives a restart of the kubelet: in virtual time on scripted processes."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.local.kubelet.probes import Outcome
from tests.unit.local.kubelet.conftest import Tell
from tests.unit.local.kubelet.harness import Run, simple
from tests.unit.local.kubelet.statuses import is_over, is_ready, is_running, restarts

pytestmark = pytest.mark.looptime

PROBE = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}


async def test_deletion_is_graceful(story: Tell) -> None:
    one = story(simple(), main=Run(on_term=4))
    await one.until(is_ready)
    one.delete()
    await one.until(lambda s: one.removed)
    assert one.runtime.signals == [("main", 15)]
    assert one.messages("Killing") == ["Stopping container main"]
    assert not one.worker.directory.exists()


async def test_a_pod_that_ignores_the_signal_is_killed_after_its_grace_period(story: Tell) -> None:
    pod = simple()
    pod["spec"]["terminationGracePeriodSeconds"] = 7
    one = story(pod, main=Run(on_term=None))
    await one.until(is_ready)
    began = one.time
    one.delete()
    await one.until(lambda s: one.removed)
    assert one.runtime.signals == [("main", 15), ("main", 9)]
    assert one.time - began == pytest.approx(7, abs=0.2)
    assert one.state()["state"]["terminated"]["exitCode"] == 137


async def test_a_second_deletion_may_shorten_the_grace_period(story: Tell) -> None:
    one = story(simple(), main=Run(on_term=None))
    await one.until(is_ready)
    began = one.time
    one.delete(grace=300)
    await asyncio.sleep(1)
    one.delete(grace=2)
    await one.until(lambda s: one.removed)
    assert one.time - began == pytest.approx(3, abs=0.3)


async def test_a_pod_that_is_gone_from_the_api_is_killed_at_once(story: Tell) -> None:
    one = story(simple(), main=Run(on_term=None))
    await one.until(is_ready)
    one.worker.gone()
    await asyncio.sleep(1)
    assert not one.runtime.alive
    assert not one.worker.directory.exists()


async def test_deleting_a_pod_that_is_still_pulling_ends_it_at_once(story: Tell) -> None:
    one = story(simple(), start=False)
    one.images.present, one.images.slow = False, 500
    one.start()
    await asyncio.sleep(5)
    one.delete()
    await one.until(lambda s: one.removed, within=5)
    assert not one.runtime.launches


async def test_deleting_a_pod_in_a_crash_loop_does_not_start_it_again(story: Tell) -> None:
    one = story(simple(), main=Run(1, 1))
    await one.until(restarts(2))
    count = len(one.runtime.launches)
    one.delete()
    await one.until(lambda s: one.removed, within=40)
    await asyncio.sleep(100)
    assert len(one.runtime.launches) == count


async def test_pre_stop_runs_before_the_signal_and_counts_against_the_grace_period(story: Tell) -> None:
    pod = simple(lifecycle={"preStop": {"exec": {"command": ["drain"]}}})
    one = story(pod, main=Run(on_term=None), start=False)
    one.runtime.commands[("drain",)] = (0, 10.0)
    one.start()
    await one.until(is_ready)
    began = one.time
    one.delete(grace=15)
    await one.until(lambda s: one.removed)
    assert one.runtime.executed == [("drain",)]
    assert one.time - began == pytest.approx(15, abs=0.3)


async def test_a_hanging_pre_stop_is_cut_off_and_told(story: Tell) -> None:
    pod = simple(lifecycle={"preStop": {"exec": {"command": ["drain"]}}})
    one = story(pod, start=False)
    one.runtime.commands[("drain",)] = (0, 100.0)
    one.start()
    await one.until(is_ready)
    one.delete(grace=5)
    await one.until(lambda s: one.removed, within=10)
    assert one.messages("FailedPreStopHook") == ["PreStopHook failed"]


async def test_post_start_must_end_before_the_container_counts_as_running(story: Tell) -> None:
    pod = simple(lifecycle={"postStart": {"exec": {"command": ["warm"]}}})
    one = story(pod, start=False)
    one.runtime.commands[("warm",)] = (0, 3.0)
    one.start()
    await one.until(is_ready)
    assert one.time == pytest.approx(3, abs=0.2)
    assert one.history() == ["waiting:ContainerCreating", "running:ready"]


async def test_a_failing_post_start_kills_the_container(story: Tell) -> None:
    pod = simple(lifecycle={"postStart": {"exec": {"command": ["warm"]}}})
    one = story(pod, start=False)
    one.runtime.commands[("warm",)] = (1, 0.0)
    one.start()
    await one.until(restarts(1))
    assert one.messages("FailedPostStartHook")[0] == "PostStartHook failed"
    assert one.history()[:2] == ["waiting:ContainerCreating", "waiting:PostStartHookError"]


async def test_an_active_deadline_fails_the_pod(story: Tell) -> None:
    pod = simple("Never")
    pod["spec"]["activeDeadlineSeconds"] = 20
    one = story(pod)
    status = await one.until(is_over)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert one.time == pytest.approx(20, abs=0.5)


async def test_a_pod_past_its_deadline_is_over_only_when_its_containers_are(story: Tell) -> None:
    pod = simple("Never")
    pod["spec"] |= {"activeDeadlineSeconds": 20, "terminationGracePeriodSeconds": 30}
    one = story(pod, main=Run(on_term=6))
    await one.until(lambda s: not is_ready(s) and one.time >= 20)
    assert (one.status["phase"], "reason" in one.status) == ("Running", False)
    await one.until(is_over)
    assert one.time == pytest.approx(26, abs=0.5)
    assert one.status["reason"] == "DeadlineExceeded"


async def test_a_failed_init_container_ends_the_sidecars_before_the_pod_is_over(story: Tell) -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    pod = {
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [sidecar, {"name": "setup"}],
            "containers": [{"name": "main"}],
        }
    }
    one = story(pod, proxy=Run(on_term=3), setup=Run(2, 1))
    await one.until(is_over)
    assert one.time == pytest.approx(4, abs=0.2)
    assert one.history("proxy")[-1] == "terminated:Completed"
    assert one.history("main") == ["waiting:PodInitializing"]


async def test_a_container_that_always_needs_too_much_memory_is_a_crash_loop_of_oom_kills(story: Tell) -> None:
    one = story(simple(resources={"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}))
    await one.until(is_running)
    one.used = 100 << 20
    await one.until(restarts(2))
    assert one.state()["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert one.history()[-2:] == ["waiting:CrashLoopBackOff", "running:ready"]


async def test_a_failing_post_start_fails_a_pod_that_may_not_restart(story: Tell) -> None:
    pod = simple("Never", lifecycle={"postStart": {"exec": {"command": ["warm"]}}})
    one = story(pod, main=Run(on_term=None), start=False)
    one.runtime.commands[("warm",)] = (1, 0.0)
    one.start()
    status = await one.until(is_over)
    assert status["phase"] == "Failed"
    assert one.state()["state"]["terminated"]["exitCode"] == 137


async def test_a_liveness_probe_may_have_a_grace_period_of_its_own(story: Tell) -> None:
    probe = PROBE | {"terminationGracePeriodSeconds": 2, "failureThreshold": 1}
    one = story(simple(livenessProbe=probe), main=[Run(on_term=None), Run()], start=False)
    one.health = lambda probe: Outcome(one.time != 5, "no")
    one.start()
    await one.until(restarts(1))
    assert one.time == pytest.approx(7, abs=0.2)
    assert one.state()["lastState"]["terminated"]["exitCode"] == 137


async def test_readiness_gates_hold_back_ready_only(story: Tell) -> None:
    pod = simple()
    pod["spec"]["readinessGates"] = [{"conditionType": "example.com/open"}]
    one = story(pod)
    await one.until(lambda s: s["containerStatuses"][0]["ready"])
    assert (one.condition("ContainersReady"), one.condition("Ready")) == ("True", "False")
    gate = {"type": "example.com/open", "status": "True"}
    one.pod["status"]["conditions"].append(gate)
    one.worker.update(one.pod)
    await one.until(is_ready)
    assert gate in one.status["conditions"]


async def test_two_containers_are_ready_together_and_restart_alone(story: Tell) -> None:
    pod = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    one = story(pod, b=[Run(1, 5), Run()])
    await one.until(is_ready)
    await one.until(lambda s: s["containerStatuses"][1]["restartCount"] == 1)
    assert one.state("a")["restartCount"] == 0


async def test_one_of_two_containers_done_leaves_the_pod_running(story: Tell) -> None:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]}}
    one = story(pod, a=Run(0, 2), b=Run(1, 8))
    await one.until(lambda s: "terminated" in s["containerStatuses"][0]["state"])
    assert one.status["phase"] == "Running"
    assert one.condition("Ready") == "False"
    status = await one.until(is_over)
    assert status["phase"] == "Failed"


async def test_a_restarted_kubelet_finds_running_containers_again(story: Tell) -> None:
    one = story(simple())
    await one.until(is_ready)
    await one.restart_kubelet(alive=True)
    await asyncio.sleep(30)
    assert one.state()["restartCount"] == 0
    assert len(one.runtime.launches) == 1
    assert is_ready(one.status)
    assert one.status["podIP"] == "127.99.128.1"


async def test_containers_that_died_with_the_machine_are_started_again(story: Tell) -> None:
    one = story(simple())
    await one.until(is_ready)
    await one.restart_kubelet(alive=False)
    await one.until(restarts(1))
    ended = one.state()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")
    await one.until(is_ready)


async def test_a_job_pod_whose_container_died_with_the_machine_has_failed(story: Tell) -> None:
    one = story(simple("Never"))
    await one.until(is_ready)
    await one.restart_kubelet(alive=False)
    status = await one.until(is_over)
    assert status["phase"] == "Failed"


async def test_a_lost_keeper_restarts_all_containers(story: Tell) -> None:
    one = story(simple())
    await one.until(is_ready)
    one.runtime.alive.clear()
    one.worker.line_restored({})
    await one.until(restarts(1))
    await one.until(is_ready)


async def test_a_finished_pod_stays_finished_after_a_kubelet_restart(story: Tell) -> None:
    one = story(simple("Never"), main=Run(0, 1))
    await one.until(is_over)
    await one.restart_kubelet(alive=False)
    await asyncio.sleep(10)
    assert one.status["phase"] == "Succeeded"
    assert len(one.runtime.launches) == 1


async def test_the_restart_count_survives_kubelet_restarts(story: Tell) -> None:
    one = story(simple(), main=[Run(1, 1), Run(1, 1), Run()])
    await one.until(lambda s: is_ready(s) and s["containerStatuses"][0]["restartCount"] == 2)
    await one.restart_kubelet(alive=True)
    await asyncio.sleep(5)
    assert one.state()["restartCount"] == 2
    assert one.state()["lastState"]["terminated"]["exitCode"] == 1


async def test_a_container_that_listens_beyond_loopback_is_stopped_with_the_reason(story: Tell) -> None:
    one = story(simple("Never"))
    await one.until(is_ready)
    one.worker.workers["main"].condemn("ListensBeyondLoopback", "the container listens on 0.0.0.0:80")
    await one.until(is_over)
    ended = one.state()["state"]["terminated"]
    assert (ended["reason"], ended["message"]) == ("ListensBeyondLoopback", "the container listens on 0.0.0.0:80")


async def test_transition_times_change_only_with_the_status(story: Tell) -> None:
    one = story(simple(readinessProbe=PROBE), start=False)
    one.health = lambda probe: Outcome(one.time >= 5)
    one.start()
    await one.until(is_ready)
    times = {item["type"]: item["lastTransitionTime"] for item in one.status["conditions"]}
    assert times["PodScheduled"] == times["Initialized"] == "2030-01-01T00:00:00Z"
    assert times["Ready"] == times["ContainersReady"] == "2030-01-01T00:00:05Z"
