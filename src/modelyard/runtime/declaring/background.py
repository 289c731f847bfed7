"""Work beside the controllers: it keeps connections to something beyond the API, and lives while this process leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from modelyard.kube.client import Client


@dataclass(frozen=True)
class Backstage:
    """What background work gets from the process."""

    client: Client
    clock: Callable[[], datetime]


@dataclass(frozen=True)
class Background:
    """`run` is started when this process begins to lead, started again when it fails, and cancelled at the end of the term.

    An operator makes the object behind it when it is built, and gives the same object to its reconcile functions; a test gives
    them a fake. What happens outside wakes keys by a `Trigger`.
    """

    name: str
    run: Callable[[Backstage], Awaitable[None]]
