"""Logs for people or for machines: every line says which controller and which object it is about."""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

import msgspec

_fields: contextvars.ContextVar[dict[str, str | int]] = contextvars.ContextVar("modelyard_log_fields")


@contextmanager
def context(**fields: str | int) -> Iterator[None]:
    """Adds fields to every line that is logged inside."""
    token = _fields.set(current() | {name: value for name, value in fields.items() if value != ""})
    try:
        yield
    finally:
        _fields.reset(token)


def current() -> dict[str, str | int]:
    return _fields.get({})


class _WithContext(logging.Filter):
    """Notes the fields when the line is logged: a handler may format it later, elsewhere."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.fields = current()
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the keys that log collectors of Kubernetes expect."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class HumanFormatter(logging.Formatter):
    """`2026-11-18 12:00:01 WARNING registries shop/demo #17: the message`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, str | int] = getattr(record, "fields", {})
        at = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        place = "/".join(str(fields[name]) for name in ("namespace", "name") if name in fields)
        number = f"#{fields['reconcile']}" if "reconcile" in fields else ""
        subject = " ".join(part for part in (str(fields.get("controller", "")), place, number) if part)
        text = f"{at} {record.levelname:<7} {subject or record.name}: {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure(*, json: bool | None = None, level: str = "INFO", stream: TextIO | None = None) -> logging.Handler:
    """Sends all logs to a stream (standard error); as JSON unless it is a terminal, or as asked."""
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.addFilter(_WithContext())
    as_json = json if json is not None else not target.isatty()
    handler.setFormatter(JsonFormatter() if as_json else HumanFormatter())
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h.formatter, JsonFormatter | HumanFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler
