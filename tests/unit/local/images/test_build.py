"""The builder with a stand-in for uv: atomic, once, honest about failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from modelyard.local.images import Base, Builder, BuildError, Recipe
from modelyard.local.images.build import cache_directory
from modelyard.local.images.installer import installer_environment

UV = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$1" = venv ]; then
  for last; do :; done
  mkdir -p "$last/bin" && echo x > "$last/bin/python"
else
  echo "Resolved 3 packages" >&2
  {extra}
fi
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text("a==1 --hash=sha256:00\n")
    return path


class Shop:
    def __init__(self, directory: Path, lock: Path) -> None:
        self.directory = directory
        self.recipe = Recipe("thing", "a thing", ("thing",), "1", lock=lock)

    def builder(self, extra: str = "") -> Builder:
        script = self.directory / "uv"
        script.write_text(UV.format(log=self.directory / "calls", extra=extra))
        script.chmod(0o755)
        return Builder(self.directory / "cache", uv=str(script))

    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def shop(tmp_path: Path, lock: Path) -> Shop:
    return Shop(tmp_path, lock)


async def test_an_image_is_built_once_and_found_afterwards(shop: Shop) -> None:
    builder, said = shop.builder(), list[str]()
    assert builder.find(shop.recipe) is None
    built = await builder.build(shop.recipe, said.append)
    assert (built.prefix / "bin" / "python").exists()
    assert built.size > 0
    assert "Resolved 3 packages" in said
    assert (await builder.build(shop.recipe)) == built
    assert shop.calls() == ["venv", "pip"]


async def test_two_builders_build_once(shop: Shop) -> None:
    first, second = shop.builder("sleep 0.3"), shop.builder("sleep 0.3")
    one, two = await asyncio.gather(first.build(shop.recipe), second.build(shop.recipe))
    assert one == two
    assert shop.calls() == ["venv", "pip"]


async def test_a_failed_build_leaves_nothing_and_says_what_the_installer_said(shop: Shop) -> None:
    builder = shop.builder("echo 'error: no such package' >&2; exit 2")
    with pytest.raises(BuildError, match="no such package"):
        await builder.build(shop.recipe)
    assert builder.find(shop.recipe) is None
    assert [path.name for path in builder.cache.iterdir() if path.is_dir()] == []


async def test_a_changed_lock_is_another_image_and_prune_deletes_the_old_one(shop: Shop, lock: Path) -> None:
    builder = shop.builder()
    old = await builder.build(shop.recipe)
    lock.write_text("a==2 --hash=sha256:11\n")
    new = await builder.build(shop.recipe)
    assert new.prefix != old.prefix
    assert {item.path: item.current for item in builder.cached([shop.recipe])} == {old.prefix: False, new.prefix: True}
    assert [item.path for item in builder.prune([shop.recipe])] == [old.prefix]
    assert new.prefix.exists()
    assert [item.path for item in builder.prune([shop.recipe], all=True)] == [new.prefix]


async def test_a_missing_installer_says_what_to_install(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "uv", None)
    with pytest.raises(BuildError, match="pip install uv"):
        await Builder(shop.directory / "cache").build(shop.recipe)


def test_the_users_index_and_certificates_are_honoured() -> None:
    env = {"PIP_INDEX_URL": "https://index", "PIP_CERT": "/ca", "VIRTUAL_ENV": "/v", "HTTPS_PROXY": "http://p"}
    found = installer_environment(env)
    assert found["UV_DEFAULT_INDEX"] == "https://index"
    assert (found["SSL_CERT_FILE"], found["HTTPS_PROXY"]) == ("/ca", "http://p")
    assert "VIRTUAL_ENV" not in found
    assert installer_environment({"UV_DEFAULT_INDEX": "own", "PIP_INDEX_URL": "x"})["UV_DEFAULT_INDEX"] == "own"


def test_the_cache_is_where_the_user_says() -> None:
    assert cache_directory({"MODELYARD_CACHE": "/c"}) == Path("/c/images")
    assert cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/modelyard/images")


async def test_an_image_of_pinned_packages_is_built_from_them_and_one_without_needs_no_network(shop: Shop) -> None:
    await shop.builder().build(Recipe("web", "", ("web",), "1", packages=("flask==3.1.0",)))
    assert shop.calls() == ["venv", "pip"]
    await shop.builder().build(Recipe("python", "", ("python",), "3", base=Base.ENVIRONMENT))
    assert shop.calls() == ["venv", "pip", "venv"]
