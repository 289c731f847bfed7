"""The objects of a Greeting: pure functions of the resource and a few facts."""

from __future__ import annotations

import hashlib

from greetings_operator.api import Greeting
from modelyard.kube.builtin import ClusterRole, HTTPRoute, Secret
from modelyard.kube.kinds import Object
from modelyard.operators.parts import build

PORT = 8080


def labels(greeting: Greeting) -> dict[str, str]:
    return {"app.kubernetes.io/name": "greeting", "app.kubernetes.io/instance": greeting.name}


def config(greeting: Greeting) -> Object:
    return build.config_map(greeting.name, greeting.namespace, {"index.txt": greeting.spec.text}, labels(greeting))


def key(greeting: Greeting) -> Object:
    """Empty: its content is generated once."""
    return build.obj(Secret, f"{greeting.name}-key", greeting.namespace, labels(greeting))


def deployment(greeting: Greeting, secret: Object | None, image: str) -> Object:
    content = repr((greeting.spec.text, sorted(((secret or {}).get("data") or {}).items())))
    volumes = [build.config_map_volume("text", greeting.name)]
    if greeting.spec.secret_name:
        volumes.append(build.secret_volume("secret", greeting.spec.secret_name))
    pod = {
        "containers": [
            {
                "name": "greeting",
                "image": image,
                "args": ["-m", "http.server", str(PORT)],
                "ports": [{"name": "http", "containerPort": PORT}],
                "resources": {"requests": {"cpu": "0.1", "memory": "64Mi"}},
                "volumeMounts": [build.mount("text", "/srv")],
            }
        ],
        "volumes": volumes,
    }
    return build.deployment(
        greeting.name,
        greeting.namespace,
        selector=labels(greeting),
        pod=pod,
        labels=labels(greeting),
        replicas=greeting.spec.replicas,
        pod_annotations={"demo.modelyard.dev/content": hashlib.sha256(content.encode()).hexdigest()[:16]},
    )


def service(greeting: Greeting) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return build.service(
        greeting.name, greeting.namespace, selector=labels(greeting), ports=ports, labels=labels(greeting)
    )


def route(greeting: Greeting) -> Object:
    backend = {"name": greeting.name, "port": 80}
    spec = {
        "parentRefs": [{"name": "gateway"}],
        "hostnames": [greeting.spec.host],
        "rules": [{"backendRefs": [backend]}],
    }
    return build.obj(HTTPRoute, greeting.name, greeting.namespace, labels(greeting), spec=spec)


def reader_role(greeting: Greeting) -> Object:
    """Cluster-scoped, so no owner reference can go on it: it is tracked by labels."""
    return build.obj(ClusterRole, f"greeting-{greeting.namespace}-{greeting.name}", labels=labels(greeting), rules=[])
