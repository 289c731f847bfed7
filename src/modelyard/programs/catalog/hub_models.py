"""From the hub's description of a model to an entry of a catalog. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from modelyard.programs.catalog.items import Json

_GENERATIVE = frozenset(
    (
        "any-to-any", "audio-text-to-text", "audio-to-audio", "conversational", "image-text-to-text", "image-to-image",
        "image-to-text", "image-to-video", "summarization", "text-generation", "text-to-audio", "text-to-image",
        "text-to-speech", "text-to-video", "text2text-generation", "translation", "video-text-to-text",
    )
)  # fmt: skip
_MOST_TAGS, _LONGEST = 200, 255


def hub_model(raw: Any, now: float) -> Json | None:
    """None for what is not a model."""
    if not isinstance(raw, dict):
        return None
    name = raw.get("id") or raw.get("modelId")
    if not isinstance(name, str) or not name:
        return None
    tags = [tag for tag in _texts(raw.get("tags")) if len(tag) <= _LONGEST][:_MOST_TAGS]
    task = _text(raw.get("pipeline_tag"))
    card, config = _map(raw.get("cardData")), _map(raw.get("config"))
    made: Json = {"name": name, "provider": _text(raw.get("author")) or name.partition("/")[0]}
    for key, value in (
        ("license", _text(card.get("license")) or _tagged(tags, "license:")),
        ("licenseLink", _text(card.get("license_link"))),
        ("libraryName", _text(raw.get("library_name"))),
        ("createTimeSinceEpoch", _milliseconds(raw.get("createdAt"))),
        ("lastUpdateTimeSinceEpoch", _milliseconds(raw.get("lastModified"))),
    ):
        if value:
            made[key] = value
    if task:
        made["tasks"] = [task]
    if languages := _languages(card.get("language")):
        made["language"] = languages
    made["customProperties"] = {
        key: {"metadataType": "MetadataStringValue", "string_value": value}
        for key, value in {
            "model_type": _kind(task),
            "hf_private": "true" if raw.get("private") is True else "false",
            "hf_gated": _gated(raw.get("gated")),
            "hf_tags": json.dumps(tags, ensure_ascii=False),
            "hf_architectures": json.dumps(_texts(config.get("architectures")), ensure_ascii=False),
            "hf_model_type": _text(config.get("model_type")),
            "last_synced": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        }.items()
        if value not in ("", "[]")
    }
    made["artifacts"] = [{"artifactType": "model-artifact", "uri": f"hf://{name}"}]
    return made


def _kind(task: str) -> str:
    if not task:
        return "unknown"
    return "generative" if task in _GENERATIVE else "predictive"


def _gated(value: Any) -> str:
    """The hub says false, or in which way access is granted."""
    if isinstance(value, str):
        return value[:_LONGEST]
    return "true" if value is True else "false"


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _languages(value: Any) -> list[str]:
    return [value] if isinstance(value, str) and value else _texts(value)


def _tagged(tags: list[str], prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")


def _milliseconds(value: Any) -> str:
    try:
        return str(round(datetime.fromisoformat(_text(value)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return ""
