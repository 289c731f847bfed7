"""The command blocks of README and tutorials run as they stand.

A block is fenced as `sh` or `console`. A comment before it says what is special about it:
`<!-- background -->` it goes on while the others run; `<!-- not run: why -->`; `<!-- file: NAME -->` the text of a file (any language).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Block:
    language: str
    mark: str
    text: str

    @property
    def runs(self) -> bool:
        return self.language in _SHELLS and not self.mark.startswith(("not run:", "file:", "background"))


def blocks(page: str) -> list[Block]:
    found = _BLOCK.finditer((ROOT / page).read_text())
    return [Block(match["language"], match["mark"] or "", match["text"]) for match in found]


def script(page: str) -> str:
    """All blocks of a page in one shell: what is exported in one is there in the next."""
    return "\n".join(f"echo '== {page}, block {n}'\n{b.text}" for n, b in enumerate(blocks(page), 1) if b.runs)


def run(page: str, folder: Path, environ: dict[str, str]) -> str:
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (folder / block.mark.removeprefix("file: ")).write_text(block.text)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script(page)],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is in the repository, with the virtual environment of this one: `make up` must not touch a user's `.up`."""
    folder = tmp_path_factory.mktemp("checkout")
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (Path(sys.prefix) / ".ready").touch()
    return folder


@pytest.fixture(scope="module")
def environ(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """That of a newcomer: kubectl, no cluster."""
    home = tmp_path_factory.mktemp("home")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MODELYARD_", "MLFLOW_", "KUBECONFIG"))
    }
    cache = os.environ.get("MODELYARD_CACHE") or str(Path.home() / ".cache/modelyard")
    path = f"{Path(kubectl_program).parent}:{kept['PATH']}"
    return kept | {"HOME": str(home), "MODELYARD_CACHE": cache, "PATH": path}


@pytest.fixture(scope="module")
def laptop(checkout: Path, environ: dict[str, str]) -> Iterator[Path]:
    """The README's `make up`, going on in the background: one cluster for all pages."""
    (block,) = [b for b in blocks("README.md") if b.mark == "background"]
    log = checkout / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", block.text], cwd=checkout, env=environ, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until(lambda: _UP in log.read_text(), f"{_UP}\n{log.read_text()}", seconds=300, alive=process)
        yield checkout
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(120)


def test_the_tour_of_the_readme(laptop: Path, environ: dict[str, str]) -> None:
    said = run("README.md", laptop, environ)
    assert "MLflow mlflow  ready" in said
    assert "_modelyard/login?code=" in said
    assert re.search(r"logged [0-9a-f]{32}", said)
    assert "~ Deployment opendatahub/mlflow" in said


def test_the_laptop_tutorial(laptop: Path, environ: dict[str, str]) -> None:
    said = run("docs/tutorials/laptop.md", laptop, environ)
    assert "inside" in said
    assert "MLflow resource name must be 'mlflow'" in said
    assert "networkpolicy.networking.k8s.io/mlflow condition met" in said


def test_the_controller_tutorial_needs_no_cluster(tmp_path: Path, environ: dict[str, str]) -> None:
    path = f"{Path(sys.prefix) / 'bin'}:{environ['PATH']}"
    said = run("docs/tutorials/write-a-controller.md", tmp_path, environ | {"PATH": path, "PYTHONWARNINGS": "ignore"})
    assert "5 passed" in said
    assert "replicas: 1" in said
    assert "spec.text: Required value" in said


def test_the_cluster_tutorial_on_an_api_server(checkout: Path, apiserver: Path, environ: dict[str, str]) -> None:
    path = f"{Path(sys.prefix) / 'bin'}:{environ['PATH']}"
    said = run("docs/tutorials/cluster.md", checkout, environ | {"PATH": path, "KUBECONFIG": str(apiserver)})
    assert "+ Deployment modelyard/mlflow" in said
    assert 'deployment.apps "modelyard" deleted' in said


def test_every_page_with_commands_is_run() -> None:
    assert set(PAGES) == {
        "README.md", "docs/tutorials/cluster.md", "docs/tutorials/laptop.md", "docs/tutorials/write-a-controller.md",
    }  # fmt: skip
