"""A laptop cluster for tests: started with the real command, driven with kubectl."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelyard.local.kubelet.processes import keeper
from modelyard.local.kubelet.processes.runtime import scope
from tests.e2e.conftest import Kubectl, kubectl_for, wait_until


@dataclass
class Laptop:
    """`start` and `stop` are `modelyard up --detach` and `modelyard down`."""

    directory: Path
    program: str
    operators: str = "mlflow"
    platform: str = "kubernetes"
    environment: dict[str, str] = field(default_factory=dict)
    user: str = ""
    """Run as this user (tests run as root in CI)."""
    python: str = sys.executable

    def modelyard(self, *arguments: str, code: int | None = 0, timeout: float = 600) -> str:
        command = [self.python, "-m", "modelyard.cli.main", arguments[0], "--dir", str(self.directory), *arguments[1:]]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **self.environment},
            user=self.user or None,
            group=pwd.getpwnam(self.user).pw_gid if self.user else None,
            extra_groups=[] if self.user else None,
        )
        if code is not None:
            assert done.returncode == code, (
                f"modelyard {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
            )
        return done.stdout + done.stderr

    def start(self, *files: Path | str, timeout: float = 600) -> str:
        words = ["--operators", self.operators, "--platform", self.platform, "--detach", "--timeout", str(timeout)]
        return self.modelyard("up", *words, *(["--apply", *map(str, files)] if files else []), timeout=timeout + 60)

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`modelyard up --detach` on its way, in a process group of its own as a terminal would make it."""
        words = ["up", "--dir", str(self.directory), "--operators", self.operators, "--detach", *arguments]
        return subprocess.Popen(
            [self.python, "-m", "modelyard.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        self.modelyard("down", code=None, timeout=180)

    @property
    def kubectl(self) -> Kubectl:
        return kubectl_for(self.program, self.directory / "kubeconfig")

    def get(self, *arguments: str) -> Any:
        """An object as data; None if it is not there."""
        text = self.kubectl("get", *arguments, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def wait(self, condition: Callable[[], object], what: str, seconds: float = 90) -> None:
        try:
            wait_until(condition, what, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(
                f"{error}\n{self.kubectl('get', 'pods,events', '-A', code=None)[-6000:]}\n{self.logs()}"
            ) from None

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "state.json").read_text())
        return found

    def pid(self, part: str) -> int:
        return int(self.state()["parts"][part])

    def kill(self, part: str) -> None:
        """SIGKILL of one part, of the supervisor (`up`) or of the kubelet's `keeper`."""
        match part:
            case "up":
                pid = int(self.state()["pid"])
            case "keeper":
                pid = next(pid for pid, line in self.processes().items() if keeper.__name__ in line)
            case _:
                pid = self.pid(part)
        os.kill(pid, signal.SIGKILL)

    def processes(self) -> dict[int, str]:
        """Every process of this machine that belongs to the cluster: it knows the folder, or runs in a container."""
        return self._marked(str(self.directory).encode()) | self._marked(self._mark)

    def containers(self) -> int:
        """How many containers have processes."""
        marks = {item for pid in self._marked(self._mark) for item in _environment(pid) if item.startswith(self._mark)}
        return len(marks)

    def container_processes(self) -> dict[int, str]:
        return self._marked(self._mark)

    @property
    def _mark(self) -> bytes:
        return f"{keeper.MARKER}={scope(str(self.directory / 'kubelet'))}/".encode()

    def _marked(self, text: bytes) -> dict[int, str]:
        found = {}
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                if pid != os.getpid() and any(text in item for item in (line, *_environment(pid))):
                    found[pid] = line.replace(b"\0", b" ").decode(errors="replace")[:200]
        return found

    def logs(self) -> str:
        found = sorted((self.directory / "logs").glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in found)

    def apply(self, text: str) -> None:
        """Applies; a webhook or kind that is only just coming gets a moment."""
        deadline = time.monotonic() + 30
        while True:
            said = self.kubectl("apply", "-f", "-", input=text, code=None)
            if "error" not in said.lower() or time.monotonic() > deadline:
                assert "error" not in said.lower(), said
                return
            time.sleep(0.3)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
