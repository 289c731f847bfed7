"""YAML files as `kubectl apply -f` takes them; a bad one is named with what is wrong."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from modelyard.cli.files import read_all, read_documents
from modelyard.failure import Failed

ONE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def test_documents_lists_and_folders_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(ONE % "b1" + "---\n" + ONE % "b2" + "---\n")
    (tmp_path / "a.json").write_text(
        '{"kind":"List","apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}]}'
    )
    (tmp_path / "notes.txt").write_text("not YAML: [")
    assert [obj["metadata"]["name"] for obj in read_all([tmp_path])] == ["a", "b1", "b2"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(ONE % "x"))
    assert read_all(["-"])[0]["metadata"]["name"] == "x"


def test_a_pipe_is_read_as_a_shells_process_substitution_gives_it() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as source:
        source.write(ONE % "x")
        source.close()
        (document,) = read_documents([f"/dev/fd/{reader}"])
    assert str(document) == f"/dev/fd/{reader}: ConfigMap x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "document 1 lacks apiVersion, kind or metadata.name"),
        (ONE % "x" + "---\njust text\n", "document 2 lacks"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: text\n", "document 1 lacks"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(Failed, match=said) as error:
        read_all([file])
    assert "bad.yaml" in str(error.value)


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="holds no"):
        read_all([tmp_path])
