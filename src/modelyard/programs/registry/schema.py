"""The tables: made at the first start, recognized later. A database with upstream's tables is refused and left as it is."""

from __future__ import annotations

from collections.abc import Iterator

from modelyard.programs.database.session import Dialect, Refused, Session
from modelyard.programs.registry.kinds import FAMILIES, LINKS, META, Family

VERSION = 1
_UPSTREAM = frozenset(("type", "context", "artifact", "execution", "mlmdenv", "typeproperty", "schema_migrations"))


class Dirty(Exception):
    """A change of the tables was cut off; the message says what to do."""


def prepare(session: Session) -> None:
    """Makes the tables where they are missing. Runs in a transaction, under a lock that other replicas respect."""
    session.lock(META)
    tables = {name.lower() for name in session.tables()}
    foreign = sorted(tables & _UPSTREAM)
    if foreign:
        raise Refused(
            "this database belongs to the upstream model registry server (it has the tables "
            f"{', '.join(foreign)}). Nothing was changed. Give this server an empty database of its own, and move the data "
            "with `modelyard serve registry-export` and `modelyard serve registry-import`"
        )
    if META in tables:
        version, dirty = state(session)
        if version > VERSION:
            raise Refused(f"the tables have version {version}, and this server knows {VERSION}: start a newer server")
        if version and dirty:
            raise Dirty(
                f"database schema is in dirty state: a change to version {version} was cut off. Restore a backup, or set "
                f"dirty = 0 in {META} once the tables are right"
            )
        if version == VERSION:
            return
    # MySQL commits after every CREATE. So version 0 says "being made", and a start that finds it makes the rest.
    dialect = session.dialect
    session.run(
        f"CREATE TABLE IF NOT EXISTS {META} (version {dialect.small_integer} NOT NULL, dirty {dialect.small_integer} NOT NULL)"
    )
    if not session.rows(f"SELECT version FROM {META}"):
        session.run(f"INSERT INTO {META} (version, dirty) VALUES (0, 0)")
    for statement in statements(dialect):
        session.run(statement)
    session.run(f"UPDATE {META} SET version = {VERSION}, dirty = 0")


def state(session: Session) -> tuple[int, bool]:
    """The tables' version, and whether a change was cut off."""
    found = session.row(f"SELECT version, dirty FROM {META}")
    return (int(found[0]), bool(found[1])) if found else (0, False)


def statements(dialect: Dialect) -> Iterator[str]:
    for family in FAMILIES:
        yield from _family(dialect, family)
    number = dialect.big_integer
    yield (
        f"CREATE TABLE IF NOT EXISTS {LINKS} (parent_id {number} NOT NULL, artifact_id {number} NOT NULL, "
        f"PRIMARY KEY (parent_id, artifact_id)){dialect.table_suffix}"
    )


def _family(dialect: Dialect, family: Family) -> Iterator[str]:
    table, properties = family.table, family.properties
    indexes = {
        "name": (table, True, "kind, scope, name", ""),
        "external": (table, True, "external_id", ""),
        # Holds the name too, so that a search in names never reads documents, and finds them in the order of ids.
        "order": (table, False, "kind, id, name", ""),
        "find": (table, False, "kind, name", ""),
        "created": (table, False, "kind, created, id", ""),
        "updated": (table, False, "kind, updated, id", ""),
        "parent": (table, False, "kind, parent_id, id", ""),
        "text": (properties, False, f"kind, custom, name, {dialect.indexed_text.format('text')}, entity_id", "text"),
        "number": (properties, False, "kind, custom, name, number, entity_id", "number"),
    }
    inline = dialect.name == "mysql"
    columns = [
        f"id {dialect.id_column}",
        f"kind {dialect.small_integer} NOT NULL",
        f"scope {dialect.big_integer}",
        f"parent_id {dialect.big_integer}",
        f"name {dialect.text} NOT NULL",
        f"external_id {dialect.text}",
        f"created {dialect.big_integer} NOT NULL",
        f"updated {dialect.big_integer} NOT NULL",
        f"doc {dialect.document} NOT NULL",
    ]
    property_columns = [
        f"entity_id {dialect.big_integer} NOT NULL",
        f"custom {dialect.small_integer} NOT NULL",
        f"name {dialect.text} NOT NULL",
        f"kind {dialect.small_integer} NOT NULL",
        f"type {dialect.small_integer} NOT NULL",
        f"text {dialect.long_text}",
        f"number {dialect.number}",
        "PRIMARY KEY (entity_id, custom, name)",
    ]
    # MySQL has no CREATE INDEX IF NOT EXISTS, so its indexes are made with their table.
    for owner, listed in ((table, columns), (properties, property_columns)):
        if inline:
            listed += [
                f"{'UNIQUE ' if unique else ''}KEY {table}_{name} ({over})"
                for name, (of, unique, over, _) in indexes.items()
                if of == owner
            ]
        compact = " WITHOUT ROWID" if dialect.name == "sqlite" and owner == properties else ""
        yield f"CREATE TABLE IF NOT EXISTS {owner} ({', '.join(listed)}){dialect.table_suffix}{compact}"
    if inline:
        return
    for name, (of, unique, over, present) in indexes.items():
        only = f" WHERE {present} IS NOT NULL" if present else ""
        word = "UNIQUE INDEX" if unique else "INDEX"
        yield f"CREATE {word} IF NOT EXISTS {table}_{name} ON {of} ({over}){only}"
