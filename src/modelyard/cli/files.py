"""Kubernetes objects from YAML files, as `kubectl apply -f` takes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from modelyard.cli.output import Failed
from modelyard.kube.kinds import Object

_SUFFIXES = (".yaml", ".yml", ".json")


def read_all(names: Iterable[str | Path]) -> list[Object]:
    """The objects of files, of folders' files and of standard input (`-`), in their order."""
    return [obj for name in names for path in _paths(name) for obj in read_objects(path)]


def read_objects(file: Path) -> list[Object]:
    """The documents of one file, lists unpacked."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        documents = [d for d in yaml.load_all(text, yaml.CSafeLoader) if d]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Failed(f"{file} is no YAML: {error}") from None
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
    if str(name) == "-" or path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
        if not found:
            raise Failed(f"{path} holds no {', '.join(_SUFFIXES)} file")
        return found
    raise Failed(f"{path}: there is no such file or folder")
