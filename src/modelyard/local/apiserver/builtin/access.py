"""Rules of the RBAC kinds: policy rules, role references and subjects."""

from __future__ import annotations

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import Cause, GoStruct, invalid_value, not_supported, required

GROUP = "rbac.authorization.k8s.io"


def _rules(obj: Object, *, namespaced: bool) -> list[Cause]:
    found: list[Cause] = []
    for index, rule in enumerate(obj.get("rules") or ()):
        found += _rule(rule, f"rules[{index}]", namespaced)
    return found


def _rule(rule: Object, field: str, namespaced: bool) -> list[Cause]:
    found = [] if rule.get("verbs") else [required(f"{field}.verbs")]
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            found.append(invalid_value(f"{field}.nonResourceURLs", urls, detail))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(invalid_value(f"{field}.nonResourceURLs", urls, detail))
        return found
    if not rule.get("apiGroups"):
        found.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return found


def role(obj: Object) -> list[Cause]:
    return _rules(obj, namespaced=True)


def cluster_role(obj: Object) -> list[Cause]:
    found = _rules(obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        field = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(required(field, detail))
        for index, selector in enumerate(selectors):
            wrong = checks.label_selector(selector, f"{field}[{index}]")
            found += wrong
            if wrong:
                found.append(invalid_value(f"{field}[{index}]", None, "invalid label selector."))
    return found


def _binding(obj: Object, *, namespaced: bool) -> list[Cause]:
    reference = obj.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    found = checks.one_of(reference.get("apiGroup", ""), "roleRef.apiGroup", (GROUP,))
    found += checks.one_of(reference.get("kind", ""), "roleRef.kind", kinds)
    found += checks.needs_name(reference.get("name", ""), "roleRef.name", names.path_segment)
    for index, subject in enumerate(obj.get("subjects") or ()):
        found += _subject(subject, f"subjects[{index}]", namespaced)
    return found


def _subject(subject: Object, field: str, namespaced: bool) -> list[Cause]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    found = [] if name else [required(f"{field}.name")]
    if kind == "ServiceAccount":
        if name:
            found += checks.told(f"{field}.name", name, names.dns_subdomain(name))
        if group:
            found.append(not_supported(f"{field}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(required(f"{field}.namespace"))
    elif kind in ("User", "Group"):
        found += checks.one_of(group, f"{field}.apiGroup", (GROUP,))
    else:
        found.append(not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group")))
    return found


def role_binding(obj: Object) -> list[Cause]:
    return _binding(obj, namespaced=True)


def cluster_role_binding(obj: Object) -> list[Cause]:
    return _binding(obj, namespaced=False)


def role_binding_update(new: Object, old: Object) -> list[Cause]:
    return role_binding(new) + _same_role(new, old)


def cluster_role_binding_update(new: Object, old: Object) -> list[Cause]:
    return cluster_role_binding(new) + _same_role(new, old)


def _same_role(new: Object, old: Object) -> list[Cause]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    reference = new["roleRef"]
    shown = GoStruct(APIGroup=reference.get("apiGroup"), Kind=reference.get("kind"), Name=reference.get("name"))
    return [invalid_value("roleRef", shown, checks.IMMUTABLE)]


RULES = (
    Rules(builtin.Role, role, name=names.path_segment),
    Rules(builtin.ClusterRole, cluster_role, name=names.path_segment),
    Rules(builtin.RoleBinding, role_binding, role_binding_update, name=names.path_segment),
    Rules(builtin.ClusterRoleBinding, cluster_role_binding, cluster_role_binding_update, name=names.path_segment),
)
