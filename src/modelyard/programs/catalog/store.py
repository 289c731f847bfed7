"""What each source said last, kept in a database: for a start at which a file or a network cannot be read. Only a cache."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from modelyard.programs.catalog.library import Good
from modelyard.programs.database import Session

_TABLE = "modelyard_catalog_source"


def prepare(session: Session) -> None:
    """Makes the table where it is missing. Other tables in the database are nobody's business here."""
    session.lock(_TABLE)
    dialect = session.dialect
    if _TABLE in session.tables():
        return
    session.run(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (id {dialect.text} NOT NULL PRIMARY KEY, fingerprint {dialect.text} NOT NULL, "
        f"stored {dialect.big_integer} NOT NULL, doc {dialect.document} NOT NULL){dialect.table_suffix}"
    )


def read(session: Session) -> dict[str, Good]:
    return {
        _text(identity): Good(_text(fingerprint), bytes(document))
        for identity, fingerprint, document in session.rows(f"SELECT id, fingerprint, doc FROM {_TABLE}")
    }


def write(session: Session, good: Mapping[str, Good], configured: Collection[str]) -> None:
    """Replaces what these sources said, and forgets the sources that are configured no more."""
    for (identity,) in session.rows(f"SELECT id FROM {_TABLE}"):
        if _text(identity) not in configured:
            session.run(f"DELETE FROM {_TABLE} WHERE id = ?", [identity])
    now = round(time.time() * 1000)
    for identity, kept in sorted(good.items()):
        stored = session.dialect.stored(identity)
        session.run(f"DELETE FROM {_TABLE} WHERE id = ?", [stored])
        session.run(
            f"INSERT INTO {_TABLE} (id, fingerprint, stored, doc) VALUES (?, ?, ?, ?)",
            [stored, session.dialect.stored(kept.fingerprint), now, kept.document],
        )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
