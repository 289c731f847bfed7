"""Gets images for containers: Events, pull policies and the back-off of a kubelet, on top of recipes and their builder."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from modelyard.kube.kinds import Object
from modelyard.local.images import Builder, BuildError, Built, NoRecipe, Registry
from modelyard.local.images.recipe import Recipe, tag
from modelyard.local.kubelet.backoff import BackOff
from modelyard.local.kubelet.events import Tell


class PullError(Exception):
    """The image is not there now. `retry` is when to try again."""

    def __init__(self, reason: str, message: str, retry: datetime) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry = retry


class Images(Protocol):
    """Where images come from."""

    def find(self, image: str) -> Built | None: ...

    async def pull(self, image: str) -> Built: ...


class RecipeImages:
    """Images by recipe; one build at a time for each, shared by all pods that wait for it."""

    def __init__(
        self, registry: Registry, builder: Builder, progress: Callable[[str, str], None] = lambda image, line: None
    ):
        """`progress` takes an image and a line about its build; an empty one in the end."""
        self._registry = registry
        self._builder = builder
        self._progress = progress
        self._building: dict[str, asyncio.Task[Built]] = {}

    def find(self, image: str) -> Built | None:
        try:
            return self._builder.find(self._registry.find(image))
        except NoRecipe:
            return None

    async def pull(self, image: str) -> Built:
        recipe = self._registry.find(image)
        task = self._building.get(recipe.name)
        if task is None or task.done():
            task = asyncio.create_task(self._build(image, recipe))
            self._building[recipe.name] = task
        return await asyncio.shield(task)

    async def _build(self, image: str, recipe: Recipe) -> Built:
        try:
            return await self._builder.build(recipe, lambda line: self._progress(image, line))
        finally:
            self._progress(image, "")

    async def close(self) -> None:
        for task in self._building.values():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, BuildError):
                await task


class Puller:
    def __init__(self, images: Images, tell: Tell, clock: Callable[[], datetime]) -> None:
        self._images = images
        self._tell = tell
        self._clock = clock
        self._backoff = BackOff()
        self._failed: dict[str, tuple[datetime, str]] = {}

    async def ensure(self, pod: Object, container: Object) -> Built:
        """The container's image, got if it is not there. An Event says so where something else runs than the image names."""
        built = await self._ensure(pod, container)
        instead = built.recipe.substitution(container["image"])
        if instead:
            self._tell(pod, "Normal", "ImageSubstituted", instead, container=container["name"])
        return built

    async def _ensure(self, pod: Object, container: Object) -> Built:
        image, name = container["image"], container["name"]
        policy = container.get("imagePullPolicy") or ("Always" if tag(image) == "latest" else "IfNotPresent")
        found = self._images.find(image)
        if found is not None and policy != "Always":
            message = f'Container image "{image}" already present on machine and can be accessed by the pod'
            self._tell(pod, "Normal", "Pulled", message, container=name)
            return found
        if policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            self._tell(pod, "Warning", "ErrImageNeverPull", message, container=name)
            self._tell(pod, "Warning", "Failed", "Error: ErrImageNeverPull", container=name)
            raise PullError("ErrImageNeverPull", message, self._clock() + timedelta(seconds=10))
        key = f"{pod['metadata']['uid']}_{image}"
        self._wait(pod, container, key)
        self._tell(pod, "Normal", "Pulling", f'Pulling image "{image}"', container=name)
        began = asyncio.get_running_loop().time()
        try:
            built = await self._images.pull(image)
        except (NoRecipe, BuildError) as error:
            now = self._clock()
            self._tell(pod, "Warning", "Failed", f'Failed to pull image "{image}": {error}', container=name)
            self._tell(pod, "Warning", "Failed", "Error: ErrImagePull", container=name)
            self._backoff.next(key, now, now)
            self._failed[key] = (now, f"ErrImagePull: {error}")
            # A kubelet syncs again soon and then finds itself in back-off, which is what people look for.
            raise PullError("ErrImagePull", str(error), now + timedelta(seconds=1)) from error
        self._failed.pop(key, None)
        self._backoff.reset(key)
        took = _seconds(asyncio.get_running_loop().time() - began)
        message = (
            f'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: {built.size} bytes.'
        )
        self._tell(pod, "Normal", "Pulled", message, container=name)
        return built

    def located(self, image: str, command: Sequence[str]) -> Sequence[str]:
        """A command in a container of that image, with the image's own programs where they are here."""
        found = self._images.find(image)
        return command if found is None else found.recipe.located(command)

    def _wait(self, pod: Object, container: Object, key: str) -> None:
        failed = self._failed.get(key)
        if failed is None:
            return
        at, message = failed
        until = self._backoff.until(key, at)
        if until is None or self._clock() >= until:
            return
        image, name = container["image"], container["name"]
        text = f'Back-off pulling image "{image}"'
        self._tell(pod, "Normal", "BackOff", text, container=name)
        self._tell(pod, "Warning", "Failed", "Error: ImagePullBackOff", container=name)
        raise PullError("ImagePullBackOff", f"{text}: {message}", until)

    def forget(self, uid: str) -> None:
        for key in [key for key in self._failed if key.startswith(f"{uid}_")]:
            del self._failed[key]
            self._backoff.reset(key)


def _seconds(value: float) -> str:
    milliseconds = int(value * 1000)
    return f"{milliseconds}ms" if milliseconds < 1000 else f"{milliseconds / 1000:g}s"
