"""Reads the world for one `ModelRegistry`: the facts that its children depend on, and how its server fares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of
from modelyard.kube.openshift import is_openshift
from modelyard.kube.secrets import encoded_value_of, text_of
from modelyard.operators.model_registry.api import ModelRegistrySpec
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.database import COLON, references
from modelyard.operators.model_registry.effective import GENERATED_DATABASE, GENERATED_USER, effective
from modelyard.operators.model_registry.facts import (
    DATABASE,
    GRANT,
    Credentials,
    Facts,
    Names,
    ReferenceGrant,
)
from modelyard.operators.model_registry.server import REST, has_password_apart
from modelyard.operators.parts.availability import SERVICE_NAME, rollout, unavailable_replicas, waiting_containers
from modelyard.operators.parts.missing_references import Need, lasting_digest, missing
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import cluster_domain
from modelyard.operators.parts.references import Fetched, digest, fetch
from modelyard.operators.parts.storage import class_of
from modelyard.runtime.declaring.world import World

_URL_SAFE = re.compile(r"[A-Za-z0-9._~-]*")
_ALERT = "{{ALERT}}"
_CHECK_FAILED = re.compile(r"Check failed: absl::OkStatus\(\) == status \(OK vs\. ([^)]+)\) (.*)")
LOG_LINES = 500


@dataclass(frozen=True)
class Health:
    """How the server fares, as far as the cluster says."""

    now: datetime
    pods: tuple[Object, ...] = ()
    slices: tuple[Object, ...] = ()
    alert: str = ""
    """A line by which the server asks for help."""
    database_error: str = ""


async def observe_facts(spec: ModelRegistrySpec, names: Names, settings: Settings, world: World) -> Facts:
    """What the cluster says."""
    namespace = names.namespace
    claim = world.get(builtin.PersistentVolumeClaim, namespace, names.claim)
    generated = spec.postgres is not None and spec.postgres.is_generated
    running = world.get(builtin.Deployment, namespace, names.name)
    read = await fetch(world, namespace, _places_read(spec, names, world))
    secret = read.get(builtin.Secret, namespace, names.credentials)
    serving = read.get(builtin.Secret, namespace, names.serving_cert)
    facts = Facts(
        settings,
        openshift=is_openshift(world),
        user_api=world.serves(builtin.Group),
        gateway=bool(settings.gateway_domain) and world.serves(builtin.HTTPRoute),
        grants=world.serves(ReferenceGrant) and world.get(ReferenceGrant, namespace, GRANT) is None,
        domain=settings.default_domain or cluster_domain(world),
        serving_ca=encoded_value_of(serving, "ca.crt"),
        secret=secret,
        credentials=_credentials(secret, claim, spec) if secret is not None else None,
        claim=claim,
        storage_class=class_of(claim, world),
    )
    deployed = effective(spec, facts, names)
    needs = [Need(*reference) for reference in references(deployed)]
    lacking = missing(read, namespace, needs)
    username = [Need(builtin.Secret, names.credentials, "username")] if generated else []
    return replace(
        facts,
        awkward_password=_is_awkward(deployed, namespace, read, running),
        missing=() if generated and secret is None else (*lacking, *missing(read, namespace, username)),
        digest=lasting_digest(digest(read, namespace, references(deployed)), running, lacking),
        database_digest=digest(read, namespace, [(builtin.Secret, names.credentials, "")]) if generated else "",
        problems=tuple(_problems(spec, facts)),
    )


def _places_read(spec: ModelRegistrySpec, names: Names, world: World) -> Iterator[tuple[Kind, str]]:
    """What the server and its database read, and what a gateway must know."""
    if spec.postgres is not None and spec.postgres.is_generated:
        yield builtin.Secret, names.credentials
    else:
        yield from ((kind, name) for kind, name, _ in references(spec))
    if world.serves(BackendTLSPolicy):
        yield builtin.Secret, names.serving_cert


def _credentials(secret: Object, claim: Object | None, spec: ModelRegistrySpec) -> Credentials:
    """The database has the name that it was made with. A Secret of ours says it, else the volume does; one that is older
    than both holds the database of upstream's name."""
    username = text_of(secret, "username") or GENERATED_USER
    recorded = annotations_of(secret).get(DATABASE) or annotations_of(claim or {}).get(DATABASE)
    asked = spec.postgres.database if spec.postgres is not None and claim is None else None
    return Credentials(username, recorded or asked or GENERATED_DATABASE)


def _is_awkward(spec: ModelRegistrySpec, namespace: str, read: Fetched, running: Object | None) -> bool:
    """While the password is not there, as the running server has it: it must not restart for that."""
    source = spec.postgres.password_secret if spec.postgres else None
    if source is None:
        return False
    if missing(read, namespace, [Need(builtin.Secret, source.name, source.key)]):
        return has_password_apart(running)
    secret = read.get(builtin.Secret, namespace, source.name) or {}
    return not _URL_SAFE.fullmatch(text_of(secret, source.key))


def _problems(spec: ModelRegistrySpec, facts: Facts) -> Iterator[str]:
    yield from doubtful_fields(spec)
    if facts.openshift and spec.rest.service_route == "enabled" and spec.kube_rbac_proxy is not None:
        yield (
            "spec.rest.serviceRoute is enabled, but the proxy leaves no plain port that a Route could lead to; none is made"
        )
    if not facts.openshift and spec.kube_rbac_proxy is not None and (domain := spec.kube_rbac_proxy.domain):
        yield (
            f"spec.kubeRBACProxy.domain is {domain}, but this cluster has no Routes, so no host of it leads to the registry; "
            "set GATEWAY_DOMAIN or make an Ingress to the Service"
        )
    asked, made = spec.postgres, facts.credentials
    if asked is None or made is None:
        return
    for field, wish, is_now in (
        ("username", asked.username, made.username),
        ("database", asked.database, made.database),
    ):
        if wish and wish != is_now:
            yield f"spec.postgres.{field} is {wish}, but the generated database was made with {is_now}; that is kept"


def doubtful_fields(spec: ModelRegistrySpec) -> Iterator[str]:
    """Fields that are accepted and may not do what their author thinks."""
    grpc = spec.grpc
    ignored = {
        "spec.grpc": grpc is not None and (grpc.port not in (0, 9090) or grpc.image or grpc.resources),
        "spec.postgres.skipDBCreation": spec.postgres is not None and spec.postgres.skip_db_creation,
        "spec.mysql.skipDBCreation": spec.mysql is not None and spec.mysql.skip_db_creation,
        "spec.enable_database_upgrade": spec.enable_database_upgrade is not None,
        "spec.downgrade_db_schema_version": spec.downgrade_db_schema_version is not None,
    }
    for field, is_set in ignored.items():
        if is_set:
            yield f"{field} is ignored: the server creates and upgrades its schema by itself and has no gRPC port"
    if spec.postgres is None and spec.mysql is not None and ":" in (user := spec.mysql.username):
        yield (
            f"spec.mysql.username {user} has a colon, which the server gets as {COLON}: an image that does not decode "
            "this cannot log in; use a user name without a colon there"
        )


async def observe_health(names: Names, world: World) -> Health:
    """The server's pods and endpoints; and what a server that does not come up writes."""
    deployment = world.get(builtin.Deployment, names.namespace, names.name)
    pods = tuple(world.list(builtin.Pod, names.namespace, names.pods))
    slices = tuple(world.list(builtin.EndpointSlice, names.namespace, {SERVICE_NAME: names.name}))
    health = Health(world.now, pods, slices)
    if rollout(deployment).available or not unavailable_replicas(deployment):
        return health
    for pod in waiting_containers(pods, REST):
        alert, error = _said(await world.logs(names.namespace, pod, REST, lines=LOG_LINES))
        if alert or error:
            return replace(health, alert=alert, database_error=error)
    return health


def _said(log: str) -> tuple[str, str]:
    """`(alert, database error)`: an alert goes before everything else."""
    error = ""
    for line in log.splitlines():
        if _ALERT in line:
            return line.strip(), ""
        if not error and (match := _CHECK_FAILED.search(line)):
            error = f"{match[2]}: {match[1]}"
    return "", error
