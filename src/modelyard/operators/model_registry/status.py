"""The status of a `ModelRegistry`, computed from what is live after the apply. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.kube.conditions import condition, find_condition
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import resource_version_of
from modelyard.operators.model_registry.api import ModelRegistry
from modelyard.operators.model_registry.children import Wanted
from modelyard.operators.model_registry.effective import spec_defaults
from modelyard.operators.model_registry.observe import Health
from modelyard.operators.model_registry.server import REST
from modelyard.operators.parts import availability, rbac_proxy
from modelyard.operators.parts.conditions import failures_to_tell
from modelyard.operators.parts.missing_references import Missing, remedies
from modelyard.runtime.declaring.desired import Live

COOLDOWN = 5.0
"""So many seconds after it came up a Deployment counts as available: it may fall over at once."""
AVAILABLE = "Deployment is available"
CREATING = ("CreatingDeployment", "Creating deployment")
UPDATING = ("UpdatingDeployment", "Updating deployment")
NOT_OUR_ACCOUNT = (
    "nothing is started: a ServiceAccount named {name} exists in the namespace and is not this registry's, so the server would "
    "run with its rights; give the registry another name, or delete the ServiceAccount"
)
CREATED = ("CreatedDeployment", "Deployment was successfully created")


@dataclass(frozen=True)
class Availability:
    """Whether something is there to be used, and if not, why."""

    ok: bool
    reason: str
    message: str


def registry_status(wanted: Wanted, health: Health, live: Live, before: Mapping[tuple[Kind, Key], str]) -> Object:
    """The status of a complete pass; `before` has the versions that the children had."""
    verdict = _failed(live) or _incomplete(wanted, live) or _availability(wanted, health, live)
    proxied: list[Object] = []
    if wanted.deployed.kube_rbac_proxy is not None:
        proxy = (
            _proxy(wanted, health, live) if verdict.ok else Availability(False, "ResourcesUnavailable", verdict.message)
        )
        proxied.append(_condition("KubeRBACProxyAvailable", proxy))
        verdict = proxy if verdict.ok and not proxy.ok else verdict
    listed = hosts(wanted)
    return {
        "hosts": listed,
        "hostsStr": ",".join(listed),
        "specDefaults": spec_defaults(wanted.stored, wanted.deployed),
        "conditions": [
            _progress(live, before),
            _condition("Available", verdict),
            *proxied,
            *_references_found(wanted.facts.missing),
        ],
    }


def _references_found(lacking: Sequence[Missing]) -> list[Object]:
    """The condition that names what is missing; there, as False, only while something is."""
    if not lacking:
        return []
    message = f"{remedies(lacking)}. A server that runs goes on with what it read at its start; one that starts waits for this"
    return [condition("ReferencesFound", False, "Missing", message)]


def _condition(type: str, verdict: Availability) -> Object:
    return condition(type, verdict.ok, verdict.reason, verdict.message)


def hosts(wanted: Wanted) -> list[str]:
    """Where the registry is reached, from the outermost name to the shortest."""
    name, namespace = wanted.names.name, wanted.names.namespace
    outside = [host for host in (wanted.gateway_address, wanted.external_host) if host]
    return [*outside, f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}", name]


def _progress(live: Live, before: Mapping[tuple[Kind, Key], str]) -> Object:
    reason, message = CREATED
    for place, obj in live.objects.items():
        if place not in before:
            reason, message = CREATING
        elif before[place] != resource_version_of(obj) and reason != CREATING[0]:
            reason, message = UPDATING
    moving = reason != CREATED[0] or live.waiting
    if live.waiting and reason == CREATED[0]:
        reason, message = CREATING
    return condition("Progressing", moving, reason, message)


def _failed(live: Live) -> Availability | None:
    failures = failures_to_tell(live)
    if not failures:
        return None
    for failure in failures:
        if failure.kind == builtin.ServiceAccount and failure.reason == "Foreign":
            return _down(NOT_OUR_ACCOUNT.format(name=failure.key.name))
    said = "; ".join(f"{f.kind.kind} {f.key.name}: {f.message}" for f in failures)
    return Availability(False, "DeploymentUnavailable", f"unexpected reconcile error: {said}")


def _incomplete(wanted: Wanted, live: Live) -> Availability | None:
    """Nothing is started while what was provided for the database lacks something."""
    if not live.waiting or not wanted.facts.missing:
        return None
    return Availability(False, "ConfigurationError", remedies(wanted.facts.missing))


def _availability(wanted: Wanted, health: Health, live: Live) -> Availability:
    names = wanted.names
    deployment = live.get(builtin.Deployment, names.namespace, names.name)
    state = availability.rollout(deployment)
    if not state.available:
        return _unavailable(wanted, health, deployment, state)
    if not health.slices:
        return _down(f'Service endpoints not found: endpoints "{names.name}" not found')
    if not availability.has_ready_address(health.slices):
        return _down("Service endpoints not ready - no ready addresses available")
    if availability.cooling(state, health.now, COOLDOWN) > 0:
        return Availability(False, "DeploymentCooldown", "Deployment only recently available")
    return Availability(True, "DeploymentAvailable", AVAILABLE)


def _unavailable(
    wanted: Wanted, health: Health, deployment: Object | None, state: availability.Rollout
) -> Availability:
    if health.alert:
        return Availability(False, "ResourcesAlert", f"rest container alert: {health.alert}")
    if health.database_error:
        return Availability(False, "ConfigurationError", f"database configuration error: {health.database_error}")
    missing = availability.unavailable_replicas(deployment)
    if not missing:
        return _down(f"Deployment is unavailable: {state.message}")
    if detail := availability.pods_problem(health.pods):
        return _down(f"Deployment is unavailable: {detail}")
    # Upstream says only how many; who asks for the reason finds it behind.
    why = availability.pending_problem(health.pods) or remedies(wanted.facts.missing) or state.message
    return _down(": ".join(filter(None, ("Deployment is unavailable", f"{missing} containers unavailable", why))))


def _down(message: str) -> Availability:
    return Availability(False, "DeploymentUnavailable", message)


def _proxy(wanted: Wanted, health: Health, live: Live) -> Availability:
    names = wanted.names
    problem = availability.containers_problem(
        health.pods, names.name, (REST, rbac_proxy.CONTAINER), f"{rbac_proxy.CONTAINER} proxy unavailable"
    )
    if not problem and wanted.https_route:
        admitted, why = availability.route_problem(live.get(builtin.Route, names.namespace, names.https_route))
        problem = "" if admitted else f"KubeRBACProxy Route {names.https_route} is unavailable: {why}"
    if problem:
        return Availability(False, "ResourcesUnavailable", problem)
    return Availability(True, "ResourcesAvailable", "kube-rbac-proxy was successfully created")


def invalid_status(registry: ModelRegistry, message: str) -> Object:
    """The status of a registry that cannot be deployed as it is."""
    return _with(registry, condition("Available", False, "ConfigurationError", message))


def finalizing_status(registry: ModelRegistry, *, done: bool, waiting: str = "") -> Object:
    """The status of a registry that is being deleted; `waiting` says for what."""
    name = registry.name
    if done:
        message = f"Finalizer operations for custom resource {name} were successfully accomplished"
        return _with(registry, condition("Degraded", True, "Finalizing", message))
    message = f"Performing finalizer operations for the custom resource: {name} "
    if waiting:
        message += f"- waiting for {waiting}"
    return _with(registry, condition("Degraded", "Unknown", "Finalizing", message))


def recorded(registry: ModelRegistry, type: str) -> Object | None:
    return find_condition(_conditions(registry), type)


def _conditions(registry: ModelRegistry) -> list[Object]:
    found = (registry.status.conditions if registry.status else None) or []
    return [one.to_dict() for one in found]


def _with(registry: ModelRegistry, new: Object) -> Object:
    status = registry.status.to_dict() if registry.status else {}
    others = [one for one in _conditions(registry) if one["type"] != new["type"]]
    return {**status, "conditions": [*others, new]}
