"""The server's own certificate authority and serving certificate; kept in a private file where there is a directory."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from modelyard.local.network import origins
from modelyard.runtime.tls.pairs import Pair, load

_FILE = "identity.json"
_NAMES = (
    "localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local", *origins.NAMES,
)  # fmt: skip


class Identity:
    def __init__(self, directory: Path | None, clock: Callable[[], datetime]) -> None:
        self._file = directory / _FILE if directory is not None else None
        self._clock = clock
        self._kept = _Kept()
        if self._file is not None and self._file.exists():
            self._kept = _Kept.read(self._file.read_bytes())
        self._renew(_NAMES)

    @staticmethod
    def is_kept(directory: Path) -> bool:
        """Whether there is one in the directory already."""
        return (directory / _FILE).exists()

    def _renew(self, names: Sequence[str]) -> None:
        now = self._clock()
        if self._kept.since <= now.timestamp() < self._kept.until and set(names) <= set(self._kept.names):
            return
        # Loaded where certificates are made, not where they are used.
        from modelyard.runtime.tls.certificates import Issued, kept_between, renewed

        issued = renewed(Issued.from_data(self._kept.certificates), list(names), now)
        since, until = kept_between(issued)
        self._kept = _Kept(issued.to_data(), list(names), since.timestamp(), until.timestamp())
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._file, msgspec.json.encode(self._kept).decode())

    @property
    def certificate(self) -> str:
        """The CA's certificate, in PEM."""
        return self._kept.pem("ca.crt").decode()

    @property
    def pair(self) -> Pair:
        """The serving certificate and its key."""
        return Pair(self._kept.pem("tls.crt"), self._kept.pem("tls.key"))

    def context(self, names: Sequence[str]) -> ssl.SSLContext:
        """For a server that is reached under these names too. Clients may, but need not, show a certificate of our CA."""
        self._renew([*_NAMES, *(name for name in names if name not in _NAMES)])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load(context, self.pair)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.certificate)
        context.set_alpn_protocols(["http/1.1"])
        # Clients keep their connections, so tickets to resume one would be made for nobody.
        context.num_tickets = 0
        return context


class _Kept(msgspec.Struct):
    """The certificates, with what must be known of them to see that they are still good."""

    certificates: dict[str, str] = {}
    names: list[str] = []
    since: float = 0.0
    until: float = 0.0

    @classmethod
    def read(cls, data: bytes) -> _Kept:
        """What cannot be read is made again."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError:
            return cls()

    def pem(self, name: str) -> bytes:
        return base64.b64decode(self.certificates[name])


def write_private(path: Path, text: str) -> None:
    """Replaces a file in one step; only its owner can read it, from the first moment on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
