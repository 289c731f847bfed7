"""`modelyard images`: what can run here, what of it is built, and getting rid of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelyard.cli.laptop.images import size_text
from modelyard.cli.main import main
from modelyard.local.images.build import Builder
from modelyard.local.images.registry import Registry


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    return tmp_path / "images"


def built(cache: Path, name: str, size: int) -> Path:
    folder = cache / name
    folder.mkdir(parents=True)
    (folder / "modelyard-size").write_text(str(size))
    return folder


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["images", "-o", "json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_the_list_says_what_is_built_and_how_large_it_is(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = next(r for r in Registry.installed() if r.name == "mlflow")
    assert rows(capsys)["mlflow"]["built"] == "not yet"
    built(cache, Builder().path(recipe).name, 671_000_000)
    found = rows(capsys)
    assert found["mlflow"]["built"] == "671 MB"
    assert found["http-echo"]["built"] == "part of modelyard"
    assert main(["images"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["NAME", "VERSION", "IMAGES", "BUILT", "WHAT", "IT", "IS"]


def test_prune_deletes_what_no_recipe_uses_and_with_all_everything(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = next(r for r in Registry.installed() if r.name == "mlflow")
    old, new = built(cache, "mlflow-0123456789ab", 5_000), built(cache, Builder().path(recipe).name, 1)
    assert main(["images", "prune"]) == 0
    assert capsys.readouterr().out == "deleted 1 built images, 5.0 kB\n"
    assert (old.exists(), new.exists()) == (False, True)
    assert main(["images", "prune"]) == 0
    assert capsys.readouterr().out == "nothing to delete\n"
    assert main(["images", "prune", "--all", "-o", "json"]) == 0
    assert not new.exists()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (82_000_000, "82 MB"), (1_040_000_000, "1.0 GB")]
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_recipe_with_a_mistake_is_named_and_the_others_are_listed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MODELYARD_IMAGES", str(tmp_path))
    (tmp_path / "web.toml").write_text('images = ["web"]\npackages = ["flask"]')
    assert main(["images"]) == 1
    said = capsys.readouterr()
    assert "http-echo" in said.out
    assert f"{tmp_path}/web.toml: packages: 'flask' is not pinned; write it as name==version" in said.err
