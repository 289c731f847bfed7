"""One container of a pod: starts it, watches it, probes it, stops it, and keeps the record of what happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from modelyard.kube import quantities
from modelyard.kube.kinds import Object
from modelyard.local.images import Built
from modelyard.local.kubelet import hooks, logs, probes
from modelyard.local.kubelet.backoff import duration
from modelyard.local.kubelet.environment import ConfigError
from modelyard.local.kubelet.facts import pod_key
from modelyard.local.kubelet.launch import Place, launch
from modelyard.local.kubelet.probes import Outcome, ProbeKind, ProbeLoop
from modelyard.local.kubelet.processes import capabilities
from modelyard.local.kubelet.processes.runtime import Exit, Launch, NotRunning, Process, StartFailed
from modelyard.local.kubelet.processes.sandbox import NotPossible
from modelyard.local.kubelet.pulling import PullError
from modelyard.local.kubelet.status import Attempt, ContainerRecord, Waiting
from modelyard.local.kubelet.tools import Tools
from modelyard.local.kubelet.volumes.directories import Mounted

_CONFIG_RETRY = timedelta(seconds=10)
_OUTPUT = 10 * 1024
_LEAST_GRACE = 2.0
"""A hook may use up the grace period, but the program still gets this long after its signal."""


class Step(StrEnum):
    """What is being done about a container right now."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class ContainerWorker:
    """Owned by its pod's worker, which decides; this does."""

    def __init__(
        self, pod: Object, container: Object, record: ContainerRecord, directory: Path, scope: str, tools: Tools,
        wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self.pod = pod
        self.container = container
        self.record = record
        self.step = Step.IDLE
        self.retry: datetime | None = None
        self.pid = 0
        self._name: str = container["name"]
        self._directory = directory
        self._scope = scope
        self._tools = tools
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._killing: asyncio.Task[None] | None = None
        self._probes: list[asyncio.Task[None]] = []
        self._exited = asyncio.Event()
        self._verdict: tuple[str, str] | None = None
        self._afterwards: Waiting | None = None
        self._stop_signal = int(signal.SIGTERM)
        self._in_backoff = False
        self._counted = -1
        if record.current is not None and record.current.running:
            self.step = Step.RUNNING

    @property
    def identity(self) -> str:
        """The name of the current run at the keeper."""
        number = self.record.current.number if self.record.current else 0
        return self._identity(number)

    def _identity(self, number: int) -> str:
        return f"{self._scope}/{self.pod['metadata']['uid']}/{self._name}/{number}"

    def log_path(self, number: int) -> Path:
        return self._directory / "logs" / self._name / f"{number}.log"

    def _place(self, number: int) -> Place:
        base = self._directory / "containers" / self._name / str(number)
        return Place(base / "root", self.log_path(number), self._directory / "etc-hosts", base / "termination-log")

    @property
    def running(self) -> bool:
        return self.record.current is not None and self.record.current.running

    @property
    def alive(self) -> bool:
        """It has a process, also one whose start-up hook still runs."""
        return self.record.current is not None and self.record.current.finished is None

    def ask_to_start(self, volumes: dict[str, Mounted], pod_ip: str, names: dict[str, str]) -> None:
        """Begin a start if it is due; else `retry` says when."""
        if self.step is not Step.IDLE or self.alive:
            return
        now = self._tools.clock()
        if self.retry is not None and now < self.retry and self.record.waiting is not None:
            return
        if self._must_back_off(now):
            return
        self.retry = None
        self.step = Step.STARTING
        self._task = asyncio.create_task(self._start(volumes, pod_ip, names), name=f"start-{self._name}")

    def retry_now(self) -> None:
        """Something it waited for changed (a ConfigMap, a Secret): do not wait out a configuration error."""
        if self.record.waiting is not None and self.record.waiting.reason == "CreateContainerConfigError":
            self.retry = None

    def _must_back_off(self, now: datetime) -> bool:
        current = self.record.current
        if current is None or current.finished is None:
            return False
        if self._counted == current.number:
            return False
        key = f"{self.pod['metadata']['uid']}/{self._name}"
        until = self._tools.backoff.until(key, current.finished)
        if until is not None and now < until:
            self.retry = until
            if not self._in_backoff:
                self._in_backoff = True
                self._tell(
                    "Warning",
                    "BackOff",
                    f"Back-off restarting failed container {self._name} in pod {pod_key(self.pod)}",
                )
            delay = duration(self._tools.backoff.delay(key))
            message = f"back-off {delay} restarting failed container={self._name} pod={pod_key(self.pod)}"
            self.record.waiting = Waiting("CrashLoopBackOff", message)
            return True
        # Counted once a run: what keeps the next one from starting (a pull) has a back-off of its own.
        self._tools.backoff.next(key, current.finished, now)
        self._counted = current.number
        self._in_backoff = False
        return False

    async def _start(self, volumes: dict[str, Mounted], pod_ip: str, names: dict[str, str]) -> None:
        try:
            built = await self._tools.puller.ensure(self.pod, self.container)
            await self._launch(built, volumes, pod_ip, names)
        except PullError as error:
            self._wait(error.reason, str(error), error.retry)
        except ConfigError as error:
            self._tell("Warning", "Failed", f"Error: {error}")
            self._wait("CreateContainerConfigError", str(error), self._tools.clock() + _CONFIG_RETRY)
        except (NotPossible, OSError) as error:
            text = str(error) if isinstance(error, NotPossible) else f"{error.strerror}: {error.filename}"
            self._tell("Warning", "Failed", f"Error: {text}")
            self._wait("CreateContainerError", text, self._tools.clock() + _CONFIG_RETRY)
        except NotRunning as error:
            self._wait("CreateContainerError", str(error), self._tools.clock() + timedelta(seconds=1))
        finally:
            if self.step is Step.STARTING:
                self.step = Step.IDLE
            self._wake()

    def _wait(self, reason: str, message: str, retry: datetime) -> None:
        self.record.waiting = Waiting(reason, message)
        self.retry = retry

    async def _launch(self, built: Built, volumes: dict[str, Mounted], pod_ip: str, names: dict[str, str]) -> None:
        number = self.record.current.number + 1 if self.record.current else 0
        place = self._place(number)
        start, skipped = await self._tools.offload(
            launch, self.pod, self.container, built, volumes, place, self._tools.machine,
            identity=self._identity(number), pod_ip=pod_ip, names=names,
        )  # fmt: skip
        for source, wrong in skipped.items():
            message = (
                f"Keys [{', '.join(wrong)}] from the EnvFrom {source} were skipped since they are considered invalid"
            )
            self._tools.tell(self.pod, "Warning", "InvalidEnvironmentVariableNames", message)
        self._warn_of_low_ports()
        self._warn_of_missing_power()
        attempt = Attempt(number, f"modelyard://{start.identity.replace('/', '-')}")
        self._tell("Normal", "Created", "Container created")
        self._exited = asyncio.Event()
        self._verdict = self._afterwards = None
        self._stop_signal = _stop_signal(self.container, built)
        # Recorded before the start: a program that ends at once must find the record of its run.
        if self.record.current is not None:
            self.record.previous, self.record.earlier = self.record.current, self.record.previous
        self.record.current = attempt
        self.record.image_id = f"modelyard/{built.recipe.name}@{built.identity}"
        try:
            process = await self._spawn(start)
        except StartFailed as error:
            text = f"failed to start container: {error}"
            self._tell("Warning", "Failed", f"Error: {text}")
            attempt.finished = self._tools.clock()
            attempt.exit_code, attempt.reason, attempt.message = 128, "StartError", text
            self.record.waiting = Waiting("RunContainerError", text)
            self.retry = None
            return
        if attempt.finished is None:
            self.record.waiting, self.record.started, self.record.ready = None, False, False
            self.pid = process.pid
        self._tell("Normal", "Started", "Container started")
        self._forget_old_runs(number)
        began = _moment(process.started)
        target = self._target(pod_ip)
        hooked = attempt.finished is not None or await self._post_start(target)
        if attempt.finished is not None:
            attempt.started = began
            return
        attempt.started = began
        self.step = Step.RUNNING
        if hooked:
            self._watch(target, 0.0)
        else:
            await self._end(30.0, "FailedPostStartHook", quiet=True)

    async def _spawn(self, start: Launch) -> Process:
        """Start the process; if this is given up meanwhile, the process does not stay behind."""
        starting = asyncio.ensure_future(self._tools.runtime.start(start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(StartFailed, NotRunning):
                await starting
                await self._tools.runtime.kill(start.identity)
            raise

    def _warn_of_low_ports(self) -> None:
        if os.getuid() == 0:
            return
        low = [port["containerPort"] for port in self.container.get("ports") or [] if port["containerPort"] < 1024]
        if low:
            message = (
                f"port {', '.join(map(str, low))} is below 1024 and needs root on this machine; "
                "the program will fail to listen unless it is told another port"
            )
            self._tell("Warning", "PortNotAvailable", message)

    def _warn_of_missing_power(self) -> None:
        context = self.container.get("securityContext") or {}
        _, missing = capabilities.wanted(context)
        if context.get("privileged"):
            missing.append("privileged")
        if missing:
            message = f"no container of a laptop cluster gets {', '.join(missing)}: it would reach beyond the container"
            self._tell("Warning", "CapabilityNotAvailable", message)

    async def _post_start(self, target: probes.Target) -> bool:
        handler = (self.container.get("lifecycle") or {}).get("postStart")
        if not handler:
            return True
        try:
            await hooks.run(handler, target, self._name, pod_key(self.pod), timeout=600)
        except hooks.HookFailed as error:
            self._tell("Warning", "FailedPostStartHook", "PostStartHook failed")
            self._afterwards = Waiting("PostStartHookError", str(error))
            return False
        return True

    def _forget_old_runs(self, number: int) -> None:
        """Keep the files of this run and the log of the one before."""
        base = self._directory / "containers" / self._name
        for entry in base.iterdir() if base.is_dir() else []:
            if entry.name.isdigit() and int(entry.name) < number:
                shutil.rmtree(entry, ignore_errors=True)
        folder = self._directory / "logs" / self._name
        for log in folder.iterdir() if folder.is_dir() else []:
            run = log.name.partition(".")[0]
            if run.isdigit() and int(run) < number - 1:
                log.unlink(missing_ok=True)

    def adopt(self, process: Process, pod_ip: str) -> None:
        """Found again after a restart of the kubelet."""
        current = self.record.current
        assert current is not None
        self.pid = process.pid
        self.step = Step.RUNNING
        if current.started is None:
            current.started = _moment(process.started)
        ran = (self._tools.clock() - current.started).total_seconds()
        ready = self.record.ready
        self._watch(self._target(pod_ip), max(0.0, ran))
        # Ready stays ready until a probe says otherwise: a restart of the kubelet is not a reason to cut off traffic.
        self.record.ready = ready

    def _watch(self, target: probes.Target, ran: float) -> None:
        limit = ((self.container.get("resources") or {}).get("limits") or {}).get("memory")
        if limit is not None and self.pid:
            self._tools.memory.add(self.identity, self.pid, quantities.parse(limit).value, self._out_of_memory)
        spec = {
            ProbeKind.STARTUP: self.container.get("startupProbe"),
            ProbeKind.LIVENESS: self.container.get("livenessProbe"),
            ProbeKind.READINESS: self.container.get("readinessProbe"),
        }
        self.record.started = self.record.started or not spec[ProbeKind.STARTUP]
        self.record.ready = not spec[ProbeKind.READINESS]
        for kind, probe in spec.items():
            if probe and not (kind is ProbeKind.STARTUP and self.record.started):
                loop = ProbeLoop(
                    kind, probe, target, on_result=self._probed, on_failure=self._probe_failed, prober=self._tools.prober,
                    may_run=(lambda: True) if kind is ProbeKind.STARTUP else (lambda: self.record.started),
                )  # fmt: skip
                self._probes.append(asyncio.create_task(loop.run(ran), name=f"{kind}-{self._name}"))

    def _target(self, pod_ip: str) -> probes.Target:
        ports = {port["name"]: port["containerPort"] for port in self.container.get("ports") or [] if port.get("name")}
        return probes.Target(pod_ip, ports, self.execute, self._tools.session)

    def _probed(self, kind: ProbeKind, success: bool) -> None:
        match kind:
            case ProbeKind.READINESS:
                self.record.ready = success
            case ProbeKind.STARTUP if success:
                self.record.started = True
            case _ if not success:
                self._restart_for(kind)
        self._wake()

    def _restart_for(self, kind: ProbeKind) -> None:
        name = {ProbeKind.LIVENESS: "liveness", ProbeKind.STARTUP: "startup"}[kind]
        probe = self.container[f"{name}Probe"]
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is None:
            grace = self.pod["spec"].get("terminationGracePeriodSeconds")
        message = f"Container {self._name} failed {name} probe, will be restarted"
        self.stop(30.0 if grace is None else float(grace), message)

    def _probe_failed(self, kind: ProbeKind, outcome: Outcome) -> None:
        if outcome.error:
            message = f"{kind} probe errored and resulted in unknown state: {outcome.output}"
        else:
            message = f"{kind} probe failed: {outcome.output}"
        self._tell("Warning", "Unhealthy", message)

    def _out_of_memory(self) -> None:
        self.condemn("OOMKilled", "")

    def condemn(self, reason: str, message: str) -> None:
        """Kill the run at once; its record will say why."""
        if self.alive and self._verdict is None:
            self._verdict = (reason, message)
            self.kill()

    def kill(self) -> None:
        """SIGKILL, now."""
        if self.alive:
            self._killing = asyncio.create_task(self._kill(self.identity), name=f"kill-{self._name}")

    async def _kill(self, identity: str) -> None:
        with contextlib.suppress(NotRunning):
            await self._tools.runtime.kill(identity)

    async def execute(self, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Run a command inside; its exit code and what it said. Raises `TimeoutError`."""
        read, write = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            located = self._tools.puller.located(self.container["image"], command)
            done = await self._tools.runtime.execute(self.identity, located, null, write, write)
        except StartFailed as error:
            os.close(read)
            return 126, str(error)
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
            os.close(null)
        output = asyncio.create_task(asyncio.to_thread(_read_all, read))
        try:
            async with asyncio.timeout(timeout):
                code = await asyncio.shield(done)
        except (TimeoutError, asyncio.CancelledError):
            await asyncio.shield(self._tools.runtime.abandon(done))
            raise
        finally:
            output.add_done_callback(lambda _: None)
        # A background process of the command may keep the pipe open: what was said so far is enough.
        try:
            text = await asyncio.wait_for(asyncio.shield(output), 1)
        except TimeoutError:
            text = b""
        return code, text.decode(errors="replace")

    def stop(self, grace: float, message: str) -> asyncio.Task[None] | None:
        """Begin to stop it, unless that has begun."""
        if self._stopping is None and self.step in (Step.STARTING, Step.RUNNING):
            self._stopping = asyncio.create_task(self._end(grace, message), name=f"stop-{self._name}")
        return self._stopping

    async def _end(self, grace: float, message: str, *, quiet: bool = False) -> None:
        if self.step is Step.STARTING and self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if not self.alive:
            self.step = Step.IDLE
            self._stopping = None
            return
        self.step = Step.STOPPING
        identity = self.identity
        if not quiet:
            self._tell("Normal", "Killing", message)
        for task in self._probes:
            if not task.get_name().startswith(ProbeKind.READINESS):
                task.cancel()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        try:
            await self._pre_stop(grace)
            await self._tools.runtime.signal(identity, self._stop_signal)
            left = max(deadline - loop.time(), _LEAST_GRACE if grace > 0 else 0.0)
            try:
                async with asyncio.timeout(left):
                    await self._exited.wait()
            except TimeoutError:
                await self._tools.runtime.kill(identity)
                await self._exited.wait()
        except NotRunning:
            pass
        finally:
            self._stopping = None

    async def _pre_stop(self, grace: float) -> None:
        handler = (self.container.get("lifecycle") or {}).get("preStop")
        if not handler or grace <= 0:
            return
        try:
            async with asyncio.timeout(grace):
                await hooks.run(handler, self._target(self._pod_ip()), self._name, pod_key(self.pod), timeout=grace)
        except (hooks.HookFailed, TimeoutError):
            self._tell("Warning", "FailedPreStopHook", "PreStopHook failed")

    def _pod_ip(self) -> str:
        return str((self.pod.get("status") or {}).get("podIP") or self._tools.machine.node.host_ip)

    def ended(self, exit: Exit) -> None:
        """The process of the current run is gone."""
        current = self.record.current
        if current is None or current.finished is not None:
            return
        identity = self.identity
        self._tools.memory.remove(identity)
        for task in self._probes:
            task.cancel()
        self._probes.clear()
        finished = _moment(exit.finished)
        current.finished = finished
        current.started = current.started or finished
        current.exit_code, current.signal = exit.code, exit.signal
        reason, message = self._verdict or ("", "")
        current.reason = reason or ("Completed" if exit.code == 0 else "Error")
        current.message = message or self._termination_message(current.number, exit.code)
        self.record.started = self.record.ready = False
        self.record.waiting = self._afterwards
        self.retry = None
        self.pid = 0
        self.step = Step.IDLE
        self._exited.set()
        self._wake()

    def lost(self) -> None:
        """It ran, and no trace of it is left: the machine or the keeper went down under it."""
        self._verdict = ("Unknown", "")
        self.ended(Exit(255, 0, int(self._tools.clock().timestamp() * 1e9)))

    def _termination_message(self, number: int, code: int) -> str:
        text = ""
        with contextlib.suppress(OSError):
            with self._place(number).termination.open("rb") as file:
                text = file.read(4096).decode(errors="replace")
        if not text and code != 0 and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = logs.last_text(self.log_path(number))
        return text

    async def close(self) -> None:
        """Let go without stopping the process (the kubelet ends, the pod lives on)."""
        tasks = [task for task in [self._task, self._stopping, self._killing, *self._probes] if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, kind: str, reason: str, message: str) -> None:
        self._tools.tell(self.pod, kind, reason, message, container=self._name)


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)


def _stop_signal(container: Object, built: Built) -> int:
    name = (container.get("lifecycle") or {}).get("stopSignal")
    if name:
        with contextlib.suppress(KeyError):
            return int(signal.Signals[name])
    return built.recipe.stop_signal


def _read_all(descriptor: int) -> bytes:
    data = b""
    with os.fdopen(descriptor, "rb") as file:
        while chunk := file.read(4096):
            if len(data) < _OUTPUT:
                data += chunk
    return data[:_OUTPUT]
