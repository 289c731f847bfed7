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
from tests.e2e.browser import shown
from tests.e2e.conftest import program

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "pages"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The HTML of every page after a browser drew all that is on it."""
    npm = program("npm")
    folder = tmp_path_factory.mktemp("pages")
    for file in SOURCE.iterdir():
        if file.is_file():
            shutil.copy2(file, folder)
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=300)
    texts = json.dumps({name_of(page): page.read_text() for page in PAGES}).replace("</", "<\\/")
    file = folder / "all.html"
    file.write_text((folder / "page.html").read_text().replace("PAGES", texts))
    done = shown(file.as_uri(), folder / "profile", "--allow-file-access-from-files")
    assert 'data-done="yes"' in done.stdout, re.findall(r'data-failed="[^"]*"', done.stdout) or done.stderr
    return dict(re.findall(r'<article data-page="([^"]*)">(.*?)</article>', done.stdout, re.DOTALL))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_page_is_drawn_without_an_error(drawn: dict[str, str], page: Path) -> None:
    text, shown = page.read_text(), drawn[name_of(page)]
    assert 'class="error"' not in shown, shown
    assert "Syntax error" not in shown
    assert shown.count("<figure") == text.count("```mermaid")
    assert shown.count("<table>") == len(re.findall(r"^\|(?:-+\|)+$", text, re.MULTILINE))


@pytest.mark.parametrize("name", list(BUILT))
def test_the_diagram_names_what_the_operator_watches(drawn: dict[str, str], name: str) -> None:
    (operator,) = load([name], {})
    texts = re.search(r'data-texts="([^"]*)"', html.unescape(drawn[f"docs/dataflow/{name}.md"]))
    assert texts is not None
    for row in flow_of(operator).watches:
        assert row.kind in texts[1]
