"""The documentation as a browser shows it: every diagram is drawn, no table falls apart, pictures are there."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from modelyard.cli.pages.flow import flow_of
from modelyard.operators.registry import BUILT, load

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "pages"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--allow-file-access-from-files",
)  # fmt: skip


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the renderer and its locked packages."""
    for program in ("npm", "chromium"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("pages")
    for file in SOURCE.iterdir():
        if file.is_file():
            shutil.copy2(file, folder)
    subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


def drawn(workshop: Path, page: Path, *more: str) -> str:
    """The page's HTML after everything on it was drawn."""
    text = json.dumps(page.read_text()).replace("</", "<\\/")
    name = str(page.relative_to(ROOT)).replace("/", "_")
    file = workshop / f"{name}.html"
    file.write_text((workshop / "page.html").read_text().replace("MARKDOWN", text))
    command = ["chromium", *_FLAGS, f"--user-data-dir={workshop / 'profile'}", "--virtual-time-budget=30000", *more]
    done = subprocess.run([*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_page_is_drawn_without_an_error(workshop: Path, page: Path) -> None:
    shown = drawn(workshop, page)
    assert 'data-done="yes"' in shown, re.findall(r'data-failed="[^"]*"', shown)
    body = shown.partition("<main>")[2].partition("</main>")[0]
    assert 'class="error"' not in body, body
    assert "Syntax error" not in body
    assert f'data-diagrams="{page.read_text().count("```mermaid")}"' in shown
    assert body.count("<table>") == len(re.findall(r"^\|(?:-+\|)+$", page.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", list(BUILT))
def test_the_diagram_names_what_the_operator_watches(workshop: Path, name: str) -> None:
    shown = html.unescape(drawn(workshop, ROOT / f"docs/dataflow/{name}.md"))
    (operator,) = load([name], {})
    texts = re.search(r'data-texts="([^"]*)"', shown)
    assert texts is not None
    for row in flow_of(operator).watches:
        assert row.kind in texts[1]
