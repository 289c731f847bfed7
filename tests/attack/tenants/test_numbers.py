"""Numbers and texts that are allowed and absurd: nothing in the plane or on the node grows, hangs or stops with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from modelyard.kube.builtin import CronJob, Deployment, Job, Pod, StatefulSet
from modelyard.kube.kinds import Object
from modelyard.kube.schedules import ScheduleError, parse_schedule
from modelyard.kube.times import later
from modelyard.local.apiserver import ApiServer
from modelyard.local.kubelet.endpoint import log_options
from modelyard.local.kubelet.environment import ConfigError, command_line, environment
from modelyard.local.kubelet.facts import Node
from modelyard.local.kubelet.volumes import payload
from modelyard.local.kubelet.volumes.payload import File
from modelyard.local.workloads import cronjob_controller, job_controller, statefulset_controller
from tests.attack.bytes.confined import request
from tests.unit.local.kubelet.harness import Objects, complete
from tests.unit.local.workloads.stage import Stage
from tests.unit.local.workloads.test_cronjob import a_cronjob
from tests.unit.local.workloads.test_job import a_job
from tests.unit.local.workloads.test_statefulset import a_statefulset

FOR_EVER = 2**63 - 1
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def variables(levels: int) -> list[Object]:
    """Each is ten times the one before."""
    grown = [{"name": f"A{n}", "value": f"$(A{n - 1})" * 10} for n in range(1, levels)]
    return [{"name": "A0", "value": "x" * 10}, *grown]


def environment_of(container: Object) -> dict[str, str]:
    pod = complete({"spec": {"containers": [{"name": "main", **container}]}})
    return environment(pod, pod["spec"]["containers"][0], Objects(), pod_ip="127.1.1.1", node=Node("local")).all


def test_variables_that_hold_one_another_do_not_grow_without_end() -> None:
    with pytest.raises(ConfigError, match="argument list too long"):
        environment_of({"env": variables(7)})


def test_a_command_that_holds_a_variable_many_times_is_bounded() -> None:
    values = environment_of({"env": variables(4)})
    with pytest.raises(ConfigError, match="argument list too long"):
        command_line({"command": ["$(A3)" * 100_000]}, values)


def test_many_variables_together_are_bounded() -> None:
    env = [{"name": f"B{number}", "value": "x" * 100_000} for number in range(30)]
    with pytest.raises(ConfigError, match="more than 2048 KiB"):
        environment_of({"env": env})


def test_variables_within_the_bounds_hold_one_another() -> None:
    assert environment_of({"env": variables(3)})["A2"] == "x" * 1000


@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
def test_a_statefulset_of_a_million_makes_some_pods_at_a_time(policy: str) -> None:
    stage = Stage(statefulset_controller())
    stage.put(a_statefulset(1_000_000, podManagementPolicy=policy))
    stage.step()
    assert 0 < len(stage.all(Pod)) <= 500
    assert stage.one(StatefulSet, "db")["status"]["replicas"] <= 500


def test_a_job_of_many_makes_some_pods_at_a_time() -> None:
    stage = Stage(job_controller())
    stage.put(a_job(parallelism=5_000, completions=5_000))
    stage.step()
    assert 0 < len(stage.all(Pod)) <= 500


@pytest.mark.parametrize("spec", [{"activeDeadlineSeconds": FOR_EVER}, {"ttlSecondsAfterFinished": 2**31 - 1}])
def test_a_job_that_may_take_for_ever_runs(spec: Object) -> None:
    stage = Stage(job_controller())
    stage.put(a_job(**spec))
    stage.step()
    ended = stage.ended("Succeeded")(stage.all(Pod)[0])
    assert ended is not None
    stage.put(ended)
    for _ in range(4):
        stage.step()
    assert {one["type"] for one in stage.one(Job, "work")["status"]["conditions"]} == {"SuccessCriteriaMet", "Complete"}


@pytest.mark.parametrize(
    "spec",
    [
        {"startingDeadlineSeconds": FOR_EVER, "schedule": "* * * * *"},
        {"schedule": "@every 80000000h"},
        {"schedule": "0 0 30 2 *"},
    ],
)
def test_a_schedule_without_an_end_in_sight_stops_no_controller(spec: Object) -> None:
    stage = Stage(cronjob_controller())
    stage.put(a_cronjob(**spec))
    stage.step()
    assert stage.one(CronJob, "tick")


@pytest.mark.parametrize(
    "text", ["9" * 5000 + " * * * *", f"@every {'9' * 30}h", f"@every {'9' * 400}s", "1-" + "9" * 5000 + " * * * *"]
)
def test_a_schedule_with_absurd_numbers_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


async def test_the_server_refuses_such_a_schedule_by_its_field() -> None:
    body = {"apiVersion": "batch/v1", "kind": "CronJob", **a_cronjob(schedule="9" * 5000 + " * * * *")}
    body["metadata"]["namespace"] = "default"
    async with ApiServer() as server:
        path = "/apis/batch/v1/namespaces/default/cronjobs"
        reply = await server.handle(request("POST", path, json.dumps(body).encode()))
    assert reply.status == 422
    assert isinstance(reply.body, bytes)
    assert b"spec.schedule" in reply.body


async def test_a_pod_that_wants_to_end_in_ages_can_be_deleted() -> None:
    container = {"name": "a", "image": "busybox"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": FOR_EVER, "nodeName": "local"}
    async with ApiServer() as server:
        client = server.client()
        await client.create(Pod, {"metadata": {"name": "slow", "namespace": "default"}, "spec": spec})
        await client.delete(Pod, "default", "slow")
        held = await client.get(Pod, "default", "slow")
        assert held["metadata"]["deletionTimestamp"].startswith("9999-12-31")
        await client.delete(Pod, "default", "slow", grace=1)
        assert (await client.get(Pod, "default", "slow"))["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize("replicas", [2**31, 10**20])
@pytest.mark.parametrize(
    ("method", "content"), [("PUT", "application/json"), ("PATCH", "application/apply-patch+yaml")]
)
async def test_no_number_of_replicas_is_kept_that_nobody_can_read(replicas: int, method: str, content: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "busybox"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "default"}}
    async with ApiServer() as server:
        client = server.client()
        await client.create(Deployment, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        body = json.dumps({**scale, "spec": {"replicas": replicas}}).encode()
        query = {"fieldManager": ["t"], **({"force": ["true"]} if method == "PATCH" else {})}
        path = Deployment.path("default", "web", "scale")
        assert (await server.handle(request(method, path, body, content, query))).status == 400
        await client.patch(Deployment, "default", "web", {"spec": {"paused": True}})


@pytest.mark.parametrize("seconds", [FOR_EVER, -FOR_EVER, 10**30])
def test_no_moment_is_later_than_the_last(seconds: int) -> None:
    assert later(NOW, seconds) in (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC))
    assert later(NOW, 5) == NOW + timedelta(seconds=5)


def test_logs_since_before_all_time_are_all_logs() -> None:
    since = log_options({"sinceSeconds": str(FOR_EVER)}, NOW).since
    assert since is not None
    assert since.year == 1


def test_keys_that_end_like_a_temporary_name_are_files_of_their_own(tmp_path: Path) -> None:
    files = {name: File(name.encode(), 0o644) for name in ("a", "a_tmp", "b", "b_tmp", "data_tmp")}
    for content in (files, {**files, "c": File(b"c", 0o644)}):
        payload.write(tmp_path, content)
        assert {name: (tmp_path / name).read_bytes() for name in content} == {
            name: file.content for name, file in content.items()
        }


def test_files_that_cannot_be_laid_out_leave_nothing_behind(tmp_path: Path) -> None:
    files = {"x": File(b"", 0o644), "x/y": File(b"", 0o644)}
    for _ in range(3):
        with pytest.raises(OSError):
            payload.write(tmp_path, files)
    assert list(tmp_path.iterdir()) == []
