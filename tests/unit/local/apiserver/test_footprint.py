"""What a server costs before anyone asks it for something: large libraries are loaded with the first request that needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from modelyard.local.apiserver import process

_ASK = """
import sys
import modelyard.local.apiserver.process, modelyard.local.apiserver.server, modelyard.local.apiserver.sockets.http
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True, timeout=60)
    return set(asked.stdout.split())


@pytest.mark.parametrize(
    "library",
    ["aiohttp", "cryptography", "cel_expr_python", "yaml", "zoneinfo", "difflib", "prometheus_client", "rich"],
)
def test_a_server_starts_without(library: str, loaded: set[str]) -> None:
    assert "msgspec" in loaded
    assert library not in loaded


def test_the_kubeconfig_is_yaml_that_clients_read() -> None:
    import yaml

    config = yaml.safe_load(process.kubeconfig_text("https://127.0.0.1:6443", "-----BEGIN", "a-token_1"))
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["users"][0]["user"]["token"] == "a-token_1"
    assert config["current-context"] == config["contexts"][0]["name"] == "modelyard"
