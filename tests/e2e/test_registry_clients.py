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

from tests.e2e.conftest import wait_until
from tests.e2e.registries import python_with
from tests.unit.programs.databases import free_port

# The client's own words know no filters; the generated client below it, which comes in the same package, does.
SCRIPT = """
import json, sys
from model_registry import ModelRegistry

registry = ModelRegistry("http://127.0.0.1", int(sys.argv[1]), author="ann", is_secure=False)
for version in ("1", "2", "3"):
    model = registry.register_model(
        "m", f"s3://bucket/{version}", version=version, model_format_name="onnx", model_format_version="1",
        metadata={"i": 1, "d": 0.5, "s": "x" * int(version), "b": True},
    )
version = registry.get_model_version("m", "1")
version.description = "changed"
registry.update(version)
model.description = "a model"
registry.update(model)

async def filtered():
    async with registry._api.get_client() as client:
        found = await client.get_model_versions(filter_query="s LIKE 'xx%' AND i = 1", page_size="1")
        more = await client.get_model_versions(filter_query="s LIKE 'xx%' AND i = 1", page_size="1", next_page_token=found.next_page_token)
        return [each.name for page in (found, more) for each in page.items]

print(json.dumps({
    "filtered": registry.async_runner(filtered()),
    "properties": version.custom_properties,
    "uri": registry.get_model_artifact("m", "2").uri,
    "description": registry.get_model_version("m", "1").description,
    "model": registry.get_registered_model("m").description,
    "models": [each.name for each in registry.get_registered_models().page_size(1)],
    "versions": [each.name for each in registry.get_model_versions("m").page_size(2).descending()],
    "nothing": registry.get_registered_model("other"),
}))
"""
RUN = """
import json, sys
from model_registry import ModelRegistry

registry = ModelRegistry("http://127.0.0.1", int(sys.argv[1]), author="ann", is_secure=False)
with registry.start_experiment_run(experiment_name="e") as run:
    run.log_param("rate", 0.1)
    for step in range(3):
        run.log_metric("loss", 1.0 - step / 4, step=step)
[made] = registry.get_experiment_runs(experiment_name="e")
print(json.dumps({
    "experiments": [each.name for each in registry.get_experiments()],
    "logs": sorted(each.name for each in registry.get_experiment_run_logs(run_id=made.id).page_size(1)),
}))
"""
READ = """
import asyncio, json, sys
from model_registry import ModelRegistry

registry = ModelRegistry("http://127.0.0.1", int(sys.argv[1]), author="ann", is_secure=False)
async def all_metrics():
    async with registry._api.get_client() as client:
        found = await client.get_artifacts(filter_query="value > 0", page_size="10")
        return [(each.actual_instance.name, str(each.actual_instance.step)) for each in found.items]
print(json.dumps(registry.async_runner(all_metrics())))
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


def ran(python: str, script: str, port: int) -> object:
    """The last line that the script printed."""
    done = subprocess.run([python, "-c", script, str(port)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("client", ["model-registry==0.3.14", "model-registry"])
def test_the_public_client_registers_updates_filters_and_pages(client: str, port: int, tmp_path: Path) -> None:
    assert ran(python_with(client, tmp_path / "client"), SCRIPT, port) == {
        "filtered": ["2", "3"],
        "properties": {"i": 1, "d": 0.5, "s": "x", "b": True},
        "uri": "s3://bucket/2",
        "description": "changed",
        "model": "a model",
        "models": ["m"],
        "versions": ["3", "2", "1"],
        "nothing": None,
    }


def test_what_the_older_client_logs_of_a_run_the_newer_one_reads(port: int, tmp_path: Path) -> None:
    old, new = (
        python_with(client, tmp_path / name)
        for client, name in (("model-registry==0.3.14", "old"), ("model-registry", "new"))
    )
    assert ran(old, RUN, port) == {"experiments": ["e"], "logs": ["loss", "rate"]}
    for python in (old, new):
        assert ran(python, READ, port) == [["loss", "2"]]
