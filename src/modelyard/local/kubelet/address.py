"""Where the kubelet of a laptop cluster answers, and in which protocols; all that the API server needs to know of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PROBLEM = "X-Modelyard-Problem"
"""The header of a refusal that holds its text, quoted as in a URL: a client that asks for a web socket cannot see a body."""
_FILE = "kubelet-endpoint.json"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the kubelet of a cluster answers; read by the API server."""

    host: str
    port: int
    token: str

    @classmethod
    def read(cls, directory: Path) -> Address | None:
        try:
            data = json.loads((directory / _FILE).read_text())
            return cls(data["host"], data["port"], data["token"])
        except (OSError, ValueError, KeyError):
            return None

    def write(self, directory: Path) -> None:
        path = directory / _FILE
        temporary = path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"host": self.host, "port": self.port, "token": self.token}, file)
        temporary.replace(path)

    @staticmethod
    def remove(directory: Path) -> None:
        (directory / _FILE).unlink(missing_ok=True)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"
