"""Starts rclone as an S3 server from the arguments and variables that MinIO and SeaweedFS take. Standard library only."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_WITH_VALUE = {"address", "console-address", "dir", "certs-dir", "S", "config-dir", "C"}


class Settings(NamedTuple):
    directory: str
    port: int
    """Of plain HTTP; 0: none."""
    keys: list[tuple[str, str]]
    certificate: str = ""
    key: str = ""
    https_port: int = 0
    """0: none."""


def read_settings(arguments: list[str], environ: dict[str, str]) -> Settings:
    options, words = split(arguments)
    seaweed = any(name in options for name in ("s3", "dir", "s3.config", "s3.port"))
    directory = options.get("dir", "") or next((word for word in words[1:] if word.startswith("/")), "/data")
    address = options.get("address", "")
    port = int(address.rpartition(":")[2]) if address else int(options.get("s3.port") or (8333 if seaweed else 9000))
    keys: list[tuple[str, str]] = []
    if options.get("s3.config"):
        for identity in json.loads(Path(options["s3.config"]).read_text()).get("identities", []):
            keys += [(item["accessKey"], item["secretKey"]) for item in identity.get("credentials", [])]
    user = environ.get("MINIO_ROOT_USER") or environ.get("MINIO_ACCESS_KEY") or environ.get("AWS_ACCESS_KEY_ID")
    secret = (
        environ.get("MINIO_ROOT_PASSWORD") or environ.get("MINIO_SECRET_KEY") or environ.get("AWS_SECRET_ACCESS_KEY")
    )
    if not keys and user and secret:
        keys.append((user, secret))
    if not keys:
        keys.append(("minioadmin", "minioadmin"))
    if seaweed:
        certificate, key = options.get("s3.cert.file", ""), options.get("s3.key.file", "")
        return Settings(directory, port, keys, certificate, key, int(options.get("s3.port.https") or 0))
    # MinIO speaks HTTPS, and nothing else, where it finds both of these files.
    home = environ.get("HOME") or "/root"
    certificates = Path(options.get("certs-dir") or options.get("S") or f"{home}/.minio/certs")
    public, private = certificates / "public.crt", certificates / "private.key"
    if public.is_file() and private.is_file():
        return Settings(directory, 0, keys, str(public), str(private), port)
    return Settings(directory, port, keys)


def split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by name, with one dash or two, `=` or a following word; and the other words."""
    options: dict[str, str] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and rest and not rest[0].startswith("-") and name in _WITH_VALUE:
            value = rest.pop(0)
        options[name] = value
    return options, words


def command(settings: Settings, address: str) -> list[str]:
    argv = ["rclone", "serve", "s3", "--addr", address, "--vfs-cache-mode", "off", "--config", "/dev/null"]
    argv += ["--cache-dir", "/tmp/rclone"]
    for access, secret in settings.keys:
        argv += ["--auth-key", f"{access},{secret}"]
    return [*argv, settings.directory]


def program(settings: Settings, host: str, directory: str) -> list[str]:
    """What to become: rclone, or what speaks TLS in front of it. A socket that nobody else needs goes into the directory."""
    address = f"{host}:{settings.port}" if settings.port else f"unix://{directory}/s3"
    if not (settings.https_port and settings.certificate):
        return command(settings, address)
    front = [
        sys.executable,
        "-I",
        str(Path(__file__).with_name("tls_front.py")),
        "http",
        host,
        str(settings.https_port),
    ]
    return [*front, settings.certificate, settings.key, address, *command(settings, address)]


def main(arguments: list[str]) -> None:
    host, rest = arguments[0], arguments[1:]
    settings = read_settings(rest, dict(os.environ))
    Path(settings.directory).mkdir(parents=True, exist_ok=True)
    argv = program(settings, host, tempfile.mkdtemp(dir="/tmp"))
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
