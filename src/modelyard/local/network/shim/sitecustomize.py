"""Loaded by Python programs in pods: a bind to every address becomes a bind to the pod's own address, and a connection to the
shared loopback address goes there too if something listens.

Loopback is shared by all pods of a machine, and nothing may listen beyond it. Standard library only.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_WILDCARDS = ("", "0.0.0.0", "::", "127.0.0.1", "localhost", "::1")


def _install(pod_ip: str) -> None:
    import socket

    class PodSocket(socket.socket):
        __slots__ = ()

        def bind(self, address: Any) -> None:
            if isinstance(address, tuple) and address and address[0] in _WILDCARDS:
                if self.family == socket.AF_INET:
                    address = (pod_ip, *address[1:])
                elif self.family == socket.AF_INET6:
                    address = (f"::ffff:{pod_ip}", *address[1:])
                    self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().bind(address)

        def connect(self, address: Any) -> None:
            super().connect(self._at_home(address))

        def connect_ex(self, address: Any) -> int:
            return super().connect_ex(self._at_home(address))

        def _at_home(self, address: Any) -> Any:
            """The pod's own address instead of the shared one, if something listens there."""
            if (
                self.family == socket.AF_INET
                and self.type == socket.SOCK_STREAM
                and address[0] in ("127.0.0.1", "localhost")
                and _listens(pod_ip, address[1])
            ):
                return (pod_ip, *address[1:])
            return address

    vars(socket)["socket"] = vars(socket)["SocketType"] = PodSocket


def _listens(address: str, port: int) -> bool:
    """Read from the kernel's table: a connection to try it would be seen by the listener."""
    wanted = f"{int.from_bytes(bytes(map(int, address.split('.'))), sys.byteorder):08X}:{port:04X}"
    try:
        with open("/proc/net/tcp") as table:
            return any(fields[1] == wanted and fields[3] == "0A" for fields in map(str.split, table))
    except OSError:
        return False


class _Hook:
    """Patches libraries that bind below Python's sockets (uvicorn with uvloop, grpc) when they are imported."""

    def __init__(self, pod_ip: str) -> None:
        self.pod_ip = pod_ip
        self.patches = {
            "uvicorn.config": self.uvicorn,
            "grpc._server": self.grpc,
            "grpc.aio._server": self.grpc,
            "ray.dashboard.http_server_agent": self.ray_agent,
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        patch = self.patches.pop(name, None)
        if patch is None:
            return None
        import importlib.util

        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                patch(module)

            loader.exec_module = exec_module
        return spec

    def uvicorn(self, module: Any) -> None:
        plain, pod_ip = module.Config.__init__, self.pod_ip

        def init(config: Any, *args: Any, **kwargs: Any) -> None:
            plain(config, *args, **kwargs)
            if config.host in _WILDCARDS and not config.fd and not config.uds:
                config.host = pod_ip

        module.Config.__init__ = init

    def grpc(self, module: Any) -> None:
        def own(address: str) -> str:
            host, colon, port = address.rpartition(":")
            return self.pod_ip + colon + port if host.strip("[]") in _WILDCARDS else address

        def patched(method: Any) -> Any:
            return lambda server, address, *rest: method(server, own(address), *rest)

        for server in (getattr(module, "_Server", None), getattr(module, "Server", None)):
            for name in ("add_insecure_port", "add_secure_port"):
                method = getattr(server, name, None)
                if method is not None:
                    setattr(server, name, patched(method))

    def ray_agent(self, module: Any) -> None:
        """It listens on its own address and on loopback, which are the same here."""
        plain, pod_ip = module.is_localhost, self.pod_ip
        module.is_localhost = lambda host: host == pod_ip or plain(host)


def _chain() -> None:
    """Run the sitecustomize that this one hides, if there is one."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [path for path in sys.path if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_pod_ip = os.environ.get("MODELYARD_POD_IP", "")
if _pod_ip:
    sys.meta_path.insert(0, _Hook(_pod_ip))
    _install(_pod_ip)
_chain()
