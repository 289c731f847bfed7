"""The public `model-registry` client, an old and a new one, each in an environment of its own, against `modelyard serve registry`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from modelyard.local.images.build import find_uv
from tests.e2e.conftest import wait_until
from tests.unit.programs.databases import free_port

SCRIPT = """
import json, sys
from model_registry import ModelRegistry

registry = ModelRegistry("http://127.0.0.1", int(sys.argv[1]), author="ann", is_secure=False)
for version in ("1", "2", "3"):
    model = registry.register_model(
        "m", f"s3://bucket/{version}", version=version, model_format_name="onnx", model_format_version="1",
        metadata={"i": 1, "d": 0.5, "s": "x", "b": True},
    )
version = registry.get_model_version("m", "1")
version.description = "changed"
registry.update(version)
print(json.dumps({
    "properties": version.custom_properties,
    "uri": registry.get_model_artifact("m", "2").uri,
    "description": registry.get_model_version("m", "1").description,
    "models": [each.name for each in registry.get_registered_models().page_size(1)],
    "versions": [each.name for each in registry.get_model_versions("m").page_size(2).descending()],
}))
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "modelyard.cli.main", "serve", "registry", "--host", "127.0.0.1", "--port", str(port),
         "--database", str(tmp_path / "registry.db")],
    )  # fmt: skip

    def ready() -> bool:
        with contextlib.suppress(URLError):
            return bool(urlopen(f"http://127.0.0.1:{port}/readyz/health", timeout=5).status == 200)
        return False

    try:
        wait_until(ready, "the registry is ready", alive=process)
        yield port
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("client", ["model-registry==0.3.14", "model-registry"])
def test_the_public_client_registers_updates_and_pages(client: str, port: int, tmp_path: Path) -> None:
    environment = tmp_path / "client"
    subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([find_uv(), "pip", "install", "-q", "--python", python, client], check=True)
    done = subprocess.run([python, "-c", SCRIPT, str(port)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "properties": {"i": 1, "d": 0.5, "s": "x", "b": True},
        "uri": "s3://bucket/2",
        "description": "changed",
        "models": ["m"],
        "versions": ["3", "2", "1"],
    }
