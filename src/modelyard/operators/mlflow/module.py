"""The platform's handshake: the controller of `MLflowOperator`, and the gate that it is for every `MLflow`. Off by default."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from modelyard.kube import builtin
from modelyard.kube.conditions import condition, find_condition, set_condition
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import conditions_of, generation_of, is_deleting, name_of, spec_of, status_of
from modelyard.kube.times import format_time
from modelyard.operators.mlflow.api import MLFLOW, MLFLOW_OPERATOR, MLflowOperator
from modelyard.operators.mlflow.config import Settings
from modelyard.runtime.declaring.controller import Controller, Reader, Watch
from modelyard.runtime.declaring.desired import Desired, EventNote, Hold
from modelyard.runtime.declaring.world import World

MODULE_NAME = "default-mlflowoperator"
FINALIZER = "mlflow.opendatahub.io/mlflow-operator-protection"
VERSION_CONFIG = "odh-mlflowoperator-config"
READY_MESSAGE = "MLflowOperator is ready to manage MLflow custom resources"
INSTANCES_PRESENT = "MLflowInstancesPresent"
INVALID_VERSION = "InvalidPlatformVersion"
REPOSITORY = "https://github.com/mlflow/mlflow"

_SEMVER = re.compile(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_BEFORE = "before reconciling MLflow custom resources"


@dataclass(frozen=True)
class Gate:
    """May an MLflow be reconciled?"""

    open: bool
    reason: str
    message: str
    leaving: bool = False
    """The module is being deleted and waits for the MLflow: it is kept as it is."""


def gate(module: Object | None) -> Gate:
    """What the module's state means for an MLflow."""
    if module is None:
        text = f"Waiting for MLflowOperator custom resource to be created {_BEFORE}"
        return Gate(False, "MLflowOperatorMissing", text)
    leaving = is_deleting(module)
    observed, generation = int(status_of(module).get("observedGeneration") or 0), generation_of(module)
    if 0 < observed < generation:
        text = f"Waiting for MLflowOperator status to observe generation {generation} {_BEFORE}"
        return Gate(False, "MLflowOperatorStatusStale", text, leaving)
    ready = find_condition(conditions_of(module), "Ready")
    if ready is None:
        text = f"Waiting for MLflowOperator to report Ready {_BEFORE}"
        return Gate(False, "MLflowOperatorNotReady", text, leaving)
    if ready.get("status") != "True":
        text = f"Waiting for MLflowOperator to become ready {_BEFORE}"
        text += f": {ready['message']}" if ready.get("message") else ""
        return Gate(False, ready.get("reason") or "MLflowOperatorNotReady", text, leaving)
    return Gate(True, "Ready", READY_MESSAGE)


def with_module(settings: Settings, module: Object | None) -> Settings:
    """The settings with what the module says in their place."""
    spec = spec_of(module or {})
    domain = ((spec.get("gateway") or {}).get("domain") or "").rstrip("/").strip()
    if domain and not domain.startswith(("http://", "https://")):
        domain = f"https://{domain}"
    return replace(
        settings,
        gateway_name=spec.get("gatewayName") or settings.gateway_name,
        section_title=spec.get("sectionTitle") or settings.section_title,
        url=domain or settings.url,
        url_configured=bool(domain) or settings.url_configured,
    )


def module_controller(settings: Settings) -> Controller:
    """The controller of `MLflowOperator`."""
    namespace = settings.applications_namespace

    def on_config(obj: Object, reader: Reader) -> Iterable[Key]:
        return [Key("", MODULE_NAME)] if name_of(obj) == VERSION_CONFIG else []

    watches = [Watch(MLFLOW.kind, to=lambda obj, reader: [Key("", MODULE_NAME)])]
    if namespace:
        watches.append(Watch(builtin.ConfigMap, to=on_config, namespace=namespace))
    controller = Controller(
        "mlflow-module", MLFLOW_OPERATOR, watches=watches, finalizer=FINALIZER, predecessor=settings.predecessor
    )

    @controller.reconcile
    def reconcile(module: MLflowOperator, world: World) -> Desired | Hold:
        try:
            releases = _releases(settings, world)
        except InvalidPlatformVersion as error:
            return _as_it_was(module, world, str(error))
        missing = [
            name
            for name, value in (
                ("spec.gatewayName", module.spec and module.spec.gateway_name),
                ("spec.sectionTitle", module.spec and module.spec.section_title),
            )
            if not value
        ]
        if missing:
            text = "Waiting for MLflowOperator spec fields before managing MLflow custom resources: " + ", ".join(
                missing
            )
            return Desired(status=_status(module, world, releases, False, "ConfigPending", text))
        return Desired(status=_status(module, world, releases, True, "Ready", READY_MESSAGE))

    @controller.cleanup
    def cleanup(module: MLflowOperator, world: World) -> Hold | None:
        instances = len(world.list(MLFLOW.kind))
        if not instances:
            return None
        text = f"cannot delete MLflowOperator while {instances} MLflow instance(s) still exist"
        recorded = _recorded(module).get("releases") or []
        return Hold(INSTANCES_PRESENT, text, status=_status(module, world, recorded, False, INSTANCES_PRESENT, text))

    return controller


class InvalidPlatformVersion(ValueError):
    """The platform's ConfigMap says something else than a version."""


def _recorded(module: MLflowOperator) -> Object:
    return module.status.to_dict() if module.status else {}


def _as_it_was(module: MLflowOperator, world: World, message: str) -> Hold:
    """Says only that it could not be done: a typing mistake in a ConfigMap must not close the gate for servers that run."""
    recorded = _recorded(module)
    mark = condition("Reconciled", False, INVALID_VERSION, message, observed_generation=module.metadata.generation)
    status = recorded | {"conditions": set_condition(recorded.get("conditions"), mark, world.now)}
    return Hold(INVALID_VERSION, message, status=status, events=[EventNote(INVALID_VERSION, message, "Warning")])


def _releases(settings: Settings, world: World) -> list[Object]:
    releases: list[Object] = []
    namespace = settings.applications_namespace
    config = world.get(builtin.ConfigMap, namespace, VERSION_CONFIG) if namespace else None
    version = ((config or {}).get("data") or {}).get("platformVersion") or ""
    if version:
        if len(version) > 64 or not _SEMVER.fullmatch(version):
            raise InvalidPlatformVersion(
                f"invalid platform version in {namespace}/{VERSION_CONFIG}: platformVersion {version[:80]!r} is not a version "
                "like 1.2.3"
            )
        releases.append({"name": "platform", "version": version})
    releases.append({"name": "MLflow", "version": settings.supported_version, "repoUrl": REPOSITORY})
    return releases


def _status(
    module: MLflowOperator, world: World, releases: list[Object], ready: bool, reason: str, message: str
) -> Object:
    generation = module.metadata.generation
    made: Object = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "observedGeneration": generation,
        "reason": reason,
        "message": message,
    }
    last = find_condition(_recorded(module).get("conditions"), "Ready") or {}
    # The platform operator's conditions count a new reason or message as a transition too.
    unchanged = all(last.get(field) == value for field, value in made.items())
    made["lastTransitionTime"] = last["lastTransitionTime"] if unchanged else format_time(world.now)
    phase = "Ready" if ready else "Progressing"
    return {"phase": phase, "observedGeneration": generation, "conditions": [made], "releases": releases}
