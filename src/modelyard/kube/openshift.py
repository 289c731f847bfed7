"""OpenShift: the one answer to whether a cluster is one, and the names that its service CA listens to."""

from __future__ import annotations

from typing import Protocol

from modelyard.kube.builtin import ConsoleLink, Route
from modelyard.kube.kinds import Kind

PLATFORMS = ("kubernetes", "openshift")
"""What a laptop cluster or an offline plan can be like."""
MARKS = (Route, ConsoleLink)
"""Kinds that only OpenShift serves. One of them is enough: the console can be left out of a cluster.
A controller that asks `is_openshift` declares `asks=MARKS`, so that it is woken when the answer changes."""
SERVING_CERTIFICATE = "service.beta.openshift.io/serving-cert-secret-name"
"""Annotation of a Service: the Secret in which it wants a serving certificate. We understand it as OpenShift does."""
INJECT_CA = "service.beta.openshift.io/inject-cabundle"
"""Annotation of a ConfigMap: `"true"` asks for the CA that signs serving certificates."""


class Serves(Protocol):
    """Whoever knows what the API serves: a World, a webhook's reader, discovery."""

    def serves(self, kind: Kind) -> bool: ...


def is_openshift(api: Serves) -> bool:
    """Is this cluster an OpenShift cluster, as far as its API says right now?"""
    return any(api.serves(kind) for kind in MARKS)
