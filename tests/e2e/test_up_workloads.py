"""Workloads on a laptop cluster as a user drives them with kubectl: fifty pods through everything, and the daily commands."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.laptop import Laptop
from tests.e2e.pods import is_ready

COUNT = 50
MANY = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: default}
spec:
  replicas: %d
  selector: {matchLabels: {app: many}}
  strategy: {rollingUpdate: {maxSurge: 10, maxUnavailable: 10}}
  template:
    metadata: {labels: {app: many}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: modelyard/http-echo:1
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 2, timeoutSeconds: 20, failureThreshold: 10}
"""


@pytest.fixture
def own(kubectl_program: str, tmp_path: Path) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path / "cluster", kubectl_program)
    yield cluster
    cluster.stop()


def pods(cluster: Laptop) -> list[dict[str, Any]]:
    found = cluster.get("pods", "-l", "app=many") or {"items": []}
    return list(found["items"])


def all_serve(cluster: Laptop, count: int) -> bool:
    """So many are ready and no others are there, each at an address of its own, and each has its one process."""
    found = pods(cluster)
    ready = [pod for pod in found if is_ready(pod)]
    addresses = {pod["status"]["podIP"] for pod in ready}
    return len(found) == len(ready) == len(addresses) == count == cluster.containers()


def test_fifty_pods_are_rolled_scaled_killed_and_stopped_and_all_come_back(own: Laptop) -> None:
    own.start()
    own.apply(MANY % COUNT)
    own.wait(lambda: all_serve(own, COUNT), "fifty pods serve", seconds=300)
    first = {pod["metadata"]["uid"] for pod in pods(own)}

    own.kubectl("set", "env", "deploy/many", "ECHO_TEXT=second")
    own.kubectl("rollout", "status", "deploy/many", "--timeout=400s", timeout=420)
    own.wait(lambda: all_serve(own, COUNT), "the new template serves", seconds=120)
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in pods(own))

    own.kubectl("scale", "deploy/many", "--replicas=20")
    own.wait(lambda: all_serve(own, 20), "twenty are left", seconds=120)
    own.kubectl("scale", "deploy/many", f"--replicas={COUNT}")
    own.wait(lambda: all_serve(own, COUNT), "fifty again", seconds=300)

    for pid in list(own.container_processes())[::2]:
        os.kill(pid, signal.SIGKILL)
    own.wait(lambda: sum(restarts(pod) for pod in pods(own)) >= COUNT // 2, "the killed ones are noticed", seconds=120)
    own.wait(lambda: all_serve(own, COUNT), "the killed ones are back", seconds=300)

    before = {pod["metadata"]["uid"] for pod in pods(own)}
    own.stop()
    assert own.processes() == {}
    own.start()
    own.wait(lambda: all_serve(own, COUNT), "all are back after down and up", seconds=300)
    assert before == {pod["metadata"]["uid"] for pod in pods(own)}

    assert {entry.name for entry in (own.directory / "kubelet" / "pods").iterdir()} == before
    own.kubectl("delete", "deploy", "many")
    own.wait(lambda: pods(own) == [], "all pods are gone", seconds=120)
    own.wait(lambda: own.containers() == 0, "no process is left")
    own.wait(lambda: not any((own.directory / "kubelet" / "pods").iterdir()), "no file of a pod is left")


def restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses") or [])


def test_kubectl_drives_a_workload_and_events_tell_the_story(laptop: Laptop, ns: str) -> None:
    def kubectl(*words: str, code: int | None = 0) -> str:
        return laptop.kubectl("-n", ns, *words, code=code, timeout=120)

    kubectl("create", "deployment", "web", "--image=modelyard/http-echo:1", "--replicas=2", "--port=8080")
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=90s")
    kubectl("expose", "deploy", "web", "--port=8081", "--target-port=8080")
    kubectl("set", "env", "deploy/web", "ECHO_TEXT=two")
    kubectl("rollout", "status", "deploy/web", "--timeout=90s")
    assert kubectl("rollout", "history", "deploy/web").split("CHANGE-CAUSE")[1].split() == [
        "1",
        "<none>",
        "2",
        "<none>",
    ]
    assert "listening on" in kubectl("logs", "deploy/web")
    answer = ("python3", "-c", "import urllib.request as u; print(u.urlopen('http://web:8081').read().decode())")
    assert kubectl("exec", "deploy/web", "--", *answer).split() == ["two"]
    kubectl("rollout", "undo", "deploy/web")
    kubectl("rollout", "status", "deploy/web", "--timeout=90s")
    assert kubectl("exec", "deploy/web", "--", "sh", "-c", 'echo "text=$ECHO_TEXT"').strip() == "text="
    kubectl("scale", "deploy/web", "--replicas=1")
    laptop.wait(lambda: len(laptop.get("pods", "-n", ns)["items"]) == 1, "one pod is left")
    name = laptop.get("pods", "-n", ns)["items"][0]["metadata"]["name"]
    told = events(kubectl, "Pod", name)
    assert sorted(told) == ["Created", "Pulled", "Scheduled", "Started"]
    assert told["Scheduled"] == [f"Successfully assigned {ns}/{name} to local"]
    steps = {line.partition(" from ")[2] for line in events(kubectl, "Deployment", "web")["ScalingReplicaSet"]}
    assert steps == {"0 to 2", "0 to 1", "1 to 2", "2 to 1", "1 to 0"}
    kubectl("delete", "deploy/web", "service/web")
    kubectl("wait", "--for=delete", f"pod/{name}", "--timeout=60s")


def test_status_ends_with_3_and_shows_the_last_line_of_what_crashes(laptop: Laptop, ns: str) -> None:
    script = "echo reading the settings; echo 'ValueError: the key is missing' >&2; exit 7"
    laptop.kubectl("run", "crashing", "-n", ns, "--image=busybox", "--", "sh", "-c", script)

    def crashes() -> bool:
        (pod,) = laptop.get("pods", "-n", ns)["items"]
        return bool(pod["status"].get("containerStatuses") and pod["status"]["containerStatuses"][0]["restartCount"])

    laptop.wait(crashes, "the container was started again")
    said = laptop.modelyard("status", code=3)
    assert f"Pod crashing in {ns}" in said
    assert "its last log line: ValueError: the key is missing" in " ".join(said.split())
    assert "reading the settings" not in said
    laptop.kubectl("delete", "pod", "crashing", "-n", ns, "--grace-period=1")
    laptop.wait(lambda: f"in {ns}" not in laptop.modelyard("status", code=None), "what is gone is not shown")


def events(kubectl: Any, kind: str, name: str) -> dict[str, list[str]]:
    """The messages by reason."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    told: dict[str, list[str]] = {}
    for item in json.loads(kubectl("get", "events", f"--field-selector={selector}", "-o", "json"))["items"]:
        told.setdefault(item["reason"], []).append(item["message"])
    return told
