"""What Kubernetes refuses in a pod spec, on its own or in a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from modelyard.kube import names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.pods.containers import seccomp_profile, validate_containers
from modelyard.local.apiserver.builtin.pods.volumes import validate_volumes
from modelyard.local.apiserver.requests.problems import (
    Cause,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_template(template: Object, field: str) -> list[Cause]:
    metadata = template.get("metadata") or {}
    found = checks.labels(metadata.get("labels"), f"{field}.labels")
    found += checks.annotation_values(metadata.get("annotations"), f"{field}.annotations")
    found += validate_pod_spec(template.get("spec") or {}, f"{field}.spec")
    if (template.get("spec") or {}).get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        found.append(field_forbidden(f"{field}.spec.ephemeralContainers", detail))
    return found


def validate_pod_spec(spec: Object, field: str) -> list[Cause]:
    volumes, found = validate_volumes(spec.get("volumes") or (), f"{field}.volumes")
    found += validate_containers(spec, volumes, field)
    found += _policies(spec, field)
    found += checks.labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    found += _security_context(spec, field)
    found += _affinity(spec.get("affinity") or {}, f"{field}.affinity")
    found += _gates(spec, field)
    found += _spread(spec.get("topologySpreadConstraints") or (), f"{field}.topologySpreadConstraints")
    for name, check in _NAMES.items():
        if spec.get(name):
            found += checks.told(f"{field}.{name}", spec[name], check(spec[name]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= checks.MAX_INT32:
        found.append(invalid_value(f"{field}.activeDeadlineSeconds", deadline, names.in_range(1, checks.MAX_INT32)))
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            found += checks.dns_label(spec[name], f"{field}.{name}")
    found += validate_tolerations(spec.get("tolerations") or (), f"{field}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        path = f"{field}.hostAliases[{index}]"
        found += checks.ip_address(alias.get("ip", ""), f"{path}.ip")
        for place, host in enumerate(alias.get("hostnames") or ()):
            found += checks.told(f"{path}.hostnames[{place}]", host, names.dns_subdomain(host))
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        found += checks.told(f"{field}.priorityClassName", name, names.dns_subdomain(name))
    return found


_NAMES: dict[str, Callable[[str], Sequence[str]]] = {
    "serviceAccountName": names.dns_subdomain,
    "nodeName": names.dns_subdomain,
}


def _policies(spec: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    if spec.get("restartPolicy") not in _RESTART:
        found.append(not_supported(f"{field}.restartPolicy", spec.get("restartPolicy", ""), _RESTART))
    if spec.get("dnsPolicy") not in _DNS:
        found.append(not_supported(f"{field}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS))
    config = spec.get("dnsConfig") or {}
    servers = config.get("nameservers") or ()
    if spec.get("dnsPolicy") == "None":
        if not config:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            found.append(required(f"{field}.dnsConfig", detail))
        elif not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.append(required(f"{field}.dnsConfig.nameservers", detail))
    if len(servers) > 3:
        detail = "must not have more than 3 nameservers"
        found.append(invalid_value(f"{field}.dnsConfig.nameservers", list(servers), detail))
    for index, server in enumerate(servers):
        found += checks.ip_address(server, f"{field}.dnsConfig.nameservers[{index}]")
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            found.append(required(f"{field}.dnsConfig.options[{index}]", "must not be empty"))
    return found


def _security_context(spec: Object, field: str) -> list[Cause]:
    context = spec.get("securityContext") or {}
    found: list[Cause] = []
    path = f"{field}.securityContext"
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        value = context.get(name)
        if value is not None and not 0 <= value <= checks.MAX_INT32:
            found.append(invalid_value(f"{path}.{name}", value, names.in_range(0, checks.MAX_INT32)))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= checks.MAX_INT32:
            detail = names.in_range(0, checks.MAX_INT32)
            found.append(invalid_value(f"{path}.supplementalGroups[{index}]", group, detail))
    found += seccomp_profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    found += _sysctls(context.get("sysctls") or (), f"{path}.sysctls")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid_value(f"{field}.shareProcessNamespace", True, detail))
    return found


def _sysctls(sysctls: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, path = sysctl.get("name", ""), f"{field}[{index}].name"
        if not name:
            found.append(required(path))
        elif len(name) > names.DNS_SUBDOMAIN_MAX or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most {names.DNS_SUBDOMAIN_MAX} characters and match regex ^{_SYSCTL}$"
            found.append(invalid_value(path, name, detail))
        elif name in seen:
            found.append(duplicate(path, name))
        seen.add(name)
    return found


def _gates(spec: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        found += checks.qualified_name(gate.get("conditionType", ""), f"{field}.readinessGates[{index}].conditionType")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        path = f"{field}.schedulingGates[{index}]"
        found += checks.qualified_name(name, f"{path}.name")
        if name in seen:
            found.append(duplicate(path, name))
        seen.add(name)
    return found


def validate_tolerations(tolerations: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, toleration in enumerate(tolerations):
        path = f"{field}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            found += checks.qualified_name(key, f"{path}.key")
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(invalid_value(f"{path}.operator", operator, detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(invalid_value(f"{path}.effect", effect, detail))
        if operator in ("Equal", ""):
            if wrong := names.label_value(value):
                found.append(invalid_value(f"{path}.operator", value, ";".join(wrong)))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                found.append(invalid_value(f"{path}.operator", value, detail))
        else:
            found.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            found.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return found


def _affinity(affinity: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    needed = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    path = f"{field}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if needed is not None:
        terms = needed.get("nodeSelectorTerms") or ()
        if not terms:
            found.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        for index, term in enumerate(terms):
            found += _node_term(term, f"{path}.nodeSelectorTerms[{index}]")
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        path = f"{field}.{name}"
        for index, term in enumerate(pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            found += _pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
        for index, weighted in enumerate(pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            inner = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            if not 1 <= weighted.get("weight", 0) <= 100:
                found.append(invalid_value(f"{inner}.weight", weighted.get("weight", 0), "must be in the range 1-100"))
            found += _pod_term(weighted.get("podAffinityTerm") or {}, f"{inner}.podAffinityTerm")
    return found


def _node_term(term: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                found.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                found.append(field_forbidden(f"{path}.values", detail))
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                found.append(required(f"{path}.values", detail))
        else:
            found.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
        found += checks.qualified_name(requirement.get("key", ""), f"{path}.key")
        for place, value in enumerate(values):
            found += checks.told(f"{path}.values[{place}]", value, names.label_value(value))
    return found


def _pod_term(term: Object, field: str) -> list[Cause]:
    found = checks.label_selector(term.get("labelSelector"), f"{field}.labelSelector")
    found += checks.label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    topology = term.get("topologyKey", "")
    if not topology:
        found.append(required(f"{field}.topologyKey", "can not be empty"))
    return found + checks.qualified_name(topology, f"{field}.topologyKey")


def _spread(constraints: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, constraint in enumerate(constraints):
        path = f"{field}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            found.append(invalid_value(f"{path}.maxSkew", constraint.get("maxSkew", 0), checks.POSITIVE))
        if not constraint.get("topologyKey"):
            found.append(required(f"{path}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable", "")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            found.append(not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        found += checks.label_selector(constraint.get("labelSelector"), f"{path}.labelSelector")
    return found
