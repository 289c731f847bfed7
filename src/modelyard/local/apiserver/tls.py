"""The server's own certificate authority and serving certificate; kept in a private file where there is a directory."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from modelyard.runtime.certificates import Issued, Pair, load, renewed

_NAMES = (
    "localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)  # fmt: skip


class Identity:
    def __init__(self, directory: Path | None, clock: Callable[[], datetime]) -> None:
        self._file = directory / "identity.json" if directory is not None else None
        self._clock = clock
        self._issued: Issued | None = None
        if self._file is not None and self._file.exists():
            self._issued = Issued.from_data(json.loads(self._file.read_text()))
        self._renew(_NAMES)

    def _renew(self, names: Sequence[str]) -> Issued:
        issued = renewed(self._issued, list(names), self._clock())
        if issued is not self._issued and self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._file, json.dumps(issued.to_data()))
        self._issued = issued
        return issued

    @property
    def certificate(self) -> str:
        """The CA's certificate, in PEM."""
        return self._known.bundle.decode()

    @property
    def pair(self) -> Pair:
        """The serving certificate and its key."""
        return self._known.pair

    @property
    def authority(self) -> Pair:
        return self._known.ca

    @property
    def _known(self) -> Issued:
        assert self._issued is not None
        return self._issued

    def context(self, names: Sequence[str]) -> ssl.SSLContext:
        """For a server that is reached under these names too. Clients may, but need not, show a certificate of our CA."""
        issued = self._renew([*_NAMES, *(name for name in names if name not in _NAMES)])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load(context, issued.pair)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.certificate)
        context.set_alpn_protocols(["http/1.1"])
        return context


def write_private(path: Path, text: str) -> None:
    """Replaces a file in one step; only its owner can read it, from the first moment on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
