"""Which strategy a built-in kind has: from the tables of rules, or one of its own."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind
from modelyard.local.apiserver.builtin import (
    access,
    apps,
    autoscaling,
    batch,
    claims,
    cluster,
    core,
    networking,
    webhooks,
)
from modelyard.local.apiserver.builtin.certificates import SIGNING_REQUEST, SigningRequestStrategy
from modelyard.local.apiserver.builtin.namespaces import NamespaceStrategy
from modelyard.local.apiserver.builtin.pods.behavior import PodStrategy
from modelyard.local.apiserver.builtin.rules import BuiltinStrategy, Rules
from modelyard.local.apiserver.builtin.service_network import ServiceNetwork
from modelyard.local.apiserver.builtin.services import ServiceStrategy
from modelyard.local.apiserver.served.resources import Strategy

_MODULES = (core, apps, batch, networking, autoscaling, access, claims, cluster, webhooks)


class BuiltinStrategies:
    """Hands out strategies; call it with a kind and whether it has a status. Services share one network."""

    def __init__(self, network: ServiceNetwork | None = None) -> None:
        self.network = network or ServiceNetwork()
        self._rules = {rules.kind: rules for module in _MODULES for rules in module.RULES}

    def __call__(self, kind: Kind, has_status: bool) -> Strategy:
        if kind == builtin.Pod:
            return PodStrategy()
        if kind == builtin.Service:
            return ServiceStrategy(self.network)
        if kind == builtin.Namespace:
            return NamespaceStrategy()
        if kind == SIGNING_REQUEST:
            return SigningRequestStrategy()
        return BuiltinStrategy(self._rules.get(kind) or Rules(kind, status=has_status))
