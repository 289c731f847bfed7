"""The registry's Deployment: the REST server, and the proxy in front of it. Pure."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.kube.objects import lookup
from modelyard.operators.model_registry.api import ModelRegistrySpec
from modelyard.operators.model_registry.database import CERTIFICATE_MODE, PASSWORD_APART, Connection, connection
from modelyard.operators.model_registry.facts import REQUIRED_SCC, Facts, Names
from modelyard.operators.parts import build, rbac_proxy, security
from modelyard.operators.parts.images import pull_policy
from modelyard.operators.parts.references import digest_annotation

REST = "rest-container"
_CERTIFICATE = "/etc/tls/private-cert"
_KEY = "/etc/tls/private-key"


def server_deployment(spec: ModelRegistrySpec, facts: Facts, names: Names) -> Object:
    """The Deployment of an effective spec."""
    database = connection(spec, awkward_password=facts.awkward_password)
    made = build.deployment(
        names.name,
        names.namespace,
        labels=names.labels(names.name),
        replicas=1,
        selector=names.pods,
        pod_annotations={**REQUIRED_SCC, **digest_annotation(facts.digest)},
        pod=build.filled(
            serviceAccountName=names.name,
            securityContext=security.pod(None if facts.openshift else security.SERVER_GROUP),
            containers=[_rest(spec, database), *_proxy(spec)],
            volumes=[*database.volumes, *_proxy_volumes(spec, names)],
        ),
    )
    made["spec"]["revisionHistoryLimit"] = 0
    return made


def has_password_apart(deployment: Object | None) -> bool:
    """Does the server of this Deployment get its password beside the address?"""
    containers = lookup(deployment or {}, "spec", "template", "spec", "containers") or ()
    found = (one for container in containers if container.get("name") == REST for one in container.get("env") or ())
    return any(one.get("name") == PASSWORD_APART for one in found)


def _rest(spec: ModelRegistrySpec, database: Connection) -> Object:
    def probe(path: str, initial_delay: int, period: int, failure: int) -> Object:
        return build.probe(path, "http-api", initial_delay=initial_delay, timeout=5, period=period, failure=failure)

    asked = spec.rest.resources or {}
    return build.filled(
        name=REST,
        image=spec.rest.image,
        imagePullPolicy=pull_policy(spec.rest.image or ""),
        command=["/model-registry", "proxy"],
        args=["--hostname=0.0.0.0", f"--port={spec.rest.port}", *database.args],
        env=database.env,
        ports=[{"name": "http-api", "containerPort": spec.rest.port, "protocol": "TCP"}],
        resources=build.resources(asked.get("requests"), asked.get("limits")),
        securityContext=security.CONTAINER,
        volumeMounts=database.mounts,
        startupProbe=probe("/readyz/isDirty", 10, 5, 6),
        livenessProbe=probe("/readyz/isDirty", 30, 10, 3),
        readinessProbe=probe("/readyz/health", 5, 10, 3),
    )


def _proxy(spec: ModelRegistrySpec) -> list[Object]:
    proxy = spec.kube_rbac_proxy
    if proxy is None or proxy.tls_certificate_secret is None or proxy.tls_key_secret is None:
        return []
    sidecar = rbac_proxy.Sidecar(
        image=proxy.image or "",
        port=proxy.port,
        upstream_port=spec.rest.port,
        certificate=f"{_CERTIFICATE}/{proxy.tls_certificate_secret.key}",
        key=f"{_KEY}/{proxy.tls_key_secret.key}",
    )
    mounts = [build.mount("kube-rbac-proxy-cert", _CERTIFICATE), build.mount("kube-rbac-proxy-key", _KEY)]
    return [rbac_proxy.container(sidecar, mounts)]


def _proxy_volumes(spec: ModelRegistrySpec, names: Names) -> list[Object]:
    proxy = spec.kube_rbac_proxy
    if proxy is None or proxy.tls_certificate_secret is None or proxy.tls_key_secret is None:
        return []
    return [
        build.secret_volume("kube-rbac-proxy-cert", proxy.tls_certificate_secret.name, mode=CERTIFICATE_MODE),
        build.secret_volume("kube-rbac-proxy-key", proxy.tls_key_secret.name, mode=CERTIFICATE_MODE),
        rbac_proxy.config_volume(names.proxy_config),
    ]
