"""What the API's operations mean: rules between kinds, uniqueness, upserts, history. Each function runs in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelyard.programs.database.session import Duplicate, Session, placeholders
from modelyard.programs.filter_query import Query
from modelyard.programs.registry.bodies import MAX_NAME, Body, check_run_times
from modelyard.programs.registry.filters import compiled
from modelyard.programs.registry.kinds import (
    ARTIFACT_KINDS,
    ARTIFACTS,
    BY_PATH,
    LINKS,
    METRIC,
    METRIC_HISTORY,
    MODEL,
    PARAMETER,
    RUN,
    SERVE,
    SERVICE,
    VERSION,
    Kind,
)
from modelyard.programs.registry.store import BY_ID, Condition, Doc, Order, Row, Store
from modelyard.programs.web import ApiError


@dataclass(frozen=True)
class Wanted:
    """Which rows a list has, in which order."""

    kinds: tuple[Kind, ...]
    order: Order = BY_ID
    query: Query | None = None
    name: str | None = None
    external_id: str | None = None
    parent: tuple[Kind, int] | None = None
    steps: tuple[int, ...] = ()


def not_found(kind: Kind, row_id: int) -> ApiError:
    return ApiError(404, f"no {kind.label} found for id {row_id}: not found")


def get(session: Session, kinds: Sequence[Kind], row_id: int) -> Row:
    found = Store(session).get_any(kinds[0].family, row_id)
    if found is None or found.kind not in kinds:
        label = kinds[0].label if len(kinds) == 1 else "artifact"
        raise ApiError(404, f"no {label} found for id {row_id}: not found")
    return found


def create(session: Session, kind: Kind, body: Body, parent_id: int | None = None) -> Row:
    """A new row of a kind with its own path, under the parent of the path or of the body."""
    store = Store(session)
    fields = dict(body.fields)
    if kind.parent is not None and parent_id is not None:
        fields[kind.parent] = str(parent_id)
    if body.id is not None:
        return patch(session, (kind,), body.id, _only_patchable(kind, fields))
    for field in kind.fields:
        if field.refers_to is not None and field.name in fields:
            _require(store, BY_PATH[field.refers_to], int(fields[field.name]))
    if kind is SERVE:
        _check_deployable(store, int(fields["modelVersionId"]))
    scope = int(fields[kind.parent]) if kind.parent is not None else 0
    doc = _with_defaults(kind, fields)
    for field in kind.fields:
        if field.hidden:
            doc.pop(field.name, None)
    if kind is RUN:
        check_run_times(doc)
    return _insert(store, kind, doc, scope=scope, parent_id=scope or None)


def create_artifact(session: Session, kind: Kind, body: Body, default_state: str | None = None) -> Row:
    """An artifact that belongs to nothing: its name need not be unique."""
    doc = _artifact_doc(kind, body.fields)
    if default_state is not None:
        doc.setdefault("state", default_state)
    return _insert(Store(session), kind, doc, scope=None, parent_id=None)


def patch(session: Session, kinds: Sequence[Kind], row_id: int, body: Body) -> Row:
    store = Store(session)
    row = store.get_any(kinds[0].family, row_id, lock=True)
    if row is None or row.kind not in kinds:
        label = kinds[0].label if len(kinds) == 1 else "artifact"
        raise ApiError(404, f"no {label} found for id {row_id}: not found")
    for field in row.kind.fields:
        if field.refers_to is not None and field.name in body.fields:
            _require(store, BY_PATH[field.refers_to], int(body.fields[field.name]))
    return _change(store, row, body.fields)


def patch_artifact(session: Session, row_id: int, kind: Kind | None, body: Body) -> Row:
    """PATCH of any artifact: the type must be the stored one."""
    row = Store(session).get_any(ARTIFACTS, row_id)
    if row is None or row.kind not in ARTIFACT_KINDS:
        raise ApiError(404, f"no artifact found for id {row_id}: not found")
    _same_type(row, kind)
    return patch(session, ARTIFACT_KINDS, row_id, body)


def upsert_artifact(session: Session, parent_kind: Kind, parent_id: int, kind: Kind, body: Body) -> tuple[Row, bool]:
    """An artifact under a version or a run, and whether it is new."""
    store = Store(session)
    # Parallel posts of one metric wait here for each other, so that each finds the row of the one before it.
    parent = store.get(parent_kind, parent_id, lock=kind in (METRIC, PARAMETER))
    if parent is None:
        raise not_found(parent_kind, parent_id)
    fields = dict(body.fields)
    if parent_kind is RUN:
        fields |= {"experimentId": parent.doc()["experimentId"], "experimentRunId": str(parent_id)}
    row, made = _existing(store, parent_id, kind, body), False
    if row is not None:
        _same_type(row, kind)
        fields.pop("name", None)
        row = _change(store, row, fields)
    else:
        if kind is METRIC and "value" not in fields:
            raise ApiError(400, "metric value is required")
        row, made = _insert(store, kind, _artifact_doc(kind, fields), scope=parent_id, parent_id=None), True
    store.link(parent_id, row.id)
    if kind is METRIC and parent_kind is RUN:
        _append_history(store, row, parent_id)
    return row, made


def _existing(store: Store, parent_id: int, kind: Kind, body: Body) -> Row | None:
    if body.id is not None:
        found = store.get_any(ARTIFACTS, body.id, lock=True)
        if found is None or found.kind not in ARTIFACT_KINDS:
            raise ApiError(404, f"no artifact found for id {body.id}: not found")
        return found
    if kind in (METRIC, PARAMETER) and body.fields.get("name"):
        return store.named(kind, parent_id, body.fields["name"])
    return None


def _append_history(store: Store, metric: Row, run_id: int) -> None:
    doc = metric.doc()
    doc.pop("externalId", None)
    _insert(store, METRIC_HISTORY, doc, scope=None, parent_id=run_id)


def _same_type(row: Row, kind: Kind | None) -> None:
    if kind != row.kind:
        asked = kind.artifact_type if kind is not None else "unknown"
        raise ApiError(
            400,
            f"cannot change artifact type from '{row.kind.artifact_type}' to '{asked}': artifact type is immutable",
        )


def _artifact_doc(kind: Kind, fields: dict[str, Any]) -> Doc:
    if kind is METRIC and "value" not in fields:
        raise ApiError(400, "metric value is required")
    return {**_with_defaults(kind, fields), "artifactType": kind.artifact_type}


def _with_defaults(kind: Kind, fields: dict[str, Any]) -> Doc:
    doc: Doc = {"customProperties": {}}
    doc |= {field.name: field.default for field in kind.fields if field.default is not None}
    doc |= fields
    if not doc.get("name"):
        doc["name"] = str(uuid.uuid4())
    if not doc.get("externalId"):
        doc.pop("externalId", None)
    return doc


def _only_patchable(kind: Kind, fields: dict[str, Any]) -> Body:
    fixed = {"name"} | {field.name for field in kind.fields if not field.patchable}
    return Body({name: value for name, value in fields.items() if name not in fixed})


def _change(store: Store, row: Row, fields: dict[str, Any]) -> Row:
    doc = {**row.doc(), **fields}
    if not doc.get("externalId"):
        doc.pop("externalId", None)
    if row.kind is RUN:
        check_run_times(doc)
    try:
        return store.update(row, doc)
    except Duplicate:
        raise _taken(row.kind, doc, external=True) from None


def _insert(store: Store, kind: Kind, doc: Doc, *, scope: int | None, parent_id: int | None) -> Row:
    longest = MAX_NAME - len(f"{scope}:") if scope else MAX_NAME
    if len(doc["name"]) > longest:
        raise ApiError(400, f"name: longer than the {longest} characters that a name can have here")
    try:
        return store.insert(kind, doc, scope=scope, parent_id=parent_id)
    except Duplicate as error:
        raise _taken(kind, doc, external="external" in error.index) from None


def _taken(kind: Kind, doc: Doc, *, external: bool) -> ApiError:
    what = f"externalId {doc.get('externalId')}" if external else f"name {doc['name']}"
    return ApiError(409, f"{kind.label} with {what} already exists: conflict")


def _require(store: Store, kind: Kind, row_id: int) -> None:
    if not store.exists(kind, row_id):
        raise not_found(kind, row_id)


def _check_deployable(store: Store, version_id: int) -> None:
    version = store.get(VERSION, version_id)
    assert version is not None
    properties = version.doc()["customProperties"]

    def said(name: str) -> str:
        value = properties.get(name, {}).get("string_value", "")
        return value if isinstance(value, str) else ""

    if said("hf_gated") not in ("", "false"):
        raise ApiError(
            400, f"cannot deploy gated HuggingFace model version {version_id}: accept its terms at the hub first"
        )
    if said("hf_private") == "true":
        raise ApiError(400, f"cannot deploy private HuggingFace model version {version_id}: its files need a login")


def find(session: Session, wanted: Wanted) -> Row:
    """The one row of a name or an external id."""
    rows = listed(session, wanted, (), 2)
    label = wanted.kinds[0].label if len(wanted.kinds) == 1 else "artifact"
    given = {"name": wanted.name, "externalId": wanted.external_id}
    asked = ", ".join(f"{key} {value!r}" for key, value in given.items() if value is not None)
    if not rows:
        raise ApiError(404, f"no {label} found for {asked}: not found")
    if len(rows) > 1:
        raise ApiError(404, f"multiple {label}s found for {asked}: not found")
    return rows[0][0]


def listed(session: Session, wanted: Wanted, after: Sequence[Any], limit: int) -> list[tuple[Row, int]]:
    """The next rows of a list, each with its value of the order's column."""
    store = Store(session)
    return store.select(wanted.kinds, list(_conditions(store, wanted)), wanted.order, after, limit)


def check_parent(session: Session, wanted: Wanted) -> None:
    if wanted.parent is not None:
        _require(Store(session), *wanted.parent)


def _conditions(store: Store, wanted: Wanted) -> Iterable[Condition]:
    stored = store.dialect.stored
    if wanted.parent is not None:
        parent_id = wanted.parent[1]
        if wanted.kinds[0] in ARTIFACT_KINDS:
            yield Condition(f"e.id IN (SELECT artifact_id FROM {LINKS} WHERE parent_id = ?)", (parent_id,))
        else:
            yield Condition("e.parent_id = ?", (parent_id,))
    if wanted.name is not None:
        yield Condition("e.name = ?", (stored(wanted.name),))
    if wanted.external_id is not None:
        yield Condition("e.external_id = ?", (stored(wanted.external_id),))
    if wanted.steps:
        table = METRIC_HISTORY.family.properties
        yield Condition(
            f"EXISTS (SELECT 1 FROM {table} p WHERE p.entity_id = e.id AND p.custom = 0 AND p.name = ? "
            f"AND p.number IN ({placeholders(len(wanted.steps))}))",
            (stored("step"), *map(float, wanted.steps)),
        )
    if wanted.query is not None:
        yield compiled(wanted.query, wanted.kinds, store)


def service_version(session: Session, service_id: int) -> Row:
    """The version that a service runs: the one it names, else the newest of its model."""
    service = get(session, (SERVICE,), service_id).doc()
    if version_id := service.get("modelVersionId"):
        return get(session, (VERSION,), int(version_id))
    model_id = int(service["registeredModelId"])
    newest = listed(session, Wanted((VERSION,), Order("created", descending=True), parent=(MODEL, model_id)), (), 1)
    if not newest:
        raise ApiError(404, f"no model version found for registered model {model_id}: not found")
    return newest[0][0]


def service_model(session: Session, service_id: int) -> Row:
    return get(session, (MODEL,), int(get(session, (SERVICE,), service_id).doc()["registeredModelId"]))
