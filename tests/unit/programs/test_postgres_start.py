"""PostgreSQL's first start, cut off at every step: the next start has a whole database. The server's binaries are played here."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelyard.programs import postgres

BEGIN = """#!/bin/sh
all="$*"; directory=
while [ $# -gt 0 ]; do [ "$1" = -D ] && directory="$2"; shift; done
cut() { if [ "$CUT_IN" = "$1" ]; then kill -"$CUT_BY" $PPID; exit 1; fi; }
"""
PROGRAMS = {
    "initdb": 'mkdir -p "$directory/base"; echo 18 > "$directory/PG_VERSION"; cut initdb; mkdir "$directory/global"; '
    'echo start > "$directory/postgresql.conf"',
    "pg_ctl": """
case "$all" in
*" start") echo "$directory" > "$PLAYED"; touch "$directory/postmaster.pid"; cut start ;;
*" stop") rm "$directory/postmaster.pid" || exit 1; cut stop ;;
esac""",
    "psql": 'cut psql; made="$(cat "$PLAYED")/base/made"; cat >> "$made"; echo >> "$made"',
    "postgres": """
[ -f "$directory/PG_VERSION" ] && [ -d "$directory/global" ] || { echo "FATAL: it is not whole" >&2; exit 1; }
[ ! -f "$directory/postmaster.pid" ] || { echo "FATAL: lock file exists" >&2; exit 1; }
touch "$directory/base/made"
case "$all" in
--single*) while read -r line; do case "$line" in
    *"'has role'"*) grep -q "USER" "$directory/base/made" && echo '1: ?column? = "has role"' ;;
    *"'has database'"*) grep -q "DATABASE" "$directory/base/made" && echo '1: ?column? = "has database"' ;;
    CREATE*) [ -n "$REFUSE" ] || echo "$line" >> "$directory/base/made" ;;
    esac; done; true ;;
*) cat "$directory/base/made"; echo serving ;;
esac""",
}
WHOLE = [
    "CREATE USER \"me\" WITH PASSWORD 'pw';",
    'CREATE DATABASE "store" OWNER "me";',
    "serving",
]
CUTTER = """
import os, runpy, sys
program, root, number, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.argv = [program, "--host", "127.1.1.1"]
steps = 0

def step(event, arguments):
    global steps
    changes = event in ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "open")
    if event in ("subprocess.Popen", "os.exec") or changes and any(str(a).startswith(root) for a in arguments):
        steps += 1
        if steps == last:
            os.kill(os.getpid(), number)

sys.addaudithook(step)
runpy.run_path(program, run_name="__main__")
"""


class Played:
    """A database directory, and the launcher as a pod runs it."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "volume" / "userdata"
        self.programs = directory / "bin"
        self.programs.mkdir()
        for name, text in PROGRAMS.items():
            (self.programs / name).write_text(BEGIN + text)
            (self.programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PLAYED": str(directory / "played"),
            "PGDATA": str(self.data),
            "POSTGRESQL_USER": "me",
            "POSTGRESQL_PASSWORD": "pw",
            "POSTGRESQL_DATABASE": "store",
        }

    def start(
        self, number: int = signal.SIGKILL, last: int = 0, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the launcher; with `last`, the signal comes right before that step."""
        words = [postgres.__file__, str(self.data), str(int(number)), str(last)]
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", CUTTER, *words],
            env=self.environment | dict(more or {}),
            capture_output=True,
            text=True,
            timeout=20,
        )

    def said(self, **more: str) -> list[str]:
        done = self.start(more=more)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-3:]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_first_start_that_is_cut_off_at_any_step_does_not_spoil_the_next(tmp_path: Path, number: int) -> None:
    steps = 0
    while True:
        steps += 1
        place = tmp_path / str(steps)
        place.mkdir()
        played = Played(place)
        if played.start(number, steps).returncode == 0:
            break
        assert played.said() == WHOLE, f"cut off before step {steps}"
        assert not (played.data / postgres.SCRATCH).exists()
    assert steps > 15, "the sweep reaches the end of a first start"


@pytest.mark.parametrize("program", ["initdb", "start", "psql", "stop"])
@pytest.mark.parametrize("number", ["KILL", "INT", "TERM"])
def test_a_first_start_that_is_cut_off_while_a_program_works_does_not_spoil_the_next(
    played: Played, program: str, number: str
) -> None:
    assert played.start(more={"CUT_IN": program, "CUT_BY": number}).returncode != 0
    assert played.said() == WHOLE


def test_a_first_start_is_begun_again_as_often_as_it_is_cut_off(played: Played) -> None:
    for program in ("psql", "initdb", "stop", "psql"):
        played.start(more={"CUT_IN": program, "CUT_BY": "KILL"})
    assert played.said() == WHOLE
    assert played.said() == WHOLE, "a start with a database changes nothing"


def an_older_first_start(played: Played, made: str) -> None:
    """What launchers before this one left when they were cut off: the version was there first."""
    (played.data / "base").mkdir(parents=True)
    (played.data / "global").mkdir()
    (played.data / "PG_VERSION").write_text("18")
    (played.data / "base" / "made").write_text(made)


@pytest.mark.parametrize("made", ["", WHOLE[0] + "\n"])
def test_a_database_without_its_role_or_database_is_repaired(played: Played, made: str) -> None:
    an_older_first_start(played, made)
    done = played.start()
    assert done.stdout.splitlines()[-3:] == WHOLE
    assert f"{played.data} lacked {'' if made else 'role me and '}database store; made now" in done.stdout
    assert "127.0.0.0/8" in (played.data / "pg_hba.conf").read_text()


def test_what_cannot_be_repaired_is_said(played: Played) -> None:
    an_older_first_start(played, "")
    done = played.start(more={"REFUSE": "yes"})
    assert done.returncode == 1
    assert f"{played.data} lacks role me and database store, which could not be made" in done.stderr


def test_a_database_that_cannot_be_opened_is_said_with_the_remedy(played: Played) -> None:
    an_older_first_start(played, "")
    (played.data / "global").rmdir()
    done = played.start()
    assert done.returncode == 1
    assert "cannot be opened" in done.stderr
    assert "delete the claim" in done.stderr


def test_files_of_another_database_are_not_overwritten(played: Played) -> None:
    (played.data / "base").mkdir(parents=True)
    done = played.start()
    assert done.returncode == 1
    assert "holds a part of a database (base) without PG_VERSION" in done.stderr


def test_a_second_server_on_the_directory_is_refused_and_the_first_keeps_its_files(played: Played) -> None:
    played.said()
    running = played.data / "postmaster.pid"
    running.write_text("1")
    with (played.data / postgres.LOCK).open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("first-pod-0")
        held.truncate()
        held.flush()
        done = played.start()
    assert done.returncode == 1
    assert f"first-pod-0 runs a server on {played.data}" in done.stderr
    assert running.read_text() == "1"
    assert played.said() == WHOLE, "what a killed server left is not an obstacle once it has ended"


def test_the_server_holds_the_directory_as_long_as_it_runs(played: Played) -> None:
    waits = BEGIN + 'case "$all" in --single*) cat > /dev/null ;; *) echo serving; exec cat ;; esac'
    (played.programs / "postgres").write_text(waits)
    command = [sys.executable, "-I", "-S", postgres.__file__, "--host", "127.1.1.1"]
    with subprocess.Popen(
        command, env=played.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "serving\n"
        assert played.start().returncode == 1
        first.stdin.close()
    assert first.returncode == 0
