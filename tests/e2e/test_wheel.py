"""The wheel with nothing but its locked requirements, run as the image runs it: no rights, a read-only root, one writable /tmp."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Kubectl, program, wait_until

ROOT = Path(__file__).parents[2]
USER = "65532"
VERSION = "1.2.3"


def build_context(folder: Path) -> Path:
    """What the stage of the Dockerfile that builds the wheel copies, and nothing else: no git, no tests."""
    (stage,) = (each for each in (ROOT / "Dockerfile").read_text().split("\nFROM ") if "AS build\n" in each)
    for line in stage.splitlines():
        match line.split():
            case ["COPY", *names, target] if not names[0].startswith("--"):
                for name in names:
                    place = folder / target / (Path(name).name if target.endswith("/") else "")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
                    copy(ROOT / name, place)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment as the Dockerfile makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = shutil.which("uv", path=str(Path(sys.prefix) / "bin")) or "uv"
    source = build_context(folder / "source")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    environ = {**os.environ, "MODELYARD_VERSION": VERSION}
    subprocess.run(build, check=True, capture_output=True, timeout=300, env=environ)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "app"
    python = ["--python", str(environment / "bin/python")]
    for command in (
        [uv, "venv", "-q", "--python", sys.executable, str(environment)],
        [uv, "pip", "install", "-q", *python, "--require-hashes", "-r", str(ROOT / "requirements-runtime.lock")],
        [uv, "pip", "install", "-q", *python, "--no-deps", str(wheel)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    # Only its owner may enter pytest's folders, and the user without rights is someone else.
    for place in (folder, *folder.parents):
        if place.owner() == folder.owner() and "pytest" in str(place):
            place.chmod(0o755)
    return environment


@pytest.fixture(scope="module")
def bare(installed: Path) -> Callable[..., list[str]]:
    """A command line that runs a program of the wheel without rights."""
    bubblewrap = program("bwrap")

    def command(name: str, *arguments: str) -> list[str]:
        return [
            bubblewrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
            "--ro-bind", str(installed.parent), str(installed.parent),
            "--unshare-user", "--unshare-pid", "--uid", USER, "--gid", USER, "--cap-drop", "ALL", "--die-with-parent",
            "--setenv", "HOME", "/nonexistent", "--setenv", "POD_NAMESPACE", "modelyard", "--setenv", "PYTHONDONTWRITEBYTECODE", "1",
            "--unsetenv", "PYTHONPATH", str(installed / "bin" / name), *arguments,
        ]  # fmt: skip

    return command


def output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sandbox_is_what_it_says(bare: Callable[..., list[str]]) -> None:
    probe = "import os, pathlib\nprint(os.getuid())\ntry: pathlib.Path('/x').touch()\nexcept OSError as e: print(e.strerror)"
    assert output(bare("python", "-c", probe)).split("\n")[:2] == [USER, "Read-only file system"]


def test_commands_that_need_no_cluster_run(bare: Callable[..., list[str]]) -> None:
    assert output(bare("modelyard", "--version")) == f"modelyard {VERSION}\n"
    assert output(bare("modelyard", "examples", "quickstart")) == (ROOT / "examples/quickstart.yaml").read_text()
    assert "kind: CustomResourceDefinition" in output(bare("modelyard", "manifests"))
    assert "sequenceDiagram" in output(bare("modelyard", "dataflow", "mlflow"))


def test_what_the_image_leaves_out_is_named_at_once(bare: Callable[..., list[str]], installed: Path) -> None:
    # The checkout itself may lie where the sandbox shows nothing.
    example = shutil.copy(ROOT / "examples/quickstart.yaml", installed.parent)
    command = bare("modelyard", "plan", "--offline", "-f", str(example))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, "pip install cel-expr-python" in done.stderr) == (1, True), done.stderr
    done = subprocess.run(
        bare("modelyard", "up", "--detach", "--dir", "/tmp/cluster"), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, "lacks cel-expr-python" in done.stderr) == (1, True), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_plane_runs_and_becomes_ready(
    bare: Callable[..., list[str]], apiserver: Path, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    manifests = output(bare("modelyard", "manifests", "--operators", "mlflow"))
    kubectl("apply", "--server-side", "-f", "-", input=manifests)
    config = installed.parent / "kubeconfig"
    config.write_text(apiserver.read_text())
    config.chmod(0o644)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ["run", "--kubeconfig", str(config), "--operators", "mlflow", "--lease", f"--health-port={port}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(bare("modelyard", *arguments), stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/readyz"), "the plane is ready", alive=process)
        assert answers(f"http://127.0.0.1:{port}/healthz")
        kubectl("apply", "-f", str(ROOT / "examples/quickstart.yaml"))
        kubectl("-n", "modelyard", "wait", "--for=create", "deployment/mlflow", "--timeout=60s")
    finally:
        process.terminate()
        assert process.wait(30) is not None, (tmp_path / "log").read_text()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
