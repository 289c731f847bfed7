"""The webhooks that are registered right now, in the order in which they are called, and which of them a request concerns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from modelyard.kube.builtin import MutatingWebhookConfiguration, Namespace, ValidatingWebhookConfiguration
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.selectors import LabelSelector, from_object
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import internal_error
from modelyard.local.apiserver.served.resources import Registry, ServedResource
from modelyard.local.apiserver.storage.store import Store

_EXEMPT = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)


@dataclass(frozen=True, slots=True)
class HookRule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    scope: str

    def matches(self, admission: Admission, resource: ServedResource) -> bool:
        kind = resource.kind
        return (
            _has(self.operations, admission.operation)
            and _has(self.groups, kind.group)
            and _has(self.versions, kind.version)
            and self._scope_fits(admission, kind)
            and self._names(kind.plural, admission.subresource)
        )

    def _scope_fits(self, admission: Admission, kind: Kind) -> bool:
        if self.scope == "*":
            return True
        # A namespace counts as cluster-scoped, although requests about it carry its name as namespace.
        namespaced = kind.namespaced and kind != Namespace
        return namespaced == (self.scope == "Namespaced")

    def _names(self, plural: str, subresource: str) -> bool:
        # A wildcard for subresources stands for the resource itself, too.
        if not subresource:
            return bool(self.resources & {"*", "*/*", plural, f"{plural}/*"})
        return bool(self.resources & {"*/*", f"{plural}/{subresource}", f"*/{subresource}", f"{plural}/*"})


def _has(values: frozenset[str], wanted: str) -> bool:
    return "*" in values or wanted in values


@dataclass(frozen=True)
class Webhook:
    """One webhook of one configuration."""

    configuration: str
    config: Object
    mutating: bool
    position: int
    rules: tuple[HookRule, ...] = field(init=False)

    def __post_init__(self) -> None:
        rules = tuple(
            HookRule(
                frozenset(rule.get("operations") or ()),
                frozenset(rule.get("apiGroups") or ()),
                frozenset(rule.get("apiVersions") or ()),
                frozenset(rule.get("resources") or ()),
                rule.get("scope") or "*",
            )
            for rule in self.config.get("rules") or ()
        )
        object.__setattr__(self, "rules", rules)

    @property
    def name(self) -> str:
        return str(self.config.get("name", ""))

    @property
    def key(self) -> tuple[str, int]:
        return self.configuration, self.position

    @property
    def ignores_failures(self) -> bool:
        return self.config.get("failurePolicy") == "Ignore"

    @property
    def reinvoked(self) -> bool:
        return self.config.get("reinvocationPolicy") == "IfNeeded"

    @property
    def seconds(self) -> int:
        return int(self.config.get("timeoutSeconds") or 10)

    @property
    def quiet_on_dry_run(self) -> bool:
        return self.config.get("sideEffects") in ("None", "NoneOnDryRun")

    @cached_property
    def namespace_selector(self) -> LabelSelector:
        return from_object(self.config.get("namespaceSelector") or {})

    @cached_property
    def object_selector(self) -> LabelSelector:
        return from_object(self.config.get("objectSelector") or {})


@dataclass(frozen=True, slots=True)
class Invocation:
    """A webhook to call, and the version of the resource it asked for."""

    webhook: Webhook
    resource: ServedResource


class Webhooks:
    """Follows the stored configurations."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._known: dict[bool, tuple[Webhook, ...] | None] = {}
        for kind in _EXEMPT:
            store.listen(lambda _: self._known.clear(), kind.resource)

    def all(self, *, mutating: bool) -> tuple[Webhook, ...]:
        """By name of configuration, then in its order."""
        known = self._known.get(mutating)
        if known is None:
            kind = MutatingWebhookConfiguration if mutating else ValidatingWebhookConfiguration
            known = tuple(
                Webhook(stored.name, config, mutating, position)
                for stored in self._store.items(kind.resource)
                for position, config in enumerate(stored.decode().get("webhooks") or ())
            )
            self._known[mutating] = known
        return known

    def concern(self, admission: Admission) -> bool:
        """Whether any webhook has a rule for such a request; selectors are looked at later."""
        webhooks = self.all(mutating=True) + self.all(mutating=False)
        return bool(webhooks) and any(self._match(webhook, admission) is not None for webhook in webhooks)

    def _match(self, webhook: Webhook, admission: Admission) -> Invocation | None:
        resource = admission.resource
        if resource.kind in _EXEMPT:
            return None
        if any(rule.matches(admission, resource) for rule in webhook.rules):
            return Invocation(webhook, resource)
        if webhook.config.get("matchPolicy") == "Exact":
            return None
        others = [
            each
            for each in self._registry.versions_of(resource.kind.group, resource.kind.plural)
            if each is not resource
        ]
        for rule in webhook.rules:
            for other in others:
                if rule.matches(admission, other):
                    return Invocation(webhook, other)
        return None

    def invocation(
        self, webhook: Webhook, admission: Admission, obj: Object | None, old: Object | None
    ) -> Invocation | None:
        """The call to make, where rules and selectors match."""
        found = self._match(webhook, admission)
        if found is None or not self._namespace_matches(webhook, admission, obj):
            return None
        if not webhook.object_selector.empty and not any(
            webhook.object_selector.matches(_labels(each)) for each in (obj, old) if each is not None
        ):
            return None
        return found

    def _namespace_matches(self, webhook: Webhook, admission: Admission, obj: Object | None) -> bool:
        selector = webhook.namespace_selector
        if selector.empty:
            return True
        kind = admission.resource.kind
        if kind == Namespace:
            if obj is not None:
                return selector.matches(_labels(obj))
            stored = self._store.get(Namespace.resource, "", admission.name)
            return selector.matches((stored.labels if stored else None) or {})
        if not kind.namespaced:
            return True
        stored = self._store.get(Namespace.resource, "", admission.namespace)
        if stored is None:
            raise internal_error(f"failed to find the namespace {admission.namespace} for the webhook {webhook.name}")
        return selector.matches(stored.labels or {})


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels
