"""Nobody may grant rights without having them: the checks on writes of roles and bindings, in Kubernetes' own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.auth.rbac import MASTERS, Rbac, RoleMissing, Rule, aggregate
from modelyard.local.apiserver.requests.hooks import Admission, Attributes
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.problems import forbidden, go_quote, not_found

GUARDED: frozenset[Kind] = frozenset((Role, ClusterRole, RoleBinding, ClusterRoleBinding))
_ENDING = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
_ALL = Rule(verbs=("*",), api_groups=("*",), resources=("*",))
_ALL_URLS = Rule(verbs=("*",), non_resource_urls=("*",))


class EscalationGuard:
    """Looks at writes of RBAC objects by users outside of `system:masters`."""

    def __init__(self, rbac: Rbac) -> None:
        self._rbac = rbac

    def concerns(self, admission: Admission) -> bool:
        return (
            admission.resource.kind in GUARDED
            and admission.operation in ("CREATE", "UPDATE")
            and MASTERS not in admission.user.groups
        )

    def check(self, admission: Admission, obj: Object, old: Object | None) -> None:
        """Raises a Problem where the write would grant more than the writer has."""
        kind = admission.resource.kind
        if old is not None and _only_ends(obj, old):
            return
        if kind in (Role, ClusterRole):
            self._check_role(admission, obj, old)
        else:
            self._check_binding(admission, obj)

    def _check_role(self, admission: Admission, obj: Object, old: Object | None) -> None:
        kind, name = admission.resource.kind, obj["metadata"].get("name", "")
        # The name in the path: a new object has none there.
        if self._may(admission, "escalate", kind, name if old is not None else ""):
            return
        rules = [_rule(each) for each in obj.get("rules") or ()]
        self._confirm(admission, name, rules)
        if any(each is not None and each.get("aggregationRule") is not None for each in (obj, old)):
            problems = self._missing(admission.user, "", (_ALL, _ALL_URLS))
            if problems:
                raise forbidden(kind, name, "must have cluster-admin privileges to use the aggregationRule")

    def _check_binding(self, admission: Admission, obj: Object) -> None:
        kind, name = admission.resource.kind, obj["metadata"].get("name", "")
        reference = obj.get("roleRef") or {}
        role_kind = Role if reference.get("kind") == "Role" else ClusterRole
        role_name = reference.get("name", "")
        if self._may(admission, "bind", role_kind, role_name):
            return
        try:
            rules = self._rbac.role(role_kind.kind, role_name, admission.namespace)
        except RoleMissing:
            raise not_found(kind, role_name) from None
        self._confirm(admission, name, rules)

    def _may(self, admission: Admission, verb: str, kind: Kind, name: str) -> bool:
        namespace = admission.namespace
        attributes = Attributes(
            admission.user,
            verb,
            kind.path(namespace, name),
            True,
            kind.group,
            kind.version,
            kind.plural,
            "",
            namespace,
            name,
        )
        return self._rbac.decide(attributes).allowed

    def _confirm(self, admission: Admission, name: str, rules: Sequence[Rule]) -> None:
        missing = self._missing(admission.user, admission.namespace, rules)
        if not missing:
            return
        user = admission.user
        groups = " ".join(go_quote(group) for group in user.groups)
        lines = "\n".join(sorted(show(rule) for rule in compact(missing)))
        why = f"user {go_quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{lines}"
        problems = self._rbac.held(user, admission.namespace).problems
        if problems:
            why += f"; resolution errors: {aggregate(problems)}"
        raise forbidden(admission.resource.kind, name, why)

    def _missing(self, user: UserInfo, namespace: str, rules: Sequence[Rule]) -> list[Rule]:
        held = self._rbac.held(user, namespace).rules
        return [part for rule in rules for part in parts(rule) if not any(covers(own, part) for own in held)]


def _only_ends(obj: Object, old: Object) -> bool:
    """Whether nothing changes but what the garbage collector needs to end an object. A label is not of that kind: it can
    make a role part of an aggregated one."""
    return _lasting(obj) == _lasting(old)


def _lasting(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _ENDING and value}
    return {**obj, "metadata": metadata}


def _rule(obj: Object) -> Rule:
    return Rule(
        tuple(obj.get("verbs") or ()),
        tuple(obj.get("apiGroups") or ()),
        tuple(obj.get("resources") or ()),
        tuple(obj.get("resourceNames") or ()),
        tuple(obj.get("nonResourceURLs") or ()),
    )


def parts(rule: Rule) -> Iterator[Rule]:
    """A rule as the smallest rules that together say the same."""
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                if not rule.resource_names:
                    yield Rule((verb,), (group,), (resource,))
                for name in rule.resource_names:
                    yield Rule((verb,), (group,), (resource,), (name,))
    for url in rule.non_resource_urls:
        for verb in rule.verbs:
            yield Rule((verb,), non_resource_urls=(url,))


def covers(own: Rule, part: Rule) -> bool:
    """Whether a rule allows all that a smallest rule does."""
    if "*" not in own.verbs and part.verbs[0] not in own.verbs:
        return False
    if part.non_resource_urls:
        return any(_url_covers(url, part.non_resource_urls[0]) for url in own.non_resource_urls)
    if "*" not in own.api_groups and part.api_groups[0] not in own.api_groups:
        return False
    if not _resource_covers(own.resources, part.resources[0]):
        return False
    if not own.resource_names:
        return True
    return bool(part.resource_names) and part.resource_names[0] in own.resource_names


def _resource_covers(own: Sequence[str], wanted: str) -> bool:
    if "*" in own or wanted in own:
        return True
    _, slash, sub = wanted.partition("/")
    return bool(slash) and f"*/{sub}" in own


def _url_covers(own: str, wanted: str) -> bool:
    if own in ("*", wanted):
        return True
    return own.endswith("*") and wanted.startswith(own.rstrip("*"))


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """Smallest rules about the same resource become one with all their verbs."""
    merged: dict[tuple[object, ...], Rule] = {}
    for rule in rules:
        key = (rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls)
        known = merged.get(key)
        if known is None:
            merged[key] = rule
        elif rule.non_resource_urls:
            merged[(*key, rule.verbs)] = rule
        else:
            merged[key] = _with_verbs(known, tuple(dict.fromkeys((*known.verbs, *rule.verbs))))
    return list(merged.values())


def _with_verbs(rule: Rule, verbs: tuple[str, ...]) -> Rule:
    return Rule(verbs, rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls)


def show(rule: Rule) -> str:
    """A rule as Kubernetes prints it."""
    shown: list[str] = []
    for title, values in (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    ):
        if values:
            shown.append(f"{title}:[{' '.join(go_quote(value) for value in values)}]")
    return "{" + ", ".join(shown) + "}"
