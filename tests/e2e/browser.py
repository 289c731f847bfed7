"""A headless browser: what a page shows once its scripts have run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.conftest import program

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def shown(url: str, profile: Path, *flags: str, milliseconds: int = 60_000) -> subprocess.CompletedProcess[str]:
    """The page's HTML as it is in the end. Browsers with one profile share their cookies."""
    command = [
        program("chromium"),
        *FLAGS,
        *flags,
        f"--user-data-dir={profile}",
        f"--virtual-time-budget={milliseconds}",
    ]
    return subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=300)
