"""`export` and `import`: a cluster as one file, and files that are something else."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from modelyard.cli.main import main
from modelyard.local.apiserver.storage.sqlite import SQLiteJournal
from modelyard.local.laptop.layout import Layout

MANIFEST = {"format": 1, "program": "0.1.0"}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A cluster that does not run, with some data."""
    made = Layout(tmp_path / "cluster")
    made.create()
    SQLiteJournal(made.apiserver).close()
    (made.apiserver / "admin-token").write_text("secret")
    (made.kubelet / "network.json").write_text('{"range": 7}')
    volume = made.volumes / "uid"
    (volume / "sealed").mkdir(parents=True)
    (volume / "data").write_bytes(b"x" * 100_000)
    (volume / "data").chmod(0o640)
    (volume / "twin").hardlink_to(volume / "data")
    (volume / "link").symlink_to("/mlflow/elsewhere")
    (volume / "sealed" / "deep").write_text("deep")
    (volume / "sealed").chmod(0o500)
    return made


def command(*words: object) -> int:
    return main([str(word) for word in words])


def test_a_cluster_goes_into_a_file_and_comes_out_the_same(layout: Layout, tmp_path: Path) -> None:
    file, copy = tmp_path / "out.tar", Layout(tmp_path / "copy")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(layout.volumes / "uid")
        server.bind("socket")
        assert command("export", file, "--dir", layout.directory) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert command("import", file, "--dir", copy.directory) == 0
    volume = copy.volumes / "uid"
    assert (volume / "data").read_bytes() == (volume / "twin").read_bytes() == b"x" * 100_000
    assert (volume / "data").stat().st_mode & 0o777 == 0o640
    assert (volume / "link").readlink() == Path("/mlflow/elsewhere")
    assert (volume / "sealed" / "deep").read_text() == "deep"
    assert (volume / "sealed").stat().st_mode & 0o777 == 0o500
    assert not (volume / "socket").exists()
    assert (copy.apiserver / "admin-token").read_text() == "secret"
    assert (copy.kubelet / "network.json").read_text() == '{"range": 7}'
    SQLiteJournal(copy.apiserver).close()
    assert str(layout.directory).encode() not in file.read_bytes()


def test_export_overwrites_nothing_and_stays_out_of_the_cluster(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.tar"
    file.write_text("mine")
    assert command("export", file, "--dir", layout.directory) == 1
    assert "exists; remove it" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert command("export", layout.volumes / "out.tar", "--dir", layout.directory) == 1
    assert command("export", tmp_path / "none.tar", "--dir", tmp_path / "nowhere") == 1
    assert "there is no laptop cluster" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster", "out.tar"]


def test_import_replaces_a_cluster_only_if_told_to(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "out.tar", Layout(tmp_path / "other")
    assert command("export", file, "--dir", layout.directory) == 0
    other.create()
    SQLiteJournal(other.apiserver).close()
    (other.volumes / "theirs").mkdir()
    assert command("import", file, "--dir", other.directory) == 1
    assert "say --replace" in capsys.readouterr().err
    with other.hold():
        assert command("import", file, "--replace", "--dir", other.directory) == 1
    assert (other.volumes / "theirs").exists()
    assert command("import", file, "--replace", "--dir", other.directory) == 0
    assert [path.name for path in other.volumes.iterdir()] == ["uid"]


Change = Callable[[tarfile.TarFile], None]


def entry(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> Change:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, len(data), link
        tar.addfile(info, io.BytesIO(data))

    return add


def manifest(**more: object) -> Change:
    return entry("modelyard-cluster.json", data=msgspec.json.encode(MANIFEST | more))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([entry("volumes/a", data=b"x")], "was not written by `modelyard export`"),
        ([manifest(format=2, program="9.9")], "has format 2, written by modelyard 9.9; this one"),
        ([entry("modelyard-cluster.json", data=b"[]")], "has no readable manifest"),
        ([manifest(), entry("volumes/../../evil", data=b"x")], "does not belong"),
        ([manifest(), entry("/tmp/evil", data=b"x")], "does not belong"),
        ([manifest(), entry("kubeconfig", data=b"x")], "does not belong"),
        ([manifest(), entry("apiserver/x", tarfile.SYMTYPE, link="/etc")], "neither a file nor a folder"),
        (
            [
                manifest(),
                entry("volumes", tarfile.DIRTYPE),
                entry("volumes/a", tarfile.SYMTYPE, link="/tmp"),
                entry("volumes/a/evil", data=b"x"),
            ],
            "does not belong",
        ),
        ([manifest(), entry("volumes/a", tarfile.LNKTYPE, link="/etc/passwd")], "neither a file nor a folder"),
        ([manifest(), entry("volumes/a", tarfile.CHRTYPE)], "neither a file nor a folder"),
        ([manifest(), entry("volumes/a", tarfile.FIFOTYPE)], "neither a file nor a folder"),
        ([manifest(), entry("volumes/a", data=b"x"), entry("volumes/a", data=b"y")], "cannot import"),
        ([manifest(), entry("volumes", tarfile.DIRTYPE)], "it holds no objects"),
        ([manifest(), entry("apiserver/state.db", data=b"no database" * 20)], "it is not a SQLite database"),
    ],
)
def test_a_bad_file_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: list[Change], said: str
) -> None:
    file, folder = tmp_path / "bad.tar", tmp_path / "copy"
    with tarfile.open(file, "w:") as tar:
        for change in changes:
            change(tar)
    assert command("import", file, "--dir", folder) == 1
    assert said in capsys.readouterr().err
    assert not list(folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"hello" * 1000, b"\x1f\x8b" + b"0" * 600])
def test_what_is_not_an_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    file = tmp_path / "bad.tar"
    file.write_bytes(content)
    assert command("import", file, "--dir", tmp_path / "copy") == 1
    assert "was not written by `modelyard export`" in capsys.readouterr().err


def test_an_archive_that_promises_more_than_the_disk_holds_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.tar"
    with tarfile.open(file, "w:") as tar:
        manifest()(tar)
    info = tarfile.TarInfo("volumes/huge")
    info.size = 1 << 60
    with file.open("r+b") as raw:
        raw.seek(-10240, os.SEEK_END)
        raw.seek(1024 if raw.tell() < 1024 else raw.tell())
        raw.truncate(1024)
        raw.seek(1024)
        raw.write(info.tobuf(tarfile.PAX_FORMAT) + b"x" * 512)
    assert command("import", file, "--dir", tmp_path / "copy") == 1
    assert "not enough room" in capsys.readouterr().err
