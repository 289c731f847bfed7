"""The laptop cluster as a whole: start, stop, crash, two at once, root and plain user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import modelyard
from tests.e2e.conftest import kubectl_for, wait_until
from tests.e2e.laptop import Laptop
from tests.e2e.writer import Writer

ECHO = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: modelyard/http-echo:1
        ports: [{{containerPort: 8080}}]
        readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
"""


@pytest.fixture
def own(kubectl_program: str, tmp_path: Path) -> Iterator[Laptop]:
    """A cluster of the test's own."""
    cluster = Laptop(tmp_path / "cluster", kubectl_program)
    yield cluster
    cluster.stop()


def ready(cluster: Laptop, name: str) -> int:
    found = cluster.get("deploy", name)
    return int((found or {}).get("status", {}).get("readyReplicas") or 0)


def wait_for_the_replica(cluster: Laptop) -> None:
    cluster.wait(lambda: ready(cluster, "web") == 1, "the replica is ready")


def test_down_leaves_no_process_and_up_goes_on_from_there(own: Laptop) -> None:
    own.start()
    own.apply(ECHO.format(name="web", replicas=2))
    own.wait(lambda: ready(own, "web") == 2, "both replicas are ready")
    own.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    own.stop()
    wait_until(lambda: own.processes() == {}, "no process is left", seconds=20)
    own.start()
    assert own.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
    own.wait(lambda: ready(own, "web") == 2, "both replicas came back")


def test_a_second_up_says_who_holds_the_folder(own: Laptop) -> None:
    own.start()
    said = own.modelyard("up", "--operators", "mlflow", code=1)
    assert f"is held by process {own.state()['pid']}" in said
    assert "modelyard down" in said


def test_ctrl_c_in_a_detached_start_leaves_nothing_half_started(own: Laptop, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(ECHO.format(name="web", replicas=1))
    log = own.directory / "logs" / "up.log"
    moments = {
        "the supervisor has begun": (own.directory / "state.json").exists,
        "the API answers": (own.directory / "kubeconfig").exists,
        "the file is applied": lambda: log.exists() and "applied Deployment" in log.read_text(),
    }
    for moment, reached in moments.items():
        started = own.begin("--apply", str(file))
        wait_until(reached, moment, seconds=60)
        os.killpg(started.pid, signal.SIGINT)
        assert started.wait(90) == 128 + signal.SIGINT, moment
        wait_until(lambda: own.processes() == {}, "no process is left", seconds=20)
        assert not (own.directory / "state.json").exists()
        for left in (log, own.directory / "kubeconfig"):
            left.unlink(missing_ok=True)
    own.start(file)
    assert ready(own, "web") == 1


@pytest.mark.parametrize("part", ["apiserver", "controllers", "kubelet"])
def test_a_part_that_is_killed_comes_back(own: Laptop, part: str) -> None:
    own.start()
    own.apply(ECHO.format(name="web", replicas=1))
    wait_for_the_replica(own)
    before = own.pid(part)
    own.kill(part)
    own.wait(lambda: own.state()["parts"].get(part, before) != before, f"{part} is started again")
    own.wait(lambda: "ok" in own.kubectl("get", "--raw", "/readyz", code=None), "the API answers")
    own.kubectl("scale", "deploy", "web", "--replicas=2")
    own.wait(lambda: ready(own, "web") == 2, "the cluster still works")


def test_everything_is_back_after_the_supervisor_was_killed(own: Laptop) -> None:
    own.start()
    own.apply(ECHO.format(name="web", replicas=1))
    wait_for_the_replica(own)
    own.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    own.kill("up")
    wait_until(lambda: own.processes() == {}, "nothing outlives the supervisor", seconds=60)
    own.start()
    assert own.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
    own.wait(lambda: ready(own, "web") == 1, "the replica came back")


@pytest.mark.skipif(os.environ.get("UP_KILLS") != "full", reason="ten rounds take a quarter of an hour: UP_KILLS=full")
def test_ten_times_every_part_is_killed_under_load(own: Laptop) -> None:
    own.start()
    own.apply(ECHO.format(name="web", replicas=3))
    own.wait(lambda: ready(own, "web") == 3, "all replicas are ready")
    with Writer(own.directory / "kubeconfig") as load:
        for number in range(10):
            for part in ("apiserver", "controllers", "kubelet", "keeper", "up"):
                kill_and_recover(own, part, 2 + number % 3, load)
    assert load.lost() == {}


def kill_and_recover(cluster: Laptop, part: str, replicas: int, load: Writer) -> None:
    cluster.kubectl("scale", "deploy", "web", f"--replicas={replicas}")
    before = load.acknowledged
    cluster.wait(lambda: load.acknowledged > before + 20, "the load is written")
    cluster.kill(part)
    if part == "up":
        wait_until(lambda: cluster.processes() == {}, "nothing outlives the supervisor")
        cluster.start()
    cluster.wait(lambda: "ok" in cluster.kubectl("get", "--raw", "/readyz", code=None), "the API answers")
    cluster.wait(lambda: ready(cluster, "web") == replicas, f"{replicas} replicas are ready after {part} was killed")
    cluster.wait(lambda: cluster.containers() == replicas, f"{replicas} containers run after {part} was killed")


def test_two_clusters_run_side_by_side(own: Laptop, kubectl_program: str, tmp_path: Path) -> None:
    other = Laptop(tmp_path / "other", kubectl_program)
    try:
        own.start()
        other.start()
        for cluster in (own, other):
            cluster.apply(ECHO.format(name="web", replicas=1))
        for cluster in (own, other):
            wait_for_the_replica(cluster)
        addresses = {c.get("pod", "-l", "app=web")["items"][0]["status"]["podIP"] for c in (own, other)}
        assert len(addresses) == 2
    finally:
        other.stop()


@pytest.fixture
def plain(kubectl_program: str) -> Iterator[Laptop]:
    """A cluster of the user nobody, in a folder and with a Python that this user can reach."""
    if os.getuid() != 0:
        pytest.skip("these tests run as a plain user already")
    home = Path(tempfile.mkdtemp(prefix="modelyard-plain-", dir="/var/tmp"))
    try:
        interpreter = shutil.which("python3", path="/usr/local/bin:/usr/bin")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if (
            interpreter is None
            or subprocess.run([interpreter, "-V"], capture_output=True, text=True).stdout.split()[1].rpartition(".")[0]
            != version
        ):
            pytest.skip(f"there is no Python {version} that another user may run")
        packages = Path(modelyard.__file__).parents[1]
        shutil.copytree(sysconfig.get_path("purelib"), home / "packages", symlinks=True)
        shutil.copytree(packages / "modelyard", home / "packages" / "modelyard", dirs_exist_ok=True)
        subprocess.run(["chown", "-R", "nobody", str(home)], check=True)
        environment = {
            "HOME": str(home),
            "MODELYARD_CACHE": str(home / "cache"),
            "PYTHONPATH": str(home / "packages"),
            "PATH": f"{home}/packages/bin:/usr/bin:/bin",
        }
        cluster = Laptop(home / "cluster", kubectl_program, user="nobody", python=interpreter, environment=environment)
        yield cluster
        cluster.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_a_plain_user_can_run_it(plain: Laptop) -> None:
    plain.start()
    plain.apply(ECHO.format(name="web", replicas=1))
    plain.wait(lambda: ready(plain, "web") == 1, "the replica is ready")
    assert Path(f"/proc/{plain.pid('kubelet')}").stat().st_uid == pwd.getpwnam("nobody").pw_uid


def test_status_says_why_something_is_not_ready_until_it_is_mended(own: Laptop, tmp_path: Path) -> None:
    own.start()
    assert "there are no platform resources" in own.modelyard("status")
    quickstart = (Path(__file__).parents[2] / "examples" / "quickstart.yaml").read_text()
    image = "example.com/nobody/nothing:1"
    own.apply(quickstart.replace("spec:\n", f"spec:\n  image: {{image: {image}}}\n", 1))

    def mlflow(code: int) -> dict[str, Any]:
        (found,) = json.loads(own.modelyard("status", "mlflow", "mlflow", "-o", "json", code=code))
        return cast(dict[str, Any], found)

    own.wait(lambda: "ImagePullBackOff" in own.modelyard("status", code=3), "the image is missed")
    found = mlflow(3)
    assert (found["ready"], found["state"]) == (False, "not ready")
    assert f'no recipe for image "{image}"' in found["why"]
    jobs = [child for child in found["children"] if child["kind"] == "Job"]
    assert {child["state"] for job in jobs for child in job["children"]} <= {"ImagePullBackOff", "ErrImagePull"}
    own.kubectl("delete", "mlflow", "mlflow")
    own.apply(quickstart)
    own.wait(lambda: "not ready" not in own.modelyard("status", code=None), "MLflow is available", seconds=180)
    found = mlflow(0)
    assert (found["ready"], found["why"]) == (True, "")
    assert {c["type"]: c["status"] for c in found["conditions"]}["Available"] == "True"


def test_a_context_is_merged_into_the_users_kubeconfig_on_request(own: Laptop, tmp_path: Path) -> None:
    config = tmp_path / "config"
    mine = {"name": "mine", "context": {"cluster": "c", "user": "u"}}
    config.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "contexts": [mine], "current-context": "mine"}))
    own.environment["KUBECONFIG"] = str(config)
    own.modelyard("up", "--operators", "mlflow", "--detach", "--merge-kubeconfig")
    kubectl = kubectl_for(own.program, config)
    assert kubectl("config", "get-contexts", "-o", "name").split() == ["mine", "modelyard"]
    assert "local" in kubectl("get", "nodes")


def test_reset_asks_first_and_leaves_nothing_but_what_is_not_ours(own: Laptop) -> None:
    own.start()
    (own.directory / "notes.txt").write_text("mine")
    assert "say --yes" in own.modelyard("reset", code=1)
    assert own.kubectl("get", "--raw", "/readyz") == "ok"
    own.modelyard("reset", "--yes")
    assert own.processes() == {}
    left = {entry.name for entry in own.directory.iterdir()} - {".kube"}  # kubectl keeps its cache there
    assert left == {"lock", "notes.txt"}
