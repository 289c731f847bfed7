"""Real Ray with CodeFlare before it: nodes show each other certificates, and the dashboard's proxy asks who is there."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.laptop import Laptop

EXAMPLE = Path(__file__).parents[2] / "examples" / "codeflare" / "raycluster-minimal.yaml"
NS = "opendatahub"
TASKS = """
import json, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote
def address():
    return ray.util.get_node_ip_address()

nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
print(json.dumps(ray.get([address.options(scheduling_strategy=place).remote() for place in places], timeout=60)))
"""


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path_factory.mktemp("guarded"), kubectl_program, operators="codeflare,ray")
    cluster.start(EXAMPLE)
    yield cluster
    cluster.stop()


def pods(laptop: Laptop) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = laptop.get("pods", "-n", NS, "-l", "ray.io/cluster=guarded")["items"]
    return found


def head(laptop: Laptop) -> dict[str, Any]:
    (found,) = [pod for pod in pods(laptop) if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
    return found


def inside(laptop: Laptop, *command: str) -> str:
    return laptop.kubectl("exec", "-n", NS, head(laptop)["metadata"]["name"], "-c", "ray-head", "--", *command)


def dashboard(laptop: Laptop, token: str = "") -> int:
    """What its proxy answers."""
    url = f"https://{head(laptop)['status']['podIP']}:8443/nodes?view=summary"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        # The platform's issuer made the certificate; here it matters who is let in.
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_nodes_that_show_each_other_certificates_run_tasks(laptop: Laptop) -> None:
    assert inside(laptop, "printenv", "RAY_USE_TLS").strip() == "1"
    addresses = json.loads(inside(laptop, "python", "-c", TASKS))
    assert set(addresses) == {pod["status"]["podIP"] for pod in pods(laptop)}
    assert len(addresses) == 2


def test_the_key_of_the_ca_is_in_no_pod(laptop: Laptop) -> None:
    assert inside(laptop, "ls", "/home/ray/workspace/ca").split() == ["addresses", "ca.crt", "server.crt", "server.key"]


def test_only_those_who_may_see_the_pods_open_the_dashboard(laptop: Laptop) -> None:
    laptop.kubectl("create", "serviceaccount", "ann", "-n", NS)
    token = laptop.kubectl("create", "token", "ann", "-n", NS).strip()
    assert dashboard(laptop) == 401
    assert dashboard(laptop, token) == 403
    laptop.kubectl("create", "rolebinding", "ann", "--clusterrole=view", f"--serviceaccount={NS}:ann", "-n", NS)
    laptop.wait(lambda: dashboard(laptop, token) == 200, "ann opens the dashboard")
