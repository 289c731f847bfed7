"""The API server as a process of its own: `python -m modelyard.local.apiserver --dir DIR --port PORT`."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import gc
import logging
import os
import resource
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.kube.times import utc_now
from modelyard.local.apiserver.sockets.tls import Identity, write_private
from modelyard.runtime.process.footprint import keep_small

if TYPE_CHECKING:
    from modelyard.local.apiserver.server import ApiServer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m modelyard.local.apiserver", description="A Kubernetes API server on SQLite."
    )
    parser.add_argument("--dir", type=Path, required=True, help="where objects, keys and the kubeconfig are kept")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: loopback only)")
    parser.add_argument("--port", type=int, default=0, help="default: the one used last, or a free one")
    parser.add_argument("--durable", choices=("full", "relaxed"), default="full",
                        help="full: acknowledged writes survive power loss; relaxed: they survive a crash of the process")  # fmt: skip
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    certificates = _make_certificates(options.dir)
    # The long part of the start; certificates are made meanwhile.
    import_module("modelyard.local.apiserver.server")
    from modelyard.local.apiserver.storage.sqlite import StateUnusable

    if certificates:
        os.waitpid(certificates, 0)
    try:
        asyncio.run(serve(options.dir, host=options.host, port=options.port, durable=options.durable))
    except StateUnusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: cannot listen on {options.host}:{options.port}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _make_certificates(directory: Path) -> int:
    """Makes a new server's certificates in a process of its own: they are made once, by a library that takes many megabytes.
    Gives that process, or 0; what it could not do, the server does."""
    if Identity.is_kept(directory / "pki"):
        return 0
    process = os.fork()
    if process:
        return process
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        Identity(directory / "pki", utc_now)
    os._exit(0)


async def serve(
    directory: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    durable: str = "full",
    kubeconfig: Path | None = None,
    services: str = "10.96.0.0/16",
    kubelet: Path | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves until SIGTERM or SIGINT. The administrator's kubeconfig is written where asked (default: the directory)."""
    from modelyard.local.apiserver.server import ApiServer

    written = kubeconfig or directory / "kubeconfig"
    keep_small()
    _allow_many_files()
    # The thread that writes to the disk needs the interpreter only for moments, and every request waits for it.
    sys.setswitchinterval(0.0005)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = ApiServer(
        directory, durable="relaxed" if durable == "relaxed" else "full", services=services, kubelet=kubelet
    )
    async with server:
        token = admin_token(directory)
        server.admit_token(token)
        url = await _listen(server, directory / "port", host, port)
        write_private(written, kubeconfig_text(url, server.root_certificate(), token))
        # What was loaded stays; the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        # A request leaves no cycles behind; looking for some after every few objects takes a tenth of its time.
        gc.set_threshold(20_000, 20, 20)
        print(f"serving on {url}, kubeconfig: {written}", flush=True)
        on_ready()
        await stop.wait()


def _allow_many_files() -> None:
    """Each connection is a file; what is usual suffices for fewer clients than a busy laptop has."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if most == resource.RLIM_INFINITY else min(4096, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def _listen(server: ApiServer, record: Path, host: str, port: int) -> str:
    """On the port asked for, else on the one used last (clients know it), else on a free one."""
    used = 0 if port else _last_port(record)
    try:
        url = await server.listen(host, port or used)
    except OSError:
        if not used:
            raise
        url = await server.listen(host, 0)
    write_private(record, url.rpartition(":")[2])
    return url


def _last_port(record: Path) -> int:
    return int(record.read_text()) if record.exists() else 0


def admin_token(directory: Path) -> str:
    """The administrator's token, made once."""
    path = directory / "admin-token"
    if path.exists():
        return path.read_text().strip()
    token = secrets.token_urlsafe(32)
    write_private(path, token)
    return token


def kubeconfig_text(url: str, certificate: str, token: str) -> str:
    return _KUBECONFIG.format(url=url, ca=base64.b64encode(certificate.encode()).decode(), token=token)


_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: modelyard
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    token: {token}
contexts:
- name: modelyard
  context:
    cluster: modelyard
    user: admin
current-context: modelyard
"""
