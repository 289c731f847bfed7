"""Recipes in files of the user's own: what they can say, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.local.images import Builder, Built, Invocation, NoRecipe, Recipe, Registry
from modelyard.local.images.files import BadFile, Folder, images_directory, read

WEB = """
images = ["shop/web", "web-*"]
version = "2.1"
packages = ["flask==3.1.0", "gunicorn[gevent]==23.0.0"]
source = ["code"]
entrypoint = ["python3", "-m"]
command = ["shop"]

[env]
MODE = "demo"
"""


def written(folder: Path, text: str, name: str = "web.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_is_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    recipe = read(written(tmp_path, WEB))
    assert (recipe.name, recipe.version, recipe.packages) == (
        "web",
        "2.1",
        ("flask==3.1.0", "gunicorn[gevent]==23.0.0"),
    )
    assert recipe.matches("shop/web:1")
    assert recipe.matches("example.com/web-front")
    assert (recipe.entrypoint, recipe.command, recipe.env) == (("python3", "-m"), ("shop",), {"MODE": "demo"})
    built = Built(recipe, Path("/images/web"), "sha256:0")
    assert built.python_path() == [tmp_path / "code"]
    assert built.python == "/images/web/bin/python"
    started = recipe.translate(Invocation(("shop",), {"PATH": "/usr/bin"}, "127.1.1.1", built))
    assert started.env["PATH"] == "/images/web/bin:/usr/bin"


def test_a_file_without_packages_runs_programs_of_the_machine(tmp_path: Path) -> None:
    recipe = read(written(tmp_path, 'images = ["tool"]\ncommand = ["ls"]'))
    assert not recipe.has_environment
    assert Built(recipe, tmp_path, "sha256:0").shown() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("images = [", "not TOML"),
        ("", "images: is missing; name the images that this recipe runs"),
        ("images = []", "images: must not be empty"),
        ('images = "web"', "images: must be a list of texts"),
        ('images = ["web:1"]', "images: 'web:1' has a tag; leave it out"),
        ('images = ["w"]\npackage = []', "package: unknown field; a recipe has images, description"),
        ('images = ["w"]\npackages = ["flask"]', "packages: 'flask' is not pinned; write it as name==version"),
        ('images = ["w"]\npackages = ["flask==3.*"]', "packages: 'flask==3.*' is not pinned"),
        ('images = ["w"]\npackages = ["--index-url=x==1"]', "is not pinned"),
        ('images = ["w"]\nlock = "w.lock"', "lock: there is no file"),
        ('images = ["w"]\nlock = "web.toml"', "has no hashes; make it with `uv pip compile --generate-hashes`"),
        ('images = ["w"]\nsource = ["nowhere"]', "source: there is no folder"),
        ('images = ["w"]\nversion = 2', "version: must be a text"),
        ('images = ["w"]\n[env]\nN = 1', "env: must be a table of texts"),
        ('images = ["w"]\n[env]\n"A=B" = "1"', "env: 'A=B' cannot be the name of a variable"),
    ],
)
def test_a_mistake_names_the_file_the_field_and_the_remedy(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadFile) as failure:
        read(path)
    assert str(failure.value).startswith(f"{path}: ")
    assert said in str(failure.value)


def test_packages_and_a_lock_at_once_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "a==1 --hash=sha256:00", "w.lock")
    with pytest.raises(BadFile, match="lock: packages are given as well; keep one of the two"):
        read(written(tmp_path, 'images = ["w"]\nlock = "w.lock"\npackages = ["a==1"]'))


def test_a_file_is_used_as_soon_as_it_is_written_and_goes_before_ours(tmp_path: Path) -> None:
    registry = Registry([Recipe("python", "", ("python",), "3")], Folder(tmp_path / "images.d"))
    assert registry.find("python:3").name == "python"
    (tmp_path / "images.d").mkdir()
    written(tmp_path / "images.d", 'images = ["python"]', "mine.toml")
    assert registry.find("python:3").name == "mine"


def test_a_file_with_a_mistake_hides_no_other_and_is_told_where_an_image_is_missed(tmp_path: Path) -> None:
    written(tmp_path, 'images = ["good"]', "good.toml")
    bad = written(tmp_path, 'images = ["bad"]\npackages = ["x"]', "bad.toml")
    registry = Registry([], Folder(tmp_path))
    assert registry.find("good").name == "good"
    with pytest.raises(NoRecipe) as failure:
        registry.find("bad:1")
    assert f"Add one as a TOML file in {tmp_path}" in str(failure.value)
    assert f"{bad}: packages: 'x' is not pinned" in str(failure.value)


def test_other_packages_are_another_build(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    one, two = (Recipe("web", "", ("web",), "1", packages=(package,)) for package in ("flask==3.1.0", "flask==3.1.1"))
    assert builder.path(one) != builder.path(two)
    assert builder.find(one) is None


def test_where_the_files_are(tmp_path: Path) -> None:
    assert images_directory({"MODELYARD_IMAGES": str(tmp_path)}) == tmp_path
    assert images_directory({"XDG_CONFIG_HOME": "/c"}) == Path("/c/modelyard/images.d")
    assert images_directory({}) == Path.home() / ".config/modelyard/images.d"
