"""The lists as they are served now. Follows the files: an edit that cannot be used leaves what was served, and is told."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from modelyard.programs.catalog import documents
from modelyard.programs.catalog.config import Asset, Config, Source, merged, read_file
from modelyard.programs.catalog.documents import BadDocument
from modelyard.programs.catalog.entries import Entries, read_entries
from modelyard.programs.catalog.files import Watched
from modelyard.programs.catalog.performance import Measurements
from modelyard.programs.catalog.snapshot import Listed, Snapshot, Status

log = logging.getLogger("modelyard.programs.catalog")
YAML, HUB = "yaml", "hf"
_TYPES = {Asset.MODELS: (YAML, HUB), Asset.MCP_SERVERS: (YAML,), Asset.AGENTS: (YAML,), Asset.SKILLS: ()}


@dataclass
class _Held:
    """One enabled source: what it says, and what was read from it last."""

    source: Source
    path: Path | None = None
    """The file of a YAML source."""
    entries: Entries = field(default_factory=Entries)
    loaded: bool = False
    error: str = ""


@dataclass(frozen=True)
class Good:
    """A document that could be read, to be kept for the next start."""

    fingerprint: str
    document: bytes


class Library:
    """Used by one thread at a time: each public method takes the lock. `snapshot` may be read without it."""

    def __init__(self, paths: Sequence[Path], directories: Sequence[Path] = ()) -> None:
        self._paths = list(dict.fromkeys(paths))
        self._measurements = Measurements(directories)
        self._configs: dict[Path, Config] = {}
        self._watched = Watched()
        self._held: dict[str, _Held] = {}
        self._problems: dict[str, str] = {}
        """What is wrong with the configuration, by source that its file speaks of."""
        self._problem = ""
        self._config = Config()
        self._lock = threading.Lock()
        self.snapshot = Snapshot()
        self.good: dict[str, Good] = {}
        """By source: what is not stored yet. The one who stores it takes it out."""

    def open(self) -> None:
        """The first reading. Raises `BadDocument` with everything that is wrong with the configuration."""
        with self._lock:
            self._follow_config()
            if self._problem:
                raise BadDocument(self._problem)
            self._follow_sources()
            self._publish()

    def refresh(self) -> bool:
        """Reads what has changed; whether anything did."""
        with self._lock:
            changed = self._follow_config()
            changed |= self._follow_sources()
            if changed:
                self._publish()
            return changed

    def hub_sources(self) -> list[Source]:
        """The sources that are not files."""
        with self._lock:
            return [held.source for held in self._held.values() if held.source.type == HUB]

    def take(self, source: Source, content: Any, problems: tuple[str, ...] = ()) -> None:
        """What a source that is no file has answered. Without content, what was there stays."""
        with self._lock:
            held = self._held.get(source.id)
            if held is None or held.source != source:
                return
            held.error = "; ".join(problems) if content is None else ""
            if content is not None:
                self._accept(held, content, problems)
            self._publish()

    def lacks(self) -> bool:
        """Whether a source could not be read since the start."""
        with self._lock:
            return not all(held.loaded for held in self._held.values())

    def restore(self, stored: Mapping[str, Good]) -> list[str]:
        """Fills sources that could not be read since the start from what they said before it; gives their ids."""
        with self._lock:
            restored = []
            for identity, held in self._held.items():
                kept = stored.get(identity)
                if held.loaded or kept is None or kept.fingerprint != fingerprint(held.source):
                    continue
                try:
                    held.entries = read_entries(msgspec.json.decode(kept.document), held.source)
                except (BadDocument, msgspec.DecodeError) as error:
                    log.warning("what is stored of the source %s cannot be used: %s", identity, error)
                    continue
                held.loaded = True
                restored.append(identity)
            if restored:
                self._publish()
            return restored

    # The configuration

    def _follow_config(self) -> bool:
        changed = [path for path in self._paths if self._watched.changed(path)]
        if not changed:
            return False
        wrong: dict[Path, str] = {}
        read: dict[Path, Config] = {}
        for path in self._paths:
            if self._configs and not path.exists():
                # Taken away while it was served: nobody says that its sources shall go.
                continue
            try:
                read[path] = read_file(documents.read(path), path)
            except BadDocument as error:
                wrong[path] = str(error) if str(path) in str(error) else f"{path}: {error}"
        together: Config | None = None
        if not wrong:
            try:
                together = merged([read[path] if path in read else self._configs[path] for path in self._paths])
            except BadDocument as error:
                wrong = dict.fromkeys(changed, str(error))
        said = "; ".join(dict.fromkeys(wrong.values()))
        if said and said != self._problem:
            log.error("the configuration is not used: %s", said)
        elif self._problem and not said:
            log.warning("the configuration is valid again")
        self._problem = said
        self._problems = {
            source.id: text for path, text in wrong.items() for source in self._configs.get(path, Config()).sources
        }
        if together is None:
            return True
        for warning in together.warnings:
            log.warning("%s", warning)
        self._configs |= read
        self._config = together
        self._hold(together)
        return True

    def _hold(self, config: Config) -> None:
        """Keeps what is held of sources that did not change."""
        before, self._held = self._held, {}
        for source in config.sources:
            if not source.is_enabled:
                continue
            known = before.get(source.id)
            if known is not None and known.source == source:
                self._held[source.id] = known
                continue
            held = _Held(source)
            if known is not None and fingerprint(known.source) == fingerprint(source):
                held.entries, held.loaded = known.entries, known.loaded
            elif known is not None and known.source.asset is source.asset:
                # Shown until the new definition can be read for the first time.
                held.entries = known.entries
            self._held[source.id] = held
            if source.type == YAML:
                held.path = _file_of(source)
                if held.path is not None:
                    self._watched.forget(held.path)

    # The sources

    def _follow_sources(self) -> bool:
        changed = self._measurements.changed()
        asked: dict[Path, bool] = {}
        for held in self._held.values():
            if held.path is not None:
                if held.path not in asked:
                    asked[held.path] = self._watched.changed(held.path)
                if asked[held.path]:
                    self._read(held, held.path)
                    changed = True
            elif not held.loaded and held.source.type != HUB:
                held.error = _unusable(held.source)
        return changed

    def _read(self, held: _Held, path: Path) -> None:
        try:
            self._accept(held, documents.read(path))
            held.error = ""
        except BadDocument as error:
            held.error = str(error) if str(path) in str(error) else f"{path}: {error}"
            log.error("source %s is not read again: %s", held.source.id, held.error)

    def _accept(self, held: _Held, content: Any, problems: tuple[str, ...] = ()) -> None:
        entries = read_entries(content, held.source)
        held.entries = replace(entries, problems=(*problems, *entries.problems))
        held.loaded = True
        for problem in held.entries.problems:
            log.warning("source %s: %s", held.source.id, problem)
        try:
            self.good[held.source.id] = Good(fingerprint(held.source), msgspec.json.encode(content))
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            log.warning("source %s cannot be stored for the next start: %s", held.source.id, error)

    # What is served

    def _publish(self) -> None:
        self.snapshot = Snapshot(
            self._config, {source.id: self._listed(source) for source in self._config.sources}, self._problem
        )

    def _listed(self, source: Source) -> Listed:
        held = self._held.get(source.id)
        if held is None:
            return Listed(
                source,
                Status.ERROR if source.id in self._problems else Status.DISABLED,
                self._problems.get(source.id, ""),
            )
        items = held.entries.items
        if source.asset is Asset.MODELS:
            items = tuple(self._measurements.enriched(item) for item in items)
        error = self._problems.get(source.id) or held.error
        if error:
            return Listed(source, Status.ERROR, error, items)
        if held.entries.problems:
            return Listed(source, Status.PARTIAL if items else Status.ERROR, held.entries.error, items)
        return Listed(source, Status.AVAILABLE, "", items)


def fingerprint(source: Source) -> str:
    """What decides which document a source reads. Its name, labels and patterns do not."""
    named = {key: value for key, value in (source.properties or {}).items() if key != "excludedModels"}
    said = repr((source.asset.value, source.type, sorted((str(key), repr(value)) for key, value in named.items())))
    return hashlib.blake2b(said.encode(errors="replace"), digest_size=12).hexdigest()


def _file_of(source: Source) -> Path | None:
    name = (source.properties or {}).get("yamlCatalogPath")
    if source.asset not in _TYPES or YAML not in _TYPES[source.asset] or not isinstance(name, str) or not name:
        return None
    return source.directory / name


def _unusable(source: Source) -> str:
    """Why nothing can be read from a source as it is defined."""
    known = _TYPES[source.asset]
    if not source.type:
        return f"the source has no type; expected {' or '.join(known) or 'none: such sources cannot be listed yet'}"
    if source.type not in known:
        return f"catalog type {source.type!r} not registered; expected {' or '.join(known) or 'no source of this kind'}"
    return "properties.yamlCatalogPath, the path of the catalog's file, is missing"
