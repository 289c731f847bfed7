"""What goes on inside a running plane, as data and as text: queues, passes and what woke them, caches, last errors, tasks and a CPU profile."""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
from collections.abc import Awaitable, Callable

from modelyard.kube.kinds import Object
from modelyard.runtime.process.manager import Manager


def overview(manager: Manager) -> Object:
    elector = manager.elector
    return {
        "leading": manager.leading,
        "lease": {"name": elector.settings.name, "holder": elector.holder, "identity": elector.identity}
        if elector
        else None,
        "problems": manager.problems,
        "controllers": [engine.controller.name for engine in manager.engines],
        "pages": [
            "/debug/queues",
            "/debug/passes",
            "/debug/caches",
            "/debug/errors",
            "/debug/tasks",
            "/debug/profile?seconds=5",
        ],
    }


def queues(manager: Manager) -> list[Object]:
    return [
        {
            "controller": engine.controller.name,
            "ready": len(engine.queue),
            "delayed": engine.queue.delayed,
            "working": {str(key): round(seconds, 3) for key, seconds in engine.queue.working.items()},
            "passes": engine.passes,
        }
        for engine in manager.engines
    ]


def passes(manager: Manager) -> list[Object]:
    """The last passes of every controller, the newest first, and what woke each."""
    return [
        {
            "controller": engine.controller.name,
            "key": str(note.key),
            "why": note.why,
            "result": note.result,
            "seconds": round(note.seconds, 4),
            "at": note.at,
        }
        for engine in manager.engines
        for note in reversed(engine.recent)
    ]


def errors(manager: Manager) -> list[Object]:
    """The last error of every key that has one now."""
    return [
        {
            "controller": engine.controller.name,
            "key": str(key),
            "error": last.message,
            "at": last.at,
            "failures": engine.queue.failures(key),
        }
        for engine in manager.engines
        for key, last in engine.errors.items()
    ]


def tasks() -> str:
    """Every task and where it is, the longest stacks last."""
    out = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        out.write(f"{task.get_name()}\n")
        task.print_stack(file=out)
        out.write("\n")
    return out.getvalue()


async def profile(seconds: float, sleep: Callable[[float], Awaitable[None]]) -> str:
    """A CPU profile of this process's event loop, by cumulative time."""
    profiler = cProfile.Profile()
    try:
        profiler.enable()
    except ValueError:
        return "another profile is being taken; try again when it is done"
    try:
        await sleep(seconds)
    finally:
        profiler.disable()
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("cumulative").print_stats(60)
    return out.getvalue()
