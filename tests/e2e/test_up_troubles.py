"""`modelyard up` where something is in its way, and where a cluster already runs: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import kubectl_for, wait_until
from tests.e2e.laptop import Laptop

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, namespace: default}\n"


@pytest.fixture
def own(kubectl_program: str, tmp_path: Path) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path / "cluster", kubectl_program)
    yield cluster
    cluster.stop()


def test_a_second_up_applies_and_merges_and_leaves_the_cluster_running(own: Laptop, tmp_path: Path) -> None:
    own.start()
    before = own.state()["pid"]
    file, config = tmp_path / "map.yaml", tmp_path / "config"
    file.write_text(MAP)
    own.environment["KUBECONFIG"] = str(config)
    said = own.modelyard("up", "--operators", "mlflow", "--detach", "--apply", str(file), "--merge-kubeconfig")
    assert "ConfigMap" in said
    assert own.state()["pid"] == before
    assert kubectl_for(own.program, config)("get", "configmap", "applied", "-o", "name").strip() == "configmap/applied"


def test_a_refused_file_is_named_at_once_by_a_second_up(own: Laptop, tmp_path: Path) -> None:
    own.start()
    file = tmp_path / "bad.yaml"
    file.write_text(MAP.replace("name: applied", "name: Not_A_Name"))
    said = own.modelyard("up", "--operators", "mlflow", "--detach", "--apply", str(file), code=1)
    assert "bad.yaml" in said
    assert "ConfigMap" in said
    assert "Not_A_Name" in said
    assert own.kubectl("get", "--raw", "/readyz") == "ok"


def gateway_port(cluster: Laptop) -> int:
    return int(json.loads((cluster.directory / "ports.json").read_text())["gateway"])


def test_a_changed_port_is_said(own: Laptop) -> None:
    own.start()
    before = gateway_port(own)
    own.stop()
    with socket.create_server(("127.0.0.1", before)):
        said = own.start()
    assert gateway_port(own) != before
    assert f"the gateway is on port {gateway_port(own)} now: another program uses {before}" in " ".join(said.split())


def test_a_copy_of_the_folder_has_its_own_data_and_waits_for_the_originals_addresses(
    own: Laptop, kubectl_program: str, tmp_path: Path
) -> None:
    own.start()
    own.kubectl("create", "configmap", "kept", "--from-literal=of=both")
    own.stop()
    copy = Laptop(tmp_path / "copy", kubectl_program)
    subprocess.run(["cp", "-a", str(own.directory), str(copy.directory)], check=True)
    own.start()
    said = copy.modelyard("up", "--operators", "mlflow", "--detach", code=1)
    assert "are in use by another cluster; stop that one (`modelyard down`)" in " ".join(said.split())
    own.stop()
    try:
        copy.start()
        copy.kubectl("delete", "configmap", "kept")
    finally:
        copy.stop()
    own.start()
    assert own.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.of}") == "both"


def test_a_part_that_cannot_start_ends_up_with_its_reason(own: Laptop) -> None:
    own.start()
    own.stop()
    database = own.directory / "apiserver" / "state.db"
    for old in database.parent.glob("state.db*"):
        old.unlink()
    database.write_bytes(b"this is not a database" * 1000)
    said = own.modelyard("up", "--operators", "mlflow", "--detach", code=1, timeout=120)
    assert "apiserver cannot start" in said
    assert "state.db" in said or "not a database" in said
    wait_until(lambda: own.processes() == {}, "no process is left", seconds=30)


def test_a_full_disk_is_said_before_anything_starts(own: Laptop) -> None:
    own.directory.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(own.directory)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        said = own.modelyard("up", "--operators", "mlflow", "--detach", code=1, timeout=60)
        assert "is full" in said
        assert "--dir" in said
        assert own.processes() == {}
    finally:
        subprocess.run(["umount", str(own.directory)], check=True)


def test_without_a_network_and_a_cache_up_names_the_image_and_the_index(own: Laptop, tmp_path: Path) -> None:
    nowhere = "https://127.0.0.1:1/simple"
    own.environment |= {
        "MODELYARD_CACHE": str(tmp_path / "empty"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_DEFAULT_INDEX": nowhere,
        "UV_HTTP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    said = own.modelyard("up", "--operators", "mlflow", "--with", "mlflow", "--detach", code=1, timeout=300)
    assert "mlflow" in said
    assert nowhere in said or "127.0.0.1:1" in said
