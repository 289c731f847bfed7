"""Brings the metadata databases to the schema of the MLflow in this image. Runs in the migration Job, from an environment variable.

Exit codes are the interface: 0 done, 10 wrong MLflow version, 11 backend is not a SQL store, 12 registry is not a SQL store,
13 the schema is not at the head afterwards, 14 the revisions cannot be resolved, 15 anything else, worth another try.
"""

import importlib
import os
import sys
from typing import Any

WRONG_VERSION, BACKEND_NOT_SQL, REGISTRY_NOT_SQL, NOT_AT_HEAD, UNRESOLVED, RETRY = 10, 11, 12, 13, 14, 15
SQL_DIALECTS = ("sqlite", "postgresql", "mysql")
UNRESOLVED_TEXTS = (
    "can't locate revision identified by",
    "multiple heads are present",
    "cycle is detected in revisions",
    "dependency cycle detected",
)


class Failed(Exception):
    """Ends the program with a code and a message that holds no credentials."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def is_sql(uri: str) -> bool:
    return uri.split(":", 1)[0].split("+", 1)[0] in SQL_DIALECTS


def normalised(version: str) -> str:
    return version.strip().removeprefix("v").split("+", 1)[0]


def stores(backend: str, registry: str) -> "list[tuple[str, str]]":
    if backend and not is_sql(backend):
        raise Failed(BACKEND_NOT_SQL, "the backend store is not a SQL store")
    if registry and registry != backend and not is_sql(registry):
        raise Failed(REGISTRY_NOT_SQL, "the registry store is not a SQL store")
    found = [("backend", backend)] if backend else []
    return [*found, ("registry", registry)] if registry and registry != backend else found


def check_version(supported: str) -> None:
    version: str = importlib.import_module("mlflow.version").VERSION
    if normalised(version) != normalised(supported):
        raise Failed(WRONG_VERSION, f"this image holds MLflow {version}, not {supported}")


def migrate(role: str, uri: str) -> None:
    database: Any = importlib.import_module("mlflow.store.db.utils")
    engine = database.create_sqlalchemy_engine_with_retry(uri)
    if role == "backend":
        try:
            gap: Any = importlib.import_module("mlflow.store.db.migration_gap")
        except ModuleNotFoundError:
            gap = None
        if gap is not None:
            gap.fix_migration_gap_if_needed(engine)
    if database._get_schema_version(engine):
        database._upgrade_db(engine)
    else:
        database._initialize_tables(engine)
    if database._get_schema_version(engine) != database._get_latest_schema_revision():
        raise Failed(NOT_AT_HEAD, f"the {role} store is not at the schema's head")


def run() -> None:
    backend = os.environ.get("MLFLOW_BACKEND_STORE_URI", "").strip()
    registry = os.environ.get("MLFLOW_REGISTRY_STORE_URI", "").strip()
    found = stores(backend, registry)
    if not found:
        return
    doing = "asking for the version of MLflow"
    try:
        check_version(os.environ.get("SUPPORTED_MLFLOW_VERSION", ""))
        for role, uri in found:
            doing = f"migrating the {role} store"
            migrate(role, uri)
    except Failed:
        raise
    except Exception as error:
        # The text of a database error may hold the URI with its password: only the class is told.
        unresolved = any(text in str(error).lower() for text in UNRESOLVED_TEXTS)
        raise Failed(UNRESOLVED if unresolved else RETRY, f"{doing} failed: {type(error).__name__}") from None


def main() -> int:
    try:
        run()
    except Failed as failed:
        print(failed, file=sys.stderr)
        try:
            with open("/dev/termination-log", "w") as log:
                log.write(str(failed))
        except OSError:
            pass
        return failed.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
