"""The e2e tier: real processes, driven from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from modelyard.kube.openshift import PLATFORMS
from tests.real.build import build

if TYPE_CHECKING:
    from tests.e2e.laptop import Laptop


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that is marked `platforms` runs on each of these; the others run on plain Kubernetes."""
    if "platform" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("platforms")
        metafunc.parametrize("platform", marker.args if marker else PLATFORMS[:1], indirect=True, scope="module")


@pytest.fixture(scope="module")
def platform(request: pytest.FixtureRequest) -> str:
    """What the laptop cluster of a test is like."""
    name: str = request.param
    return name


def program(name: str) -> str:
    """A program that the test drives. A user without it skips the test; where everything must hold, that is a failure."""
    found = shutil.which(name)
    if found is None:
        said = f"{name} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    return found


class Kubectl(Protocol):
    def __call__(self, *arguments: str, input: str = "", code: int | None = 0, timeout: float = 120) -> str: ...


@pytest.fixture(scope="session")
def kubectl_program() -> str:
    """The machine's kubectl if it is new enough, else the one that is built beside the real servers."""
    found = shutil.which("kubectl")
    if found:
        text = subprocess.run([found, "version", "--client"], capture_output=True, text=True).stdout
        minor = next((line.split("v1.")[1].split(".")[0] for line in text.splitlines() if "v1." in line), "0")
        if int(minor) >= 31:
            return found
    return str(build() / "kubectl")


def kubectl_for(program: str, kubeconfig: Path) -> Kubectl:
    """kubectl with this kubeconfig; gives its standard output, and fails the test with everything it said."""

    def call(*arguments: str, input: str = "", code: int | None = 0, timeout: float = 120) -> str:
        done = subprocess.run(
            [program, *arguments],
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)},
        )
        if code is not None:
            assert done.returncode == code, (
                f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    return call


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Our API server as a process of its own; gives its kubeconfig."""
    directory = tmp_path_factory.mktemp("apiserver")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "modelyard.local.apiserver", "--dir", str(directory)], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: (directory / "kubeconfig").exists(), "the kubeconfig is written", alive=process)
        yield directory / "kubeconfig"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def kubectl(kubectl_program: str, apiserver: Path) -> Kubectl:
    call = kubectl_for(kubectl_program, apiserver)
    wait_until(lambda: "ok" in call("get", "--raw", "/readyz", code=None), "the API server is ready")
    return call


def wait_until(
    condition: Callable[[], object], what: str, *, seconds: float = 60, alive: subprocess.Popen[bytes] | None = None
) -> None:
    """Waits for something that another process does; says what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert alive is None or alive.poll() is None, f"the process ended before {what}"
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """One laptop cluster for all tests that only use it; each test works in a namespace of its own."""
    from tests.e2e.laptop import Laptop

    cluster = Laptop(tmp_path_factory.mktemp("laptop"), kubectl_program)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def ns(laptop: Laptop, request: pytest.FixtureRequest) -> str:
    """A namespace of the laptop cluster, named for the test."""
    words = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_").lower())
    name = f"{words[:48].strip('-')}-{os.getpid() % 10000}"
    laptop.kubectl("create", "namespace", name)
    return name
