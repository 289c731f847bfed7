"""Performance data: directories of measurements that enrich the models of their name, whatever source lists these."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modelyard.programs.catalog.documents import MAX_BYTES
from modelyard.programs.catalog.files import tree
from modelyard.programs.catalog.items import (
    ACCURACY,
    METRICS_ARTIFACT,
    PERFORMANCE,
    SECURITY,
    Artifact,
    Item,
    Json,
    made_artifact,
    property_value,
    stable_id,
    with_properties,
)

_OF_MODEL = ("size", "tensor_type", "variant_group_id", "min_vram_gb", "modelcar_image_size")
_TIMES = {"created_at": "createTimeSinceEpoch", "updated_at": "lastUpdateTimeSinceEpoch"}
_MOST_TEXT = 8192
log = logging.getLogger("modelyard.programs.catalog")


class Measurements:
    """The directories below those that were named, by the model in their `metadata.json`."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._seen: object = None
        self._by_model: dict[str, list[tuple[Path, Json]]] = {}
        self._read: dict[Path, tuple[Artifact, ...]] = {}

    def changed(self) -> bool:
        """Whether any file is another than at the last call. Then all is read again."""
        seen = [tree(directory) for directory in self._directories]
        if seen == self._seen:
            return False
        first, self._seen = self._seen is None, seen
        self._by_model, self._read = {}, {}
        for files in seen:
            for path, _ in files:
                if path.endswith("/metadata.json"):
                    self._index(Path(path))
        for directory in self._directories:
            if first and not directory.is_dir():
                log.warning("the directory of performance data %s does not exist", directory)
        return True

    def _index(self, path: Path) -> None:
        try:
            metadata = _parsed(_bounded(path))
        except ValueError as error:
            log.warning("%s is skipped: %s", path, error)
            return
        identity = metadata.get("id")
        if isinstance(identity, str) and identity:
            self._by_model.setdefault(identity.lower(), []).append((path.parent, metadata))
        else:
            log.warning("%s is skipped: its id, the name of a model, is missing", path)

    def enriched(self, item: Item) -> Item:
        """The model with what was measured of it."""
        for directory, metadata in self._by_model.get(item.name.lower(), ()):
            given = {key: metadata[key] for key in _OF_MODEL if key in metadata}
            item = with_properties(item, _properties(given), self._artifacts(item, directory, metadata))
        return item

    def _artifacts(self, item: Item, directory: Path, metadata: Json) -> tuple[Artifact, ...]:
        made = self._read.get(directory)
        if made is None:
            made = self._read[directory] = (
                *_lines(directory / "performance.ndjson", PERFORMANCE),
                *_accuracy(directory / "evaluations.ndjson", metadata),
                *_lines(directory / "security-evaluations.ndjson", SECURITY),
            )
        # The same measurements under models of several sources are artifacts of their own.
        return tuple(_owned(artifact, item, number) for number, artifact in enumerate(made))


def _owned(artifact: Artifact, item: Item, number: int) -> Artifact:
    identity = stable_id(
        "measured", item.source, item.name, artifact.metrics_type, artifact.doc.get("externalId", number)
    )
    return made_artifact(artifact.doc | {"id": str(identity)})


def _lines(path: Path, kind: str) -> Iterator[Artifact]:
    seen = set()
    for number, line in _read_lines(path):
        doc: Json = {"id": "0", "artifactType": METRICS_ARTIFACT, "metricsType": kind}
        identity = line.get("id") or line.get("config_id")
        if isinstance(identity, str | int) and not isinstance(identity, bool):
            doc["externalId"] = str(identity)
            if str(identity) in seen:
                log.warning("%s line %d is skipped: the id %s stands twice", path, number, identity)
                continue
            seen.add(str(identity))
        for key, name in _TIMES.items():
            moment = _milliseconds(line.get(key))
            if moment is not None:
                doc[name] = moment
        doc["customProperties"] = _properties(line)
        yield made_artifact(doc)


def _accuracy(path: Path, metadata: Json) -> Iterator[Artifact]:
    """All benchmarks of a model are one artifact."""
    scores: Json = {}
    for _, line in _read_lines(path):
        name, score = line.get("benchmark"), line.get("score")
        if isinstance(name, str) and isinstance(score, int | float) and not isinstance(score, bool):
            scores[name] = float(score)
    if not scores:
        return
    overall = metadata.get("overall_accuracy")
    if isinstance(overall, int | float) and not isinstance(overall, bool):
        scores["overall_average"] = float(overall)
    doc: Json = {"id": "0", "artifactType": METRICS_ARTIFACT, "metricsType": ACCURACY}
    yield made_artifact(doc | {"customProperties": _properties(scores)})


def _properties(values: Json) -> Json:
    made = {}
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(value, list | dict):
            value = json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and len(value) > _MOST_TEXT:
            continue
        made[key[:255]] = property_value(value)
    return made


def _read_lines(path: Path) -> Iterator[tuple[int, Json]]:
    try:
        lines: Iterable[bytes] = _bounded(path).split(b"\n") if path.is_file() else ()
    except ValueError as error:
        log.warning("%s is skipped: %s", path, error)
        return
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _parsed(line)
        except ValueError as error:
            log.warning("%s line %d is skipped: %s", path, number, error)


def _bounded(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES // 2**20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(str(error.strerror)) from None


def _parsed(raw: bytes) -> Json:
    """An object of JSON whose values an answer can hold."""
    try:
        value = json.loads(raw.decode(), parse_constant=_refused, parse_float=_finite, parse_int=_whole)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _whole(text: str) -> int | float:
    return int(text) if len(text) < 19 else _finite(text)


def _milliseconds(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if not isinstance(value, str):
        return None
    if value.isascii() and value.isdigit():
        return value[:18]
    try:
        moment = datetime.fromisoformat(value)
        return str(round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None
