"""What the wheel and the image are made from: locks that fit the project file, and a Dockerfile that takes nothing unpinned."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from modelyard.cli.packages import LAPTOP_PACKAGES

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(name: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE))


def required() -> set[str]:
    return {re.split(r"[<>=!~ ;\[]", line)[0].lower() for line in PROJECT["dependencies"]}


def test_an_ordinary_installation_has_what_a_laptop_cluster_needs() -> None:
    assert set(LAPTOP_PACKAGES.values()) <= required()
    assert required() <= locked("requirements.lock")


def test_the_image_for_clusters_has_all_but_what_only_a_laptop_needs() -> None:
    assert required() - locked("requirements-runtime.lock") == set(LAPTOP_PACKAGES.values())
    assert locked("requirements-runtime.lock").isdisjoint(LAPTOP_PACKAGES.values())


def test_every_stage_of_the_image_starts_from_the_pinned_base() -> None:
    assert re.search(r"^ARG PYTHON=python:3\.\d+-slim@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON}"}


def test_the_image_installs_nothing_without_a_hash_but_our_own_wheel() -> None:
    installs = re.findall(r"pip (?:install|wheel) [^&\n]*", DOCKERFILE)
    assert len(installs) == 5
    for command in installs:
        assert "--require-hashes -r " in command or (
            "--no-deps" in command and command.split()[-1] in (".", "/dist/*.whl")
        )


def test_the_image_says_what_it_is() -> None:
    labels = set(re.findall(r"org\.opencontainers\.image\.([\w.]+)=", DOCKERFILE))
    assert labels >= {"title", "description", "licenses", "version", "revision", "created", "base.name"}
    assert PROJECT["description"] in DOCKERFILE
    assert PROJECT["license"] in DOCKERFILE


def test_the_servers_lock_has_all_that_they_import() -> None:
    programs = ROOT / "src/modelyard/programs"
    text = "\n".join(
        path.read_text() for room in ("registry", "catalog", "database") for path in (programs / room).glob("*.py")
    )
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)) - sys.stdlib_module_names - {"modelyard"}
    names = {"yaml": "pyyaml"}
    assert {names.get(each, each) for each in imported} <= locked("src/modelyard/local/images/locks/model-registry.txt")
    assert "COPY src/modelyard/local/images/locks/model-registry.txt" in DOCKERFILE


def test_the_servers_start_from_the_files_of_their_image(tmp_path: Path) -> None:
    """As the stage `servers` lays them out: the programs alone, and nothing of the plane around them."""
    shutil.copytree(
        ROOT / "src/modelyard/programs", tmp_path / "modelyard/programs", ignore=shutil.ignore_patterns("__pycache__")
    )
    for word in ("proxy", "catalog"):
        done = subprocess.run(
            [sys.executable, "-I", str(tmp_path / "modelyard/programs/__main__.py"), word, "--nope"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert f"model-registry {word} [flags]" in done.stderr
