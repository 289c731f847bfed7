"""Real processes: pods of the small HTTP image, their logs, probes, limits, ends, and what happens when parts are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from modelyard.kube import builtin
from modelyard.local.kubelet.processes.sandbox import Isolation, NotPossible, detect
from modelyard.local.kubelet.service import Kubelet
from tests.e2e.pods import NAMESPACE, Plane, is_ready, plane, processes_of

ECHO = {
    "image": "modelyard/http-echo:1",
    "ports": [{"name": "http", "containerPort": 8080}],
    "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Plane]:
    async with plane(tmp_path) as one:
        yield one


async def get(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


async def test_a_pod_serves_at_its_own_address_and_ends_when_deleted(ground: Plane) -> None:
    await ground.pod("web", ECHO | {"args": ["--text", "hello $(WHO)"], "env": [{"name": "WHO", "value": "world"}]})
    pod = await ground.ready("web")
    assert await get(f"http://{pod['status']['podIP']}:8080/") == "hello world\n"
    assert processes_of(ground)
    await ground.client.delete(builtin.Pod, NAMESPACE, "web")
    await ground.gone("web")
    assert processes_of(ground) == []
    assert [reason for reason, _ in await ground.events("web")][-1] == "Killing"


async def test_a_service_listens_at_once_and_holds_connections_for_an_endpoint(ground: Plane) -> None:
    address = await ground.service("web", 8080)

    async def connected() -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection(address, 8080)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.01)

    await asyncio.wait_for(connected(), 5)
    # Asked before there is any pod: the answer comes as soon as one is ready.
    asking = asyncio.create_task(get(f"http://{address}:8080/"))
    await ground.pod("web", ECHO | {"args": ["--text", "late"]})
    pod = await ground.ready("web")
    obj = {
        "metadata": {"name": "web-1", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "main", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [pod["status"]["podIP"]], "conditions": {"ready": True}}],
    }
    await ground.client.create(builtin.EndpointSlice, obj)
    assert await asyncio.wait_for(asking, 10) == "late\n"


async def test_service_names_resolve_inside_pods(ground: Plane) -> None:
    address = await ground.service("backend", 8080, ready=[])
    await ground.pod("client", ECHO)
    await ground.ready("client")
    for name in (
        "backend",
        f"backend.{NAMESPACE}",
        f"backend.{NAMESPACE}.svc",
        f"backend.{NAMESPACE}.svc.cluster.local",
    ):
        code, output = await ground.execute("client", "getent", "hosts", name)
        assert (code, output.split()[0]) == (0, address), name
    later = await ground.service("later", 8081, ready=[])
    async with asyncio.timeout(5):
        while later not in (await ground.execute("client", "getent", "hosts", "later"))[1]:
            await asyncio.sleep(0.05)


async def test_logs_of_this_run_and_the_one_before(ground: Plane) -> None:
    await ground.pod("web", ECHO | {"args": ["--print", "one|two|three"]})
    pod = await ground.ready("web")
    assert (await ground.log("web")).splitlines()[:3] == ["one", "two", "three"]
    assert (await ground.log("web", tail=1)).startswith("listening on")
    url = f"http://{pod['status']['podIP']}:8080"
    with pytest.raises(aiohttp.ClientError):
        await get(f"{url}/exit/5")
    again = await ground.until(
        "web", lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1 and is_ready(p)
    )
    assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 5
    assert "exiting with 5" in await ground.log("web", previous=True)
    assert "exiting with 5" not in await ground.log("web")


async def test_following_a_log_ends_with_the_container(ground: Plane) -> None:
    await ground.pod("job", ECHO | {"args": ["--port", "0", "--print", "a|b", "--exit-after", "0.5"], "readinessProbe": None},
                   restartPolicy="Never")  # fmt: skip
    await ground.until("job", lambda pod: pod.get("status", {}).get("phase") == "Running")
    assert await asyncio.wait_for(ground.log("job", follow=True), 20) == "a\nb\n"


async def test_exec_runs_inside_the_container(ground: Plane) -> None:
    await ground.pod("web", ECHO | {"env": [{"name": "WHO", "value": "me"}]})
    await ground.ready("web")
    code, output = await ground.execute("web", "sh", "-c", "echo $WHO from $(hostname); exit 3")
    assert (code, output) == (3, "me from web\n")


async def test_a_container_sees_its_volumes_and_nothing_of_the_home(ground: Plane) -> None:
    data = {"metadata": {"name": "settings", "namespace": NAMESPACE}, "data": {"mode": "fast", "deep.txt": "x"}}
    await ground.client.create(builtin.ConfigMap, data)
    mounts = [
        {"name": "config", "mountPath": "/etc/pki/tls/certs/settings"},
        {"name": "config", "mountPath": "/one.txt", "subPath": "deep.txt"},
        {"name": "scratch", "mountPath": "/data"},
    ]
    volumes = [{"name": "config", "configMap": {"name": "settings"}}, {"name": "scratch", "emptyDir": {}}]
    await ground.pod("web", ECHO | {"volumeMounts": mounts}, volumes=volumes)
    await ground.ready("web")
    _, output = await ground.execute("web", "cat", "/etc/pki/tls/certs/settings/mode", "/one.txt")
    assert output == "fastx"
    code, _ = await ground.execute(
        "web", "sh", "-c", "echo hi > /data/f && ! echo no > /etc/pki/tls/certs/settings/mode"
    )
    assert code == 0
    code, output = await ground.execute("web", "ls", str(Path(__file__).parent))
    assert code != 0, output
    await ground.client.patch(builtin.ConfigMap, NAMESPACE, "settings", {"data": {"mode": "slow"}})
    async with asyncio.timeout(10):
        while (await ground.execute("web", "cat", "/etc/pki/tls/certs/settings/mode"))[1] != "slow":
            await asyncio.sleep(0.1)


async def test_a_container_may_say_why_it_ended(ground: Plane) -> None:
    script = "echo said in the log; echo said in the file > /dev/termination-log; exit 4"
    told = {"image": "modelyard/http-echo:1", "command": ["sh", "-c", script]}
    logged = {"image": "modelyard/http-echo:1", "command": ["sh", "-c", "echo only in the log; exit 4"]}
    await ground.pod("told", told, restartPolicy="Never")
    await ground.pod("logged", logged | {"terminationMessagePolicy": "FallbackToLogsOnError"}, restartPolicy="Never")
    messages = [
        (await ground.finished(name))["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
        for name in ("told", "logged")
    ]
    assert messages == ["said in the file\n", "only in the log\n"]


async def test_a_network_policy_is_said_to_be_not_enforced(ground: Plane) -> None:
    policy = {"metadata": {"name": "closed", "namespace": NAMESPACE}, "spec": {"podSelector": {}}}
    await ground.client.create(builtin.NetworkPolicy, policy)
    async with asyncio.timeout(10):
        while "NotEnforced" not in [reason for reason, _ in await ground.events("closed")]:
            await asyncio.sleep(0.05)


async def test_too_much_memory_is_an_oom_kill(ground: Plane) -> None:
    await ground.pod(
        "hungry",
        ECHO | {"args": ["--allocate-mb", "400"], "resources": {"limits": {"memory": "64Mi"}}},
        restartPolicy="Never",
    )
    pod = await ground.finished("hungry")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"], pod["status"]["phase"]) == ("OOMKilled", 137, "Failed")


async def test_a_container_that_listens_on_all_addresses_is_stopped(ground: Plane) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # No shim can change the mind of a program that does not use the C library; python -I -S without it stands for one.
    script = f"import socket,time;s=socket.socket();s.bind(('0.0.0.0',{port}));s.listen();time.sleep(60)"
    command = [
        "env",
        "-u",
        "LD_PRELOAD",
        "-u",
        "MODELYARD_POD_IP",
        "python3",
        "-I",
        "-S",
        "-c",
        script.replace("0.0.0.0", ""),
    ]
    await ground.pod("open", {"image": "modelyard/http-echo:1", "command": command}, restartPolicy="Never")
    pod = await ground.finished("open")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "ListensBeyondLoopback"
    assert str(port) in ended["message"]


@pytest.mark.parametrize("without", ["PYTHONPATH", "LD_PRELOAD"])
async def test_containers_of_a_pod_find_each_other_at_the_loopback_address(ground: Plane, without: str) -> None:
    await ground.pod("two", ECHO | {"args": ["--text", "next door"]})
    await ground.ready("two")
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080').read())"
    assert await ground.execute("two", "env", "-u", without, "python3", "-c", script) == (0, "b'next door\\n'\n")


async def test_what_the_machine_offers_at_the_loopback_address_is_reached_from_a_pod(ground: Plane) -> None:
    await ground.pod("web", ECHO)
    await ground.ready("web")
    script = "import os,socket; socket.create_connection(('127.0.0.1', int(os.environ['KUBERNETES_SERVICE_PORT'])))"
    assert await ground.execute("web", "python3", "-c", script) == (0, "")


async def test_wildcard_binds_land_on_the_pod_address(ground: Plane) -> None:
    script = "import http.server as h; h.HTTPServer(('', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
    container = {"image": "modelyard/http-echo:1", "command": ["python3", "-c", script], "workingDir": "/usr"}
    await ground.pod("files", container | {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}})
    pod = await ground.ready("files")
    assert "share" in await get(f"http://{pod['status']['podIP']}:8080/")


async def test_a_restarted_kubelet_finds_its_containers(ground: Plane) -> None:
    await ground.pod("web", ECHO)
    await ground.ready("web")
    before = processes_of(ground)
    await ground.kubelet.stop(end_pods=False)
    assert processes_of(ground) == before
    ground.kubelet = Kubelet(ground.server.client(), ground.settings)
    await ground.kubelet.start()
    pod = await ground.ready("web")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert processes_of(ground) == before
    assert (await ground.execute("web", "true"))[0] == 0


async def test_a_killed_keeper_takes_its_containers_along_and_all_come_back(ground: Plane) -> None:
    await ground.pod("web", ECHO)
    await ground.ready("web")
    old = processes_of(ground)
    keeper = ground.kubelet.runtime._child
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    pod = await ground.until("web", lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1 and is_ready(p))
    assert pod["status"]["phase"] == "Running"
    assert not set(old) & set(processes_of(ground))


async def test_containers_do_not_outlive_a_cluster_that_is_killed(tmp_path: Path) -> None:
    async with plane(tmp_path) as ground:
        await ground.pod("web", ECHO)
        await ground.ready("web")
        await ground.kubelet.stop(end_pods=False)
        # Nobody comes back: the keeper waits for its time and then ends all.
        async with asyncio.timeout(ground.settings.linger + 10):
            while processes_of(ground):
                await asyncio.sleep(0.1)
        ground.kubelet = Kubelet(ground.server.client(), ground.settings)
        await ground.kubelet.start()
        await ground.until("web", lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1 and is_ready(p))


@pytest.mark.parametrize("isolation", list(Isolation))
async def test_every_isolation_runs_a_pod(tmp_path: Path, isolation: Isolation) -> None:
    try:
        detect(isolation)
    except NotPossible as reason:
        pytest.skip(str(reason))
    async with plane(tmp_path, isolation) as ground:
        volumes = [{"name": "d", "emptyDir": {}}]
        mounts = [{"name": "d", "mountPath": "/data"}]
        await ground.pod(
            "web", ECHO | {"volumeMounts": mounts, "env": [{"name": "WHERE", "value": "/data/x"}]}, volumes=volumes
        )
        pod = await ground.ready("web")
        assert await get(f"http://{pod['status']['podIP']}:8080/env/WHERE")
        code, _ = await ground.execute("web", "sh", "-c", 'echo hi > "$WHERE"')
        assert code == 0
        await ground.client.delete(builtin.Pod, NAMESPACE, "web")
        await ground.gone("web")
        assert processes_of(ground) == []
