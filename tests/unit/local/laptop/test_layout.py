"""The folder of a laptop cluster: who holds it, what it says about itself, and what stopping and deleting leave behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelyard.cli.main import main
from modelyard.failure import Failed
from modelyard.local.laptop.layout import Held, Layout, State, default_directory

HOLDER = """
import os, signal, sys, threading
from pathlib import Path
from modelyard.local.laptop.layout import Layout, State
layout = Layout(Path(sys.argv[1]))
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
with layout.hold():
    layout.write_state(State(os.getpid(), 0.0, ["mlflow"]))
    print("held", flush=True)
    over.wait()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "cluster")
    made.create()
    return made


def test_a_folder_is_held_by_one_process_at_a_time(layout: Layout) -> None:
    assert not layout.is_running()
    with layout.hold():
        assert layout.is_running()
        with pytest.raises(Held, match="is held by another process; stop it with: modelyard down --dir"):
            with layout.hold():
                pass
    assert not layout.is_running()


def test_who_holds_it_is_said_with_the_remedy(layout: Layout) -> None:
    layout.write_state(State(4711, time.time() - 7200, ["mlflow"]))
    assert "process 4711, started 2 h ago; stop it with: modelyard down --dir" in layout.holder()


def test_what_a_dead_cluster_said_does_not_count(layout: Layout) -> None:
    layout.write_state(State(4711, 0.0, ["mlflow"]))
    with pytest.raises(Failed, match=r"no laptop cluster runs in .* start one with: modelyard up"):
        layout.require_running()


def test_a_damaged_state_is_no_state(layout: Layout) -> None:
    layout.state_file.write_text("{half")
    assert layout.read_state() is None


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failed, match="choose another folder with --dir"):
        Layout(tmp_path / "file").create()


def test_secrets_of_the_cluster_are_for_its_user_alone(layout: Layout) -> None:
    assert layout.directory.stat().st_mode & 0o077 == 0
    assert layout.volumes.stat().st_mode & 0o077 == 0


def test_the_folder_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODELYARD_DIR", raising=False)
    assert default_directory() == tmp_path / "modelyard"
    monkeypatch.setenv("MODELYARD_DIR", str(tmp_path / "mine"))
    assert default_directory() == tmp_path / "mine"


def test_down_stops_the_process_that_holds_the_folder(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(layout.directory)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert main(["down", "--dir", str(layout.directory)]) == 0
    assert holder.wait(10) == 0
    assert "the state is kept" in capsys.readouterr().out


def test_down_of_nothing_is_done_already(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--dir", str(layout.directory)]) == 0
    assert "no laptop cluster runs" in capsys.readouterr().out


def test_reset_deletes_only_what_is_the_clusters(layout: Layout) -> None:
    mine = layout.directory / "notes.txt"
    mine.write_text("not the cluster's")
    (layout.volumes / "data").write_text("x")
    layout.kubeconfig.write_text("x")
    assert main(["reset", "--yes", "--dir", str(layout.directory)]) == 0
    assert mine.exists()
    assert not layout.volumes.exists()
    assert not layout.kubeconfig.exists()


def test_reset_does_not_delete_unasked(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reset", "--dir", str(layout.directory)]) == 1
    assert "say --yes" in capsys.readouterr().err
    assert layout.volumes.exists()


def test_logs_are_shown_by_part(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    (layout.logs / "kubelet.log").write_text("one\ntwo\n")
    (layout.logs / "apiserver.log").write_text("three\n")
    assert main(["logs", "--dir", str(layout.directory), "--tail", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == ["apiserver   three", "kubelet     two"]
    assert main(["logs", "kubelet", "--dir", str(layout.directory)]) == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    assert main(["logs", "nothing", "--dir", str(layout.directory)]) == 1
    assert "there is no log of 'nothing'" in capsys.readouterr().err


def test_signals_have_names() -> None:
    from modelyard.local.laptop.supervisor import describe_exit

    assert describe_exit(-signal.SIGKILL) == "signal SIGKILL"
    assert describe_exit(3) == "exit code 3"
