"""Real Ray on the laptop cluster: tasks and jobs, a worker that is lost, a cluster beside it, the autoscaler, crashes of the plane."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from modelyard.local.images.build import Builder
from modelyard.local.images.recipes.ray import recipe
from modelyard.local.network.listening import held_by, open_listeners
from tests.e2e.browser import shown
from tests.e2e.laptop import Laptop

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray" / "minimal.yaml"
NS = "opendatahub"
BEGIN = """
import json, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=1)
def square(number):
    return number * number, ray.util.get_node_ip_address()
"""
TASKS = f"""{BEGIN}
print(json.dumps(ray.get([square.remote(number) for number in range(3)], timeout=90)))
"""
ON_NODES = f"""{BEGIN}
import sys
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeManagerAddress"] in sys.argv[1:]]
places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
tasks = [square.options(scheduling_strategy=place).remote(number) for number, place in enumerate(places)]
print(json.dumps(ray.get(tasks, timeout=90)))
"""
SCALED = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: scaled, namespace: opendatahub}
spec:
  rayVersion: "2.60.0"
  enableInTreeAutoscaling: true
  autoscalerOptions: {idleTimeoutSeconds: 2}
  headGroupSpec:
    rayStartParams: {num-cpus: "0"}
    template:
      spec:
        containers:
        - {name: ray-head, image: "rayproject/ray:2.60.0", resources: {limits: {cpu: "1", memory: 2Gi}}}
  workerGroupSpecs:
  - groupName: workers
    replicas: 0
    minReplicas: 0
    maxReplicas: 1
    template:
      spec:
        containers:
        - {name: ray-worker, image: "rayproject/ray:2.60.0", resources: {limits: {cpu: "1", memory: 1Gi}}}
"""


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path_factory.mktemp("ray"), kubectl_program, operators="ray")
    cluster.start(EXAMPLE)
    yield cluster
    cluster.stop()


def variables(laptop: Laptop, name: str) -> dict[str, str]:
    """What `modelyard env` says of a cluster."""
    found: dict[str, str] = json.loads(laptop.modelyard("env", name, "-o", "json"))
    return found


def ray(laptop: Laptop, name: str, *command: str, cwd: Path | None = None) -> str:
    """Runs a program of Ray as a user does: with what `modelyard env` prints, and nothing else of the cluster."""
    built = Builder().find(recipe)
    assert built is not None
    env = {"PATH": f"{built.bin}:{os.environ['PATH']}", "HOME": str(laptop.directory), **variables(laptop, name)}
    done = subprocess.run(
        [str(built.bin / command[0]), *command[1:]], capture_output=True, text=True, timeout=120, env=env, cwd=cwd
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{laptop.logs()}"
    return done.stdout


def pods(laptop: Laptop, name: str, node_type: str = "worker") -> list[dict[str, Any]]:
    """The pods of a cluster that are ready and stay."""
    labels = f"ray.io/cluster={name},ray.io/node-type={node_type}"
    found = laptop.get("pods", "-n", NS, "-l", labels)
    return [
        pod for pod in (found["items"] if found else []) if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
    ]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def addresses(found: list[dict[str, Any]]) -> set[str]:
    return {pod["status"]["podIP"] for pod in found}


def test_a_client_runs_tasks_on_two_workers(laptop: Laptop) -> None:
    workers = addresses(pods(laptop, "small"))
    assert len(workers) == 2
    results = json.loads(ray(laptop, "small", "python", "-c", ON_NODES, *workers))
    assert [square for square, _ in results] == [0, 1]
    assert {address for _, address in results} == workers


def test_a_job_is_submitted(laptop: Laptop, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASKS)
    said = ray(laptop, "small", "ray", "job", "submit", "--working-dir", str(tmp_path), "--", "python", "job.py")
    assert "[[0, " in said
    assert "succeeded" in said


def test_nobody_comes_in_without_the_token_or_from_another_machine(laptop: Laptop) -> None:
    jobs = f"{variables(laptop, 'small')['RAY_API_SERVER_ADDRESS']}/api/jobs/"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(jobs, timeout=20)
    assert held_by(laptop.container_processes(), open_listeners()) is None


def test_the_dashboard_opens_with_a_printed_link(laptop: Laptop, tmp_path: Path) -> None:
    page = shown(laptop.modelyard("url", "small").strip(), tmp_path / "profile", "--ignore-certificate-errors")
    assert "Overview" in page.stdout, page.stdout[-2000:] + page.stderr[-2000:]
    assert "Jobs" in page.stdout


def test_a_worker_that_is_killed_is_replaced(laptop: Laptop) -> None:
    lost, kept = (pod["metadata"]["name"] for pod in pods(laptop, "small"))
    laptop.kubectl("delete", "pod", "-n", NS, lost, "--grace-period=0", "--force")
    laptop.wait(lambda: len(pods(laptop, "small")) == 2, "another worker is there")
    now = pods(laptop, "small")
    assert lost not in {pod["metadata"]["name"] for pod in now}
    assert kept in {pod["metadata"]["name"] for pod in now}
    workers = addresses(now)
    results = json.loads(ray(laptop, "small", "python", "-c", ON_NODES, *workers))
    assert {address for _, address in results} == workers


def test_the_plane_the_kubelet_and_the_api_server_may_crash_under_it(laptop: Laptop) -> None:
    def running() -> set[tuple[str, int]]:
        found = pods(laptop, "small") + pods(laptop, "small", "head")
        return {(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in found}

    before = running()
    assert len(before) == 3
    for part in ("controllers", "kubelet", "apiserver"):
        restarts = _restarts(laptop, part)
        laptop.kill(part)
        laptop.wait(partial(_has_restarted, laptop, part, restarts), f"{part} is started again")
        laptop.wait(lambda: "small" in laptop.kubectl("get", "rayclusters", "-A", code=None), "the API answers")
    assert running() == before
    assert len(json.loads(ray(laptop, "small", "python", "-c", TASKS))) == 3


def _restarts(laptop: Laptop, part: str) -> int:
    return int(laptop.state()["restarts"].get(part, 0))


def _has_restarted(laptop: Laptop, part: str, before: int) -> bool:
    return _restarts(laptop, part) > before


def test_a_second_cluster_beside_it_grows_and_shrinks_with_its_work(laptop: Laptop) -> None:
    laptop.apply(SCALED)
    laptop.wait(lambda: pods(laptop, "scaled", "head"), "the second head is ready")
    assert pods(laptop, "scaled") == []
    results = json.loads(ray(laptop, "scaled", "python", "-c", TASKS))
    ours = {address for _, address in results}
    assert len(ours) == 1
    assert not ours & addresses(pods(laptop, "small"))
    laptop.wait(lambda: pods(laptop, "scaled") == [], "the worker has gone when there was nothing to do")


def test_a_suspended_or_deleted_cluster_leaves_no_process(laptop: Laptop) -> None:
    laptop.kubectl("delete", "raycluster", "-n", NS, "scaled", "--wait=false")
    laptop.kubectl("patch", "raycluster", "-n", NS, "small", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    laptop.wait(
        lambda: laptop.get("raycluster", "-n", NS, "small")["status"].get("state") == "suspended", "it is suspended"
    )
    laptop.wait(lambda: laptop.container_processes() == {}, "no process of a pod is left")
