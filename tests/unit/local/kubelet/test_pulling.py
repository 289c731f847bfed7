"""Images that are built when a pod needs them: once for all who wait, with news about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from modelyard.local.images import Builder, BuildError, Built, Recipe, Registry
from modelyard.local.images.build import Progress
from modelyard.local.kubelet.pulling import RecipeImages

RECIPE = Recipe("shop", "a shop", ("shop",), "1", command=("open",))


class Workshop(Builder):
    def __init__(self, directory: Path, *, fails: bool = False) -> None:
        super().__init__(directory)
        self.fails = fails
        self.builds = 0

    async def build(self, recipe: Recipe, progress: Progress = lambda line: None) -> Built:
        self.builds += 1
        progress("Downloading numpy (17 MB)")
        await asyncio.sleep(0)
        if self.fails:
            raise BuildError("no space left")
        return Built(recipe, self.cache, "sha256:0", 1)


async def test_pods_that_wait_for_an_image_share_one_build_and_its_news_end(tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []
    workshop = Workshop(tmp_path)
    images = RecipeImages(Registry([RECIPE]), workshop, lambda image, line: said.append((image, line)))
    await asyncio.gather(images.pull("shop:1"), images.pull("shop:2"))
    assert workshop.builds == 1
    assert said == [("shop:1", "Downloading numpy (17 MB)"), ("shop:1", "")]


async def test_the_news_of_a_failed_build_end_too(tmp_path: Path) -> None:
    said: list[str] = []
    images = RecipeImages(Registry([RECIPE]), Workshop(tmp_path, fails=True), lambda image, line: said.append(line))
    with pytest.raises(BuildError, match="no space left"):
        await images.pull("shop:1")
    assert said[-1] == ""
