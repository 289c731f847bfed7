"""One pod's life on the node, as a state machine: prepare, run, terminate, be finished, be removed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from modelyard.kube.kinds import Object
from modelyard.kube.times import later
from modelyard.local.kubelet import records
from modelyard.local.kubelet.container import ContainerWorker, Step
from modelyard.local.kubelet.decisions import decide, stop_order
from modelyard.local.kubelet.facts import containers
from modelyard.local.kubelet.launch import owner_of
from modelyard.local.kubelet.processes.runtime import Exit, Process
from modelyard.local.kubelet.status import ContainerRecord, PodFacts, pod_status
from modelyard.local.kubelet.tools import Tools
from modelyard.local.kubelet.volumes import limits
from modelyard.local.kubelet.volumes.directories import Mounted, MountError, VolumeContext, Volumes
from modelyard.local.network.addresses import PodAddresses, RangeTaken

log = logging.getLogger(__name__)

_SETTLE = 0.3
"""A ConfigMap made just before its pod may arrive just after it: not worth a warning."""
_REFRESH = timedelta(seconds=60)
_EVICTION_GRACE = 1.0
_STORAGE_SECONDS = 1.0
_STORAGE_SHARE = 20
"""Of the time between two looks at a pod's storage, one part in so many may be spent on looking."""


class PodState(StrEnum):
    PREPARING = "Preparing"
    RUNNING = "Running"
    TERMINATING = "Terminating"
    FINISHED = "Finished"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What pods of a node share."""

    directory: Path
    scope: str
    tools: Tools
    volumes: VolumeContext
    addresses: PodAddresses
    report: Callable[[Object, Object], None]
    """Takes a pod and its new status, to be written when the API is free."""
    remove: Callable[[Object], Awaitable[bool]]
    """Writes what is left to write and deletes the pod from the API; False if that must be tried again."""
    hosts: Callable[[Object, str, Path], None]
    """Writes the hosts file of a pod with its address."""
    names: Callable[[str], dict[str, str]]
    """Service names and addresses as seen from a namespace."""


class PodWorker:
    def __init__(self, pod: Object, around: Surroundings, processes: dict[str, Process]) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.state = PodState.PREPARING
        self._around = around
        self._clock = around.tools.clock
        self.directory = around.directory / self.uid
        self._file = self.directory / "record.json"
        self._wake = asyncio.Event()
        self._mounted: dict[str, Mounted] = {}
        self._mount_failures = 0
        self._mount_retry: datetime | None = None
        self._refresh: datetime | None = None
        self._stale_volumes = False
        self._terminate: asyncio.Task[None] | None = None
        self._storage: asyncio.Task[None] | None = None
        self._reported: Object = {}
        self.reported = asyncio.Event()
        """Set once it has said what it found."""
        self._gone = False
        self._adopted = processes
        self.facts = self._recall()
        self.workers = {
            item["name"]: ContainerWorker(
                pod, item, self.facts.records[item["name"]], self.directory, around.scope, around.tools, self._wake.set
            )
            for item in containers(pod)
        }
        self._volumes = Volumes(self.directory / "volumes", around.volumes, owner=owner_of(pod))

    def _recall(self) -> PodFacts:
        facts = records.load(self._file) or records.from_status(self.pod)
        facts.host_ip = self._around.tools.machine.node.host_ip
        for container in containers(self.pod):
            facts.records.setdefault(container["name"], ContainerRecord(container["name"]))
        return facts

    def update(self, pod: Object) -> None:
        """The pod's object changed."""
        before = self.grace()
        if any(pod["metadata"].get(field) != self.pod["metadata"].get(field) for field in ("labels", "annotations")):
            # Downward API volumes show them.
            self._stale_volumes = True
        self.pod = pod
        if self._terminate is not None and self.grace() < before:
            # A second deletion asked for less time than the first.
            asyncio.get_running_loop().call_later(self.grace(), self._kill_all)
        by_name = {item["name"]: item for item in containers(pod)}
        for name, worker in self.workers.items():
            worker.pod = pod
            worker.container = by_name.get(name, worker.container)
        self._wake.set()

    def gone(self) -> None:
        """The pod's object is gone (a forced deletion): end it now."""
        self._gone = True
        self._kill_all()
        self._wake.set()

    def _kill_all(self) -> None:
        for worker in self.workers.values():
            worker.kill()

    def source_changed(self) -> None:
        """A ConfigMap or Secret that the pod uses changed."""
        self._stale_volumes = True
        self._mount_retry = None
        for worker in self.workers.values():
            worker.retry_now()
        self._wake.set()

    def names_changed(self) -> None:
        if self.facts.pod_ip and self.state is not PodState.REMOVED and self.directory.is_dir():
            self._around.hosts(self.pod, self.facts.pod_ip, self.directory / "etc-hosts")

    def exited(self, container: str, number: int, exit: Exit) -> None:
        worker = self.workers.get(container)
        if worker is not None and worker.record.current is not None and worker.record.current.number == number:
            worker.ended(exit)
            self._save()

    def line_restored(self, processes: dict[str, Process]) -> None:
        """The line to the keeper was cut and is back: what still runs is kept, what the keeper does not know is lost."""
        for worker in self.workers.values():
            if not worker.alive:
                continue
            process = processes.get(worker.identity)
            if process is None:
                worker.lost()
            elif process.exit is not None:
                worker.ended(process.exit)
            elif worker.step is Step.IDLE:
                worker.adopt(process, self.facts.pod_ip)
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        self._meet_processes()
        while self.state is not PodState.REMOVED:
            self._wake.clear()
            before = self.state
            try:
                self.state = await self._step()
            except OSError as error:
                log.warning("pod %s: %s", self.pod["metadata"]["name"], error)
                self._around.tools.tell(self.pod, "Warning", "FailedSync", f"{error.strerror}: {error.filename}")
                await self._sleep(self._clock() + timedelta(seconds=10))
            self._publish()
            if self.state is before:
                await self._sleep(self._next_time())

    async def _step(self) -> PodState:
        if self._should_end() and self.state in (PodState.PREPARING, PodState.RUNNING):
            return PodState.TERMINATING
        match self.state:
            case PodState.PREPARING:
                return await self._prepare()
            case PodState.RUNNING:
                return await self._run_containers()
            case PodState.TERMINATING:
                return self._stop_containers()
            case PodState.FINISHED:
                return await self._finished()
        return self.state

    def _should_end(self) -> bool:
        if self._gone or self.pod["metadata"].get("deletionTimestamp") or self.facts.terminal:
            return True
        if self.facts.reason == "Evicted":
            return True
        if (self.pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return True
        deadline = self._deadline()
        if deadline is not None and self._clock() >= deadline:
            self.facts.reason = "DeadlineExceeded"
            self.facts.message = "Pod was active on the node longer than the specified deadline"
            self._around.tools.tell(self.pod, "Normal", "DeadlineExceeded", self.facts.message)
            return True
        return False

    def _deadline(self) -> datetime | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self.facts.start_time is None or self.facts.reason:
            return None
        return later(self.facts.start_time, int(seconds))

    async def _prepare(self) -> PodState:
        if self.facts.start_time is None:
            self.facts.start_time = self._clock()
        if self._mount_retry is not None and self._clock() < self._mount_retry:
            return PodState.PREPARING
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            address = self._around.addresses.give(self.uid)
            mounted = await self._set_up_volumes(address)
        except MountError as error:
            self._mount_failures += 1
            self._around.tools.tell(self.pod, "Warning", "FailedMount", str(error))
            self._mount_retry = later(self._clock(), min(0.5 * 2 ** min(self._mount_failures, 10), 122))
            return PodState.PREPARING
        except RangeTaken as error:
            self._around.tools.tell(
                self.pod, "Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}"
            )
            self._mount_retry = self._clock() + timedelta(seconds=10)
            return PodState.PREPARING
        self.facts.pod_ip = address
        self._take(mounted)
        self._around.hosts(self.pod, address, self.directory / "etc-hosts")
        self.facts.sandbox_ready = True
        for worker in self.workers.values():
            process = self._adopted.pop(worker.identity, None)
            if process is not None and worker.alive:
                worker.adopt(process, address)
        self._save()
        limited = limits.limits(self.pod)
        if limited and self._storage is None:
            self._storage = asyncio.create_task(self._watch_storage(limited), name=f"storage-{self.uid}")
        return PodState.RUNNING

    async def _watch_storage(self, limited: dict[str, str]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            message = await self._around.tools.offload(limits.over_limit, limited, self.directory / "volumes")
            if self._should_end() or self.state is not PodState.RUNNING:
                return
            if message:
                self.facts.reason, self.facts.message = "Evicted", message
                self._around.tools.tell(self.pod, "Warning", "Evicted", message)
                self._wake.set()
                return
            await asyncio.sleep(max(_STORAGE_SECONDS, _STORAGE_SHARE * (loop.time() - began)))

    async def _set_up_volumes(self, address: str) -> dict[str, Mounted]:
        try:
            return await self._volumes.set_up(self.pod, address)
        except MountError:
            if self._mount_failures:
                raise
            await asyncio.sleep(_SETTLE)
            return await self._volumes.set_up(self.pod, address)

    def _take(self, mounted: dict[str, Mounted]) -> None:
        self._mounted = mounted
        self._stale_volumes = False
        self._refresh = min((item.refresh for item in mounted.values() if item.refresh), default=None)

    async def _run_containers(self) -> PodState:
        if self._stale_volumes or (self._refresh is not None and self._clock() >= self._refresh):
            try:
                self._take(await self._volumes.set_up(self.pod, self.facts.pod_ip))
            except MountError as error:
                # What is mounted stays as it was.
                self._around.tools.tell(self.pod, "Warning", "FailedMount", str(error))
                self._stale_volumes = False
                self._refresh = self._clock() + _REFRESH
        decision = decide(self.pod, self.facts.records)
        if decision.finished:
            return PodState.TERMINATING
        names = self._around.names(self.pod["metadata"]["namespace"])
        for name in decision.start:
            self.workers[name].ask_to_start(self._mounted, self.facts.pod_ip, names)
        return PodState.RUNNING

    def _stop_containers(self) -> PodState:
        if self._terminate is None:
            self._terminate = asyncio.create_task(self._end_all(), name=f"terminate-{self.pod['metadata']['name']}")
        if not self._terminate.done():
            return PodState.TERMINATING
        self._terminate.result()
        self.facts.terminal = True
        self.facts.sandbox_ready = False
        for record in self.facts.records.values():
            record.waiting = None
        self._save()
        return PodState.FINISHED

    def grace(self) -> float:
        """How long containers have to end: what the deletion says, else the spec."""
        meta, spec = self.pod["metadata"], self.pod["spec"]
        if self._gone:
            return 0.0
        if self.facts.reason == "Evicted":
            return _EVICTION_GRACE
        value = meta.get("deletionGracePeriodSeconds") if meta.get("deletionTimestamp") else None
        if value is None:
            value = spec.get("terminationGracePeriodSeconds")
        return 30.0 if value is None else float(value)

    async def _end_all(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.grace()
        try:
            for group in stop_order(self.pod):
                left = max(0.0, deadline - loop.time())
                tasks = [self.workers[name].stop(left, f"Stopping container {name}") for name in group]
                await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        finally:
            self._wake.set()

    async def _finished(self) -> PodState:
        if self._gone:
            self.clean()
            return PodState.REMOVED
        if not self.pod["metadata"].get("deletionTimestamp"):
            return PodState.FINISHED
        self._publish()
        if not await self._around.remove(self.pod):
            self._mount_retry = self._clock() + timedelta(seconds=1)
            return PodState.FINISHED
        self.clean()
        return PodState.REMOVED

    def clean(self) -> None:
        """Nothing of the pod stays on this machine."""
        if self._storage is not None:
            self._storage.cancel()
        self._volumes.remove()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._around.addresses.take_back(self.uid)
        self._around.tools.puller.forget(self.uid)
        self._around.volumes.tokens.forget(self.uid)

    def _meet_processes(self) -> None:
        """After a restart: which of the containers that ran still do?"""
        for worker in self.workers.values():
            current = worker.record.current
            if current is None or current.finished is not None:
                continue
            process = self._adopted.get(worker.identity)
            if process is None:
                worker.lost()
            elif process.exit is not None:
                worker.ended(process.exit)
            else:
                worker.step = Step.RUNNING

    def _next_time(self) -> datetime | None:
        times = [self._mount_retry if self.state in (PodState.PREPARING, PodState.FINISHED) else None, self._deadline()]
        if self.state is PodState.RUNNING:
            times.append(self._refresh)
            times += [worker.retry for worker in self.workers.values() if worker.step is Step.IDLE]
        return min((moment for moment in times if moment is not None), default=None)

    async def _sleep(self, until: datetime | None) -> None:
        delay = None if until is None else max(0.0, (until - self._clock()).total_seconds())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._wake.wait()

    def _publish(self) -> None:
        if self._gone:
            return
        status = pod_status(self.pod, self.facts, self._clock())
        if status != self._reported:
            self._reported = status
            self._around.report(self.pod, status)
            self._save()
        self.reported.set()

    def _save(self) -> None:
        if self.directory.is_dir():
            records.save(self._file, self.facts)

    async def close(self) -> None:
        """Let go of the pod without stopping it."""
        if self._storage is not None:
            self._storage.cancel()
            await asyncio.gather(self._storage, return_exceptions=True)
            self._storage = None
        if self._terminate is not None:
            self._terminate.cancel()
            await asyncio.gather(self._terminate, return_exceptions=True)
        for worker in self.workers.values():
            await worker.close()
        self._save()
