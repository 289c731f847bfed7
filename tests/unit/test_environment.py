"""`make` finds an interpreter that is new enough, says what it found if there is none, and leaves no broken environment behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.conftest import wait_until

ROOT = Path(__file__).parents[2]
_NEEDED = ("sh", "rm", "mv", "dirname", "env", "make", "touch", "mkdir", "sleep")
_FILES = (
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "tools/environment.sh",
    "tools/uv.lock",
    "src/modelyard/local/images/installer.py",
)
_OLD = """#!/bin/sh
# Says that it is Python 3.10, and does nothing else.
[ "$1" = -c ] || {{ echo "an old interpreter was run: $*" >&2; exit 9; }}
exec {python} -c "import sys; sys.version_info = (3, 10, 13, 'final', 0); {also}$2" "$3"
"""
_NEW = """#!/bin/sh
# Is new enough, and cannot make environments.
case "$*" in *ensurepip*) exit 1 ;; esac
exec {python} "$@"
"""
_UV = """#!/bin/sh
# Stands for uv: makes a folder as an environment, and blocks while it fills that.
echo "uv $*" >> {log}
echo "index=${{UV_DEFAULT_INDEX:-}} ca=${{SSL_CERT_FILE:-}} proxy=${{HTTPS_PROXY:-}}" >> {log}
for last; do :; done
case "$1" in
  venv) mkdir -p "$last/bin" ;;
  *) {fill} ;;
esac
"""


class Checkout:
    """A folder with what `make .venv/.ready` reads, and a PATH with few programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.log = folder / "uv.log"
        self.path = folder / "bin"
        self.environment: dict[str, str] = {}
        self.path.mkdir()
        for name in _FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        for name in _NEEDED:
            found = shutil.which(name)
            assert found, f"{name} is not installed"
            (self.path / name).symlink_to(found)

    def program(self, name: str, text: str) -> Path:
        file = self.path / name
        file.write_text(text)
        file.chmod(0o755)
        return file

    def old(self, name: str, *, complete: bool = True) -> Path:
        also = "" if complete else "sys.modules['ensurepip'] = None; "
        return self.program(name, _OLD.format(python=sys.executable, also=also))

    def uv(self, fill: str) -> None:
        self.program("uv", _UV.format(log=self.log, fill=fill))

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["make", ".venv/.ready", *words],
            cwd=self.folder,
            env={"PATH": str(self.path), "HOME": str(self.folder), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Whoever runs the tests in the background may ignore Ctrl-C; a terminal does not.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )

    def make(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        said, _ = process.communicate(timeout=60)
        return process.returncode, said

    @property
    def environments(self) -> list[str]:
        return sorted(entry.name for entry in self.folder.glob(".venv*"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_old_python_is_named_before_an_environment_is_made(checkout: Checkout) -> None:
    found = checkout.old("python3", complete=False)
    code, said = checkout.make()
    assert code != 0
    assert f"needs Python 3.11 or newer, found 3.10 at {found}; install one, or name it: make PYTHON=" in said
    assert checkout.environments == []


def test_no_python_at_all_is_said(checkout: Checkout) -> None:
    code, said = checkout.make()
    assert code != 0
    assert "needs Python 3.11 or newer, found none" in said


def test_a_newer_python_further_on_the_path_is_taken(checkout: Checkout) -> None:
    checkout.old("python3")
    newer = checkout.program("python3.12", _NEW.format(python=sys.executable))
    checkout.uv("exit 0")
    code, said = checkout.make()
    assert code == 0, said
    assert f"--python {newer} .venv.new" in checkout.log.read_text()
    assert checkout.environments == [".venv"]


def test_uv_is_asked_where_every_python_is_too_old(checkout: Checkout) -> None:
    found = checkout.old("python3", complete=False)
    checkout.uv("exit 0")
    code, said = checkout.make()
    assert code == 0, said
    assert f"needs Python 3.11 or newer, found 3.10 at {found}; asking uv for Python 3.12" in said
    assert "venv --quiet --relocatable --python 3.12 .venv.new" in checkout.log.read_text()


def test_a_python_that_is_named_is_the_only_one_tried(checkout: Checkout) -> None:
    checkout.program("python3", _NEW.format(python=sys.executable))
    named = checkout.old("python3.10", complete=False)
    code, said = checkout.make(f"PYTHON={named}")
    assert code != 0
    assert f"found 3.10 at {named};" in said


def test_a_python_without_the_modules_for_environments_is_said_with_the_package(checkout: Checkout) -> None:
    found = checkout.program("python3", _NEW.format(python=sys.executable))
    code, said = checkout.make()
    assert code != 0
    assert f"{found} cannot make virtual environments: install the package python3-venv" in said
    assert checkout.environments == []


def test_what_could_not_be_filled_is_not_left_behind(checkout: Checkout) -> None:
    checkout.program("python3", _NEW.format(python=sys.executable))
    checkout.uv("echo no network >&2; exit 1")
    code, said = checkout.make()
    assert code != 0
    assert "no network" in said
    assert checkout.environments == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_interrupted_is_not_left_behind(checkout: Checkout, number: signal.Signals) -> None:
    checkout.program("python3", _NEW.format(python=sys.executable))
    checkout.uv("exec sleep 600")
    process = checkout.start()
    wait_until(lambda: checkout.log.exists() and "pip sync" in checkout.log.read_text(), "uv fills the environment")
    assert checkout.environments == [".venv.new"]
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    assert checkout.environments == []


def test_an_environment_with_an_old_python_is_replaced_however_new_its_stamp_is(checkout: Checkout) -> None:
    folder = checkout.folder / ".venv"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(checkout.old("python3.10"), folder / "bin/python")
    (folder / ".ready").touch()
    checkout.program("python3", _NEW.format(python=sys.executable))
    checkout.uv("exit 0")
    code, said = checkout.make()
    assert code == 0, said
    assert "replacing .venv" in said
    assert not (folder / "bin/python").exists()


@pytest.mark.parametrize("old", [False, True], ids=["new python", "old python, and uv brings a new one"])
@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"PIP_INDEX_URL": "https://pip/simple"}, "index=https://pip/simple"),
        ({"PIP_INDEX_URL": "https://pip", "UV_DEFAULT_INDEX": "https://uv"}, "index=https://uv "),
        ({"PIP_CERT": "/ca of/pip.pem"}, "ca=/ca of/pip.pem"),
        ({"REQUESTS_CA_BUNDLE": "/requests.pem"}, "ca=/requests.pem"),
        ({"PIP_PROXY": "http://proxy:1"}, "proxy=http://proxy:1"),
        ({"PIP_CONFIG_FILE": "pip.conf"}, "index=https://file/simple ca=/file.pem proxy=http://file:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_settings_for_pip_are_uvs_too(checkout: Checkout, old: bool, variables: dict[str, str], told: str) -> None:
    if old:
        checkout.old("python3", complete=False)
    else:
        checkout.program("python3", _NEW.format(python=sys.executable))
    settings = "[global]\nindex-url = https://file/simple\ncert = /file.pem\nproxy = http://file:1\n"
    (checkout.folder / "pip.conf").write_text(settings)
    # Settings of this machine would be in the way.
    checkout.environment = {"PIP_CONFIG_FILE": "/dev/null"} | variables
    checkout.uv("exit 0")
    code, said = checkout.make()
    assert code == 0, said
    heard = [line for line in checkout.log.read_text().splitlines() if line.startswith("index=")]
    assert heard
    assert all(told in line for line in heard), heard
