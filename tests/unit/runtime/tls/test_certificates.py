"""Serving certificates: trusted by their bundle, renewed in time, and without a gap in trust."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from modelyard.runtime.tls.certificates import Issued, MountedCertificates, _injection, renewed, service_names
from modelyard.runtime.tls.pairs import Pair, load

NOW = datetime.now(UTC)
NAMES = ["hooks.plane.svc", "127.0.0.1"]


async def is_trusted(pair: Pair, bundle: bytes, name: str) -> bool:
    """Does a client that trusts the bundle accept a server with this certificate under this name?"""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(serving, pair)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cadata=bundle.decode())
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=name)
        writer.close()
    except ssl.SSLCertVerificationError:
        return False
    finally:
        server.close()
    return True


async def test_a_client_that_has_the_bundle_trusts_every_name_and_no_other() -> None:
    issued = renewed(None, NAMES, NOW)
    assert await is_trusted(issued.pair, issued.bundle, "hooks.plane.svc")
    assert await is_trusted(issued.pair, issued.bundle, "127.0.0.1")
    assert not await is_trusted(issued.pair, issued.bundle, "other.plane.svc")
    assert not await is_trusted(issued.pair, renewed(None, NAMES, NOW).bundle, "hooks.plane.svc")


def test_good_certificates_are_kept_and_survive_the_secret() -> None:
    issued = renewed(None, NAMES, NOW)
    stored = Issued.from_data(issued.to_data())
    assert stored == issued
    assert renewed(stored, NAMES, NOW + timedelta(days=30)) is stored


def test_the_serving_certificate_is_renewed_after_two_thirds_of_its_life_under_the_same_ca() -> None:
    issued = renewed(None, NAMES, NOW)
    later = renewed(issued, NAMES, NOW + timedelta(days=250))
    assert later.pair != issued.pair
    assert later.ca == issued.ca
    assert later.bundle == issued.bundle


def test_a_new_name_needs_a_new_certificate() -> None:
    issued = renewed(None, NAMES, NOW)
    assert renewed(issued, [*NAMES, "more.plane.svc"], NOW).pair != issued.pair


async def test_a_new_ca_is_trusted_next_to_the_old_one() -> None:
    old = renewed(None, NAMES, NOW - timedelta(days=2500))
    new = renewed(old, NAMES, NOW)
    assert new.ca != old.ca
    assert new.bundle.endswith(old.bundle)
    assert await is_trusted(new.pair, new.bundle, "127.0.0.1")


@pytest.mark.parametrize("broken", [{}, {"tls.crt": "eA=="}, {"tls.crt": "§"}])
def test_a_broken_secret_is_replaced(broken: dict[str, str]) -> None:
    assert Issued.from_data(broken) is None
    whole = renewed(None, NAMES, NOW).to_data()
    assert Issued.from_data(whole | {"tls.crt": "eA=="}) is None


def test_mounted_certificates_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tls\.crt"):
        MountedCertificates(tmp_path).current()
    (tmp_path / "tls.crt").write_bytes(b"c")
    (tmp_path / "tls.key").write_bytes(b"k")
    assert MountedCertificates(tmp_path).current() == Pair(b"c", b"k")


def test_the_bundle_goes_into_webhooks_and_conversion_only_where_it_differs() -> None:
    hooks = {"webhooks": [{"name": "a", "clientConfig": {"caBundle": "new"}}, {"name": "b", "clientConfig": {}}]}
    assert _injection(hooks, "new") == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "new"},
    ]
    crd = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}}}}}}
    assert _injection(crd, "new")[0]["path"] == "/spec/conversion/webhook/clientConfig/caBundle"
    assert _injection({"spec": {"conversion": {"strategy": "None"}}}, "new") == []


def test_a_service_is_called_by_all_its_names() -> None:
    assert "hooks.plane.svc" in service_names("hooks", "plane")
