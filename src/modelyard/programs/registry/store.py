"""Rows: what is stored of an object, and the statements that read and write it. Knows kinds, no HTTP and no rules between kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from modelyard.programs.database.session import Session, Value, placeholders
from modelyard.programs.registry.kinds import BY_NUMBER, LINKS, METRIC, METRIC_HISTORY, Family, Holds, Kind
from modelyard.programs.registry.values import DOUBLE, INTEGER, STRING, PropertyValue, searchable

Doc = dict[str, Any]
_PROPERTY_BATCH = 100


@dataclass(frozen=True)
class Row:
    """An object as it is stored. `raw` is its JSON without the id, made when it was written."""

    id: int
    kind: Kind
    raw: bytes

    def doc(self) -> Doc:
        found: Doc = msgspec.json.decode(self.raw)
        return found

    def answer(self, *, text_steps: bool) -> bytes:
        """The JSON for the client. The two API versions disagree about one field: `step` of metrics."""
        raw = self.raw
        if text_steps and self.kind in (METRIC, METRIC_HISTORY) and b'"step"' in raw:
            doc = self.doc()
            if "step" in doc:
                doc["step"] = str(doc["step"])
            raw = msgspec.json.encode(doc)
        return b'{"id":"%d",%b' % (self.id, raw[1:])


@dataclass(frozen=True)
class Order:
    column: str = "id"
    descending: bool = False

    @property
    def direction(self) -> str:
        return "DESC" if self.descending else "ASC"


BY_ID = Order()


@dataclass(frozen=True)
class Condition:
    """A piece of a WHERE clause over `e`, the table of a family."""

    sql: str
    parameters: tuple[Value, ...] = ()
    narrow: bool = False
    """So few rows fulfil it that a list may begin with them, and check its other conditions row by row."""


class Store:
    """One session's view of the tables."""

    def __init__(self, session: Session, now: Callable[[], float] = time.time) -> None:
        self._session = session
        self.dialect = session.dialect
        self._now = now

    def get(self, kind: Kind, row_id: int, *, lock: bool = False) -> Row | None:
        found = self.get_any(kind.family, row_id, lock=lock)
        return found if found is not None and found.kind == kind else None

    def get_any(self, family: Family, row_id: int, *, lock: bool = False) -> Row | None:
        suffix = self.dialect.for_update if lock else ""
        found = self._session.row(f"SELECT kind, doc FROM {family.table} WHERE id = ?{suffix}", [row_id])
        return Row(row_id, BY_NUMBER[found[0]], bytes(found[1])) if found else None

    def exists(self, kind: Kind, row_id: int) -> bool:
        return bool(
            self._session.rows(f"SELECT 1 FROM {kind.family.table} WHERE id = ? AND kind = ?", [row_id, kind.number])
        )

    def named(self, kind: Kind, scope: int, name: str) -> Row | None:
        """The row with this name in a scope; locked, because the caller changes it."""
        found = self._session.row(
            f"SELECT id, doc FROM {kind.family.table} WHERE kind = ? AND scope = ? AND name = ?{self.dialect.for_update}",
            [kind.number, scope, self.dialect.stored(name)],
        )
        return Row(found[0], kind, bytes(found[1])) if found else None

    def insert(self, kind: Kind, doc: Doc, *, scope: int | None, parent_id: int | None) -> Row:
        """A new row. `doc` gets its times; raises `Duplicate` where the name or the external id is taken."""
        now = self._milliseconds()
        doc["createTimeSinceEpoch"] = doc["lastUpdateTimeSinceEpoch"] = str(now)
        raw = msgspec.json.encode(doc)
        external = doc.get("externalId")
        row_id = self._session.insert(
            f"INSERT INTO {kind.family.table} (kind, scope, parent_id, name, external_id, created, updated, doc) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                kind.number,
                scope,
                parent_id,
                self.dialect.stored(doc["name"]),
                None if external is None else self.dialect.stored(external),
                now,
                now,
                raw,
            ],
        )
        self._write_properties(kind, row_id, doc)
        return Row(row_id, kind, raw)

    def update(self, row: Row, doc: Doc) -> Row:
        before = int(doc["lastUpdateTimeSinceEpoch"])
        # Two changes within a millisecond still show that something changed.
        now = max(self._milliseconds(), before + 1)
        doc["lastUpdateTimeSinceEpoch"] = str(now)
        raw = msgspec.json.encode(doc)
        external = doc.get("externalId")
        self._session.run(
            f"UPDATE {row.kind.family.table} SET external_id = ?, updated = ?, doc = ? WHERE id = ?",
            [None if external is None else self.dialect.stored(external), now, raw, row.id],
        )
        self._session.run(f"DELETE FROM {row.kind.family.properties} WHERE entity_id = ?", [row.id])
        self._write_properties(row.kind, row.id, doc)
        return Row(row.id, row.kind, raw)

    def link(self, parent_id: int, artifact_id: int) -> None:
        key = [parent_id, artifact_id]
        if not self._session.rows(f"SELECT 1 FROM {LINKS} WHERE parent_id = ? AND artifact_id = ?", key):
            self._session.run(f"INSERT INTO {LINKS} (parent_id, artifact_id) VALUES (?, ?)", key)

    def select(
        self, kinds: Sequence[Kind], conditions: Sequence[Condition], order: Order, after: Sequence[Value], limit: int
    ) -> list[tuple[Row, int]]:
        """The next rows of a list, each with its value of the order's column. Documents are read for these rows only."""
        table = kinds[0].family.table
        where, parameters = self._where(kinds, conditions)
        if after:
            sign = "<" if order.descending else ">"
            if order.column == "id":
                where.append(f"e.id {sign} ?")
                parameters.append(after[-1])
            else:
                where.append(f"e.{order.column} {sign}= ? AND (e.{order.column}, e.id) {sign} (?, ?)")
                parameters += [after[0], after[0], after[1]]
        by = "" if order.column == "id" else f"{{}}.{order.column} {order.direction}, "
        by += f"{{}}.id {order.direction}"
        rows = self._session.rows(
            f"SELECT r.id, r.kind, r.doc, r.{order.column} FROM (SELECT e.id FROM {table} e WHERE {' AND '.join(where)} "
            f"ORDER BY {by.format('e', 'e')} LIMIT ?) page JOIN {table} r ON r.id = page.id ORDER BY {by.format('r', 'r')}",
            [*parameters, limit],
        )
        return [(Row(row[0], BY_NUMBER[row[1]], bytes(row[2])), int(row[3])) for row in rows]

    def _where(self, kinds: Sequence[Kind], conditions: Sequence[Condition]) -> tuple[list[str], list[Value]]:
        # With several kinds the order of ids must come from the primary key: the sign keeps the planner off the kinds' index.
        one = len(kinds) == 1
        where = ["e.kind = ?" if one else f"+e.kind IN ({placeholders(len(kinds))})"]
        parameters: list[Value] = [kind.number for kind in kinds]
        for condition in conditions:
            where.append(condition.sql)
            parameters += condition.parameters
        return where, parameters

    def matches(self, table: str, where: str, parameters: Sequence[Value], most: int) -> int:
        """How many entries an index has for a condition; looks at no more than `most` of them."""
        found = self._session.row(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} p WHERE {where} LIMIT {most})", parameters
        )
        return int(found[0]) if found else 0

    def _write_properties(self, kind: Kind, row_id: int, doc: Doc) -> None:
        rows = [(0, *value) for value in _field_values(kind, doc)]
        rows += [(1, *value) for value in searchable(doc["customProperties"])]
        for start in range(0, len(rows), _PROPERTY_BATCH):
            batch = rows[start : start + _PROPERTY_BATCH]
            values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(batch))
            parameters: list[Value] = []
            for custom, name, value_type, text, number in batch:
                stored = None if text is None else self.dialect.stored(text)
                parameters += [row_id, custom, self.dialect.stored(name), kind.number, value_type, stored, number]
            self._session.run(
                f"INSERT INTO {kind.family.properties} (entity_id, custom, name, kind, type, text, number) VALUES {values}",
                parameters,
            )

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)


def _field_values(kind: Kind, doc: Doc) -> Iterator[PropertyValue]:
    if "description" in doc:
        yield "description", STRING, doc["description"], None
    for field in kind.fields:
        value = doc.get(field.name)
        if value is None or field.holds is Holds.TEXTS or field.name == kind.parent:
            continue
        if field.holds is Holds.TEXT:
            yield field.name, STRING, value, None
        else:
            yield field.name, DOUBLE if field.holds is Holds.NUMBER else INTEGER, None, float(value)
