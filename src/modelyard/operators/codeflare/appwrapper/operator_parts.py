"""The AppWrapper half of CodeFlare, for the operator to put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelyard.kube.crd import Definition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import lookup, namespace_of
from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER, GROUP
from modelyard.operators.codeflare.appwrapper.controller import NAME, appwrapper_controller
from modelyard.operators.codeflare.appwrapper.webhooks import appwrapper_webhooks
from modelyard.operators.codeflare.config import Settings
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.operator_metrics import CacheGauge, Count, OwnMetric, counted_by
from modelyard.runtime.webhooks import Webhook


@dataclass(frozen=True)
class AppWrapperParts:
    """What the operator takes over."""

    controllers: Sequence[Controller]
    webhooks: Sequence[Webhook]
    definitions: Sequence[Definition]
    metrics: Sequence[OwnMetric]
    roles: Sequence[Object]


def appwrapper_parts(settings: Settings) -> AppWrapperParts:
    transitions = Count("appwrapper_phase_total", "Phases that AppWrappers have entered", ("namespace", "phase"))
    now = CacheGauge(
        "appwrapper_phases",
        "AppWrappers that are in a phase",
        ("namespace", "phase"),
        NAME,
        counted_by(APPWRAPPER.kind, lambda obj: (namespace_of(obj), lookup(obj, "status", "phase") or "")),
    )
    return AppWrapperParts(
        controllers=[appwrapper_controller(settings, transitions)],
        webhooks=appwrapper_webhooks(settings),
        definitions=[APPWRAPPER],
        metrics=[transitions, now],
        roles=_roles(),
    )


def _roles() -> list[Object]:
    """For users: they come with the roles admin, edit and view."""
    every = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return [
        _role("codeflare-operator-appwrapper-editor-role", ("admin", "edit"), every),
        _role("codeflare-operator-viewer-role", ("view",), ["get", "list", "watch"]),
    ]


def _role(name: str, comes_with: Sequence[str], verbs: Sequence[str]) -> Object:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in comes_with}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": [
            {"apiGroups": [GROUP], "resources": ["appwrappers"], "verbs": list(verbs)},
            {"apiGroups": [GROUP], "resources": ["appwrappers/status"], "verbs": ["get"]},
        ],
    }
