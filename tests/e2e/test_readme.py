"""The command blocks of README and tutorials run as they stand: in a fresh clone, and from the wheel in an empty folder, as a user without rights.

A block is fenced as `sh` or `console`. A comment before it says what is special about it:
`<!-- background -->` it goes on while the others run; `<!-- wheel -->` it is for those without a checkout; `<!-- cluster -->` it
is for those with a cluster; `<!-- container engine -->` for those with docker or podman and a checkout; `<!-- at the end -->` it
ends the laptop cluster; `<!-- interrupted at: TEXT -->` the user presses Ctrl-C once this is shown; `<!-- not run: why -->`;
`<!-- file: NAME -->` the text of a file (any language).
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from modelyard.kube.workload_status import replicas_status
from tests.e2e.conftest import Kubectl, wait_until

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs/tutorials").glob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_SHELLS = ("sh", "console")
_UP = "modelyard is up"
_FOREIGN = ("MODELYARD_", "MLFLOW_", "KUBECONFIG", "MAKE", "MFLAGS", "VIRTUAL_ENV", "PYTHON", "XDG_", "CI")
"""Variables of whoever runs the tests that a newcomer does not have."""
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_INTERRUPTED = "interrupted at: "
_INTERRUPT = """
import os, pty, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "-euo", "pipefail", "-c", sys.argv[2]])
seen = b""
while sys.argv[1].encode() not in seen:
    seen += os.read(terminal, 4096)
os.write(terminal, b"\\x03")
try:
    while more := os.read(terminal, 4096):
        seen += more
except OSError:
    pass  # That is how a terminal ends whose last program has ended.
print(seen.decode())
sys.exit(0 if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (-2, 130) else 1)
"""
"""Runs commands in a terminal until a text is shown, and presses Ctrl-C."""
_DOCKER = """#!/bin/sh
echo "docker $*"
[ "$1" = build ] && [ ! -f Dockerfile ] && exit 1
exit 0
"""
"""Stands in for a container engine, which a test machine has not: it says how it was called."""
LONG_AGO = "2026-01-01T00:00:00Z"
TAG = "v1.2.3"
"""Of the clone that the wheel is built from."""


@dataclass(frozen=True)
class Block:
    language: str
    mark: str
    text: str

    @property
    def is_command(self) -> bool:
        return self.language in _SHELLS and not self.mark.startswith(("not run:", "file:"))

    @property
    def when(self) -> str:
        """Its mark, without where it is interrupted."""
        return self.mark.partition(_INTERRUPTED)[0].rstrip(", ")

    @property
    def script(self) -> str:
        _, interrupted, text = self.mark.partition(_INTERRUPTED)
        return shlex.join(["python3", "-c", _INTERRUPT, text, self.text]) if interrupted else self.text


def blocks(page: str) -> list[Block]:
    found = _BLOCK.finditer((ROOT / page).read_text())
    return [Block(match["language"], match["mark"] or "", match["text"]) for match in found]


@dataclass(frozen=True)
class Way:
    """A way in: a folder that was set up as the README says, with a cluster that runs."""

    name: str
    folder: Path
    environ: dict[str, str] = field(repr=False)
    user: str | None

    def commands(self, page: str, *marks: str) -> str:
        """The blocks of a page with one of these marks, in one shell: what is exported in one is there in the next."""
        chosen = [block for block in blocks(page) if block.is_command and block.when in marks]
        return "\n".join(f"echo '== {page}, command {n}'\n{block.script}" for n, block in enumerate(chosen, 1))

    def run(self, page: str, **more: str) -> str:
        for block in blocks(page):
            if block.mark.startswith("file: "):
                self._write(block.mark.removeprefix("file: "), block.text)
        # The README's blocks for those without a checkout were run to set the folder up.
        return self.shell(
            self.commands(page, "", *(("wheel",) if self.name == "wheel" and page != "README.md" else ())), **more
        )

    def _write(self, name: str, text: str) -> None:
        """A file that the user wrote, in folders that the user made."""
        file = self.folder / name
        for folder in reversed(file.relative_to(self.folder).parents):
            if not (self.folder / folder).is_dir():
                (self.folder / folder).mkdir()
                if self.user:
                    shutil.chown(self.folder / folder, self.user)
        file.write_text(text)

    def shell(self, script: str, **more: str) -> str:
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder,
                env=self.environ | more,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=400,
                user=self.user,
                group=pwd.getpwnam(self.user).pw_gid if self.user else None,
                extra_groups=[] if self.user else None,
            )
        except subprocess.TimeoutExpired as late:
            said = late.output.decode(errors="replace") if isinstance(late.output, bytes) else late.output
            raise AssertionError(f"the last of these commands did not end:\n{said}") from None
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def user() -> str | None:
    """Tests that run as root do this as a user without rights."""
    return "nobody" if os.getuid() == 0 else None


@pytest.fixture(scope="module")
def home(user: str | None) -> Iterator[Path]:
    """The newcomer's: with nothing in it, where this user can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="modelyard-newcomer-", dir="/var/tmp"))
    try:
        if user:
            shutil.chown(folder, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def environ(kubectl_program: str, home: Path, user: str | None) -> dict[str, str]:
    """That of a newcomer: kubectl and uv, no cluster."""
    tools = home / "tools"
    tools.mkdir()
    uv = Path(sys.prefix) / "bin"
    for name in (Path(kubectl_program), uv / "uv", uv / "uvx"):
        shutil.copy(name, tools)
    (tools / "docker").write_text(_DOCKER)
    (tools / "docker").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    path = _SYSTEM_PATH if user else kept["PATH"]
    return kept | {"HOME": str(home), "PATH": f"{tools}:{path}", "PYTHONWARNINGS": "ignore"}


def clone(folder: Path) -> None:
    """What is in the repository, and a repository of its own: nothing that was ever built."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    identity = ["-c", "user.name=newcomer", "-c", "user.email=newcomer@example.com"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "clone"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def put_wheel(folder: Path, source: Path) -> None:
    """The wheel of a release: of a clone with a tag."""
    clone(source)
    subprocess.run(["git", "tag", TAG], cwd=source, check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    shutil.rmtree(source)


@pytest.fixture(scope="module", params=["checkout", "wheel"])
def way(request: pytest.FixtureRequest, home: Path, environ: dict[str, str], user: str | None) -> Iterator[Way]:
    """The README's first command goes on in the background: one cluster for all pages."""
    name: str = request.param
    folder = home / name
    folder.mkdir()
    put_wheel(folder, home / "source") if name == "wheel" else clone(folder)
    if user:
        subprocess.run(["chown", "-R", user, str(folder)], check=True)
    here = Way(name, folder, environ, user)
    log = folder / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", here.commands("README.md", "wheel, background" if name == "wheel" else "background")],
            cwd=folder,
            env=environ,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=user,
            group=pwd.getpwnam(user).pw_gid if user else None,
            extra_groups=[] if user else None,
        )
    try:
        wait_until(lambda: _UP in log.read_text(), f"{_UP}: {log}", seconds=400, alive=process)
        if name == "wheel":
            here.shell(here.commands("README.md", "wheel"))
        yield here
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(120)


def test_nothing_is_red_once_it_is_up(way: Way) -> None:
    """All operators and the quickstart, as the README starts them. It runs before the tour makes more."""
    green = re.compile(r"\S+ +\S+ +(?:(\d+)/\1 +Running|\d+/\d+ +Completed) .*")
    rows: list[str] = []

    def all_green() -> bool:
        rows[:] = way.shell("kubectl --kubeconfig .up/kubeconfig get pods -A --no-headers").splitlines()
        return all(green.fullmatch(row) for row in rows)

    # `up` waits for what it was asked to apply; the catalog, which nobody asks for, may still be on its way.
    wait_until(all_green, "every pod is running", seconds=240)
    assert any(" mlflow-" in row for row in rows), rows
    assert any(" model-catalog-" in row for row in rows), rows
    said = way.shell(".venv/bin/modelyard status --dir .up")
    assert "MLflow mlflow  ready" in said


def test_the_tour_of_the_readme(way: Way) -> None:
    said = way.run("README.md")
    assert "MLflow mlflow  ready" in said
    assert "_modelyard/login?code=" in said
    assert re.search(r"logged [0-9a-f]{32}", said)
    assert "~ Deployment opendatahub/mlflow" in said


def test_the_laptop_tutorial(way: Way) -> None:
    said = way.run("docs/tutorials/laptop.md")
    assert "inside" in said
    assert "MLflow resource name must be 'mlflow'" in said
    assert "networkpolicy.networking.k8s.io/mlflow condition met" in said


def test_the_controller_tutorial(way: Way) -> None:
    try:
        said = way.run("docs/tutorials/write-a-controller.md")
    finally:
        way.shell(".venv/bin/modelyard down --dir cluster || true")
    assert "5 passed" in said
    assert "replicas: 1" in said
    assert "spec.text: Required value" in said
    assert "KubernetesAPI->>+websites: Watch Website (reconcile)" in said
    assert "+ Deployment default/home" in said
    assert "Website home in default  ready" in said
    assert "Hello from a pod" in said


def test_the_cluster_tutorial_on_an_api_server(way: Way, apiserver: Path, kubectl: Kubectl) -> None:
    with rolling_out(kubectl):
        said = way.run("docs/tutorials/cluster.md", KUBECONFIG=administrator(way, apiserver))
    assert 'deployment "modelyard" successfully rolled out' in said
    assert "+ Deployment modelyard/mlflow" in said
    assert 'deployment.apps "modelyard" deleted' in said
    assert "name a digest or a fixed tag" not in said


def administrator(way: Way, apiserver: Path) -> str:
    """A kubeconfig of a cluster that this user may read."""
    config = way.folder / "kubeconfig"
    config.write_text(apiserver.read_text())
    config.chmod(0o644)
    return str(config)


@contextmanager
def rolling_out(kubectl: Kubectl) -> Iterator[None]:
    """The cluster of the test runs no pods: this says that those of the plane are ready. (`test_wheel.py` runs the plane.)"""
    over = threading.Event()

    def play() -> None:
        while not over.wait(0.2):
            text = kubectl("get", "deployment", "modelyard", "-n", "modelyard", "-o", "json", code=None)
            found = json.loads(text) if text.startswith("{") else None
            if found and found["status"].get("observedGeneration") != found["metadata"]["generation"]:
                status = replicas_status(found, since=LONG_AGO)
                patch = ["--subresource=status", "--type=merge", "-p", json.dumps({"status": status})]
                kubectl("patch", "deployment", "modelyard", "-n", "modelyard", *patch, code=None)

    player = threading.Thread(target=play)
    player.start()
    try:
        yield
    finally:
        over.set()
        player.join()


def test_the_readmes_way_to_a_cluster(way: Way, apiserver: Path) -> None:
    path = f"{way.folder}/.venv/bin:{way.environ['PATH']}"
    said = way.shell(way.commands("README.md", "cluster"), PATH=path, KUBECONFIG=administrator(way, apiserver))
    assert "+ Deployment opendatahub/mlflow" in said
    assert "deployment.apps/modelyard serverside-applied" in said
    assert "mlflow.mlflow.opendatahub.io/mlflow" in said


def test_the_image_is_built_with_the_version_of_the_checkout(way: Way) -> None:
    if way.name == "wheel":
        pytest.skip("only a checkout has the Dockerfile")
    said = way.shell(way.commands("docs/tutorials/cluster.md", "container engine"))
    version = way.shell(".venv/bin/modelyard --version").split()[1]
    assert f"docker build --target plane --build-arg VERSION={version}" in said
    assert f"--tag REGISTRY/modelyard:{version.replace('+', '-')}" in said
    assert "docker push REGISTRY/modelyard:0.1.0" in said


def test_a_release_has_the_version_of_its_tag_and_completes_in_a_shell(way: Way) -> None:
    asked = 'COMP_WORDS=(modelyard exa) COMP_CWORD=1; _modelyard; echo "${COMPREPLY[*]}"'
    said = way.shell(f'set +u; export PATH="$PWD/.venv/bin:$PATH"; eval "$(modelyard completion bash)"; {asked}')
    assert said.split() == ["examples"]
    if way.name == "wheel":
        assert way.shell(".venv/bin/modelyard --version") == f"modelyard {TAG.removeprefix('v')}\n"


def test_what_runs_is_the_users_own(way: Way) -> None:
    """No file of whoever runs the tests is used: it is the clone's environment, or the wheel's."""
    said = way.shell(".venv/bin/python -c 'import modelyard, os; print(os.getuid(), modelyard.__file__)'")
    owner = pwd.getpwnam(way.user).pw_uid if way.user else os.getuid()
    inside = "src" if way.name == "checkout" else "site-packages"
    assert said.startswith(f"{owner} {way.folder}/")
    assert f"/{inside}/modelyard/" in said


def test_the_laptop_tutorials_end(way: Way) -> None:
    """The last one of each way: it ends the cluster that the others use."""
    page = "docs/tutorials/laptop.md"
    first = blocks(page)[0].text
    said = way.shell(first + way.commands(page, "at the end"))
    assert "stopped; the state is kept in" in said
    assert sorted(entry.name for entry in (way.folder / ".up").iterdir()) == ["lock"]


def test_every_block_is_run_but_these() -> None:
    left = {(page, block.text) for page in PAGES for block in blocks(page) if block.mark.startswith("not run:")}
    assert left == {("README.md", "make test\n")}
    assert "step test\n" in (ROOT / ".ci/run").read_text()
    known = {"", "background", "wheel", "wheel, background", "cluster", "container engine", "at the end"}
    assert {block.when for page in PAGES for block in blocks(page) if block.is_command} == known


def test_every_page_with_commands_is_run() -> None:
    assert set(PAGES) == {
        "README.md", "docs/tutorials/cluster.md", "docs/tutorials/laptop.md", "docs/tutorials/write-a-controller.md",
    }  # fmt: skip
