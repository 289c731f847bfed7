"""What a user sees of a pod over time, story by story, in virtual time on scripted processes."""

from __future__ import annotations

import asyncio
import base64
import itertools

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.kubelet.probes import Outcome
from tests.unit.local.kubelet.conftest import Tell
from tests.unit.local.kubelet.harness import Run, simple
from tests.unit.local.kubelet.statuses import is_over, is_ready, is_running, restarts

pytestmark = pytest.mark.looptime

PROBE = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}


async def test_a_plain_pod_goes_from_creating_to_ready(story: Tell) -> None:
    one = story(simple())
    status = await one.until(is_ready)
    assert one.phases() == ["Pending", "Running"]
    assert one.history() == ["waiting:ContainerCreating", "running:ready"]
    assert [item["type"] for item in status["conditions"]] == [
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip
    assert status["podIP"] == "127.99.128.1"
    assert status["podIPs"] == [{"ip": "127.99.128.1"}]
    assert status["qosClass"] == "BestEffort"
    assert one.reasons() == ["Pulled", "Created", "Started"]


async def test_a_pod_that_completes_succeeds(story: Tell) -> None:
    one = story(simple("Never"), main=Run(code=0, after=5))
    status = await one.until(is_over)
    ended = one.state()["state"]["terminated"]
    assert (status["phase"], ended["reason"], ended["exitCode"]) == ("Succeeded", "Completed", 0)
    assert ended["startedAt"] == "2030-01-01T00:00:00Z"
    assert ended["finishedAt"] == "2030-01-01T00:00:05Z"
    ready = next(item for item in status["conditions"] if item["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
    assert "message" not in ready


async def test_a_pod_that_fails_and_may_not_restart_is_failed(story: Tell) -> None:
    one = story(simple("Never"), main=Run(code=3, after=1))
    status = await one.until(is_over)
    assert status["phase"] == "Failed"
    assert one.state()["state"]["terminated"]["exitCode"] == 3
    assert one.state()["state"]["terminated"]["reason"] == "Error"
    assert next(i for i in status["conditions"] if i["type"] == "Ready")["reason"] == "PodFailed"
    assert one.state()["restartCount"] == 0


async def test_on_failure_restarts_until_success(story: Tell) -> None:
    one = story(simple("OnFailure"), main=[Run(code=1, after=1), Run(code=1, after=1), Run(code=0, after=1)])
    status = await one.until(is_over)
    assert status["phase"] == "Succeeded"
    assert one.state()["restartCount"] == 2
    assert one.state()["lastState"]["terminated"]["exitCode"] == 1


async def test_a_crash_loop_backs_off_10_20_40_seconds_up_to_300(story: Tell) -> None:
    one = story(simple(), main=Run(code=1, after=1))
    await one.until(restarts(8), within=3000)
    starts = [event.at for event in one.events if event.reason == "Started"]
    gaps = [round(b - a - 1) for a, b in itertools.pairwise(starts)]
    assert gaps[:7] == [0, 10, 20, 40, 80, 160, 300]


async def test_a_crash_loop_shows_its_reason_and_keeps_the_last_end(story: Tell) -> None:
    one = story(simple(), main=Run(code=7, after=1))
    await one.until(
        lambda s: "waiting" in s["containerStatuses"][0]["state"] and s["containerStatuses"][0]["restartCount"] > 0
    )
    state = one.state()
    assert state["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=main pod=web_demo(u-1)",
    }
    assert state["lastState"]["terminated"]["exitCode"] == 7
    assert one.status["phase"] == "Running"
    assert "Back-off restarting failed container main in pod web_demo(u-1)" in one.messages("BackOff")


async def test_the_back_off_starts_over_after_a_long_good_run(story: Tell) -> None:
    one = story(simple(), main=[Run(1, 1), Run(1, 1), Run(1, 1), Run(1, 700), Run(1, 1)])
    await one.until(restarts(4), within=3000)
    started = [event.at for event in one.events if event.reason == "Started"]
    # The fourth run lasted longer than twice the longest wait: the fifth starts at once.
    assert started[4] - started[3] == pytest.approx(700, abs=1)


async def test_an_image_without_a_recipe_is_an_image_pull_error(story: Tell) -> None:
    one = story(simple(image="quay.io/else/where:2"))
    await one.until(lambda s: s["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff")
    assert one.history()[:3] == ["waiting:ContainerCreating", "waiting:ErrImagePull", "waiting:ImagePullBackOff"]
    assert one.status["phase"] == "Pending"
    assert "modelyard.images" in one.state()["state"]["waiting"]["message"]
    assert one.reasons("main")[:4] == ["Pulling", "Failed", "Failed", "BackOff"]
    assert one.messages("Failed")[1] == "Error: ErrImagePull"
    assert one.messages("BackOff") == ['Back-off pulling image "quay.io/else/where:2"']


async def test_pulling_is_tried_again_with_growing_waits(story: Tell) -> None:
    one = story(simple(image="quay.io/else/where:2"))
    await asyncio.sleep(200)
    pulls = [event.at for event in one.events if event.reason == "Pulling"]
    gaps = [round(b - a) for a, b in itertools.pairwise(pulls)]
    assert gaps[:4] == [10, 20, 40, 80]


async def test_an_image_that_is_not_there_is_pulled_with_events(story: Tell) -> None:
    one = story(simple(), start=False)
    one.images.present, one.images.slow = False, 3
    one.start()
    await one.until(is_ready)
    assert one.messages("Pulling") == ['Pulling image "test:1"']
    assert one.messages("Pulled") == [
        'Successfully pulled image "test:1" in 3s (3s including waiting). Image size: 1000 bytes.'
    ]


async def test_pull_policy_never_says_so(story: Tell) -> None:
    one = story(simple(imagePullPolicy="Never"), start=False)
    one.images.present = False
    one.start()
    await one.until(lambda s: s["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImageNeverPull")
    assert one.reasons("main") == ["ErrImageNeverPull", "Failed"]


async def test_init_containers_run_one_after_the_other(story: Tell) -> None:
    pod = {"spec": {"initContainers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "main"}]}}
    one = story(pod, a=Run(0, 2), b=Run(0, 3))
    await one.until(is_ready)
    order = [(event.container, event.at) for event in one.events if event.reason == "Started"]
    assert order == [("a", 0.0), ("b", 2.0), ("main", 5.0)]
    assert one.history("main") == ["waiting:PodInitializing", "running:ready"]
    assert one.history("a")[-1] == "terminated:Completed"
    assert one.condition("Initialized") == "True"
    assert one.phases() == ["Pending", "Running"]


async def test_a_failing_init_container_is_retried_and_the_pod_stays_pending(story: Tell) -> None:
    pod = {"spec": {"initContainers": [{"name": "setup"}], "containers": [{"name": "main"}]}}
    one = story(pod, setup=[Run(1, 1), Run(1, 1), Run(0, 1)])
    await one.until(
        lambda s: s["initContainerStatuses"][0]["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    )
    assert one.status["phase"] == "Pending"
    initialized = next(item for item in one.status["conditions"] if item["type"] == "Initialized")
    assert initialized["reason"] == "ContainersNotInitialized"
    assert initialized["message"] == "containers with incomplete status: [setup]"
    await one.until(is_ready)


async def test_a_failing_init_container_fails_a_pod_that_may_not_restart(story: Tell) -> None:
    pod = {"spec": {"restartPolicy": "Never", "initContainers": [{"name": "setup"}], "containers": [{"name": "main"}]}}
    one = story(pod, setup=Run(2, 1))
    status = await one.until(is_over)
    assert status["phase"] == "Failed"
    assert one.history("main")[-1] == "waiting:PodInitializing"
    assert not [event for event in one.events if event.container == "main"]


async def test_a_sidecar_starts_first_and_stops_last(story: Tell) -> None:
    pod = {
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        }
    }
    one = story(pod, main=Run(0, 5))
    status = await one.until(is_over)
    assert status["phase"] == "Succeeded"
    assert [event.container for event in one.events if event.reason == "Started"] == ["proxy", "main"]
    assert one.messages("Killing") == ["Stopping container proxy"]
    assert one.history("proxy")[-1].startswith("terminated")


async def test_a_sidecar_must_pass_its_startup_probe_before_others_start(story: Tell) -> None:
    proxy = {"name": "proxy", "restartPolicy": "Always", "startupProbe": PROBE | {"failureThreshold": 30}}
    one = story({"spec": {"initContainers": [proxy], "containers": [{"name": "main"}]}}, start=False)
    one.health = lambda probe: Outcome(one.time >= 4)
    one.start()
    await one.until(is_ready)
    assert [event.at for event in one.events if event.reason == "Started"] == [0.0, 4.0]


async def test_a_crashed_sidecar_is_restarted_without_touching_the_pod(story: Tell) -> None:
    pod = {"spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}], "containers": [{"name": "main"}]}}
    one = story(pod, proxy=[Run(1, 3), Run()])
    await one.until(lambda s: s["initContainerStatuses"][0]["restartCount"] == 1)
    await one.until(is_ready)
    assert one.state("main")["restartCount"] == 0
    assert one.status["phase"] == "Running"


async def test_readiness_follows_the_probe(story: Tell) -> None:
    one = story(simple(readinessProbe=PROBE), start=False)
    one.health = lambda probe: Outcome(3 <= one.time < 10, "HTTP probe failed with statuscode: 503")
    one.start()
    await one.until(is_ready)
    assert one.time == pytest.approx(3, abs=0.2)
    await one.until(lambda s: not is_ready(s))
    assert one.time == pytest.approx(12, abs=0.2)
    ready = next(item for item in one.status["conditions"] if item["type"] == "Ready")
    assert ready["message"] == "containers with unready status: [main]"
    assert one.state()["restartCount"] == 0
    assert "Readiness probe failed: HTTP probe failed with statuscode: 503" in one.messages("Unhealthy")


async def test_a_failing_liveness_probe_restarts_the_container(story: Tell) -> None:
    one = story(simple(livenessProbe=PROBE | {"initialDelaySeconds": 2}), start=False)
    one.health = lambda probe: Outcome(one.time > 8, "no")
    one.start()
    await one.until(restarts(1))
    assert one.messages("Killing") == ["Container main failed liveness probe, will be restarted"]
    assert one.time == pytest.approx(4, abs=0.2)
    await one.until(is_ready)


async def test_a_slow_start_is_covered_by_a_startup_probe(story: Tell) -> None:
    container: Object = {"startupProbe": PROBE | {"failureThreshold": 60}, "livenessProbe": PROBE}
    one = story(simple(**container), start=False)
    one.health = lambda probe: Outcome(one.time >= 20)
    one.start()
    status = await one.until(is_ready)
    assert one.time == pytest.approx(20, abs=0.3)
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert status["containerStatuses"][0]["started"] is True


async def test_a_startup_probe_that_never_passes_restarts_the_container(story: Tell) -> None:
    one = story(simple(startupProbe=PROBE | {"failureThreshold": 5}), start=False)
    one.health = lambda probe: Outcome(False, "no")
    one.start()
    await one.until(restarts(1))
    assert one.messages("Killing") == ["Container main failed startup probe, will be restarted"]


async def test_success_and_failure_thresholds_are_counted(story: Tell) -> None:
    probe = PROBE | {"successThreshold": 3, "failureThreshold": 2}
    one = story(simple(readinessProbe=probe), start=False)
    answers = iter([True, True, False, True, True, True, False, True, False, False] + [True] * 100)
    one.health = lambda probe: Outcome(next(answers))
    one.start()
    await one.until(is_ready)
    assert one.time == pytest.approx(5, abs=0.2)
    await one.until(lambda s: not is_ready(s))
    assert one.time == pytest.approx(9, abs=0.2)


async def test_an_exec_probe_runs_its_command_in_the_container(story: Tell) -> None:
    one = story(simple(readinessProbe={"exec": {"command": ["cat", "/ready"]}, "periodSeconds": 2}), start=False)
    one.runtime.commands[("cat", "/ready")] = (1, 0.0)
    one.start()
    await one.until(lambda s: bool(one.messages("Unhealthy")))
    one.runtime.commands[("cat", "/ready")] = (0, 0.0)
    await one.until(is_ready)


async def test_an_exec_probe_that_hangs_times_out(story: Tell) -> None:
    probe = {"exec": {"command": ["sleep", "99"]}, "periodSeconds": 5, "timeoutSeconds": 2}
    one = story(simple(readinessProbe=probe), start=False)
    one.runtime.commands[("sleep", "99")] = (0, 99.0)
    one.start()
    await one.until(lambda s: bool(one.messages("Unhealthy")))
    assert one.messages("Unhealthy")[0] == 'Readiness probe failed: command timed out: "sleep 99" timed out after 2s'


async def test_too_much_memory_is_oom_killed_with_137(story: Tell) -> None:
    one = story(simple("Never", resources={"limits": {"memory": "64Mi"}}))
    await one.until(is_running)
    one.used = 100 << 20
    status = await one.until(is_over)
    ended = one.state()["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    assert status["phase"] == "Failed"


async def test_a_program_that_cannot_be_run_is_a_run_container_error(story: Tell) -> None:
    one = story(simple(), main=Run(fails='exec: "nope": executable file not found in $PATH'))
    await one.until(lambda s: s["containerStatuses"][0]["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    assert "waiting:RunContainerError" in one.history()
    ended = one.state()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "executable file not found in $PATH" in one.messages("Failed")[0]


async def test_a_missing_config_map_key_is_a_config_error_until_it_comes(story: Tell) -> None:
    reference = {"configMapKeyRef": {"name": "settings", "key": "mode"}}
    one = story(simple(env=[{"name": "MODE", "valueFrom": reference}]))
    await one.until(lambda s: s["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError")
    assert one.state()["state"]["waiting"]["message"] == 'configmap "settings" not found'
    assert one.messages("Failed") == ['Error: configmap "settings" not found']
    one.objects.put(
        builtin.ConfigMap, {"metadata": {"name": "settings", "namespace": "demo"}, "data": {"mode": "fast"}}
    )
    one.worker.source_changed()
    await one.until(is_ready, within=5)
    assert one.runtime.launches[0].env["MODE"] == "fast"


async def test_a_missing_secret_volume_keeps_the_pod_creating_until_it_comes(story: Tell) -> None:
    pod = simple(volumeMounts=[{"name": "s", "mountPath": "/s"}], args=["--dir", "/s"])
    pod["spec"]["volumes"] = [{"name": "s", "secret": {"secretName": "creds"}}]
    one = story(pod)
    await one.until(lambda s: bool(one.messages("FailedMount")))
    assert one.messages("FailedMount")[0] == 'MountVolume.SetUp failed for volume "s" : secret "creds" not found'
    assert one.history() == ["waiting:ContainerCreating"]
    data = {"token": base64.b64encode(b"hush").decode()}
    one.objects.put(builtin.Secret, {"metadata": {"name": "creds", "namespace": "demo"}, "data": data})
    one.worker.source_changed()
    await one.until(is_ready, within=5)
    folder = one.worker.directory / "volumes" / "s"
    assert (folder / "token").read_bytes() == b"hush"


async def test_a_changed_config_map_changes_the_mounted_file(story: Tell) -> None:
    pod = simple(volumeMounts=[{"name": "c", "mountPath": "/c"}], args=["/c"])
    pod["spec"]["volumes"] = [{"name": "c", "configMap": {"name": "settings"}}]
    one = story(pod, start=False)
    one.objects.put(builtin.ConfigMap, {"metadata": {"name": "settings", "namespace": "demo"}, "data": {"a": "1"}})
    one.start()
    await one.until(is_ready)
    one.objects.put(
        builtin.ConfigMap, {"metadata": {"name": "settings", "namespace": "demo"}, "data": {"a": "2", "b": "3"}}
    )
    one.worker.source_changed()
    await asyncio.sleep(1)
    folder = one.worker.directory / "volumes" / "c"
    assert {entry.name: entry.read_text() for entry in folder.iterdir() if not entry.name.startswith("..")} == {
        "a": "2", "b": "3",
    }  # fmt: skip


async def test_a_changed_label_changes_the_downward_file(story: Tell) -> None:
    pod = simple(volumeMounts=[{"name": "d", "mountPath": "/d"}], args=["/d"])
    pod["metadata"] = {"labels": {"tier": "one"}}
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    pod["spec"]["volumes"] = [{"name": "d", "downwardAPI": {"items": [item]}}]
    one = story(pod)
    await one.until(is_ready)
    file = one.worker.directory / "volumes" / "d" / "labels"
    assert file.read_text() == 'tier="one"'
    one.pod["metadata"] = one.pod["metadata"] | {"labels": {"tier": "two"}}
    one.worker.update(one.pod)
    await asyncio.sleep(1)
    assert file.read_text() == 'tier="two"'


async def test_a_projected_token_is_renewed_before_it_ends(story: Tell) -> None:
    pod = simple(volumeMounts=[{"name": "t", "mountPath": "/t"}], args=["/t"])
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    pod["spec"]["volumes"] = [{"name": "t", "projected": {"sources": [source]}}]
    one = story(pod)
    await one.until(is_ready)
    file = one.worker.directory / "volumes" / "t" / "token"
    assert file.read_text() == "token-1"
    await asyncio.sleep(500)
    assert file.read_text() == "token-2"


async def test_a_host_path_is_refused_with_a_reason(story: Tell) -> None:
    pod = simple(volumeMounts=[{"name": "h", "mountPath": "/h"}])
    pod["spec"]["volumes"] = [{"name": "h", "hostPath": {"path": "/etc"}}]
    one = story(pod)
    await one.until(lambda s: bool(one.messages("FailedMount")))
    assert "hostPath /etc is refused" in one.messages("FailedMount")[0]
    assert "emptyDir" in one.messages("FailedMount")[0]
