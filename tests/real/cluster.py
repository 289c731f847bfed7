"""A real control plane on loopback: etcd, kube-apiserver and, where asked for, kube-controller-manager."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from modelyard.local.kubelet.processes.namespaces import die_with_parent
from tests.real.build import build

WORKLOADS = (
    "deployment-controller", "replicaset-controller", "statefulset-controller", "job-controller", "cronjob-controller",
    "daemonset-controller", "replicationcontroller-controller", "endpoints-controller", "endpointslice-controller",
    "endpointslice-mirroring-controller", "persistentvolume-binder-controller", "ttl-after-finished-controller",
    "horizontal-pod-autoscaler-controller", "disruption-controller",
)  # fmt: skip
"""Controllers that stay off, so that a test plays their part."""


class RealCluster:
    """`with RealCluster() as cluster:` starts the servers; `cluster.kubeconfig` has full rights."""

    def __init__(self, *, workloads: Sequence[str] = (), flags: Sequence[str] = (), sync: bool = False) -> None:
        self.workloads = tuple(workloads)
        """Names among WORKLOADS that run after all."""
        self.flags = tuple(flags)
        self.sync = sync
        """Whether etcd syncs to disk, as in production (slower)."""
        self.admin_token = secrets.token_hex(16)
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> Self:
        self._programs = build()
        self._directory = tempfile.TemporaryDirectory(prefix="modelyard-real-")
        self.directory = Path(self._directory.name)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubectl(self) -> Path:
        return self._programs / "kubectl"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_file(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    def processes(self) -> dict[str, int]:
        """Name -> process id."""
        return {name: process.pid for name, process in self._processes}

    def stop(self) -> None:
        for _, process in reversed(self._processes):
            process.terminate()
        for _, process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._directory.cleanup()

    def _start(self) -> None:
        client, peer, self._port = free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        self._run(
            "etcd", "--data-dir", str(self.directory / "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--log-level", "error",
            *([] if self.sync else ["--unsafe-no-fsync"]),
        )  # fmt: skip
        certs = self.directory / "certs"
        certs.mkdir()
        key = certs / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        tokens = self.directory / "tokens.csv"
        manager_token = secrets.token_hex(16)
        tokens.write_text(
            f'{self.admin_token},admin,admin,"system:masters"\n{manager_token},manager,manager,"system:masters"\n'
        )
        self._run(
            "kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
            "--secure-port", str(self._port), "--cert-dir", str(certs), "--token-auth-file", str(tokens),
            "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", str(key),
            "--service-account-signing-key-file", str(key), "--authorization-mode", "RBAC",
            "--service-cluster-ip-range", "10.96.0.0/16", "--allow-privileged=true", "--endpoint-reconciler-type", "none",
            *self.flags,
        )  # fmt: skip
        self._wait_ready()
        self.kubeconfig = self.write_kubeconfig("admin", self.admin_token)
        off = [f"-{name}" for name in WORKLOADS if name not in self.workloads]
        self._run(
            "kube-controller-manager", "--kubeconfig", str(self.write_kubeconfig("manager", manager_token)),
            "--controllers", ",".join(["*", *off, "-node-ipam-controller", "-node-lifecycle-controller"]),
            "--service-account-private-key-file", str(key), "--root-ca-file", str(self.ca_file), "--leader-elect=false",
            "--secure-port", "0", "--use-service-account-credentials=false", "--kube-api-qps", "500", "--kube-api-burst", "1000",
            "--concurrent-gc-syncs", "20", "--concurrent-namespace-syncs", "20", "--namespace-sync-period", "30s",
        )  # fmt: skip
        self._wait_for("/api/v1/namespaces/default/serviceaccounts/default")

    def write_kubeconfig(self, user: str, token: str) -> Path:
        path = self.directory / f"{user}.kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {"name": "real", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}
                    ],
                    "users": [{"name": user, "user": {"token": token}}],
                    "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
                    "current-context": "real",
                }
            )
        )
        return path

    def _run(self, program: str, *arguments: str) -> None:
        log = (self.directory / f"{program}.log").open("wb")
        # However a test run ends, its servers end with it.
        process = subprocess.Popen(
            [str(self._programs / program), *arguments],
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        self._processes.append((program, process))

    def _wait_ready(self) -> None:
        self._wait_for("/readyz")

    def _wait_for(self, path: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        last = ""
        while time.monotonic() < deadline:
            for name, process in self._processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}:\n{self.log(name)[-3000:]}")
            try:
                if self._get(path) == 200:
                    return
            except (OSError, urllib.error.URLError) as error:
                last = str(error)
            time.sleep(0.1)
        raise RuntimeError(f"{path} did not answer in {seconds:.0f} s: {last}\n{self.log('kube-apiserver')[-3000:]}")

    def log(self, program: str) -> str:
        return (self.directory / f"{program}.log").read_text(errors="replace")

    def _get(self, path: str) -> int:
        context = ssl._create_unverified_context()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.admin_token}"})
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return int(answer.status)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
