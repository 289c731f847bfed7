"""An operator's dataflow as data: every row comes from a declaration, and says where that stands."""

from __future__ import annotations

from pathlib import Path

import msgspec

import modelyard
from modelyard.kube.kinds import Kind
from modelyard.runtime.declaring.controller import Controller, Source
from modelyard.runtime.declaring.operator import Operator

_ROOT = Path(modelyard.__file__).parent


class WatchRow(msgspec.Struct, rename="camel"):
    type: str
    gvk: str
    kind: str
    version: str
    source: str
    optional: bool = False


class ServiceRow(msgspec.Struct, rename="camel"):
    name: str
    port: int
    protocol: str
    port_name: str
    role: str
    source: str


class CrdRow(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str


class WebhookRow(msgspec.Struct, rename="camel"):
    name: str
    type: str
    path: str
    failure_policy: str
    service: str
    source: str


class EndpointRow(msgspec.Struct, rename="camel"):
    method: str
    path: str
    purpose: str


class SettingRow(msgspec.Struct, rename="camel"):
    name: str
    default: str
    description: str


class Flow(msgspec.Struct, rename="camel"):
    """One operator's page."""

    operator: str
    upstream: str
    title: str
    watches: list[WatchRow]
    services: list[ServiceRow]
    crds: list[CrdRow]
    webhooks: list[WebhookRow]
    endpoints: list[EndpointRow]
    settings: list[SettingRow]
    chart: str = ""


ENDPOINTS = [
    EndpointRow("GET", "/metrics", "metrics in Prometheus' format"),
    EndpointRow("GET", "/healthz", "the process lives"),
    EndpointRow("GET", "/readyz", "every cache is in sync and its watch alive"),
    EndpointRow(
        "*",
        "/debug/",
        "tasks, queues, passes and what woke them, caches and last errors; loopback only unless told otherwise",
    ),
]


def flow_of(operator: Operator) -> Flow:
    rows = [row for controller in operator.controllers for row in _watches(controller)]
    service = next((s.name for s in operator.services if s.role == "webhook"), "")
    return Flow(
        operator=operator.name,
        upstream=operator.upstream,
        title=operator.title,
        watches=_unique(rows),
        services=[
            ServiceRow(s.name, s.port, s.protocol, s.port_name, s.role, place(s.source)) for s in operator.services
        ],
        crds=[CrdRow(d.kind_name, f"{d.group}/{v.name}") for d in operator.definitions for v in d.versions if v.served],
        webhooks=[
            WebhookRow(w.name, w.type, w.path, w.failure_policy, service, place(w.source)) for w in operator.webhooks
        ],
        endpoints=ENDPOINTS,
        settings=[SettingRow(s.name, s.without, s.description) for s in operator.settings],
        chart=operator.chart,
    )


def place(source: Source) -> str:
    """`operators/mlflow/controller.py:40`, or `package/controller.py:40` of a user: the same on every machine."""
    path = Path(source.file)
    if path.is_relative_to(_ROOT):
        return f"{path.relative_to(_ROOT)}:{source.line}"
    outside = next(parent for parent in path.parents if not (parent / "__init__.py").is_file())
    return f"{path.relative_to(outside)}:{source.line}"


def _watches(controller: Controller) -> list[WatchRow]:
    rows: list[WatchRow] = []
    for face in controller.faces:
        if face.kind is not None:
            rows.append(_row("For", face.kind, controller.source, optional=face.optional))
    # A controller without a custom resource owns by label, not by owner reference: upstream's pages call that a watch.
    owns = "Owns" if controller.kinds else "Watches"
    rows += [_row(owns, o.kind, o.source, optional=o.optional) for o in controller.owns]
    rows += [_row("Watches", w.kind, w.source, optional=w.optional) for w in controller.watches]
    if controller.wraps is not None and controller.kind is not None:
        named = f"kinds that {controller.kind.kind} names"
        rows.append(WatchRow("Wraps", f"any {named}, while it does", named, "", place(controller.wraps.source)))
    return rows


def _row(type: str, kind: Kind, source: Source, *, optional: bool) -> WatchRow:
    return WatchRow(type, f"{kind.group}/{kind.version}/{kind.kind}", kind.kind, kind.version, place(source), optional)


def _unique(rows: list[WatchRow]) -> list[WatchRow]:
    order = {"For": 0, "Owns": 1, "Watches": 2, "Wraps": 3}
    seen = {(row.type, row.gvk, row.source): row for row in rows}
    return sorted(seen.values(), key=lambda row: (order[row.type], row.gvk, row.source))
