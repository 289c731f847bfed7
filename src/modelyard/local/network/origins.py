"""The names under which a browser reaches the gateway: one origin for its own pages and one for each service. No I/O.

Pages of one origin can read each other's content and use each other's login, so no two services share one, and none shares the
gateway's. Programs that send their own token use plain `localhost`, where no login is kept."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

HOME = "modelyard.localhost"
"""Browsers lead every name below `localhost` to this machine, without DNS."""
NAMES = (HOME, f"*.{HOME}")
"""For the serving certificate."""
_LABEL_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of a gateway on this port."""

    port: int

    @property
    def local(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def home(self) -> str:
        return f"https://{HOME}:{self.port}"

    def of(self, label: str) -> str:
        return f"https://{label}.{HOME}:{self.port}"


def label_of(source: str, name: str) -> str:
    """The host label of a service: its name for people, and a digest, since names repeat in kinds and namespaces."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LABEL_LENGTH].strip("-") or "service"
    return f"{plain}-{hashlib.sha256(source.encode()).hexdigest()[:12]}"


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[").lower()
    return host.partition(":")[0].rstrip(".").lower()


def service_label(name: str) -> str | None:
    """The label of the service that this host name stands for; None if it is not such a name."""
    label, dot, rest = name.partition(".")
    return label if dot and rest == HOME else None


def is_local(name: str) -> bool:
    return name in ("localhost", "::1") or name.startswith("127.") or name.endswith(".localhost")


def safe_path(wanted: str) -> str:
    """A place on the same origin, or the root. Browsers drop tabs and newlines and read a backslash as a slash, so that
    anything but plain visible characters may lead elsewhere."""
    return wanted if re.fullmatch(r"/(?!/)[!-\[\]-~]*", wanted) else "/"
