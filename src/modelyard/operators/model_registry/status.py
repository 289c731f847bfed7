"""The status of a `ModelRegistry`, computed from what is live after the apply. Pure."""

from __future__ import annotations

from collections.abc import Mapping
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
from modelyard.runtime.desired import Live

COOLDOWN = 5.0
"""So many seconds after it came up a Deployment counts as available: it may fall over at once."""
AVAILABLE = "Deployment is available"
CREATING = ("CreatingDeployment", "Creating deployment")
UPDATING = ("UpdatingDeployment", "Updating deployment")
CREATED = ("CreatedDeployment", "Deployment was successfully created")


@dataclass(frozen=True)
class Verdict:
    """Whether something is there to be used, and if not, why."""

    ok: bool
    reason: str
    message: str


def registry_status(wanted: Wanted, health: Health, live: Live, before: Mapping[tuple[Kind, Key], str]) -> Object:
    """The status of a complete pass; `before` has the versions that the children had."""
    verdict = _failed(live) or _availability(wanted, health, live)
    proxied: list[Object] = []
    if wanted.deployed.kube_rbac_proxy is not None:
        proxy = _proxy(wanted, health, live) if verdict.ok else Verdict(False, "ResourcesUnavailable", verdict.message)
        proxied.append(_condition("KubeRBACProxyAvailable", proxy))
        verdict = proxy if verdict.ok and not proxy.ok else verdict
    listed = hosts(wanted)
    return {
        "hosts": listed,
        "hostsStr": ",".join(listed),
        "specDefaults": spec_defaults(wanted.stored, wanted.deployed),
        "conditions": [_progress(live, before), _condition("Available", verdict), *proxied],
    }


def _condition(type: str, verdict: Verdict) -> Object:
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


def _failed(live: Live) -> Verdict | None:
    failures = [failure for failure in live.failures if failure.reason != "NotServed"]
    if not failures:
        return None
    said = "; ".join(f"{f.kind.kind} {f.key.name}: {f.message}" for f in failures)
    return Verdict(False, "DeploymentUnavailable", f"unexpected reconcile error: {said}")


def _availability(wanted: Wanted, health: Health, live: Live) -> Verdict:
    names = wanted.names
    deployment = live.get(builtin.Deployment, names.namespace, names.name)
    state = availability.rollout(deployment)
    if not state.available:
        return _unavailable(health, deployment, state)
    if not health.slices:
        return _down(f'Service endpoints not found: endpoints "{names.name}" not found')
    if not availability.has_ready_address(health.slices):
        return _down("Service endpoints not ready - no ready addresses available")
    if availability.cooling(state, health.now, COOLDOWN) > 0:
        return Verdict(False, "DeploymentCooldown", "Deployment only recently available")
    return Verdict(True, "DeploymentAvailable", AVAILABLE)


def _unavailable(health: Health, deployment: Object | None, state: availability.Rollout) -> Verdict:
    if health.alert:
        return Verdict(False, "ResourcesAlert", f"rest container alert: {health.alert}")
    if health.database_error:
        return Verdict(False, "ConfigurationError", f"database configuration error: {health.database_error}")
    missing = availability.unavailable_replicas(deployment)
    detail = availability.pods_problem(health.pods) if missing else ""
    counted = f"{missing} containers unavailable" if missing else ""
    return _down(f"Deployment is unavailable: {detail or state.message or counted}")


def _down(message: str) -> Verdict:
    return Verdict(False, "DeploymentUnavailable", message)


def _proxy(wanted: Wanted, health: Health, live: Live) -> Verdict:
    names = wanted.names
    problem = availability.containers_problem(
        health.pods, names.name, (REST, rbac_proxy.CONTAINER), f"{rbac_proxy.CONTAINER} proxy unavailable"
    )
    if not problem and wanted.https_route:
        admitted, why = availability.route_problem(live.get(builtin.Route, names.namespace, names.https_route))
        problem = "" if admitted else f"KubeRBACProxy Route {names.https_route} is unavailable: {why}"
    if problem:
        return Verdict(False, "ResourcesUnavailable", problem)
    return Verdict(True, "ResourcesAvailable", "kube-rbac-proxy was successfully created")


def invalid_status(registry: ModelRegistry, message: str) -> Object:
    """The status of a registry that cannot be deployed as it is."""
    return _with(registry, condition("Available", False, "ConfigurationError", message))


def finalizing_status(registry: ModelRegistry, *, done: bool) -> Object:
    """The status of a registry that is being deleted."""
    name = registry.name
    if done:
        message = f"Finalizer operations for custom resource {name} were successfully accomplished"
        return _with(registry, condition("Degraded", True, "Finalizing", message))
    message = f"Performing finalizer operations for the custom resource: {name} "
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
