"""Files that others write for the servers in pods: a small one does not stop the server that reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from modelyard.programs import bounded_yaml
from modelyard.programs.access_proxy import read_config as proxy_config
from modelyard.programs.catalog import documents
from modelyard.programs.registry.process import read_config as registry_config
from modelyard.programs.settings import UsageError
from tests.attack.bytes.test_bodies import nested_aliases

BOMBS = {
    "aliases": nested_aliases(False),
    "merge keys": nested_aliases(True),
    "deep": "[" * 100_000,
    "itself": "a: &a [*a]",
    "wide": "[" + "[]," * 300_000 + "]",
    "a time that is none": "a: 2001-99-99",
}


@pytest.fixture(params=BOMBS)
def bomb(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMBS[request.param])
    return path


def test_the_access_proxy_refuses_it_by_name(bomb: Path) -> None:
    with pytest.raises(SystemExit, match=f"--config-file={bomb}: "):
        proxy_config(str(bomb))


def test_the_registrys_server_refuses_it_by_name(bomb: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot read the configuration file {bomb}: "):
        registry_config(["--config", str(bomb)], {})


@pytest.mark.parametrize("name", [name for name in BOMBS if name != "wide"])
def test_the_catalogs_server_refuses_it_by_name(name: str, tmp_path: Path) -> None:
    """A catalog may hold many values, so a wide one is no bomb to it."""
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(BOMBS[name])
    with pytest.raises(documents.BadDocument, match=str(bomb)):
        documents.read(bomb)


def test_a_few_aliases_are_read() -> None:
    assert bounded_yaml.load(b"a: &a {x: 1}\nb: {<<: *a, y: 2}\n") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


def test_a_file_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(yaml.YAMLError, match="longer than 1024 KiB"):
        bounded_yaml.load(b"x" * (bounded_yaml.MOST_BYTES + 1))
