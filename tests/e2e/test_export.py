"""A cluster that moves: its folder, or all of it as one file while its pods write."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import wait_until
from tests.e2e.laptop import Laptop

WRITE_FOREVER = "do $$ begin loop insert into log default values; commit; perform pg_sleep(0.01); end loop; end $$"
POSTGRES = Path(__file__).parents[2] / "examples" / "mlflow" / "postgres.yaml"

PROGRAM = """
import sqlite3, time
db = sqlite3.connect("/data/log.db")
db.execute("pragma journal_mode=wal")
db.execute("create table if not exists log (n integer primary key, pad text)")
while True:
    with db:
        db.executemany("insert into log (pad) values (?)", [("x" * 500,)] * 50)
    time.sleep(0.001)
"""
WRITER = [
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "writer"},
        "spec": {
            "selector": {"matchLabels": {"app": "writer"}},
            "template": {
                "metadata": {"labels": {"app": "writer"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                    "containers": [
                        {
                            "name": "writer",
                            "image": "python:3.11",
                            "command": ["python3", "-c", PROGRAM],
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        }
                    ],
                },
            },
        },
    },
]


@pytest.fixture(scope="module")
def writing(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    laptop = Laptop(tmp_path_factory.mktemp("export") / "cluster", kubectl_program)
    laptop.start()
    for obj in WRITER:
        laptop.apply(json.dumps(obj))
    laptop.wait(lambda: count(laptop) > 1000, "the pod writes")
    yield laptop
    laptop.stop()


def database(laptop: Laptop) -> Path:
    claim = laptop.get("pvc", "data")
    return laptop.directory / "volumes" / claim["metadata"]["uid"] / "log.db" if claim else Path("none")


def count(laptop: Laptop) -> int:
    """How many rows there are; -1 if the database is damaged."""
    if not database(laptop).exists():
        return 0
    db = sqlite3.connect(database(laptop))
    try:
        if db.execute("pragma integrity_check").fetchone() != ("ok",):
            return -1
        return int(db.execute("select count(*) from log").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        db.close()


def uids(laptop: Laptop) -> dict[str, str]:
    kinds = "namespaces,deployments,persistentvolumes,persistentvolumeclaims,services,secrets,customresourcedefinitions"
    return {
        f"{each['kind']}/{each['metadata'].get('namespace')}/{each['metadata']['name']}": each["metadata"]["uid"]
        for each in laptop.get(kinds, "-A")["items"]
    }


def test_a_cluster_is_exported_while_its_pods_write_and_goes_on_elsewhere(writing: Laptop, tmp_path: Path) -> None:
    file, before = tmp_path / "cluster.tar", count(writing)
    said = writing.modelyard("export", str(file))
    assert "keep it as you keep a private key" in said
    assert file.stat().st_mode & 0o777 == 0o600
    exported = count(writing)
    writing.wait(lambda: count(writing) > exported, "the original goes on")
    objects = uids(writing)
    assert before > 0
    writing.stop()

    copy = Laptop(tmp_path / "copy", writing.program)
    copy.modelyard("import", str(file))
    (volume,) = [path for path in (copy.directory / "volumes").iterdir() if (path / "log.db").exists()]
    db = sqlite3.connect(volume / "log.db")
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    found = db.execute("select count(*) from log").fetchone()[0]
    db.close()
    assert before <= found <= exported
    assert found % 50 == 0, "no transaction was torn"
    copy.start()
    try:
        assert uids(copy) == objects
        copy.wait(lambda: count(copy) > found, "the pod of the copy goes on from there")
        assert str(writing.directory) not in copy.kubectl("get", "pv", "-o", "yaml")
    finally:
        copy.stop()
        writing.start()


def test_a_moved_folder_starts_with_its_data(writing: Laptop, tmp_path: Path) -> None:
    writing.stop()
    moved = Laptop(tmp_path / "moved", writing.program)
    before = count_in(writing.directory)
    writing.directory.rename(moved.directory)
    moved.start()
    try:
        moved.wait(lambda: count(moved) > before, "the pod goes on in the moved folder")
        pods = moved.get("pods", "-l", "app=writer")["items"]
        assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    finally:
        moved.stop()
        moved.directory.rename(writing.directory)


def count_in(directory: Path) -> int:
    (file,) = directory.glob("volumes/*/log.db")
    db = sqlite3.connect(file)
    try:
        return int(db.execute("select count(*) from log").fetchone()[0])
    finally:
        db.close()


def test_postgresql_survives_a_killed_first_start_and_an_export_while_it_writes(
    kubectl_program: str, tmp_path: Path
) -> None:
    laptop, copy = (Laptop(tmp_path / name, kubectl_program) for name in ("cluster", "copy"))
    up = [sys.executable, "-m", "modelyard.cli.main", "up", "--dir", str(laptop.directory), "--operators", "mlflow"]
    with (tmp_path / "up.log").open("wb") as log:
        process = subprocess.Popen([*up, "--apply", str(POSTGRES)], stdout=log, stderr=log)
    try:
        wait_until(lambda: any(laptop.directory.glob("volumes/*/*")), "PostgreSQL fills its volume", alive=process)
        process.kill()
        process.wait()
        laptop.start(POSTGRES)
        sql(laptop, "create table log (n serial); insert into log select generate_series(1, 1000)")
        writer = subprocess.Popen([*query(laptop), WRITE_FOREVER], stderr=subprocess.DEVNULL)
        try:
            laptop.wait(lambda: rows(laptop) > 1000, "the writer writes")
            before = rows(laptop)
            laptop.modelyard("export", str(tmp_path / "cluster.tar"))
            exported = rows(laptop)
            laptop.wait(lambda: rows(laptop) > exported, "the original goes on")
        finally:
            writer.kill()
            writer.wait()
        laptop.stop()
        copy.modelyard("import", str(tmp_path / "cluster.tar"))
        copy.start(POSTGRES)
        assert before <= rows(copy) <= exported
    finally:
        process.kill()
        laptop.stop()
        copy.stop()


def query(laptop: Laptop) -> list[str]:
    """The command that asks the database of the example, but for the question."""
    psql = 'PGPASSWORD=$POSTGRES_PASSWORD exec psql -U $POSTGRES_USER -d $POSTGRES_DB -tAc "$1"'
    place = ["--kubeconfig", str(laptop.directory / "kubeconfig"), "-n", "opendatahub", "deploy/postgres-deployment"]
    return [laptop.program, "exec", *place, "--", "sh", "-c", psql, "psql"]


def sql(laptop: Laptop, question: str) -> str:
    return subprocess.run([*query(laptop), question], capture_output=True, text=True, check=True, timeout=60).stdout


def rows(laptop: Laptop) -> int:
    return int(sql(laptop, "select count(*) from log"))
