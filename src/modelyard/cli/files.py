"""Kubernetes objects from YAML files, as `kubectl apply -f` takes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modelyard.failure import Failed
from modelyard.kube.kinds import Object

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Document:
    """One object, and the file that it comes from."""

    file: str
    object: Object

    def __str__(self) -> str:
        return f"{self.file}: {self.object['kind']} {self.object['metadata']['name']}"


def read_documents(names: Iterable[str | Path]) -> list[Document]:
    """The objects of files, of folders' files and of standard input (`-`), in their order. A pipe can be read only once."""
    return [Document(str(path), obj) for name in names for path in _paths(name) for obj in read_objects(path)]


def read_all(names: Iterable[str | Path]) -> list[Object]:
    return [document.object for document in read_documents(names)]


def read_objects(file: Path) -> list[Object]:
    """The documents of one file, lists unpacked."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        documents = [d for d in yaml.load_all(text, yaml.CSafeLoader) if d]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Failed(f"{file} is not YAML: {error}") from None
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}") from None
    objects: list[Object] = []
    for number, document in enumerate(documents, 1):
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
        for item in items or ():
            if not _is_object(item):
                raise Failed(f"{file}: document {number} lacks apiVersion, kind or metadata.name")
            objects.append(item)
    return objects


def _is_object(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    metadata = item.get("metadata")
    named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and bool(metadata["name"])
    return bool(item.get("apiVersion")) and bool(item.get("kind")) and named


def _paths(name: str | Path) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
        if not found:
            raise Failed(f"{path} holds no {', '.join(_SUFFIXES)} file")
        return found
    # Whatever can be read: also /dev/stdin, and the pipe of a shell's process substitution.
    if str(name) == "-" or path.exists():
        return [path]
    raise Failed(f"{path}: there is no such file or folder")
