"""The kube-rbac-proxy sidecar: whoever may `get` a Service reaches the server behind it, over TLS."""

from __future__ import annotations

from dataclasses import dataclass

from modelyard.kube.kinds import Object
from modelyard.operators.parts import build, security
from modelyard.operators.parts.build import Labels
from modelyard.operators.parts.images import pull_policy
from modelyard.runtime.declaring.controller import Permission

CONTAINER = "kube-rbac-proxy"
PORT_NAME = "https-proxy"
HEALTH_PORT = 8888
CONFIG_VOLUME = "kube-rbac-proxy-config"
CONFIG_FILE = "config-file.yaml"
CONFIG_DIRECTORY = "/etc/kube-rbac-proxy"
AUTH_DELEGATOR = "system:auth-delegator"
"""What Pod Security's `restricted` asks of a container besides what its pod says."""
RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True)
class Sidecar:
    """One proxy: where it listens, what is behind it, and its certificate."""

    image: str
    port: int
    upstream_port: int
    certificate: str
    """The certificate's file."""
    key: str
    """The key's file."""


def container(sidecar: Sidecar, mounts: list[Object]) -> Object:
    """The container; `mounts` are those of its certificate, the configuration's is added."""

    def probe(initial_delay: int) -> Object:
        return build.probe(
            "/healthz",
            "proxy-healthz",
            scheme="HTTPS",
            initial_delay=initial_delay,
            timeout=1,
            period=5,
            success=1,
            failure=3,
        )

    return {
        "name": CONTAINER,
        "image": sidecar.image,
        "imagePullPolicy": pull_policy(sidecar.image),
        "args": [
            f"--secure-listen-address=0.0.0.0:{sidecar.port}",
            f"--upstream=http://127.0.0.1:{sidecar.upstream_port}/",
            f"--proxy-endpoints-port={HEALTH_PORT}",
            "--logtostderr=true",
            "--v=0",
            f"--config-file={CONFIG_DIRECTORY}/{CONFIG_FILE}",
            f"--tls-cert-file={sidecar.certificate}",
            f"--tls-private-key-file={sidecar.key}",
        ],
        "ports": [
            {"name": PORT_NAME, "containerPort": sidecar.port, "protocol": "TCP"},
            {"name": "proxy-healthz", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": probe(30),
        "readinessProbe": probe(5),
        "resources": RESOURCES,
        "securityContext": security.CONTAINER,
        "volumeMounts": [*mounts, build.mount(CONFIG_VOLUME, CONFIG_DIRECTORY)],
    }


def config_volume(config: str) -> Object:
    return build.config_map_volume(CONFIG_VOLUME, config)


def config_map(name: str, namespace: str, service: str, labels: Labels) -> Object:
    """Says that the right to `get` the Service is the right to use it."""
    return build.config_map(name, namespace, {CONFIG_FILE: config_text("services", namespace, service)}, labels)


def config_text(resource: str, namespace: str, name: str = "") -> str:
    """The configuration: whoever may `get` this may use what is behind the proxy. Without a name: whoever may get all of them."""
    text = (
        "authorization:\n"
        "  resourceAttributes:\n"
        "    apiVersion: v1\n"
        f"    resource: {resource}\n"
        "    verb: get\n"
        f"    namespace: {namespace}\n"
    )
    return text + f"    name: {name}\n" if name else text


def auth_delegator(name: str, account: str, namespace: str, labels: Labels) -> Object:
    """Lets the proxy ask the API who a caller is and what the caller may do."""
    subjects = [build.service_account_subject(account, namespace)]
    return build.cluster_role_binding(name, AUTH_DELEGATOR, subjects, labels)


GRANTED = (
    Permission(("",), ("endpoints",), ("get", "list", "watch")),
    Permission(("authentication.k8s.io",), ("tokenreviews",), ("create",), everywhere=True),
    Permission(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",), everywhere=True),
)
"""What is granted to those who stand behind a proxy, and to the proxy: the API lets nobody grant what they do not have."""
