"""A certificate with its key, for TLS: to serve with one takes no library that makes them."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    """A certificate (or a chain) and its key, in PEM."""

    certificate: bytes
    key: bytes


def load(context: ssl.SSLContext, pair: Pair) -> None:
    """Gives a TLS context this certificate; connections from now on use it. OpenSSL reads only files."""
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.touch(mode=0o600)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
