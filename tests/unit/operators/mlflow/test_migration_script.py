"""The program of the migration Job, run for real against a stand-in for MLflow that keeps its databases in files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelyard.operators.mlflow.migration_job import migration_script

DATABASE = """
import os, pathlib
def _file(uri):
    return pathlib.Path(os.environ["DATABASES"]) / uri.rpartition("/")[2]
def create_sqlalchemy_engine_with_retry(uri):
    if os.environ.get("BROKEN"):
        raise RuntimeError(os.environ["BROKEN"] + " " + uri)
    return uri
def _get_schema_version(uri):
    return _file(uri).read_text() if _file(uri).exists() else None
def _initialize_tables(uri):
    _file(uri).write_text("head")
def _upgrade_db(uri):
    _file(uri).write_text(os.environ.get("REACHED", "head"))
def _get_latest_schema_revision():
    return "head"
"""
GAP = "import os, pathlib\ndef fix_migration_gap_if_needed(engine): (pathlib.Path(os.environ['DATABASES']) / 'gap').touch()\n"


class Image:
    """An interpreter with a stand-in for MLflow."""

    def __init__(self, root: Path) -> None:
        self.databases = root / "databases"
        self.databases.mkdir()
        self.packages = root / "packages"
        store = self.packages / "mlflow" / "store" / "db"
        store.mkdir(parents=True)
        for folder in (store, store.parent, store.parent.parent):
            (folder / "__init__.py").touch()
        (store / "utils.py").write_text(DATABASE)
        self.gap = store / "migration_gap.py"
        self.version("3.14.0")

    def version(self, version: str) -> None:
        (self.packages / "mlflow" / "version.py").write_text(f"VERSION = {version!r}\n")

    def run(self, backend: str, registry: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        variables = {
            **os.environ,
            "PYTHONPATH": str(self.packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DATABASES": str(self.databases),
            "MLFLOW_BACKEND_STORE_URI": backend,
            "MLFLOW_REGISTRY_STORE_URI": registry,
            "SUPPORTED_MLFLOW_VERSION": "3.14.0",
            **env,
        }
        command = [sys.executable, "-c", migration_script()]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_new_databases_are_made_and_old_ones_upgraded(image: Image) -> None:
    (image.databases / "old").write_text("base")
    assert image.run("postgresql://u:p@h/old", "mysql+pymysql://h/new").returncode == 0
    assert (image.databases / "old").read_text() == (image.databases / "new").read_text() == "head"


@pytest.mark.parametrize("version", ["v3.14.0", "3.14.0+rhai.1"])
def test_a_version_may_be_written_in_other_ways(image: Image, version: str) -> None:
    image.version(version)
    assert image.run("sqlite:////x").returncode == 0


def test_a_gap_in_the_revisions_is_closed_in_the_backend_store(image: Image) -> None:
    image.gap.write_text(GAP)
    assert image.run("sqlite:////x").returncode == 0
    assert (image.databases / "gap").exists()


def test_nothing_to_migrate_is_a_success(image: Image) -> None:
    image.version("1.0")
    assert image.run("").returncode == 0


@pytest.mark.parametrize(
    ("backend", "registry", "env", "code"),
    [
        ("sqlite:////x", "", {"SUPPORTED_MLFLOW_VERSION": "3.15.0"}, 10),
        ("file:///x", "", {}, 11),
        ("sqlite:////x", "file:///y", {}, 12),
        ("postgresql://h/old", "", {"REACHED": "elsewhere"}, 13),
        ("postgresql://h/x", "", {"BROKEN": "Can't locate revision identified by 'abc'"}, 14),
        ("postgresql://h/x", "", {"BROKEN": "Multiple heads are present"}, 14),
        ("postgresql://h/x", "", {"BROKEN": "connection refused"}, 15),
    ],
)
def test_what_went_wrong_is_the_exit_code(
    image: Image, backend: str, registry: str, env: dict[str, str], code: int
) -> None:
    (image.databases / "old").write_text("base")
    assert image.run(backend, registry, **env).returncode == code


def test_an_image_whose_mlflow_cannot_be_loaded_is_worth_another_try(image: Image) -> None:
    (image.packages / "mlflow" / "version.py").write_text("raise RuntimeError('broken')")
    done = image.run("sqlite:////x")
    assert (done.returncode, done.stderr) == (15, "asking for the version of MLflow failed: RuntimeError\n")


def test_credentials_are_not_told(image: Image) -> None:
    done = image.run("postgresql://user:hunter2@h/x", BROKEN="could not connect to")
    assert done.returncode == 15
    assert "hunter2" not in done.stderr + done.stdout
    assert "migrating the backend store failed: RuntimeError" in done.stderr
