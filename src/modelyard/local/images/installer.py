"""How uv reaches a package index: with the user's settings for pip, and what its failures mean in words.

`tools/environment.sh` runs this file by itself, so it imports nothing of ours."""

from __future__ import annotations

import configparser
import os
import shlex
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_FOREIGN = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME")
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_SAME = (
    ("index-url", ("UV_DEFAULT_INDEX",)),
    ("extra-index-url", ("UV_INDEX",)),
    ("trusted-host", ("UV_INSECURE_HOST",)),
    ("proxy", ("HTTPS_PROXY", "HTTP_PROXY")),
)
"""Settings of pip, and uv's names for them."""
_DISK = ("no space left on device", "disk quota exceeded")
_CERTIFICATE = ("certificate", "unknownissuer")
_NETWORK = (
    "dns error", "failed to lookup address", "connection refused", "network is unreachable", "tcp connect error", "timed out",
    "error sending request", "tunnel", "no route to host",
)  # fmt: skip


def installer_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own settings, with those for pip (variables and pip.conf) also understood by uv. What is set for uv itself
    goes before them."""
    env = dict(environ)
    pip = _pip_settings(environ)
    for name, theirs in _SAME:
        for uv in theirs:
            if pip.get(name) and not env.get(uv) and not env.get(uv.lower()):
                env[uv] = " ".join(pip[name].split())
    if not any(env.get(name) for name in _AUTHORITIES):
        bundle = pip.get("cert") or env.get("REQUESTS_CA_BUNDLE") or env.get("CURL_CA_BUNDLE")
        if bundle:
            env["SSL_CERT_DIR" if Path(bundle).is_dir() else "SSL_CERT_FILE"] = bundle
        elif "UV_SYSTEM_CERTS" not in env and "UV_NATIVE_TLS" not in env and ssl.get_default_verify_paths().cafile:
            # As pip does: a company's authority is often installed for the whole machine.
            env["UV_SYSTEM_CERTS"] = "true"
    # An environment of the caller would otherwise be taken for the target.
    for name in _FOREIGN:
        env.pop(name, None)
    return env


def shell_commands(environ: Mapping[str, str]) -> str:
    """What makes a shell's environment the installer's."""
    wanted = installer_environment(environ)
    changed = [f"export {name}={shlex.quote(value)}" for name, value in wanted.items() if environ.get(name) != value]
    return "\n".join([*changed, *(f"unset {name}" for name in environ if name not in wanted)])


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Of pip.conf files, the more particular ones last, then of variables."""
    found: dict[str, str] = {}
    for file in _pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip says what is wrong with its own file.
        for section in ("global", "install"):
            if parser.has_section(section):
                found |= dict(parser.items(section))
    variables = {name: environ.get(f"PIP_{name.upper().replace('-', '_')}") for name in (*dict(_SAME), "cert")}
    return found | {name: value for name, value in variables.items() if value}


def _pip_files(environ: Mapping[str, str]) -> list[Path]:
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME") or Path.home())
    shared = [Path(part) / "pip" for part in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep) if part]
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip"
    folders = [*shared, Path("/etc"), home / ".pip", own, Path(environ.get("VIRTUAL_ENV") or sys.prefix)]
    return [folder / "pip.conf" for folder in folders] + ([Path(named)] if named else [])


def explain_failure(said: Sequence[str]) -> str:
    """What the installer said, in one sentence with the remedy if the cause is a usual one; else its own last words."""
    words = " ".join(line.strip() for line in said[-8:])
    text = words.lower()
    if any(each in text for each in _DISK):
        return f"the disk is full: free some space, or delete programs with `modelyard images prune --all` ({words})"
    if any(each in text for each in _CERTIFICATE):
        return (
            "the package index has a certificate that is not trusted here: name your company's CA bundle in SSL_CERT_FILE "
            f"and start the cluster again ({words})"
        )
    if any(each in text for each in _NETWORK):
        return (
            "the package index cannot be reached: connect to the network, or set HTTPS_PROXY or PIP_INDEX_URL "
            f"and start the cluster again ({words})"
        )
    return words


if __name__ == "__main__":
    print(shell_commands(os.environ))
