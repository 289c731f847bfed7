"""The generated pages are current, links in the docs lead somewhere, and nothing of one machine stands in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelyard.cli import docs
from modelyard.cli.main import COMMANDS, main
from modelyard.failure import Failed
from modelyard.operators.registry import BUILT, PLANNED, load

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def test_the_generated_pages_are_current() -> None:
    assert main(["docs", "--check", "--root", str(ROOT)]) == 0, "run: make docs"


def test_a_stale_page_is_named_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs/dataflow").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "README.md").write_text(f"# Readme\n{docs.BEGIN}\n{docs.END}\n")
    assert main(["docs", "--root", str(tmp_path)]) == 0
    assert main(["docs", "--check", "--root", str(tmp_path)]) == 0
    (tmp_path / "docs/reference/cli.md").write_text("old")
    (tmp_path / "docs/dataflow/gone.md").write_text("of an operator that has gone")
    capsys.readouterr()
    assert main(["docs", "--check", "--root", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "docs/dataflow/gone.md, docs/reference/cli.md" in said
    assert "make docs" in said
    assert main(["docs", "--root", str(tmp_path)]) == 0
    assert not (tmp_path / "docs/dataflow/gone.md").exists()


def test_a_readme_without_the_marks_is_said() -> None:
    with pytest.raises(Failed, match="lacks the marks"):
        docs.with_table("# Readme\n", "| a |")


def test_the_table_names_every_system_with_its_state() -> None:
    table = (ROOT / "README.md").read_text().partition(docs.BEGIN)[2].partition(docs.END)[0]
    for operator in load(BUILT, {}):
        (row,) = [line for line in table.splitlines() if f"`{operator.upstream}`" in line]
        assert "built" in row
        assert all(definition.kind_name in row for definition in operator.definitions)
    for name in PLANNED:
        (row,) = [line for line in table.splitlines() if f"`{name}`" in line]
        assert "not built yet" in row


def test_the_newcomers_walk_has_at_most_fifteen_hops_and_each_names_a_file() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    hops = re.findall(r"^\d+\. .*$", page.partition("## One event")[2].partition("\n## ")[0], re.MULTILINE)
    assert 10 <= len(hops) <= 15
    for hop in hops:
        (file,) = re.findall(r"\(`([a-z_/]+\.py)`\)", hop)
        assert (ROOT / "src/modelyard/runtime" / file).is_file(), hop


def test_every_field_of_every_kind_is_on_its_page() -> None:
    for operator in load(BUILT, {}):
        page = (ROOT / f"docs/reference/kinds-{operator.name}.md").read_text()
        for definition in operator.definitions:
            for version in definition.versions:
                spec = version.type.__struct_fields__
                assert f"## {definition.kind_name} `{definition.group}/{version.name}`" in page
                assert "spec" not in spec or "| `spec` |" in page


def test_every_command_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text()
    assert [f"## modelyard {command.name}" in page for command in COMMANDS] == [True] * len(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    broken = [link for link in _LINK.findall(prose) if not (page.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_of_one_machine_stands_in_the_docs(page: Path) -> None:
    assert not re.findall(r"(?<![\w.])/(?:work|root|home)/\S*", page.read_text())
