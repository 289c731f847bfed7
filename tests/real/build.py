"""Builds etcd, kube-apiserver, kube-controller-manager and kubectl from the Go module proxy, once, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = Path(__file__).parents[2] / "tools" / "servers"
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


class Unavailable(Exception):
    """The real servers cannot be had here; the message says why."""


def version() -> str:
    """The Kubernetes version that tools/servers/go.mod asks for."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v[\d.]+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise Unavailable("tools/servers/go.mod does not require k8s.io/kubernetes")
    return found[1]


def cache_directory() -> Path:
    root = Path(os.environ.get("MODELYARD_CACHE") or Path.home() / ".cache" / "modelyard")
    digest = hashlib.sha256((MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    return root / "servers" / f"{version()}-{digest}"


def build() -> Path:
    """The directory that holds all programs; builds what is missing."""
    target = cache_directory()
    if all((target / name).exists() for name in PROGRAMS):
        return target
    if shutil.which("go") is None:
        raise Unavailable(
            "Go is not installed: the real kube-apiserver cannot be built (tests on the embedded server still run)"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((target / name).exists() for name in PROGRAMS):
            _build_into(target)
    return target


def _build_into(target: Path) -> None:
    print(f"building the real servers {version()} (10 to 15 minutes, once)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        for name, package in PROGRAMS.items():
            command = ["go", "build", "-trimpath", "-ldflags", _version_flags(), "-o", f"{work}/{name}", package]
            environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
            done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise Unavailable(f"building {name} failed:\n{done.stderr[-3000:]}")
        target.mkdir(exist_ok=True)
        for name in PROGRAMS:
            os.replace(f"{work}/{name}", target / name)


def _version_flags() -> str:
    """An unset version reports v0.0.0, which confuses clients."""
    number = version()
    major, minor, _ = number.removeprefix("v").split(".")
    values = {
        "gitVersion": number,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "2026-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s", "-w"] + [f"-X {package}.{key}={value}" for package in packages for key, value in values.items()]
    )


if __name__ == "__main__":
    print(build())
