"""The kubelet: follows the pods of the local node and gives each a worker; keeps names, Services and the node current."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import ipaddress
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from modelyard.kube import builtin
from modelyard.kube.client import Client, ObjectList
from modelyard.kube.errors import ApiError, Conflict, NotFound, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.local.images import Builder, Registry
from modelyard.local.images.build import cache_directory
from modelyard.local.kubelet import logs, probes
from modelyard.local.kubelet.backoff import BackOff
from modelyard.local.kubelet.container import ContainerWorker
from modelyard.local.kubelet.endpoint import Attached, BadQuestion, KubeletServer
from modelyard.local.kubelet.events import Recorder
from modelyard.local.kubelet.facts import Node, container_named, containers
from modelyard.local.kubelet.launch import Machine
from modelyard.local.kubelet.node import NodeKeeper, machine_resources
from modelyard.local.kubelet.processes.memory import MemoryWatch, tree
from modelyard.local.kubelet.processes.runtime import Exit, NotRunning, Process, Runtime, scope
from modelyard.local.kubelet.processes.sandbox import Isolation, Sandbox, detect
from modelyard.local.kubelet.processes.usage import Meter, Usage
from modelyard.local.kubelet.pulling import Puller, RecipeImages
from modelyard.local.kubelet.reporting import StatusWriter
from modelyard.local.kubelet.tools import Tools
from modelyard.local.kubelet.volumes.directories import VolumeContext, sources
from modelyard.local.kubelet.volumes.tokens import Tokens
from modelyard.local.kubelet.worker import PodState, PodWorker, Surroundings
from modelyard.local.network.addresses import PodAddresses
from modelyard.local.network.bind import bind_shim
from modelyard.local.network.forwarder import Forwarder
from modelyard.local.network.hosts import hosts_text, pod_names, service_names, write_hosts
from modelyard.local.network.listening import held_by, open_listeners
from modelyard.runtime.caching.caches import CacheSet
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.watching import Selection

log = logging.getLogger(__name__)

_FOLLOWED = (
    builtin.ConfigMap, builtin.Secret, builtin.Service, builtin.EndpointSlice, builtin.PersistentVolumeClaim,
    builtin.PersistentVolume, builtin.NetworkPolicy,
)  # fmt: skip
_LISTEN_SOON, _LISTEN_LATER = 1.0, 15.0
_FIRST_REPORTS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How one kubelet is set up."""

    directory: Path
    """Its own files: pods, logs, the keeper. `pods/` and `logs/` below it are private to the user."""
    pods: ipaddress.IPv4Network
    persistent_root: Path
    node: str = "local"
    api_host: str = ""
    api_port: int = 0
    isolation: Isolation | None = None
    image_cache: Path | None = None
    linger: float = 10.0
    """How long containers live on without a kubelet."""
    progress: Callable[[str, str], None] = field(default=lambda image, line: None)


class Kubelet:
    """`await start()`, and `await stop()`: containers end with it only if asked."""

    def __init__(self, client: Client, settings: Settings, *, registry: Registry | None = None) -> None:
        self._client = client
        self._settings = settings
        self._clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.node = Node(
            settings.node, allocatable=machine_resources(), api_host=settings.api_host, api_port=settings.api_port
        )
        self.runtime = Runtime(settings.directory, linger=settings.linger)
        self.recorder = Recorder(client, settings.node, self._clock)
        self.writer = StatusWriter(client)
        self.forwarder = Forwarder(complain=self._complain)
        self.memory = MemoryWatch()
        self.caches = CacheSet(client)
        self.workers: dict[str, PodWorker] = {}
        self.sandbox: Sandbox | None = None
        self._images = RecipeImages(
            registry or Registry.installed(), Builder(settings.image_cache or cache_directory()), settings.progress
        )
        self._addresses = PodAddresses(settings.pods)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background: list[asyncio.Task[None]] = []
        self._removed: set[str] = set()
        self._policies: set[str] = set()
        self._began = self._clock().replace(microsecond=0)
        self._network_changed = asyncio.Event()
        self._names: dict[str, list[tuple[str, list[str]]]] = {}
        self._processes: dict[str, Process] = {}
        self._node_keeper: NodeKeeper | None = None
        self._around: Surroundings | None = None
        self._session: aiohttp.ClientSession | None = None
        self._scope = scope(str(settings.directory))
        self.endpoint = KubeletServer(self, settings.directory)
        self._meter = Meter(self._container_pids)

    async def start(self) -> None:
        settings = self._settings
        settings.directory.mkdir(parents=True, exist_ok=True)
        settings.directory.chmod(0o700)
        self.sandbox = await asyncio.to_thread(detect, settings.isolation)
        shim = await asyncio.to_thread(bind_shim, settings.image_cache or cache_directory())
        self.runtime.on_exit = self._exited
        self.runtime.on_lost = self._keeper_lost
        self._processes = {process.identity: process for process in await self.runtime.connect()}
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        self.recorder.start()
        self.memory.start()
        address = await self.endpoint.start()
        self._node_keeper = NodeKeeper(
            self._client, self.node, self._clock, port=address.port, described=self.sandbox.describe()
        )
        tools = Tools(
            runtime=self.runtime,
            puller=Puller(self._images, self.recorder.tell, self._clock),
            machine=Machine(self.node, self, self.sandbox, shim),
            backoff=BackOff(),
            memory=self.memory,
            tell=self.recorder.tell,
            clock=self._clock,
            session=self._session,
            prober=probes.check,
        )
        self._around = Surroundings(
            directory=settings.directory / "pods",
            scope=self._scope,
            tools=tools,
            volumes=VolumeContext(self, Tokens(self._client, self._clock), self.node, settings.persistent_root),
            addresses=self._addresses,
            report=self.writer.report,
            remove=self._remove,
            hosts=self._write_hosts,
            names=self._names_for,
        )
        for kind in _FOLLOWED:
            cache = self.caches.cache(Selection(kind))
            cache.subscribe(self._handler(kind))
            cache.start()
        await self.caches.wait_synced()
        await self._refresh_network()
        pods = self.caches.cache(Selection(builtin.Pod, fields=f"spec.nodeName={settings.node}"))
        self._hold_addresses(await self._client.list(builtin.Pod, fields=f"spec.nodeName={settings.node}"))
        pods.subscribe(self._pod_handler)
        pods.start()
        await pods.wait_synced()
        await self._kill_unknown()
        await self._node_keeper.register()
        self._node_keeper.start()
        await self._first_reports()
        self._background = [
            asyncio.create_task(self._follow_network(), name="network"),
            asyncio.create_task(self._check_listeners(), name="listeners"),
        ]

    async def _first_reports(self) -> None:
        """A kubelet that is ready has said what it found: nobody goes on trusting what the last one said of these pods."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_REPORTS_SECONDS):
                for uid, worker in list(self.workers.items()):
                    await worker.reported.wait()
                    await self.writer.flush(uid)

    async def stop(self, *, end_pods: bool = True, grace: float | None = None) -> None:
        """Leave. With `end_pods` containers are ended gracefully first; else the keeper holds them for the next kubelet."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.caches.stop(clear=False)
        if end_pods:
            await self._end_containers(grace)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for worker in self.workers.values():
            await worker.close()
        await self.endpoint.close()
        if self._node_keeper is not None:
            await self._node_keeper.close()
        await self.writer.close()
        await self.recorder.close()
        await self.memory.close()
        await self.forwarder.close()
        await self._images.close()
        if self._session is not None:
            await self._session.close()
        await self.runtime.close(shutdown=end_pods)

    async def _end_containers(self, grace: float | None) -> None:
        """Stop what runs, but leave every pod's record as it is: the next start of the cluster starts them again."""
        ends = []
        for uid, worker in self.workers.items():
            self._tasks[uid].cancel()
            allowed = worker.grace() if grace is None else min(grace, worker.grace())
            for container in worker.workers.values():
                task = container.stop(allowed, "Stopping container " + container.container["name"])
                if task is not None:
                    ends.append(task)
        await asyncio.gather(*ends, return_exceptions=True)

    async def run(self) -> None:
        """Serve until cancelled."""
        await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        entry = self.caches.get(kind, Key(namespace, name))
        return entry.object if entry else None

    def list(self, kind: Kind, namespace: str = "") -> Iterable[Object]:
        return [entry.object for entry in self.caches.list(kind, namespace or None)]

    def _pod_handler(self, old: Entry | None, new: Entry | None) -> None:
        if new is None:
            assert old is not None
            self._removed.discard(old.uid)
            worker = self.workers.get(old.uid)
            if worker is not None:
                worker.gone()
            return
        if old is not None and old.uid != new.uid:
            self._pod_handler(old, None)
        if new.uid in self._removed:
            return
        worker = self.workers.get(new.uid)
        if worker is not None:
            worker.update(new.object | {"apiVersion": "v1", "kind": "Pod"})
            return
        assert self._around is not None
        self._say_if_not_isolated(new.object)
        worker = PodWorker(new.object | {"apiVersion": "v1", "kind": "Pod"}, self._around, self._processes)
        self.workers[new.uid] = worker
        task = asyncio.create_task(self._live(worker), name=f"pod-{new.key}")
        self._tasks[new.uid] = task

    def _say_if_not_isolated(self, pod: Object) -> None:
        if self.sandbox is None or self.sandbox.mounts_are_real or (pod.get("status") or {}).get("startTime"):
            return
        message = (
            f"nothing keeps this pod's programs from what the user of modelyard can do on this machine ({self.sandbox.why}); "
            "run only what you trust, or install bubblewrap"
        )
        self.recorder.tell(pod | {"apiVersion": "v1", "kind": "Pod"}, "Warning", "NotIsolated", message)

    async def _live(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("the worker of pod %s failed; it is started again", worker.pod["metadata"]["name"])
            await worker.close()
            await asyncio.sleep(1)
            self.workers.pop(worker.uid, None)
            entry = self.caches.get(
                builtin.Pod, Key(worker.pod["metadata"]["namespace"], worker.pod["metadata"]["name"])
            )
            if entry is not None and entry.uid == worker.uid:
                self._pod_handler(None, entry)
            return
        if worker.state is PodState.REMOVED:
            self.workers.pop(worker.uid, None)
            self._tasks.pop(worker.uid, None)

    def _hold_addresses(self, pods: ObjectList) -> None:
        for pod in pods.items:
            address = (pod.get("status") or {}).get("podIP")
            if address:
                self._addresses.hold(pod["metadata"]["uid"], address)

    async def _kill_unknown(self) -> None:
        """Containers that an earlier kubelet started for pods that are gone."""
        for identity, process in builtins.list(self._processes.items()):
            uid = identity.split("/")[1] if identity.count("/") == 3 else ""
            if uid not in self.workers:
                if process.exit is None:
                    await self.runtime.kill(identity)
                else:
                    await self.runtime.forget(identity)
        for folder in (self._settings.directory / "pods").glob("*"):
            if folder.name not in self.workers:
                await asyncio.to_thread(_remove_tree, folder)

    def _exited(self, identity: str, exit: Exit) -> None:
        parts = identity.split("/")
        if len(parts) != 4:
            return
        _, uid, container, number = parts
        process = self._processes.get(identity)
        if process is not None:
            self._processes[identity] = Process(process.identity, process.pid, process.started, exit)
        worker = self.workers.get(uid)
        if worker is not None:
            worker.exited(container, int(number), exit)
        self._spawn(self.runtime.forget(identity))

    def _keeper_lost(self) -> None:
        log.error(
            "the line to the keeper of the containers is cut; if it died, its containers died with it and are started again"
        )
        self._processes.clear()

        async def again() -> None:
            while True:
                try:
                    found = await self.runtime.connect()
                    break
                except (RuntimeError, NotRunning) as error:
                    log.error("%s; trying again", error)
                    await asyncio.sleep(1)
            self._processes.update({process.identity: process for process in found})
            for worker in builtins.list(self.workers.values()):
                worker.line_restored(self._processes)

        self._spawn(again())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.append(task)
        task.add_done_callback(lambda done: self._background.remove(done) if done in self._background else None)

    async def _remove(self, pod: Object) -> bool:
        meta = pod["metadata"]
        await self.writer.flush(meta["uid"])
        self._removed.add(meta["uid"])
        try:
            await self._client.delete(builtin.Pod, meta["namespace"], meta["name"], uid=meta["uid"], grace=0)
        except (NotFound, Conflict):
            pass
        except (ApiError, Unreachable) as error:
            log.warning("pod %s/%s could not be deleted: %s", meta["namespace"], meta["name"], error)
            self._removed.discard(meta["uid"])
            return False
        return True

    def _source_handler(self, kind: Kind) -> Callable[[Entry | None, Entry | None], None]:
        def changed(old: Entry | None, new: Entry | None) -> None:
            entry = new or old
            assert entry is not None
            named = (kind.kind, entry.key.name)
            for worker in self.workers.values():
                if kind in (builtin.PersistentVolume, builtin.PersistentVolumeClaim):
                    if worker.state is PodState.PREPARING:
                        worker.source_changed()
                elif worker.pod["metadata"]["namespace"] == entry.key.namespace and named in sources(worker.pod):
                    worker.source_changed()

        return changed

    def _handler(self, kind: Kind) -> Callable[[Entry | None, Entry | None], None]:
        match kind:
            case builtin.Service | builtin.EndpointSlice:
                return self._network_handler
            case builtin.NetworkPolicy:
                return self._policy_handler
        return self._source_handler(kind)

    def _policy_handler(self, old: Entry | None, new: Entry | None) -> None:
        """Say it once for each policy, when it is made: on a shared loopback nobody knows which pod a packet is from."""
        if old is None and new is not None and new.uid not in self._policies:
            self._policies.add(new.uid)
            policy = new.object | {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
            made = datetime.fromisoformat(policy["metadata"]["creationTimestamp"])
            if made >= self._began:
                message = (
                    "a laptop cluster keeps NetworkPolicies but does not enforce them: all pods share the loopback"
                )
                self.recorder.tell(policy, "Warning", "NotEnforced", message)

    def _network_handler(self, old: Entry | None, new: Entry | None) -> None:
        self._network_changed.set()

    async def _follow_network(self) -> None:
        while True:
            await self._network_changed.wait()
            self._network_changed.clear()
            try:
                await self._refresh_network()
            except OSError:
                log.exception("the addresses of Services could not be updated")

    async def _refresh_network(self) -> None:
        services = builtins.list(self.list(builtin.Service))
        slices = builtins.list(self.list(builtin.EndpointSlice))
        await self.forwarder.update(services, slices)
        self._names.clear()
        for worker in self.workers.values():
            worker.names_changed()

    def _names_of(self, namespace: str) -> builtins.list[tuple[str, builtins.list[str]]]:
        if namespace not in self._names:
            self._names[namespace] = service_names(
                namespace, self.list(builtin.Service), self.list(builtin.EndpointSlice)
            )
        return self._names[namespace]

    def _names_for(self, namespace: str) -> dict[str, str]:
        return {name: address for address, names in self._names_of(namespace) for name in names if "." in name}

    def _write_hosts(self, pod: Object, address: str, path: Path) -> None:
        lines = [*pod_names(pod, address), *self._names_of(pod["metadata"]["namespace"])]
        write_hosts(path, hosts_text(lines))

    def _complain(self, service: Object, reason: str, message: str) -> None:
        if (service["metadata"]["namespace"], service["metadata"]["name"]) != ("default", "kubernetes"):
            self.recorder.tell(service | {"apiVersion": "v1", "kind": "Service"}, "Warning", reason, message)

    async def _check_listeners(self) -> None:
        """Stop containers that listen beyond loopback: they would be reachable from other machines."""
        calm = 0
        known: set[int] = set()
        while True:
            await asyncio.sleep(_LISTEN_SOON if calm < 15 else _LISTEN_LATER)
            running = {
                worker.pid: worker for pod in self.workers.values() for worker in pod.workers.values() if worker.pid
            }
            calm = calm + 1 if set(running) == known else 0
            known = set(running)
            listeners = open_listeners() if running else []
            for pid, worker in running.items() if listeners else ():
                found = held_by(tree(pid), listeners)
                if found is not None:
                    message = (
                        f"the container listens on {found}, which other machines can reach; containers of a laptop cluster must "
                        "listen on their pod's address (the variable MODELYARD_POD_IP holds it)"
                    )
                    self.recorder.tell(
                        worker.pod, "Warning", "ListensBeyondLoopback", message, container=worker.container["name"]
                    )
                    worker.condemn("ListensBeyondLoopback", message)

    def _pod_named(self, namespace: str, name: str) -> PodWorker:
        for worker in self.workers.values():
            meta = worker.pod["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, name):
                return worker
        raise BadQuestion(f'pods "{name}" not found', 404)

    async def log(self, namespace: str, pod: str, container: str, options: logs.LogOptions) -> AsyncIterator[bytes]:
        worker = self._pod_named(namespace, pod)
        item = worker.workers.get(container)
        if item is None:
            raise BadQuestion(f"container {container} is not valid for pod {pod}")
        record = item.record
        if options.previous:
            ended = record.previous
            if record.current is not None and record.current.exited and record.waiting is not None:
                ended = record.current
            if ended is None:
                raise BadQuestion(f'previous terminated container "{container}" in pod "{pod}" not found')
            number = ended.number
        elif record.current is None:
            reason = record.waiting.reason if record.waiting else ""
            raise BadQuestion(_not_started(container, pod, reason or _default_reason(worker.pod)))
        else:
            number = record.current.number
        alive = record.current
        path = item.log_path(number)

        def running() -> bool:
            return not options.previous and alive is not None and alive.number == number and alive.finished is None

        async for piece in logs.read(path, options, running=running):
            yield piece

    async def execute(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]:
        item = self._running(namespace, pod, container)
        try:
            return await self.runtime.execute(item.identity, command, stdin, stdout, stderr)
        except NotRunning as error:
            raise BadQuestion(f'container not found ("{container}"): {error}', 404) from error

    def _running(self, namespace: str, pod: str, container: str) -> ContainerWorker:
        worker = self._pod_named(namespace, pod)
        if container_named(worker.pod, container) is None:
            raise BadQuestion(f"container {container} is not valid for pod {pod}")
        item = worker.workers[container]
        if not item.alive:
            raise BadQuestion(f'container not found ("{container}")', 404)
        return item

    async def abandon(self, done: asyncio.Future[int]) -> None:
        await self.runtime.abandon(done)

    async def attach(self, namespace: str, pod: str, container: str, stdout: int, stderr: int) -> Attached:
        item = self._running(namespace, pod, container)
        identity, once = item.identity, bool(item.container.get("stdinOnce"))

        async def close_input() -> None:
            if once:
                await self.runtime.close_input(identity)

        try:
            return Attached(await self.runtime.attach(identity, stdout, stderr), close_input)
        except NotRunning as error:
            raise BadQuestion(f'container not found ("{container}"): {error}', 404) from error

    def address_of(self, namespace: str, pod: str) -> str:
        worker = self._pod_named(namespace, pod)
        if not worker.facts.pod_ip or worker.state is not PodState.RUNNING:
            raise BadQuestion(f'pod "{pod}" is not running', 404)
        return worker.facts.pod_ip

    async def usage(self) -> Usage:
        return await self._meter.usage()

    def _container_pids(self) -> dict[tuple[str, str, str], int]:
        return {
            (worker.pod["metadata"]["namespace"], worker.pod["metadata"]["name"], name): item.pid
            for worker in builtins.list(self.workers.values())
            for name, item in builtins.list(worker.workers.items())
            if item.pid
        }


def _not_started(container: str, pod: str, reason: str) -> str:
    why = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }.get(reason, reason)
    return f'container "{container}" in pod "{pod}" is waiting to start: {why}'


def _default_reason(pod: Object) -> str:
    return "PodInitializing" if len(containers(pod)) > len(pod["spec"].get("containers") or []) else "ContainerCreating"


def _remove_tree(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path)
