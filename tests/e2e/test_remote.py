"""kubectl's ways into pods, as its versions of today and of yesterday speak them: port-forward, attach, run, cp, top, debug."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.laptop import Laptop

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: modelyard/http-echo:1
          args: [--text, hello]
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 8000, targetPort: http}]
"""
PROTOCOLS = {
    "websocket": {},
    "spdy": {"KUBECTL_PORT_FORWARD_WEBSOCKETS": "false", "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"},
}


@pytest.fixture
def web(laptop: Laptop, ns: str) -> str:
    laptop.kubectl("-n", ns, "apply", "-f", "-", input=WEB)
    laptop.kubectl("-n", ns, "rollout", "status", "deployment/web", "--timeout=60s")
    return ns


def environment(laptop: Laptop, protocol: str = "websocket") -> dict[str, str]:
    folder = laptop.directory
    return {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder), **PROTOCOLS[protocol]}


@contextmanager
def forwarded(laptop: Laptop, protocol: str, *words: str) -> Iterator[str]:
    """`kubectl port-forward` while it runs; gives where it listens."""
    process = subprocess.Popen(
        [laptop.program, "port-forward", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(laptop, protocol),
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"Forwarding from (127\.0\.0\.1:\d+) ->", line)
        assert found, line + process.stdout.read()
        yield found[1]
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("target", ["deployment/web", "service/web"])
def test_a_port_is_forwarded(laptop: Laptop, web: str, protocol: str, target: str) -> None:
    port = ":8000" if target.startswith("service") else ":8080"
    with forwarded(laptop, protocol, "-n", web, target, port) as address:
        for _ in range(3):
            assert urllib.request.urlopen(f"http://{address}/", timeout=10).read() == b"hello\n"
        body = os.urandom(300_000).hex().encode()
        assert urllib.request.urlopen(f"http://{address}/", data=body, timeout=30).read() == body


def test_a_port_on_which_nothing_listens_is_said(laptop: Laptop, web: str) -> None:
    words = [laptop.program, "port-forward", "-n", web, "deployment/web", ":9"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(laptop)
    )
    assert process.stdout is not None
    found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
    assert found
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{found[0]}/", timeout=10)
    said = ""
    while "nothing answers" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    process.terminate()
    process.wait(10)
    assert "nothing answers at port 9 of the pod" in said


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_command_has_input_output_and_an_exit_code(laptop: Laptop, web: str, protocol: str) -> None:
    words = [laptop.program, "-n", web, "exec", "-i", "deployment/web", "--", "sh", "-c", "cat; echo bad >&2; exit 7"]
    done = subprocess.run(
        words, input="some text", capture_output=True, text=True, timeout=60, env=environment(laptop, protocol)
    )
    assert (done.stdout, done.returncode) == ("some text", 7)
    assert done.stderr.startswith("bad\n")


def test_run_starts_a_pod_feeds_it_and_deletes_it(laptop: Laptop, ns: str) -> None:
    words = [
        "run",
        "counter",
        "-n",
        ns,
        "--image=busybox",
        "-i",
        "--rm",
        "--restart=Never",
        "--quiet",
        "--",
        "wc",
        "-c",
    ]
    assert laptop.kubectl(*words, input="12345").split() == ["5"]
    assert laptop.get("pod", "counter", "-n", ns) is None


def test_a_terminal_in_a_new_pod_and_attached_again(laptop: Laptop, ns: str) -> None:
    """`kubectl run -it` as a person at a terminal uses it."""
    words = ["-n", ns, "run", "shell", "--image=busybox", "-it", "--restart=Never", "--", "sh"]
    terminal = Terminal([laptop.program, *words], environment(laptop))
    terminal.until("try pressing enter")
    terminal.type("echo $((6 * 7)) $(tty >/dev/null; echo $TERM)\n")
    terminal.until("42 xterm")
    terminal.close()
    terminal = Terminal([laptop.program, "-n", ns, "attach", "-it", "shell"], environment(laptop))
    terminal.until("try pressing enter")
    terminal.type("stty size; exit 3\n")
    terminal.until("33 99")
    assert terminal.ended() == 0
    laptop.kubectl("-n", ns, "wait", "--for=jsonpath={.status.phase}=Failed", "pod/shell", "--timeout=30s")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_attach_shows_what_the_program_says_from_now_on(laptop: Laptop, ns: str, protocol: str) -> None:
    script = "while [ ! -e /tmp/stop ]; do echo tick; sleep 0.1; done"
    laptop.kubectl(
        "-n", ns, "run", "clock", "--image=busybox", "--restart=Never", "--command", "--", "sh", "-c", script
    )
    laptop.kubectl("-n", ns, "wait", "--for=condition=Ready", "pod/clock", "--timeout=60s")
    process = subprocess.Popen(
        [laptop.program, "-n", ns, "attach", "clock"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(laptop, protocol),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "tick\n"
    laptop.kubectl("-n", ns, "exec", "clock", "--", "touch", "/tmp/stop")
    assert set(process.stdout) <= {"tick\n"}
    assert process.wait(30) == 0
    process.stdout.close()


def test_files_are_copied_in_and_out(laptop: Laptop, web: str, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(os.urandom(200_000))
    pod = laptop.get("pods", "-n", web)["items"][0]["metadata"]["name"]
    laptop.kubectl("-n", web, "cp", str(tmp_path / "here"), f"{pod}:/tmp/there")
    laptop.kubectl("-n", web, "cp", f"{pod}:/tmp/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "here").read_bytes()


def test_top_shows_what_processes_really_use(laptop: Laptop, ns: str) -> None:
    busy = "import time\nhoard = bytearray(b'x' * (150 << 20))\nwhile True: pass"
    laptop.kubectl(
        "-n", ns, "run", "busy", "--image=python:3", "-l", "app=busy", "--command", "--", "python", "-c", busy
    )
    laptop.kubectl("-n", ns, "wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")

    def measured() -> tuple[int, int]:
        words = laptop.kubectl("-n", ns, "top", "pod", "-l", "app=busy", "--no-headers").split()
        assert words[0] == "busy"
        return int(words[1].removesuffix("m")), int(words[2].removesuffix("Mi"))

    laptop.wait(lambda: measured()[0] > 100 and 150 <= measured()[1] < 300, "the pod's use is seen")
    name, cpu, _, memory, _ = laptop.kubectl("top", "node", "--no-headers").split()
    assert (name, cpu[-1], memory[-2:]) == ("local", "m", "Mi")
    laptop.kubectl("-n", ns, "delete", "pod", "busy", "--grace-period=0", "--force")


def test_debug_with_an_ephemeral_container_is_refused_and_with_a_copy_works(laptop: Laptop, web: str) -> None:
    pod = laptop.get("pods", "-n", web)["items"][0]["metadata"]["name"]
    said = laptop.kubectl("-n", web, "debug", pod, "--image=busybox", code=1)
    assert "a laptop cluster runs no ephemeral containers; look into the pod with kubectl exec" in said
    copy = ["--copy-to=copy", "--container=web", "--", "sleep", "60"]
    laptop.kubectl("-n", web, "debug", pod, *copy)
    laptop.kubectl("-n", web, "wait", "--for=jsonpath={.status.phase}=Running", "pod/copy", "--timeout=60s")


class Terminal:
    """A program at a terminal of 33 lines and 99 columns."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        subprocess.run(["stty", "rows", "33", "cols", "99"], stdin=theirs, check=True)
        self._process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self._said = ""

    def until(self, text: str, seconds: float = 60) -> None:
        """Reads until the text is on the screen."""
        deadline = time.monotonic() + seconds
        while text not in self._said:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come: {self._said}"
            self._said += os.read(self._ours, 4096).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        return self._process.wait(30)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._ours)
