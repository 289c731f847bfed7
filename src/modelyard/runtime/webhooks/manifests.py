"""Webhook configurations and conversion stanzas from the declarations."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.webhooks.declarations import Conversion, Webhook


@dataclass(frozen=True)
class ServiceAddress:
    """Where the API finds the webhooks: a Service, or (outside a cluster) a URL that paths are added to."""

    name: str = ""
    namespace: str = ""
    port: int = 443
    url: str = ""

    def client_config(self, path: str, ca_bundle: bytes = b"") -> Object:
        config: Object
        if self.url:
            config = {"url": self.url.rstrip("/") + path}
        else:
            config = {"service": {"name": self.name, "namespace": self.namespace, "path": path, "port": self.port}}
        if ca_bundle:
            config["caBundle"] = base64.b64encode(ca_bundle).decode()
        return config


def webhook_configurations(
    webhooks: Sequence[Webhook],
    address: ServiceAddress,
    *,
    ca_bundle: bytes = b"",
    labels: dict[str, str] | None = None,
) -> list[Object]:
    """One configuration object for each name and type that the webhooks name."""
    made: dict[tuple[str, str], Object] = {}
    for webhook in webhooks:
        kind = "MutatingWebhookConfiguration" if webhook.type == "mutating" else "ValidatingWebhookConfiguration"
        name = webhook.configuration or f"modelyard-{webhook.type}"
        metadata: Object = {"name": name} | ({"labels": dict(labels)} if labels else {})
        configuration = made.setdefault(
            (kind, name),
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": metadata,
                "webhooks": [],
            },
        )
        configuration["webhooks"].append(_entry(webhook, address, ca_bundle))
    return list(made.values())


def _entry(webhook: Webhook, address: ServiceAddress, ca_bundle: bytes) -> Object:
    entry: Object = {
        "name": webhook.name,
        "admissionReviewVersions": list(webhook.review_versions),
        "clientConfig": address.client_config(webhook.path, ca_bundle),
        "rules": list(webhook.rules) or rules_for(webhook.kinds, webhook.operations),
        "failurePolicy": webhook.failure_policy,
        "matchPolicy": webhook.match_policy,
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": webhook.timeout,
    }
    if webhook.type == "mutating":
        entry["reinvocationPolicy"] = webhook.reinvocation_policy
    if webhook.namespace_selector:
        entry["namespaceSelector"] = webhook.namespace_selector
    if webhook.object_selector:
        entry["objectSelector"] = webhook.object_selector
    if webhook.match_conditions:
        entry["matchConditions"] = list(webhook.match_conditions)
    return entry


def rules_for(kinds: Iterable[Kind], operations: Sequence[str]) -> list[Object]:
    """One rule a resource, with all of its versions."""
    versions: dict[tuple[str, str, bool], list[str]] = {}
    for kind in kinds:
        versions.setdefault((kind.group, kind.plural, kind.namespaced), []).append(kind.version)
    return [
        {
            "apiGroups": [group],
            "apiVersions": found,
            "operations": list(operations),
            "resources": [plural],
            "scope": "Namespaced" if namespaced else "Cluster",
        }
        for (group, plural, namespaced), found in versions.items()
    ]


def conversion_stanza(conversion: Conversion, address: ServiceAddress, *, ca_bundle: bytes = b"") -> Object:
    """`spec.conversion` of the CRD."""
    return {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": address.client_config(conversion.path, ca_bundle),
            "conversionReviewVersions": list(conversion.review_versions),
        },
    }
