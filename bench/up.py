"""How long `modelyard up` takes until MLflow answers, and what the plane costs: `make bench-up`.

Fresh state and second start with a warm image cache, and once from an empty one. Memory is PSS of each part, CPU is measured over
a quiet minute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from bench.measure import compile_modules, cpu_seconds, pss_mb
from modelyard.kube.kinds import Object
from modelyard.local.kubelet.processes import keeper

QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart.yaml"


def modelyard(*arguments: str, environment: dict[str, str] | None = None) -> float:
    """Seconds that the command took; its output only if it failed."""
    started = time.monotonic()
    command = [sys.executable, "-m", "modelyard.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return time.monotonic() - started


def up(directory: Path, environment: dict[str, str] | None = None) -> float:
    words = ("up", "--dir", str(directory), "--detach", "--operators", "mlflow", "--apply", str(QUICKSTART))
    return modelyard(*words, environment=environment)


def cost(directory: Path, seconds: float) -> tuple[dict[str, float], float]:
    """Memory of each part in MB, and the share of one CPU that all use together when nothing happens, in percent."""
    state = json.loads((directory / "state.json").read_text())
    pids = {"supervisor": state["pid"], **state["parts"], "keeper": keeper_of(directory)}
    time.sleep(10)
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    used = sum(cpu_seconds(pid) - before[name] for name, pid in pids.items())
    return {name: pss_mb(pid) for name, pid in pids.items()}, 100 * used / seconds


def keeper_of(directory: Path) -> int:
    """The process that holds the containers of a cluster; the kubelet starts it."""
    words = [keeper.__name__.encode(), str(directory.resolve()).encode()]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().split(b"\0")
            if words[0] in line and any(word.startswith(words[1]) for word in line):
                return int(process.name)
    sys.exit(f"no process holds the containers of {directory}")


def idle_with_pods(folder: Path, count: int, seconds: float) -> float:
    """The share of one CPU that the plane uses while pods run that are probed, have a memory limit, and do nothing else."""
    directory, manifest = folder / "pods", folder / "pods.json"
    manifest.write_text(json.dumps(pods(count)))
    modelyard("up", "--dir", str(directory), "--detach", "--operators", "mlflow", "--apply", str(manifest))
    _, idle = cost(directory, seconds)
    modelyard("down", "--dir", str(directory))
    return idle


def pods(count: int) -> Object:
    container: Object = {
        "name": "main",
        "image": "modelyard/http-echo:1",
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
        "resources": {"limits": {"memory": "64Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="fresh starts to take the median of")
    parser.add_argument(
        "--warm", action="store_true", help="not with an empty image cache (which downloads several hundred MB)"
    )
    parser.add_argument("--pods", type=int, default=5, help="small pods beside which idle CPU is measured once more")
    parser.add_argument("--quiet", type=float, default=60.0, help="seconds over which idle CPU is measured")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    compile_modules()
    fresh: list[float] = []
    second: list[float] = []
    with tempfile.TemporaryDirectory(prefix="modelyard-bench-up-") as folder:
        for number in range(args.rounds + 1):
            directory = Path(folder) / f"cluster-{number}"
            took = up(directory)
            print(f"{'warm-up' if number == 0 else 'fresh'}: MLflow is available after {took:.1f} s")
            modelyard("down", "--dir", str(directory))
            if number == 0:
                continue
            fresh.append(took)
            second.append(up(directory))
            print(f"second start: {second[-1]:.1f} s")
            if number == args.rounds:
                memory, idle = cost(directory, args.quiet)
            modelyard("down", "--dir", str(directory))
        idle_pods = idle_with_pods(Path(folder), args.pods, args.quiet)
        cold = None
        if not args.warm:
            with tempfile.TemporaryDirectory(prefix="modelyard-cold-") as cache:
                cold = up(Path(folder) / "cold", {"MODELYARD_CACHE": cache, "UV_CACHE_DIR": f"{cache}/uv"})
                modelyard("down", "--dir", str(Path(folder) / "cold"))
                print(f"cold image cache: {cold:.1f} s")
    for name, size in memory.items():
        print(f"{name:12} {size:7.1f} MB (PSS)")
    print(f"idle: {idle:.2f} % of one CPU with MLflow, {idle_pods:.2f} % with {args.pods} small pods that are probed")
    result = {
        "mlflow_available_s": round(statistics.median(fresh), 1),
        "second_up_s": round(statistics.median(second), 1),
        "cold_s": round(cold, 1) if cold else None,
        "plane_rss_mb": round(sum(memory.values()), 1),
        "idle_cpu_percent": round(idle, 2),
        "idle_with_pods_cpu_percent": round(idle_pods, 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
