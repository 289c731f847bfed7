"""The databases of our programs: SQLite, PostgreSQL, MySQL behind one small set of words. Knows no tables."""

from modelyard.programs.database.pool import Database
from modelyard.programs.database.session import DatabaseDown, Duplicate, Refused, Session, TooLarge
from modelyard.programs.database.source import Source, SourceError, Tls, open_database

__all__ = [
    "Database",
    "DatabaseDown",
    "Duplicate",
    "Refused",
    "Session",
    "Source",
    "SourceError",
    "Tls",
    "TooLarge",
    "open_database",
]
