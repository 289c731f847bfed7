"""Everything that an installation on a cluster consists of, as objects, made from the operators' declarations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modelyard.kube.crd import definition_of
from modelyard.kube.kinds import Object
from modelyard.operators.registry import SHARED
from modelyard.runtime.declaring import rbac
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.process import guard
from modelyard.runtime.webhooks import ServiceAddress, conversion_stanza, webhook_configurations

NAME = "modelyard"
WEBHOOK_PORT = 9443
METRICS_PORT = 8443
METRICS_READER = f"{NAME}-metrics-reader"
HEALTH_PORT = 8081
CERTIFICATE_SECRET = "modelyard-webhook-certificate"
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": NAME}


@dataclass(frozen=True)
class Choice:
    """What an admin decides about an installation."""

    namespace: str = "modelyard"
    image: str = "modelyard:latest"
    replicas: int = 1
    watch_namespace: str | None = None
    """Limits everything namespaced to one namespace."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of the operators that the process is to have: the role was made for these."""


def crds(operators: Sequence[Operator], address: ServiceAddress, ca_bundle: bytes = b"") -> list[Object]:
    """The custom resource definitions; with a conversion stanza where an operator converts."""
    made = []
    for operator in operators:
        conversions = {c.definition.kind: c for c in operator.conversions}
        for definition in operator.definitions:
            crd = definition_of(definition)
            if (conversion := conversions.get(definition.kind)) is not None:
                crd["spec"]["conversion"] = conversion_stanza(conversion, address, ca_bundle=ca_bundle)
            made.append(crd)
    return made


def webhooks(operators: Sequence[Operator], address: ServiceAddress, ca_bundle: bytes = b"") -> list[Object]:
    declared = [webhook for operator in operators for webhook in operator.webhooks]
    return webhook_configurations(declared, address, ca_bundle=ca_bundle, labels=LABELS)


def webhook_service(operators: Sequence[Operator]) -> str:
    """The name that upstream's webhook Service has, so that existing configurations find it; else one of ours."""
    return _webhook_services(operators)[0][0]


def _webhook_services(operators: Sequence[Operator]) -> list[tuple[str, int]]:
    named = [(s.name, s.port) for o in operators for s in o.services if s.role == "webhook"]
    return named or [(f"{NAME}-webhooks", 443)]


def metrics_services(operators: Sequence[Operator]) -> list[str]:
    """The names that upstream's metrics Services have; else one of ours."""
    return [s.name for o in operators for s in o.services if s.role == "metrics"] or [f"{NAME}-metrics"]


def manifests(operators: Sequence[Operator], choice: Choice) -> list[Object]:
    """In an order that `kubectl apply -f -` takes."""
    address = ServiceAddress(webhook_service(operators), choice.namespace)
    controllers = [controller for operator in operators for controller in operator.controllers]
    hooks = [webhook for operator in operators for webhook in operator.webhooks]
    needed = rbac.grants(controllers, webhooks=hooks, namespace=choice.watch_namespace, home=choice.namespace)
    rbac.add_permissions(needed, guard.PERMISSIONS)
    _grant_certificates(needed, operators, choice)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choice.namespace, "labels": LABELS}},
        *crds(operators, address),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(NAME, choice)},
        *rbac.manifests(needed, NAME, NAME, choice.namespace),
        _metrics_reader(),
        *(role for operator in operators for role in operator.roles),
        *_services(operators, choice),
        _deployment(operators, choice),
        *webhooks(operators, address),
    ]


def _grant_certificates(needed: rbac.Grants, operators: Sequence[Operator], choice: Choice) -> None:
    """What keeping the serving certificate and the API's trust in it takes."""
    needed.add(choice.namespace, "", "secrets", ["create"])
    needed.add(choice.namespace, "", "secrets", ["get", "update"], (CERTIFICATE_SECRET,))
    group = "admissionregistration.k8s.io"
    for config in webhooks(operators, ServiceAddress("x", "x")):
        plural = config["kind"].lower() + "s"
        needed.add("", group, plural, ["get", "patch"], (config["metadata"]["name"],))
    for operator in operators:
        for conversion in operator.conversions:
            name = f"{conversion.definition.plural}.{conversion.definition.group}"
            needed.add("", "apiextensions.k8s.io", "customresourcedefinitions", ["get", "patch"], (name,))


def _meta(name: str, choice: Choice) -> Object:
    return {"name": name, "namespace": choice.namespace, "labels": LABELS}


def _metrics_reader() -> Object:
    """For an admin to bind to whoever scrapes."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    metadata = {"name": METRICS_READER, "labels": LABELS}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _services(operators: Sequence[Operator], choice: Choice) -> list[Object]:
    """The operators' own Services: all point to the one process that does their work."""
    ports = [(name, METRICS_PORT, METRICS_PORT) for name in metrics_services(operators)]
    if any(operator.webhooks or operator.conversions for operator in operators):
        ports += [(name, port, WEBHOOK_PORT) for name, port in _webhook_services(operators)]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _meta(name, choice),
            "spec": {
                "selector": LABELS,
                "ports": [{"name": "https", "port": port, "targetPort": target, "protocol": "TCP"}],
            },
        }
        for name, port, target in dict.fromkeys(ports)
    ]


def _deployment(operators: Sequence[Operator], choice: Choice) -> Object:
    names = ",".join(operator.name for operator in operators if operator.name not in SHARED)
    arguments = ["run", f"--operators={names}", "--lease", "--health-host=0.0.0.0", f"--health-port={HEALTH_PORT}"]
    arguments.append(f"--metrics-port={METRICS_PORT}")
    if choice.watch_namespace:
        arguments.append(f"--namespace={choice.watch_namespace}")
    container = {
        "name": "controllers",
        "image": choice.image,
        "args": arguments,
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            *({"name": name, "value": value} for name, value in sorted(choice.settings.items())),
        ],
        "ports": [
            {"name": "webhooks", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(NAME, choice),
        "spec": {
            "replicas": choice.replicas,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "terminationGracePeriodSeconds": 30,
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    }
