"""CodeFlare's public SDK, newest version, on a laptop: a cluster with certificates and a guarded dashboard is made, used and deleted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelyard.local.images.build import find_uv
from tests.e2e.browser import shown
from tests.e2e.laptop import Laptop

NAME = "fromsdk"
BEGIN = """
import json, sys
from codeflare_sdk import Cluster, ClusterConfiguration, RayJobClient
cluster = Cluster(ClusterConfiguration(
    name="fromsdk", namespace="opendatahub", image="rayproject/ray:2.60.0", num_workers=1, verify_tls=False,
    head_cpu_requests=1, head_cpu_limits=1, head_memory_requests=2, head_memory_limits=2,
    worker_cpu_requests=1, worker_cpu_limits=1, worker_memory_requests=1, worker_memory_limits=1,
))
"""
CREATE = f"""{BEGIN}
cluster.apply()
cluster.wait_ready(timeout=120, dashboard_check=False)
print(json.dumps(cluster.status(print_to_console=False)[1]))
"""
SUBMIT = """
import json, sys, time
from codeflare_sdk import RayJobClient
client = RayJobClient(address=sys.argv[1])
job = client.submit_job(entrypoint="python job.py", runtime_env={"working_dir": sys.argv[2]})
deadline = time.monotonic() + 90
while not (status := client.get_job_status(job)).is_terminal() and time.monotonic() < deadline:
    time.sleep(0.5)
print(json.dumps([str(status), client.get_job_logs(job)]))
"""
JOB = """
import ray
ray.init()
print("the sum is", sum(ray.get([ray.remote(lambda x: x * x).remote(number) for number in range(4)])))
"""
DELETE = f"""{BEGIN}
cluster.down()
print(json.dumps(True))
"""


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path_factory.mktemp("sdk"), kubectl_program, operators="codeflare,ray")
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    environment = tmp_path_factory.mktemp("client") / "sdk"
    subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(environment)], check=True)
    made = str(environment / "bin" / "python")
    subprocess.run([find_uv(), "pip", "install", "-q", "--python", made, "codeflare-sdk"], check=True)
    return made


def run(laptop: Laptop, python: str, script: str, *arguments: str) -> Any:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(laptop.directory),
        "KUBECONFIG": str(laptop.directory / "kubeconfig"),
    }
    command = [python, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=env, cwd=laptop.directory)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{laptop.logs()}"
    return json.loads(done.stdout.splitlines()[-1])


def test_a_user_makes_a_cluster_runs_a_job_reads_its_result_and_deletes_it(
    laptop: Laptop, python: str, tmp_path: Path
) -> None:
    assert run(laptop, python, CREATE) is True
    dashboard = json.loads(laptop.modelyard("env", f"ray-dashboard-{NAME}", "-o", "json"))["RAY_API_SERVER_ADDRESS"]
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job.py").write_text(JOB)
    status, logs = run(laptop, python, SUBMIT, dashboard, str(tmp_path / "job"))
    assert status == "SUCCEEDED"
    assert "the sum is 14" in logs

    link = laptop.modelyard("url", f"ray-dashboard-{NAME}").strip()
    assert "Overview" in shown(link, tmp_path / "profile", "--ignore-certificate-errors").stdout

    assert run(laptop, python, DELETE) is True
    laptop.wait(lambda: laptop.container_processes() == {}, "no process of a pod is left")
