"""RBAC: which rules a user has, from the stored roles and bindings, and whether a request is allowed by one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from modelyard.local.apiserver.requests.hooks import Attributes, Decision
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.problems import go_quote
from modelyard.local.apiserver.storage.store import Change, Store, Stored

MASTERS = "system:masters"
_ALLOWED = Decision(True)
_REMEMBERED = 8192


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One policy rule."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, attributes: Attributes) -> bool:
        if "*" not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.is_resource:
            return any(_url_matches(url, attributes.path) for url in self.non_resource_urls)
        if "*" not in self.api_groups and attributes.group not in self.api_groups:
            return False
        if not self._names_resource(attributes.resource, attributes.subresource):
            return False
        return not self.resource_names or attributes.name in self.resource_names

    def _names_resource(self, resource: str, subresource: str) -> bool:
        wanted = f"{resource}/{subresource}" if subresource else resource
        anywhere = f"*/{subresource}" if subresource else "*"
        return any(name in ("*", wanted, anywhere) for name in self.resources)


def _url_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


class _Subject(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _RoleRef(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct, rename="camel"):
    role_ref: _RoleRef
    subjects: list[_Subject] | None = None


class _Role(msgspec.Struct):
    rules: list[Rule] | None = None


_bindings = msgspec.json.Decoder(_Binding)
_roles = msgspec.json.Decoder(_Role)


@dataclass(frozen=True, slots=True)
class Grant:
    """A binding that names a subject: which role it gives, and where (empty: everywhere)."""

    namespace: str
    binding: str
    role_kind: str
    role: str
    subject: str
    """As reasons show it: `User "bob"`."""

    def __str__(self) -> str:
        if self.namespace:
            binding = f"RoleBinding {go_quote(f'{self.binding}/{self.namespace}')}"
        else:
            binding = f"ClusterRoleBinding {go_quote(self.binding)}"
        return f"{binding} of {self.role_kind} {go_quote(self.role)} to {self.subject}"


class RoleMissing(Exception):
    """A binding names a role that does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        self.role = name
        super().__init__(f"{kind.lower()}.rbac.authorization.k8s.io {go_quote(name)} not found")


@dataclass
class Held:
    """The rules a user has in a place, and what could not be found out."""

    rules: list[Rule] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Rbac:
    """The authorizer. Follows the store, so that a change of roles counts from the next request on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: dict[str, dict[tuple[str, str], list[Grant]]] = {}
        """By subject, then by binding."""
        self._rules: dict[tuple[str, str], tuple[Rule, ...]] = {}
        """By namespace (empty: ClusterRole) and name."""
        self._decisions: dict[object, Decision] = {}
        for kind in (RoleBinding, ClusterRoleBinding):
            for stored in store.items(kind.resource):
                self._bind(stored)
            store.listen(self._binding_changed, kind.resource)
        for kind in (Role, ClusterRole):
            for stored in store.items(kind.resource):
                self._rules[stored.namespace, stored.name] = _rules_of(stored)
            store.listen(self._role_changed, kind.resource)

    # Following the store.

    def _role_changed(self, change: Change) -> None:
        self._decisions.clear()
        subject = change.subject
        if change.new is None:
            self._rules.pop((subject.namespace, subject.name), None)
        else:
            self._rules[subject.namespace, subject.name] = _rules_of(change.new)

    def _binding_changed(self, change: Change) -> None:
        self._decisions.clear()
        if change.old is not None:
            for key, _ in _subject_keys(change.old):
                found = self._grants.get(key)
                if found is not None:
                    found.pop((change.old.namespace, change.old.name), None)
                    if not found:
                        del self._grants[key]
        if change.new is not None:
            self._bind(change.new)

    def _bind(self, stored: Stored) -> None:
        binding = _bindings.decode(stored.raw)
        for key, shown in _subject_keys(stored):
            grant = Grant(stored.namespace, stored.name, binding.role_ref.kind, binding.role_ref.name, shown)
            self._grants.setdefault(key, {}).setdefault((stored.namespace, stored.name), []).append(grant)

    # Asking.

    async def authorize(self, attributes: Attributes) -> Decision:
        return self.decide(attributes)

    def decide(self, attributes: Attributes) -> Decision:
        user = attributes.user
        if MASTERS in user.groups:
            return _ALLOWED
        key = (
            user.name, user.groups, attributes.verb, attributes.path if not attributes.is_resource else None, attributes.group,
            attributes.resource, attributes.subresource, attributes.namespace, attributes.name,
        )  # fmt: skip
        known = self._decisions.get(key)
        if known is not None:
            return known
        decision = self._decide(attributes)
        if len(self._decisions) >= _REMEMBERED:
            self._decisions.clear()
        self._decisions[key] = decision
        return decision

    def _decide(self, attributes: Attributes) -> Decision:
        problems: list[str] = []
        for grant in self._granted(attributes.user, attributes.namespace if attributes.is_resource else ""):
            try:
                rules = self.role(grant.role_kind, grant.role, grant.namespace)
            except RoleMissing as missing:
                problems.append(str(missing))
                continue
            for rule in rules:
                if rule.allows(attributes):
                    return Decision(True, f"RBAC: allowed by {grant}")
        return Decision(False, f"rbac: RBAC: {aggregate(problems)}" if problems else "")

    def _granted(self, user: UserInfo, namespace: str) -> Iterator[Grant]:
        """Cluster-wide grants first, then those of the namespace."""
        keys = [f"u:{user.name}", *(f"g:{group}" for group in user.groups)]
        found = [grants for key in keys if (grants := self._grants.get(key))]
        for grants in found:
            for (place, _), each in grants.items():
                if not place:
                    yield from each
        if namespace:
            for grants in found:
                for (place, _), each in grants.items():
                    if place == namespace:
                        yield from each

    def role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """A role's rules. Raises RoleMissing."""
        rules = self._rules.get((namespace if kind == "Role" else "", name))
        if rules is None:
            raise RoleMissing(kind, name)
        return rules

    def held(self, user: UserInfo, namespace: str) -> Held:
        """All rules that a user has in a namespace (empty: cluster-wide ones only)."""
        held = Held()
        for grant in self._granted(user, namespace):
            try:
                held.rules += self.role(grant.role_kind, grant.role, grant.namespace)
            except RoleMissing as missing:
                held.problems.append(str(missing))
        return held


def aggregate(problems: list[str]) -> str:
    """Several errors as one text, as Go shows them."""
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _rules_of(stored: Stored) -> tuple[Rule, ...]:
    return tuple(_roles.decode(stored.raw).rules or ())


def _subject_keys(stored: Stored) -> list[tuple[str, str]]:
    """The keys under which a binding's subjects are found, with how each is shown."""
    found: list[tuple[str, str]] = []
    for subject in _bindings.decode(stored.raw).subjects or ():
        if subject.kind == "User":
            found.append((f"u:{subject.name}", f"User {go_quote(subject.name)}"))
        elif subject.kind == "Group":
            found.append((f"g:{subject.name}", f"Group {go_quote(subject.name)}"))
        elif subject.kind == "ServiceAccount":
            namespace = subject.namespace or stored.namespace
            shown = f"ServiceAccount {go_quote(f'{subject.name}/{namespace}')}"
            found.append((f"u:system:serviceaccount:{namespace}:{subject.name}", shown))
    return found
