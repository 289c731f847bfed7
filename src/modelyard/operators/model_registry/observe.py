"""Reads the world for one `ModelRegistry`: the facts that its children depend on, and how its server fares."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of, spec_of
from modelyard.operators.model_registry.api import ModelRegistrySpec
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.database import references
from modelyard.operators.model_registry.effective import GENERATED_DATABASE, GENERATED_USER, effective
from modelyard.operators.model_registry.facts import (
    DATABASE,
    GRANT,
    Credentials,
    Facts,
    Names,
    ReferenceGrant,
)
from modelyard.operators.model_registry.server import REST
from modelyard.operators.parts.availability import SERVICE_NAME, rollout, unavailable_replicas, waiting_containers
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import cluster_domain
from modelyard.operators.parts.references import Fetched, digest, fetch
from modelyard.runtime.world import World

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
    openshift = world.serves(builtin.Route)
    claim = world.get(builtin.PersistentVolumeClaim, namespace, names.claim)
    class_name = spec_of(claim or {}).get("storageClassName")
    generated = spec.postgres is not None and spec.postgres.is_generated
    read = await fetch(world, namespace, _places_read(spec, names, world))
    secret = read.get(builtin.Secret, namespace, names.credentials)
    serving = read.get(builtin.Secret, namespace, names.serving_cert)
    facts = Facts(
        settings,
        openshift=openshift,
        user_api=world.serves(builtin.Group),
        gateway=bool(settings.gateway_domain) and world.serves(builtin.HTTPRoute),
        grants=world.serves(ReferenceGrant) and world.get(ReferenceGrant, namespace, GRANT) is None,
        domain=settings.default_domain or cluster_domain(world),
        serving_ca=str(((serving or {}).get("data") or {}).get("ca.crt") or ""),
        secret=secret,
        credentials=_credentials(secret) if secret is not None else None,
        claim=claim,
        storage_class=world.get(builtin.StorageClass, "", class_name) if class_name else None,
    )
    deployed = effective(spec, facts, names)
    return replace(
        facts,
        awkward_password=_is_awkward(deployed, namespace, read),
        digest=digest(read, namespace, references(deployed)),
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


def _credentials(secret: Object) -> Credentials:
    username = decoded(secret, "username") or GENERATED_USER
    return Credentials(username, annotations_of(secret).get(DATABASE) or GENERATED_DATABASE)


def _is_awkward(spec: ModelRegistrySpec, namespace: str, read: Fetched) -> bool:
    source = spec.postgres.password_secret if spec.postgres else None
    secret = read.get(builtin.Secret, namespace, source.name) if source else None
    return secret is not None and source is not None and not _URL_SAFE.fullmatch(decoded(secret, source.key))


def decoded(secret: Object, key: str) -> str:
    """A value of a Secret as text; empty where it is none."""
    try:
        return base64.b64decode((secret.get("data") or {}).get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _problems(spec: ModelRegistrySpec, facts: Facts) -> Iterator[str]:
    yield from ignored_fields(spec)
    if facts.openshift and spec.rest.service_route == "enabled" and spec.kube_rbac_proxy is not None:
        yield (
            "spec.rest.serviceRoute is enabled, but the proxy leaves no plain port that a Route could lead to; none is made"
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


def ignored_fields(spec: ModelRegistrySpec) -> Iterator[str]:
    """Fields that are accepted for old manifests' sake and do nothing."""
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
