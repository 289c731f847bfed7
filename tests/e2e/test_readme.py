"""The command blocks of README and tutorials run as they stand: in a fresh clone, and from the wheel in an empty folder, as a user without rights.

A block is fenced as `sh` or `console`. A comment before it says what is special about it:
`<!-- background -->` it goes on while the others run; `<!-- wheel -->` it is for those without a checkout; `<!-- not run: why -->`;
`<!-- file: NAME -->` the text of a file (any language).
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.conftest import wait_until

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


@dataclass(frozen=True)
class Block:
    language: str
    mark: str
    text: str

    @property
    def is_command(self) -> bool:
        return self.language in _SHELLS and not self.mark.startswith(("not run:", "file:"))


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
        chosen = [block for block in blocks(page) if block.is_command and block.mark in marks]
        return "\n".join(f"echo '== {page}, command {n}'\n{block.text}" for n, block in enumerate(chosen, 1))

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


def put_wheel(folder: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module", params=["checkout", "wheel"])
def way(request: pytest.FixtureRequest, home: Path, environ: dict[str, str], user: str | None) -> Iterator[Way]:
    """The README's first command goes on in the background: one cluster for all pages."""
    name: str = request.param
    folder = home / name
    folder.mkdir()
    put_wheel(folder) if name == "wheel" else clone(folder)
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


def test_the_cluster_tutorial_on_an_api_server(way: Way, apiserver: Path) -> None:
    config = way.folder / "kubeconfig"
    config.write_text(apiserver.read_text())
    config.chmod(0o644)
    said = way.run("docs/tutorials/cluster.md", KUBECONFIG=str(config))
    assert "+ Deployment modelyard/mlflow" in said
    assert 'deployment.apps "modelyard" deleted' in said
    assert "name a digest or a fixed tag" not in said


def test_what_runs_is_the_users_own(way: Way) -> None:
    """No file of whoever runs the tests is used: it is the clone's environment, or the wheel's."""
    said = way.shell(".venv/bin/python -c 'import modelyard, os; print(os.getuid(), modelyard.__file__)'")
    owner = pwd.getpwnam(way.user).pw_uid if way.user else os.getuid()
    inside = "src" if way.name == "checkout" else "site-packages"
    assert said.startswith(f"{owner} {way.folder}/")
    assert f"/{inside}/modelyard/" in said


def test_every_page_with_commands_is_run() -> None:
    assert set(PAGES) == {
        "README.md", "docs/tutorials/cluster.md", "docs/tutorials/laptop.md", "docs/tutorials/write-a-controller.md",
    }  # fmt: skip
