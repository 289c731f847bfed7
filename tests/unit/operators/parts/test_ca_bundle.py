"""The shell programs that join CA bundles, run for real."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from modelyard.operators.parts.ca_bundle import COMBINE_SCRIPT, WATCH_SCRIPT, Source, mounts, variables, volumes

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("platform", "custom", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "system.crt").write_text(CERTIFICATE.format("system"))
    (tmp_path / "platform" / "ca-bundle.crt").write_text(CERTIFICATE.format("platform"))
    (tmp_path / "custom" / "b.pem").write_text(CERTIFICATE.format("pem"))
    (tmp_path / "custom" / "a.crt").write_text(CERTIFICATE.format("crt"))
    (tmp_path / "custom" / "notes.txt").write_text("not a certificate")
    return tmp_path


def environ(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CA_BUNDLE_FILE_PATHS": f"{place}/system.crt {place}/missing.crt",
        "CA_BUNDLE_MOUNT_PATHS": f"{place}/platform {place}/custom",
        "CA_BUNDLE_OUTPUT": f"{place}/out/ca-bundle.crt",
        "CA_BUNDLE_WATCH_INTERVAL": "30",
    }


def test_all_sources_are_joined_in_order(place: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", COMBINE_SCRIPT], env=environ(place), capture_output=True, text=True, check=True
    )
    bundle = place / "out" / "ca-bundle.crt"
    bodies = [line for line in bundle.read_text().splitlines() if line and not line.startswith("-")]
    assert bodies == ["system", "platform", "crt", "pem"]
    assert oct(bundle.stat().st_mode & 0o777) == "0o644"
    assert done.stdout == "combined 4 sources with 4 certificates\n"


def test_the_watcher_joins_again_after_a_change(place: Path) -> None:
    # Stands in for the pause: a source changes in the first one, nothing in the second, and the third ends the program.
    pause = place / "bin" / "sleep"
    pause.parent.mkdir()
    pause.write_text(
        f"""#!/bin/sh
echo x >> {place}/pauses
case $(wc -l < {place}/pauses) in
  1) printf '%s' '{CERTIFICATE.format("new")}' > {place}/custom/a.crt ;;
  2) ;;
  *) kill $PPID ;;
esac
"""
    )
    pause.chmod(0o755)
    variables = environ(place) | {"PATH": f"{pause.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", WATCH_SCRIPT], env=variables, capture_output=True, text=True, check=False)
    said = "combined 4 sources with 4 certificates\n"
    assert done.stdout == 2 * said, (
        "when it starts, as a source may have changed since the bundle was made, and after the change"
    )
    assert "new" in (place / "out" / "ca-bundle.crt").read_text()


def test_without_sources_there_is_nothing() -> None:
    assert (volumes([]), mounts([]), variables([])) == ([], [], [])


def test_each_source_has_its_volume() -> None:
    names = [volume["name"] for volume in volumes([Source("a", "/a"), Source("b", "/b")])]
    assert names == ["ca-bundle-0", "ca-bundle-1", "combined-ca-bundle"]
