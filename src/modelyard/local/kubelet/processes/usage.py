"""What containers and the node use of CPU and memory, measured on their processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.processes.memory import resident, tree

_TICKS = os.sysconf("SC_CLK_TCK")
_PERIOD = 5.0
"""Seconds between two looks at the processors: the rate of use is over the time between them."""


@dataclass(frozen=True, slots=True)
class Used:
    """CPU in cores, memory in bytes."""

    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class Usage:
    """One measurement: of the node, and of containers by (namespace, pod, container)."""

    node: Used
    containers: Mapping[tuple[str, str, str], Used]
    taken: float
    """Seconds since the epoch."""
    window: float
    """Seconds over which CPU was measured."""

    def data(self) -> Object:
        rows = [
            {"namespace": namespace, "pod": pod, "container": container, "cpu": used.cpu, "memory": used.memory}
            for (namespace, pod, container), used in self.containers.items()
        ]
        node = {"cpu": self.node.cpu, "memory": self.node.memory}
        return {"node": node, "containers": rows, "taken": self.taken, "window": self.window}


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    machine: float
    containers: Mapping[int, float]
    """CPU seconds by the process id of a container's program, with its descendants."""


@dataclass(slots=True)
class Meter:
    """Measures when asked. A rate needs two looks, so the first answer takes a moment."""

    running: Callable[[], Mapping[tuple[str, str, str], int]]
    """The process ids of containers."""
    _last: _Look | None = None
    _measuring: asyncio.Lock = field(default_factory=asyncio.Lock)
    _usage: Usage | None = None

    async def usage(self) -> Usage:
        async with self._measuring:
            now = time.monotonic()
            if self._last is None or now - self._last.at > 12 * _PERIOD:
                self._last = await asyncio.to_thread(self._look)
                await asyncio.sleep(_PERIOD / 5)
            elif self._usage is not None and now - self._last.at < _PERIOD / 5:
                return self._usage
            self._usage = await asyncio.to_thread(self._measure, self._last)
            return self._usage

    def _look(self) -> _Look:
        pids = self.running().values()
        return _Look(time.monotonic(), machine_seconds(), {pid: processor_seconds(pid) for pid in pids if pid})

    def _measure(self, before: _Look) -> Usage:
        running = {key: pid for key, pid in self.running().items() if pid}
        after = self._look()
        window = max(after.at - before.at, 0.001)
        if window >= _PERIOD:
            self._last = after

        def cores(pid: int) -> float:
            spent = after.containers.get(pid, 0.0) - before.containers.get(pid, 0.0)
            return max(0.0, spent / window)

        used = {key: Used(cores(pid), resident(pid)) for key, pid in running.items()}
        node = Used(max(0.0, (after.machine - before.machine) / window), machine_memory())
        return Usage(node, used, time.time(), window)


def processor_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, also of children that have ended."""
    ticks = 0
    for current in tree(pid):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{current}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / _TICKS


def machine_seconds() -> float:
    """CPU time that this machine has spent on anything but waiting."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, *rest = (int(word) for word in file.readline().split()[1:])
    return (user + nice + system + irq + softirq + (rest[0] if rest else 0)) / _TICKS


def machine_memory() -> int:
    """Bytes of memory that are not available to new programs."""
    with open("/proc/meminfo") as file:
        values = {line.partition(":")[0]: int(line.split()[1]) for line in file}
    return (values["MemTotal"] - values["MemAvailable"]) * 1024
