"""The base image's digest is asked of the registry, with a token where it wants one, and written into the Dockerfile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tools.base_image import Image, main

DIGEST = f"sha256:{'ab' * 32}"
OLD = f"sha256:{'cd' * 32}"


class Registry(BaseHTTPRequestHandler):
    """Has the tag 3.12-slim, for those with the token."""

    def do_HEAD(self) -> None:
        host = self.headers["Host"]
        if self.headers.get("Authorization") != "Bearer open":
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="http://{host}/token",service="me",scope="pull"')
        elif self.path == "/v2/mirror/python/manifests/3.12-slim" and "image.index" in self.headers["Accept"]:
            self.send_response(200)
            self.send_header("Docker-Content-Digest", DIGEST)
        else:
            self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        body = json.dumps({"token": "open" if self.path == "/token?service=me&scope=pull" else ""}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def dockerfile(folder: Path, name: str) -> Path:
    file = folder / "Dockerfile"
    file.write_text(f"# The plane\nARG PYTHON={name}@{OLD}\nFROM ${{PYTHON}}\n")
    return file


def test_the_digest_of_the_tag_is_written(registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{registry}/mirror/python:3.12-slim"
    file = dockerfile(tmp_path, name)
    assert main(file) == 0
    assert file.read_text() == f"# The plane\nARG PYTHON={name}@{DIGEST}\nFROM ${{PYTHON}}\n"
    assert "commit the Dockerfile" in capsys.readouterr().out
    assert main(file) == 0
    assert "unchanged" in capsys.readouterr().out


def test_a_registry_without_the_tag_leaves_the_file_alone(
    registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = dockerfile(tmp_path, f"{registry}/mirror/python:2.7-slim")
    before = file.read_text()
    assert main(file) == 1
    assert file.read_text() == before
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("python:3.12-slim", Image("registry-1.docker.io", "library/python", "3.12-slim")),
        ("team/python", Image("registry-1.docker.io", "team/python", "latest")),
        ("quay.example.com:5000/team/python:1", Image("quay.example.com:5000", "team/python", "1")),
        ("quay.example.com:5000/team/python", Image("quay.example.com:5000", "team/python", "latest")),
    ],
)
def test_names_are_read_as_container_engines_read_them(name: str, image: Image) -> None:
    assert Image.parse(name) == image
