"""`modelyard up`: a Kubernetes on this machine, with the platform's controllers, and pods that run as processes.

examples:
  modelyard up                                     in the foreground; Ctrl-C stops it
  modelyard up --detach --apply examples/quickstart.yaml
  modelyard up --operators mlflow --dir ./cluster  another cluster beside the first
  modelyard up --detach --merge-kubeconfig         then plain `kubectl` talks to it
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from modelyard.cli.files import read_all
from modelyard.cli.laptop import addresses
from modelyard.cli.laptop.forking import fork
from modelyard.cli.laptop.kubeconfig import merge_context
from modelyard.cli.laptop.layout import Held, Layout, State, directory_argument, layout_of, require_linux
from modelyard.cli.laptop.parts import PARTS, preload, run_part
from modelyard.cli.laptop.places import places
from modelyard.cli.laptop.progress import Progress, follow_applied
from modelyard.cli.laptop.supervisor import Part, Supervisor, describe_exit
from modelyard.cli.manifests import operator_names, operators_argument
from modelyard.cli.output import Failed
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.operators.registry import BUILT, UnknownOperator, load

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
    parser.add_argument("--detach", action="store_true", help="go on in the background once everything is ready")
    parser.add_argument(
        "--platform",
        choices=["kubernetes", "openshift"],
        default="kubernetes",
        help="openshift: also serve Route, ConsoleLink, Group",
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
    files: Sequence[Path]
    timeout: float
    merge: bool


def run(args: argparse.Namespace) -> int:
    require_linux()
    names = operator_names(args) or list(BUILT)
    try:
        load(names, os.environ)
    except (UnknownOperator, ValueError) as error:
        raise Failed(str(error)) from None
    files = [Path(name) for name in args.apply]
    # What is wrong with a file is said before anything is started.
    read_all(files)
    plan = Plan(layout_of(args), names, args.platform, files, args.timeout, args.merge_kubeconfig)
    plan.layout.create()
    if plan.layout.is_running():
        raise Held(plan.layout.holder())
    return _detach(plan) if args.detach else asyncio.run(_foreground(plan))


async def _foreground(plan: Plan, *, quiet: bool = False) -> int:
    layout = plan.layout
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    preload(plan.operators)
    with layout.hold():
        network = addresses.choose(layout)
        state = State(os.getpid(), time.time(), list(plan.operators), plan.platform, gateway=network.gateway_url)
        layout.write_state(state)
        # The parts wait for a fresh one: the last one may name a port that is someone else's now.
        layout.kubeconfig.unlink(missing_ok=True)
        with Progress(quiet=quiet) as progress:

            def report(part: str, event: str) -> None:
                progress.part(part, event)
                state.parts = {p.name: p.pid for p in parts if p.pid}
                state.restarts = {p.name: p.restarts for p in parts if p.restarts}
                layout.write_state(state)

            parts = _parts(plan, network)
            async with Supervisor(parts, layout.logs, report) as supervisor:
                code = await _until_ready(plan, supervisor, state, progress, stop)
                if state.ready and not stop.is_set():
                    # What was applied may have failed; the cluster is up all the same, for a person to look at.
                    state.served = await _served(layout, state.gateway)
                    layout.write_state(state)
                    progress.done(state, layout)
                    await stop.wait()
                progress.stopping()
        layout.state_file.unlink(missing_ok=True)
    return code


async def _until_ready(
    plan: Plan, supervisor: Supervisor, state: State, progress: Progress, stop: asyncio.Event
) -> int:
    """Starts everything and applies the files; 0 when all is ready (or it was told to stop)."""
    ready = asyncio.create_task(supervisor.wait_ready())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([ready, stopping], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
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
    state.parts = {part.name: part.pid for part in supervisor.parts}
    plan.layout.write_state(state)
    if not plan.files:
        stopping.cancel()
        return 0
    applied = asyncio.create_task(follow_applied(plan.layout, plan.files, plan.operators, plan.timeout, progress))
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


async def _served(layout: Layout, gateway: str) -> dict[str, str]:
    client = connect(layout.kubeconfig)
    try:
        return {place.name: gateway + place.path for place, _ in await places(client)}
    except (ApiError, Unreachable):
        return {}
    finally:
        await client.close()


def _parts(plan: Plan, network: addresses.Network) -> list[Part]:
    layout = plan.layout
    common = {
        "MODELYARD_PLATFORM": plan.platform,
        "MODELYARD_OPERATORS": ",".join(plan.operators),
        **network.environment(),
    }
    return [Part(name, partial(run_part, name, layout), common) for name in PARTS]


def _detach(plan: Plan) -> int:
    """Goes on in a process of its own; shows its progress, and leaves it once it is ready."""
    layout = plan.layout
    log = layout.logs / "up.log"
    log.touch(0o600)
    begin = log.stat().st_size
    process = fork(partial(_background, plan), log)
    shown = begin
    while True:
        code = _exit_code(process)
        with log.open("rb") as reader:
            reader.seek(shown)
            text = reader.read()
            shown += len(text)
        sys.stdout.write(text.decode(errors="replace"))
        sys.stdout.flush()
        if b"modelyard is up" in text:
            state = layout.read_state()
            return 1 if state is not None and state.problem else 0
        if code is not None:
            if code:
                raise Failed(f"it ended with {describe_exit(code)}; see {log}")
            return 0
        time.sleep(0.05)


def _background(plan: Plan) -> int:
    try:
        return asyncio.run(_foreground(plan, quiet=True))
    except Failed as problem:
        print(f"modelyard up: {problem}")
        return 1


def _exit_code(process: int) -> int | None:
    """Of a child that has ended."""
    ended, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None
