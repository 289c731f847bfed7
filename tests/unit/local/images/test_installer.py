"""uv takes the settings that a company gave its people for pip: real installs from an index with a CA of its own."""

from __future__ import annotations

import hashlib
import ssl
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modelyard.kube.times import utc_now
from modelyard.local.images import Builder, BuildError, Recipe
from modelyard.local.images.installer import explain_failure, installer_environment
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import load

_SETTINGS = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_INDEX_URL", "PIP_CONFIG_FILE",
    "PIP_FIND_LINKS", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "HTTPS_PROXY", "https_proxy", "ALL_PROXY",
)  # fmt: skip


class Index:
    """A package index on loopback; only `authority` vouches for it."""

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "company-ca.pem"
        self.lock = directory / "lock.txt"
        pages = directory / "pages"
        (pages / "simple" / "thing").mkdir(parents=True)
        wheel = pages / "thing-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("thing.py", "")
            archive.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
            archive.writestr(
                "thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr("thing-1.dist-info/RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (pages / "simple" / "thing" / "index.html").write_text(
            f'<a href="/{wheel.name}#sha256={digest}">{wheel.name}</a>'
        )
        self.lock.write_text(f"thing==1 --hash=sha256:{digest}\n")
        now = utc_now()
        ca = make_ca(now)
        self.authority.write_bytes(ca.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load(context, issue(ca, ["127.0.0.1"], now))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(pages)))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}/simple"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    for name, value in (("HOME", home), ("UV_CACHE_DIR", tmp_path / "uv"), ("UV_HTTP_RETRIES", "0")):
        monkeypatch.setenv(name, str(value))
    made = Index(tmp_path)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


async def build(index: Index, tmp_path: Path) -> bool:
    recipe = Recipe("thing", "a thing", ("thing",), "1", lock=index.lock)
    built = await Builder(tmp_path / "cache").build(recipe)
    return any(built.prefix.rglob("thing.py"))


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"])
async def test_a_companys_ca_is_trusted_by_any_of_the_usual_variables(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv(name, str(index.authority))
    assert await build(index, tmp_path)


async def test_pips_own_file_names_the_index_and_the_ca(index: Index, tmp_path: Path) -> None:
    settings = tmp_path / "home" / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[global]\nindex-url = {index.url}\ncert = {index.authority}\n")
    assert await build(index, tmp_path)


async def test_an_unknown_authority_is_said_with_the_remedy(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    with pytest.raises(
        BuildError, match="certificate that is not trusted here: name your company's CA bundle in SSL_CERT_FILE"
    ):
        await build(index, tmp_path)


async def test_no_network_is_said_with_the_remedy(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1:1/simple")
    with pytest.raises(
        BuildError, match="the package index cannot be reached: connect to the network, or set HTTPS_PROXY"
    ):
        await build(index, tmp_path)


def test_a_full_disk_is_said_with_the_remedy() -> None:
    said = ["error: failed to write to file", "Caused by: No space left on device (os error 28)"]
    assert explain_failure(said).startswith("the disk is full: free some space")


def test_a_proxy_and_hosts_that_pip_trusts_are_uvs_too() -> None:
    found = installer_environment(
        {"PIP_CONFIG_FILE": "/dev/null", "PIP_PROXY": "http://p:1", "PIP_TRUSTED_HOST": "a b"}
    )
    assert (found["HTTPS_PROXY"], found["HTTP_PROXY"], found["UV_INSECURE_HOST"]) == ("http://p:1", "http://p:1", "a b")
    kept = installer_environment(
        {"PIP_CONFIG_FILE": "/dev/null", "PIP_PROXY": "http://p:1", "https_proxy": "http://q:1"}
    )
    assert "HTTPS_PROXY" not in kept


def test_what_is_set_for_uv_goes_before_what_is_set_for_pip() -> None:
    env = {
        "PIP_CONFIG_FILE": "/dev/null",
        "SSL_CERT_FILE": "/uv",
        "PIP_CERT": "/pip",
        "REQUESTS_CA_BUNDLE": "/requests",
    }
    assert installer_environment(env)["SSL_CERT_FILE"] == "/uv"
    del env["SSL_CERT_FILE"]
    assert installer_environment(env)["SSL_CERT_FILE"] == "/pip"
