"""`modelyard list`, and the notes that it is made from: true also after folders were deleted and processes killed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from modelyard.cli.main import main
from modelyard.local.laptop.layout import Layout, State, default_directory, known_clusters, remember


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODELYARD_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def cluster(directory: Path) -> Layout:
    layout = Layout(directory)
    layout.create()
    layout.write_state(State(os.getpid(), 0.0, ["mlflow"], ready=True, gateway="https://localhost:8443"))
    remember(layout)
    return layout


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    assert main(["list", "-o", "json", *words]) == 0
    return {row["directory"]: row["state"] for row in json.loads(capsys.readouterr().out)}


def test_clusters_that_run_are_shown_and_on_request_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = cluster(tmp_path / "one"), cluster(tmp_path / "two")
    # What a killed process said of itself is still there, and it does not run.
    with one.hold():
        assert rows(capsys) == {str(one.directory): "running"}
        assert rows(capsys, "--all") == {str(one.directory): "running", str(two.directory): "stopped"}


def test_a_cluster_with_a_part_that_is_down_is_shown_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = cluster(tmp_path / "one")
    one.write_state(State(1, 0.0, ["mlflow"], ready=True, broken={"kubelet": "ended"}))
    with one.hold():
        assert rows(capsys) == {str(one.directory): "broken: kubelet"}


def test_a_folder_that_was_deleted_is_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = cluster(tmp_path / "one")
    shutil.rmtree(one.directory)
    assert rows(capsys, "--all") == {}
    assert list((tmp_path / "home/.local/state/modelyard/clusters").iterdir()) == []


def test_a_damaged_note_hurts_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = cluster(tmp_path / "one")
    (tmp_path / "home/.local/state/modelyard/clusters/half").write_bytes(b"\xff\xfe")
    assert list(rows(capsys, "--all")) == [str(one.directory)]


def test_without_any_cluster_it_is_said_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert "no laptop cluster runs; start one with: modelyard up" in capsys.readouterr().out


def test_a_home_that_cannot_be_written_does_not_stop_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    one = cluster(tmp_path / "one")
    assert one.directory not in [each.directory for each in known_clusters()]


def test_commands_mean_the_cluster_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_directory() == tmp_path / "home/.local/share/modelyard"
    here = cluster(tmp_path / ".up")
    assert default_directory() == here.directory
    assert here.argument == ""
    monkeypatch.setenv("MODELYARD_DIR", str(tmp_path / "named"))
    assert default_directory() == tmp_path / "named"


def test_commands_that_find_no_cluster_name_those_that_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = cluster(tmp_path / "one")
    with one.hold():
        assert main(["url", "mlflow"]) == 1
    assert f"Clusters run in: {one.directory}; choose one with --dir" in capsys.readouterr().err
