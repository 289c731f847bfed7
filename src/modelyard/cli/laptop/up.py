"""`modelyard up`: a Kubernetes on this machine, with the platform's controllers, and pods that run as processes.

examples:
  modelyard up                                     in the foreground; Ctrl-C stops it
  modelyard up --with mlflow                       also an MLflow: the example that comes with Modelyard
  modelyard up --detach --apply mlflow.yaml        a file of yours; in the background once it is ready
  modelyard up --operators mlflow --dir ./cluster  another cluster beside the first
  modelyard up --detach --merge-kubeconfig         then plain `kubectl` talks to it
On a cluster that runs already, --apply, --merge-kubeconfig and --detach do their work on it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from modelyard.cli.examples import QUICKSTARTS, quickstarts
from modelyard.cli.files import Document, read_documents
from modelyard.cli.laptop.join import Wishes, join
from modelyard.cli.laptop.parts import PARTS, preload, run_part
from modelyard.cli.laptop.progress import Progress, follow_applied
from modelyard.cli.manifests import operator_names, operators_argument
from modelyard.cli.packages import require_laptop
from modelyard.failure import Failed
from modelyard.kube.openshift import PLATFORMS
from modelyard.local.laptop import addresses
from modelyard.local.laptop.forking import fork
from modelyard.local.laptop.kubeconfig import merge_context
from modelyard.local.laptop.layout import Held, Layout, State, directory_argument, layout_of, remember, require_linux
from modelyard.local.laptop.places import offered
from modelyard.local.laptop.supervisor import CannotStart, Part, Supervisor, describe_exit, explain
from modelyard.operators.registry import available, load

START_SECONDS = 90.0


def arguments(parser: argparse.ArgumentParser) -> None:
    directory_argument(parser)
    operators_argument(parser)
    parser.add_argument(
        "--apply",
        nargs="+",
        default=[],
        metavar="FILE",
        help="apply these files or folders, and wait until what they ask for is ready",
    )
    parser.add_argument(
        "--with",
        dest="systems",
        action="append",
        default=[],
        metavar="SYSTEM",
        help=f"apply the quickstart of a system, of: {', '.join(QUICKSTARTS)}; may be given several times",
    )
    parser.add_argument("--detach", action="store_true", help="go on in the background once everything is ready")
    parser.add_argument(
        "--platform",
        choices=PLATFORMS,
        help="openshift: also serve Route, ConsoleLink, Group (default: kubernetes)",
    )
    parser.add_argument(
        "--merge-kubeconfig", action="store_true", help="add a context `modelyard` to ~/.kube/config (or $KUBECONFIG)"
    )
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait for --apply (default: 600)"
    )


@dataclass(frozen=True)
class Plan:
    """What is to be started."""

    layout: Layout
    operators: Sequence[str]
    platform: str
    documents: Sequence[Document]
    timeout: float
    merge: bool


def run(args: argparse.Namespace) -> int:
    require_linux()
    require_laptop()
    try:
        names = operator_names(args) or list(available())
        load(names, os.environ)
    except ValueError as error:
        raise Failed(str(error)) from None
    # What is wrong with a file is said before anything is started.
    documents = read_documents([*quickstarts(args.systems, names), *args.apply])
    plan = Plan(layout_of(args), names, args.platform or "kubernetes", documents, args.timeout, args.merge_kubeconfig)
    try:
        plan.layout.create()
        plan.layout.require_space()
        return _detach(plan) if args.detach else _foreground(plan)
    except Held:
        if not (args.detach or args.apply or args.systems or args.merge_kubeconfig):
            raise
        return join(
            plan.layout, Wishes(documents, args.timeout, args.merge_kubeconfig, operator_names(args), args.platform)
        )
    except OSError as error:
        raise Failed(explain(error)) from None


def _foreground(plan: Plan) -> int:
    with plan.layout.hold():
        return asyncio.run(_supervise(plan))


async def _supervise(plan: Plan, *, quiet: bool = False) -> int:
    layout = plan.layout
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    preload(plan.operators)
    network = addresses.choose(layout)
    state = State(os.getpid(), time.time(), list(plan.operators), plan.platform, gateway=network.gateway_url)
    layout.write_state(state)
    remember(layout)
    # The parts wait for a fresh one: the last one may name a port that is someone else's now.
    layout.kubeconfig.unlink(missing_ok=True)
    with Progress(quiet=quiet) as progress:
        if network.moved:
            progress.line(network.moved, "yellow")

        def report(part: str, event: str) -> None:
            # A full disk takes neither the log nor the state; what runs is looked after all the same.
            with contextlib.suppress(OSError):
                progress.part(part, event)
            with contextlib.suppress(OSError):
                _write_parts(layout, state, parts)

        parts = _parts(plan, network)
        async with Supervisor(parts, layout.logs, report) as supervisor:
            code = await _until_ready(plan, supervisor, state, progress, stop)
            if state.ready and not stop.is_set():
                # What was applied may have failed; the cluster is up all the same, for a person to look at.
                state.served, links = await offered(layout, state.gateway)
                progress.done(state, layout, links)
                state.settled = True
                layout.write_state(state)
                await stop.wait()
            progress.stopping()
    layout.state_file.unlink(missing_ok=True)
    return code


def _write_parts(layout: Layout, state: State, parts: Sequence[Part]) -> None:
    state.parts = {part.name: part.pid for part in parts if part.pid}
    state.restarts = {part.name: part.restarts for part in parts if part.restarts}
    state.broken = {part.name: part.cause for part in parts if part.cause}
    layout.write_state(state)


async def _until_ready(
    plan: Plan, supervisor: Supervisor, state: State, progress: Progress, stop: asyncio.Event
) -> int:
    """Starts everything and applies the files; 0 when all is ready (or it was told to stop)."""
    ready = asyncio.create_task(supervisor.wait_ready())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([ready, stopping], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if ready.done() and isinstance(problem := ready.exception(), CannotStart):
        stopping.cancel()
        progress.failed(str(problem))
        return 1
    if not ready.done():
        ready.cancel()
        if stop.is_set():
            return 0
        late = ", ".join(part.name for part in supervisor.parts if not part.ready.is_set())
        progress.failed(f"not ready within {START_SECONDS:.0f} s: {late}; see {plan.layout.logs}")
        return 1
    if plan.merge:
        merge_context(plan.layout.kubeconfig, "modelyard")
    state.ready = True
    _write_parts(plan.layout, state, supervisor.parts)
    if not plan.documents:
        stopping.cancel()
        return 0
    applied = asyncio.create_task(follow_applied(plan.layout, plan.documents, plan.operators, plan.timeout, progress))
    await asyncio.wait([applied, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not applied.done():
        applied.cancel()
        return 0
    try:
        applied.result()
    except Failed as problem:
        progress.failed(str(problem))
        state.problem = str(problem)
        return 1
    return 0


def _parts(plan: Plan, network: addresses.Network) -> list[Part]:
    layout = plan.layout
    common = {
        "MODELYARD_PLATFORM": plan.platform,
        "MODELYARD_OPERATORS": ",".join(plan.operators),
        **network.environment(),
    }
    return [Part(name, partial(run_part, name, layout), common) for name in PARTS]


def _detach(plan: Plan) -> int:
    """Goes on in a process of its own; shows its progress, and leaves it once it is ready. Interrupted before that, it stops
    what it started."""
    layout = plan.layout
    log = layout.logs / "up.log"
    log.touch(0o600)
    shown = log.stat().st_size
    interrupted: list[int] = []
    with layout.hold() as lock:
        before = {
            number: signal.signal(number, lambda n, _: interrupted.append(n))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        process = fork(partial(_background, plan), log, keep=lock)
    told, begin = False, shown
    try:
        while True:
            code = _exit_code(process)
            state = layout.read_state()
            with log.open("rb") as reader:
                reader.seek(shown)
                text = reader.read()
            shown += len(text)
            sys.stdout.write(text.decode(errors="replace"))
            sys.stdout.flush()
            if code is not None:
                return _ended(code, layout, log, silent=shown == begin, interrupted=bool(interrupted))
            if interrupted and not told:
                os.kill(process, signal.SIGTERM)
                told = True
            if state is not None and state.pid == process and state.settled and not interrupted:
                return 1 if state.problem else 0
            time.sleep(0.05)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(code: int, layout: Layout, log: Path, *, silent: bool, interrupted: bool) -> int:
    """It did not come up; why was shown already, unless it had no chance to say it."""
    if interrupted:
        print("interrupted: what was started is stopped again")
        return 128 + signal.SIGINT
    if code == 0:
        return 0
    layout.require_space()
    if code < 0 or silent:
        raise Failed(f"it ended with {describe_exit(code)}; see {log}")
    return 1


def _background(plan: Plan) -> int:
    print(time.strftime("%Y-%m-%d %H:%M:%S modelyard up"), flush=True)
    try:
        return asyncio.run(_supervise(plan, quiet=True))
    except Failed as problem:
        print(f"modelyard up: {problem}")
        return 1


def _exit_code(process: int) -> int | None:
    """Of a child that has ended."""
    ended, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None
