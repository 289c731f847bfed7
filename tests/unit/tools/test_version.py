"""The version that a build gets: from the tag, from the commits, from the archive, from the environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.version import of_description, version


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MODELYARD_VERSION", raising=False)
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_a_checkout_without_tags_counts_its_commits(repository: Path) -> None:
    commit = git(repository, "rev-parse", "--short=8", "HEAD")
    assert version(repository) == f"0.1.0.dev1+g{commit}"
    (repository / "file").write_text("b")
    assert version(repository) == f"0.1.0.dev1+g{commit}.dirty"


def test_a_tagged_commit_has_the_version_of_the_tag(repository: Path) -> None:
    git(repository, "tag", "v0.2.0")
    assert version(repository) == "0.2.0"
    git(repository, "commit", "-qm", "second", "--allow-empty")
    assert version(repository).startswith("0.2.1.dev1+g")


def test_a_source_archive_has_the_version_it_was_made_with(repository: Path) -> None:
    unpacked = repository / "modelyard-0.3.0"
    unpacked.mkdir()
    (unpacked / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: modelyard\nVersion: 0.3.0\n")
    assert version(unpacked) == "0.3.0"


def test_a_folder_in_someone_elses_repository_does_not_take_their_version(repository: Path) -> None:
    git(repository, "tag", "v9.0.0")
    inner = repository / "vendored"
    inner.mkdir()
    assert version(inner) == "0.1.0.dev0"


def test_the_environment_goes_before_everything(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repository, "tag", "v0.2.0")
    monkeypatch.setenv("MODELYARD_VERSION", "0.2.0.post1")
    assert version(repository) == "0.2.0.post1"


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("v0.2.0-0-gabcd1234", "0.2.0"),
        ("v0.2.0-0-gabcd1234-dirty", "0.2.1.dev0+gabcd1234.dirty"),
        ("v1.0-7-gabcd1234", "1.1.dev7+gabcd1234"),
        ("v0.2.0rc1-0-gabcd1234", "0.2.0rc1"),
        ("v0.2.0rc1-3-gabcd1234", "0.2.0rc1.post0.dev3+gabcd1234"),
    ],
)
def test_descriptions_become_versions(described: str, expected: str) -> None:
    assert of_description(described) == expected


def test_a_tag_that_is_not_a_version_is_said() -> None:
    with pytest.raises(ValueError, match="tags are like v0"):
        of_description("v2-beta-4-gabcd1234")
