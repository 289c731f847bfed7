"""Many pods, two clusters on one machine, and what an idle node writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import aiohttp

from modelyard.kube import builtin
from modelyard.kube.auth import Credential, Static
from modelyard.kube.client import Client
from modelyard.kube.http import Endpoint, HttpTransport
from modelyard.local.kubelet.address import PROTOCOLS
from modelyard.local.kubelet.endpoint import ERROR, RESIZE, STDIN
from tests.e2e.pods import NAMESPACE, Plane, is_ready, plane, processes_of
from tests.e2e.test_pods import ECHO, get

COUNT = 50


async def all_ready(ground: Plane, names: list[str], within: float = 180) -> None:
    async with asyncio.timeout(within):
        while True:
            pods = (await ground.client.list(builtin.Pod, NAMESPACE)).items
            if {pod["metadata"]["name"] for pod in pods if is_ready(pod)} >= set(names):
                return
            await asyncio.sleep(0.2)


async def test_fifty_pods_serve_are_killed_come_back_and_leave_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as ground:
        names = [f"web-{number}" for number in range(COUNT)]
        probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 2, "timeoutSeconds": 10}
        for name in names:
            await ground.pod(name, ECHO | {"readinessProbe": probe, "args": ["--text", name]})
        await all_ready(ground, names)
        pods = (await ground.client.list(builtin.Pod, NAMESPACE)).items
        addresses = {pod["status"]["podIP"]: pod["metadata"]["name"] for pod in pods}
        assert len(addresses) == COUNT
        for address, name in list(addresses.items())[:5]:
            assert await get(f"http://{address}:8080/") == f"{name}\n"
        for worker in list(ground.kubelet.workers.values())[::2]:
            os.kill(worker.workers["main"].pid, signal.SIGKILL)
        async with asyncio.timeout(120):
            while sum(pod["status"]["containerStatuses"][0]["restartCount"]
                      for pod in (await ground.client.list(builtin.Pod, NAMESPACE)).items) < COUNT // 2:  # fmt: skip
                await asyncio.sleep(0.2)
        await all_ready(ground, names)
        await ground.client.delete_collection(builtin.Pod, NAMESPACE)
        async with asyncio.timeout(60):
            while (await ground.client.list(builtin.Pod, NAMESPACE)).items:
                await asyncio.sleep(0.1)
        assert processes_of(ground) == []
        assert list((ground.settings.directory / "pods").iterdir()) == []


async def test_two_clusters_live_side_by_side(tmp_path: Path) -> None:
    async with plane(tmp_path / "one") as one, plane(tmp_path / "two") as two:
        for ground, text in ((one, "first"), (two, "second")):
            await ground.pod("web", ECHO | {"args": ["--text", text]})
        first, second = await one.ready("web"), await two.ready("web")
        assert first["status"]["podIP"] != second["status"]["podIP"]
        assert await get(f"http://{first['status']['podIP']}:8080/") == "first\n"
        assert await get(f"http://{second['status']['podIP']}:8080/") == "second\n"
        await one.client.delete(builtin.Pod, NAMESPACE, "web")
        await one.gone("web")
        assert processes_of(one) == []
        assert processes_of(two)


async def test_logs_and_exec_through_the_api_server(tmp_path: Path) -> None:
    async with plane(tmp_path) as ground:
        ground.server.admit_token("for-the-test")
        credentials = Static(Credential(authorization="Bearer for-the-test"))
        async with Client(HttpTransport(Endpoint(ground.url, insecure=True), credentials)) as client:
            await ground.pod("web", ECHO | {"args": ["--print", "one|two"]})
            await ground.ready("web")
            assert (await client.logs(NAMESPACE, "web", tail=3)).startswith("one\ntwo\n")
            done = await client.exec(
                NAMESPACE, "web", ["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"through stdin"
            )
            assert (done.code, done.stdout, done.stderr) == (3, b"through stdin", b"err\n")
            lines = client.follow_logs(NAMESPACE, "web")
            assert [await anext(lines), await anext(lines)] == ["one", "two"]


async def test_exec_gives_a_terminal_of_the_size_asked_for(tmp_path: Path) -> None:
    async with plane(tmp_path) as ground:
        await ground.pod("web", ECHO)
        await ground.ready("web")
        address = ground.kubelet.endpoint.address
        assert address is not None
        words = ("sh", "-c", 'read go; test -t 0 && stty size && echo "$TERM $go"; exec sleep 99')
        query = [("command", word) for word in words] + [(name, "true") for name in ("stdin", "stdout", "tty")]
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {address.token}"}) as session,
            session.ws_connect(
                f"{address.url}/exec/{NAMESPACE}/web/main", params=query, protocols=PROTOCOLS, max_msg_size=0
            ) as ws,
        ):
            await ws.send_bytes(bytes([RESIZE]) + b'{"Width":101,"Height":33}')
            await ws.send_bytes(bytes([STDIN]) + b"on\n")
            shown = b""
            while not shown.endswith(b"xterm on\r\n"):
                shown += (await ws.receive_bytes(timeout=20))[1:]
            assert shown == b"on\r\n33 101\r\nxterm on\r\n"
            await ws.send_bytes(bytes([STDIN]) + b"\x03")
            ending = b""
            while ending[:1] != bytes([ERROR]):
                ending = await ws.receive_bytes(timeout=20)
            assert json.loads(ending[1:])["details"]["causes"] == [{"reason": "ExitCode", "message": "130"}]


async def test_pods_that_only_run_and_answer_probes_cause_no_writes(tmp_path: Path) -> None:
    async with plane(tmp_path) as ground:
        names = [f"web-{number}" for number in range(5)]
        probe = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1}
        for name in names:
            await ground.pod(name, ECHO | {"readinessProbe": probe, "resources": {"limits": {"memory": "256Mi"}}})
        await all_ready(ground, names)
        await ground.kubelet.recorder.flush()
        await ground.renewed()
        ground.server.journal.clear()
        await ground.renewed()
        written = [entry for entry in ground.server.journal.writes() if entry["resource"] != "leases"]
        assert written == [], "between two renewals of the node's lease nothing else is written"


async def test_a_wrong_token_is_refused_by_the_kubelets_endpoint(tmp_path: Path) -> None:
    async with plane(tmp_path) as ground:
        address = ground.kubelet.endpoint.address
        assert address is not None
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{address.url}/containerLogs/{NAMESPACE}/a/b") as response:
                assert response.status == 401
