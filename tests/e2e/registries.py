"""What tests of the registry and the catalog share: who asks, and how their proxies answer."""

from __future__ import annotations

import base64
import ssl
import subprocess
import sys
from http.client import HTTPSConnection
from pathlib import Path

from modelyard.local.images.build import find_uv
from tests.e2e.laptop import Laptop

NS = "opendatahub"


def token(cluster: Laptop, name: str) -> str:
    cluster.kubectl("create", "serviceaccount", name, "-n", NS, code=None)
    return cluster.kubectl("create", "token", name, "-n", NS).strip()


def ask(cluster: Laptop, service: str, path: str, bearer: str = "") -> int:
    """The status of an answer through the Service's proxy, whose certificate is checked for its name."""
    secret = cluster.get("secret", f"{service}-kube-rbac-proxy", "-n", NS)
    trusted = ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())
    address = cluster.get("service", service, "-n", NS)["spec"]["clusterIP"]

    class Named(HTTPSConnection):
        def connect(self) -> None:
            super(HTTPSConnection, self).connect()
            self.sock = trusted.wrap_socket(self.sock, server_hostname=f"{service}.{NS}.svc")

    connection = Named(address, 8443, timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {bearer}"} if bearer else {})
    return connection.getresponse().status


def python_with(package: str, directory: Path) -> str:
    """The interpreter of a new environment that has this package."""
    subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(directory)], check=True)
    python = str(directory / "bin" / "python")
    subprocess.run([find_uv(), "pip", "install", "-q", "--python", python, package], check=True)
    return python
