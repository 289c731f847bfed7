"""A node without processes: pods live in virtual time on a scripted runtime, and every status and Event is kept."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from modelyard.kube.kinds import Kind, Object
from modelyard.local.images import Builder, Built, NoRecipe, Recipe
from modelyard.local.kubelet.backoff import BackOff
from modelyard.local.kubelet.facts import Node
from modelyard.local.kubelet.launch import Machine
from modelyard.local.kubelet.probes import Outcome, Target
from modelyard.local.kubelet.processes.memory import MemoryWatch
from modelyard.local.kubelet.processes.runtime import Exit, Launch, NotRunning, Process, StartFailed
from modelyard.local.kubelet.processes.sandbox import Isolation, Sandbox
from modelyard.local.kubelet.pulling import Puller
from modelyard.local.kubelet.tools import Tools
from modelyard.local.kubelet.volumes.directories import VolumeContext
from modelyard.local.kubelet.volumes.tokens import Token
from modelyard.local.kubelet.worker import PodWorker, Surroundings
from modelyard.local.network.addresses import PodAddresses

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
RECIPE = Recipe("test", "a test program", ("test",), "1", command=("run",))


@dataclass
class Run:
    """What one run of a container does: ends by itself `after` seconds, and how it takes SIGTERM."""

    code: int = 0
    after: float | None = None
    on_term: float | None = 0.0
    """Seconds from SIGTERM to the end; None: the signal is ignored."""
    fails: str = ""
    signal: int = 0


@dataclass
class Objects:
    held: dict[tuple[str, str, str], Object] = field(default_factory=dict)

    def put(self, kind: Kind, obj: Object) -> None:
        self.held[(kind.kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])] = obj

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.held.get((kind.kind, namespace, name)))

    def list(self, kind: Kind, namespace: str = "") -> list[Object]:
        return [o for (k, n, _), o in self.held.items() if k == kind.kind and (not namespace or n == namespace)]


class Runtime:
    """Processes that exist only as timers."""

    def __init__(self, clock: Callable[[], datetime], script: dict[str, list[Run]]) -> None:
        self._clock = clock
        self.script = script
        self.on_exit: Callable[[str, Exit], None] = lambda identity, exit: None
        self.alive: dict[str, Run] = {}
        self.launches: list[Launch] = []
        self.signals: list[tuple[str, int]] = []
        self.commands: dict[tuple[str, ...], tuple[int, float]] = {}
        self.executed: list[tuple[str, ...]] = []

    def now(self) -> int:
        return int(self._clock().timestamp() * 1e9)

    async def start(self, launch: Launch) -> Process:
        self.launches.append(launch)
        name, number = launch.identity.split("/")[2:]
        runs = self.script.get(name) or [Run()]
        run = runs[min(int(number), len(runs) - 1)]
        if run.fails:
            raise StartFailed(run.fails)
        self.alive[launch.identity] = run
        if run.after is not None:
            asyncio.get_running_loop().call_later(run.after, self.end, launch.identity, run.code, run.signal)
        return Process(launch.identity, 4242, self.now(), None)

    def end(self, identity: str, code: int, signal: int = 0) -> None:
        if self.alive.pop(identity, None) is not None:
            self.on_exit(identity, Exit(code, signal, self.now()))

    async def signal(self, identity: str, number: int = 15) -> None:
        self.signals.append((identity.split("/")[2], number))
        run = self.alive.get(identity)
        if run is not None and run.on_term is not None:
            code = 0 if run.after is None else 143
            asyncio.get_running_loop().call_later(run.on_term, self.end, identity, code)

    async def kill(self, identity: str) -> None:
        self.signals.append((identity.split("/")[2], 9))
        asyncio.get_running_loop().call_later(0, self.end, identity, 137, 9)

    async def forget(self, identity: str) -> None: ...

    async def execute(
        self, container: str, argv: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]:
        if container not in self.alive:
            raise NotRunning("container not running")
        self.executed.append(tuple(argv))
        code, delay = self.commands.get(tuple(argv), (0, 0.0))
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(code)

        asyncio.get_running_loop().call_later(delay, finish)
        return done

    async def abandon(self, done: asyncio.Future[int]) -> None:
        done.cancel()


class Images:
    def __init__(self, prefix: Path) -> None:
        self._built = Built(RECIPE, prefix, "sha256:0", 1000)
        self.present = True
        self.slow = 0.0

    def find(self, image: str) -> Built | None:
        return self._built if image.startswith("test") and self.present else None

    async def pull(self, image: str) -> Built:
        await asyncio.sleep(self.slow)
        if not image.startswith("test"):
            raise NoRecipe(image, ["test"])
        self.present = True
        return self._built


class FixedTokens:
    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.count = 0

    async def for_pod(self, pod: Object, *, audience: str, seconds: int) -> Token:
        self.count += 1
        return Token(f"token-{self.count}", self._clock() + timedelta(seconds=seconds * 0.8))

    def forget(self, uid: str) -> None: ...


@dataclass
class Told:
    kind: str
    reason: str
    message: str
    container: str
    at: float


class PodScenario:
    """One pod on the scripted node."""

    def __init__(self, directory: Path, pod: Object, script: dict[str, list[Run]] | None = None) -> None:
        self.directory = directory
        self.objects = Objects()
        self.loop = asyncio.get_running_loop()
        self._zero = self.loop.time()
        self.runtime = Runtime(self.clock, script or {})
        self.runtime.on_exit = self._exited
        self.events: list[Told] = []
        self.statuses: list[tuple[float, Object]] = []
        self.removed = False
        self._news = asyncio.Event()
        self.images = Images(directory)
        self.tokens = FixedTokens(self.clock)
        self.health: Callable[[Object], Outcome] = lambda probe: Outcome(True)
        self.memory = MemoryWatch(lambda pid: self.used)
        self.used = 0
        self.backoff = BackOff()
        self.pod = complete(pod)
        self._task: asyncio.Task[None] | None = None
        self.worker = self._make({})

    def clock(self) -> datetime:
        return EPOCH + timedelta(seconds=self.loop.time() - self._zero)

    @property
    def time(self) -> float:
        return round(self.loop.time() - self._zero, 1)

    def _make(self, processes: dict[str, Process]) -> PodWorker:
        node = Node("local", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"})
        session: Any = None
        tools = Tools(
            runtime=self.runtime,
            puller=Puller(self.images, self._tell, self.clock),
            machine=Machine(node, self.objects, Sandbox(Isolation.PATHS, "a test")),
            backoff=self.backoff,
            memory=self.memory,
            tell=self._tell,
            clock=self.clock,
            session=session,
            prober=self._probe,
            offload=inline,
        )
        tokens: Any = self.tokens
        around = Surroundings(
            directory=self.directory / "pods",
            scope="scope",
            tools=tools,
            volumes=VolumeContext(self.objects, tokens, node, self.directory / "volumes"),
            addresses=PodAddresses(ipaddress.IPv4Network("127.99.128.0/17")),
            report=self._report,
            remove=self._remove,
            hosts=lambda pod, address, path: None,
            names=lambda namespace: {},
        )
        return PodWorker(self.pod, around, processes)

    def start(self) -> PodScenario:
        self.memory.start()
        self._task = asyncio.create_task(self.worker.run())
        return self

    async def restart_kubelet(self, *, alive: bool = True) -> None:
        """The kubelet process dies and another one takes over; the containers lived on, or did not."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for worker in self.worker.workers.values():
            await worker.close()
        if not alive:
            self.runtime.alive.clear()
        found = {name: Process(name, 4242, self.runtime.now(), None) for name in self.runtime.alive}
        self.worker = self._make(found)
        self._task = asyncio.create_task(self.worker.run())

    async def _probe(self, probe: Object, target: Target) -> Outcome:
        if probe.get("exec"):
            from modelyard.local.kubelet.probes import check

            return await check(probe, target)
        return self.health(probe)

    def _exited(self, identity: str, exit: Exit) -> None:
        _, _, name, number = identity.split("/")
        self.worker.exited(name, int(number), exit)

    def _tell(self, obj: Object, kind: str, reason: str, message: str, *, container: str = "") -> None:
        self.events.append(Told(kind, reason, message, container, self.time))
        self._news.set()

    def _report(self, pod: Object, status: Object) -> None:
        self.statuses.append((self.time, copy.deepcopy(status)))
        self._news.set()
        self.pod = copy.deepcopy(self.pod) | {"status": copy.deepcopy(status)}
        self.loop.call_soon(lambda: self.worker.update(self.pod))

    async def _remove(self, pod: Object) -> bool:
        self.removed = True
        self._news.set()
        return True

    def delete(self, grace: int | None = None) -> None:
        seconds = grace if grace is not None else self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        meta = self.pod["metadata"] | {
            "deletionTimestamp": "2030-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": seconds,
        }
        self.pod = copy.deepcopy(self.pod) | {"metadata": meta}
        self.worker.update(self.pod)

    async def until(self, condition: Callable[[Object], bool], within: float = 1000.0) -> Object:
        """Wait for a status; virtual time makes this quick."""
        end = self.loop.time() + within
        while not (self.statuses and condition(self.status)):
            if self.loop.time() >= end:
                raise AssertionError(f"not reached within {within} s; last status: {self.statuses[-1:]}")
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._news.wait()
        return self.status

    @property
    def status(self) -> Object:
        return self.statuses[-1][1]

    def state(self, container: str = "main") -> Object:
        return state_of(self.status, container)

    def condition(self, kind: str) -> str:
        found: str = next(item["status"] for item in self.status["conditions"] if item["type"] == kind)
        return found

    def history(self, container: str = "main") -> list[str]:
        """The states a container went through, each once in a row, such as `waiting:ContainerCreating`."""
        seen: list[str] = []
        for _, status in self.statuses:
            state = state_of(status, container)
            text = describe(state)
            if not seen or seen[-1] != text:
                seen.append(text)
        return seen

    def phases(self) -> list[str]:
        found: list[str] = []
        for _, status in self.statuses:
            if not found or found[-1] != status["phase"]:
                found.append(status["phase"])
        return found

    def reasons(self, container: str | None = None) -> list[str]:
        return [event.reason for event in self.events if container is None or event.container == container]

    def messages(self, reason: str) -> list[str]:
        return [event.message for event in self.events if event.reason == reason]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.worker.close()
        await self.memory.close()


async def inline(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def state_of(status: Object, container: str) -> Object:
    items: list[Object] = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for item in items:
        if item["name"] == container:
            return item
    raise KeyError(container)


def describe(status: Object) -> str:
    state = status["state"]
    if "running" in state:
        return "running" + (":ready" if status["ready"] else "")
    kind = "waiting" if "waiting" in state else "terminated"
    return f"{kind}:{state[kind].get('reason', '')}"


def complete(pod: Object) -> Object:
    """Fill in what the API server would."""
    pod = copy.deepcopy(pod)
    meta = pod.setdefault("metadata", {})
    for key, value in {"name": "web", "namespace": "demo", "uid": "u-1", "generation": 1}.items():
        meta.setdefault(key, value)
    pod["spec"].setdefault("nodeName", "local")
    pod["spec"].setdefault("restartPolicy", "Always")
    for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
        container.setdefault("image", "test:1")
    return pod


def simple(restart: str = "Always", **container: Any) -> Object:
    return {"spec": {"restartPolicy": restart, "containers": [{"name": "main", **container}]}}


__all__ = ["EPOCH", "Builder", "PodScenario", "Run", "complete", "describe", "simple"]
