"""Rules of the core group's data and cluster kinds: Namespace, Secret, ConfigMap, ServiceAccount, Endpoints, Event and others."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence

import msgspec

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.pods.validation import validate_template
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
    too_long,
)

MAX_DATA = 1024 * 1024
NEW_EVENT = Kind("events.k8s.io", "v1", "Event", "events")
_FROZEN = "field is immutable when `immutable` is set"
_SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


def secret(obj: Object) -> list[Cause]:
    data = obj.get("data") or {}
    found: list[Cause] = []
    size = 0
    for key, value in sorted(data.items()):
        found += checks.told(f"data[{key}]", key, names.config_key(key))
        size += len(value) * 3 // 4
    if size > MAX_DATA:
        found.append(too_long("data", MAX_DATA))
    return found + _secret_type(obj, data)


def _secret_type(obj: Object, data: Object) -> list[Cause]:
    kind = obj.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        name = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
        return [] if name else [required("metadata.annotations[kubernetes.io/service-account.name]")]
    if kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"):
        key = "." + kind.split("/")[1]
        return _json_data(data, key)
    if kind == "kubernetes.io/basic-auth":
        if "username" in data or "password" in data:
            return []
        return [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/ssh-auth":
        return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
    if kind == "kubernetes.io/tls":
        return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _json_data(data: Object, key: str) -> list[Cause]:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        msgspec.json.decode(base64.b64decode(data[key]), type=dict)
    except (msgspec.DecodeError, ValueError):
        why = "unexpected end of JSON input" if not data[key] else "invalid character in JSON"
        return [invalid_value(f"data[{key}]", "<secret contents redacted>", why)]
    return []


def secret_update(new: Object, old: Object) -> list[Cause]:
    return _frozen(new, old, ("data",)) + secret(new) + checks.immutable(new.get("type"), old.get("type"), "type")


def _frozen(new: Object, old: Object, fields: Sequence[str]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [field_forbidden("immutable", _FROZEN)]
    return found + [field_forbidden(name, _FROZEN) for name in fields if new.get(name) != old.get(name)]


def string_data(obj: Object) -> None:
    """`stringData` is written into `data` and never read back."""
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        for key, value in plain.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _default_secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    string_data(obj)


def _keep_secret_type(new: Object, old: Object) -> None:
    if not new.get("type"):
        new["type"] = old.get("type")


def config_map(obj: Object) -> list[Cause]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    found: list[Cause] = []
    size = 0
    for key, value in data.items():
        found += checks.told(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            found.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value) if value.isascii() else len(value.encode())
    for key, value in binary.items():
        found += checks.told(f"binaryData[{key}]", key, names.config_key(key))
        size += len(value) * 3 // 4
    if size > MAX_DATA:
        # Empty field: the whole object is meant.
        found.append(too_long("[]", MAX_DATA))
    return found


def config_map_update(new: Object, old: Object) -> list[Cause]:
    return _frozen(new, old, ("data", "binaryData")) + config_map(new)


def _prepare_namespace(obj: Object) -> None:
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    if "kubernetes" not in finalizers:
        finalizers = [*finalizers, "kubernetes"]
    obj["spec"] = {"finalizers": finalizers}


def _prepare_namespace_update(new: Object, old: Object) -> None:
    new["spec"] = old.get("spec") or {}


def namespace_status(new: Object, old: Object) -> list[Cause]:
    phase = (new.get("status") or {}).get("phase", "")
    deleting = bool(new["metadata"].get("deletionTimestamp"))
    if not deleting and phase != "Active":
        detail = "may only be 'Active' if `deletionTimestamp` is empty"
        return [invalid_value("status.Phase", phase, detail)]
    if deleting and phase != "Terminating":
        detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid_value("status.Phase", phase, detail)]
    return []


def namespace_update(new: Object, old: Object) -> list[Cause]:
    return []


def endpoint_address(address: str, field: str, *, loopback: bool = True) -> list[Cause]:
    """Loopback is allowed in endpoints, unlike in Kubernetes: the laptop cluster's pods live there."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return [invalid_value(field, address, "must be a valid IP address")]
    if parsed.is_unspecified:
        return [invalid_value(field, address, f"may not be unspecified ({address})")]
    if parsed.is_loopback and not loopback:
        return [invalid_value(field, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if parsed.is_link_local:
        detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        return [invalid_value(field, address, detail)]
    if parsed in ipaddress.ip_network("224.0.0.0/24" if parsed.version == 4 else "ff02::/16"):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        return [invalid_value(field, address, detail)]
    return []


def endpoints(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            found.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for group in ("addresses", "notReadyAddresses"):
            for place, address in enumerate(subset.get(group) or ()):
                found += _endpoint(address, f"{path}.{group}[{place}]")
        ports = subset.get("ports") or ()
        for place, port in enumerate(ports):
            found += _endpoint_port(port, len(ports) > 1, f"{path}.ports[{place}]")
    return found


def _endpoint(address: Object, path: str) -> list[Cause]:
    found = checks.ip_address(address.get("ip", ""), f"{path}.ip")
    if address.get("hostname"):
        found += checks.dns_label(address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        found += checks.told(f"{path}.nodeName", address["nodeName"], names.dns_subdomain(address["nodeName"]))
    return found + endpoint_address(address.get("ip", ""), f"{path}.ip")


def _endpoint_port(port: Object, named: bool, path: str) -> list[Cause]:
    found: list[Cause] = []
    if named and not port.get("name"):
        found.append(required(f"{path}.name"))
    elif port.get("name"):
        found += checks.dns_label(port["name"], f"{path}.name")
    found += checks.port_number(port.get("port", 0), f"{path}.port")
    if port.get("protocol") not in checks.PROTOCOLS:
        found.append(not_supported(f"{path}.protocol", port.get("protocol", ""), checks.PROTOCOLS))
    return found


def endpoints_update(new: Object, old: Object) -> list[Cause]:
    return [] if new.get("subsets") == old.get("subsets") else endpoints(new)


def event(obj: Object) -> list[Cause]:
    return _event(obj, "involvedObject", "reportingComponent", "message")


def new_event(obj: Object) -> list[Cause]:
    """An Event of the group events.k8s.io, which is checked more strictly."""
    found = _event(obj, "regarding", "reportingController", "note")
    series = obj.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            found.append(invalid_value("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            found.append(required("series.lastObservedTime"))
    if not obj.get("eventTime"):
        found.append(required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        found.append(invalid_value("type", "", f"has invalid value: {obj.get('type', '')}"))
    for given, name in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ):
        if obj.get(given):
            found.append(invalid_value(name, "", "needs to be unset"))
    return found


_FROZEN_EVENT = (
    ("regarding", "involvedObject"), ("reason", "reason"), ("note", "message"), ("type", "type"), ("action", "action"),
    ("eventTime", "eventTime"), ("related", "related"), ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)  # fmt: skip


def new_event_update(new: Object, old: Object) -> list[Cause]:
    found = _event(new, "regarding", "reportingController", "note")
    for name, shown in _FROZEN_EVENT:
        found += checks.immutable(new.get(name), old.get(name), shown)
    return found


def _event(obj: Object, about: str, reporter: str, note: str) -> list[Cause]:
    place = (obj.get(about) or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    mismatch = [invalid_value("involvedObject.namespace", place, "does not match event.namespace")]
    if not obj.get("eventTime"):
        wrong = namespace not in ("", "default") if not place else namespace != place
        return mismatch if wrong else []
    found = mismatch if not place and namespace not in ("default", "kube-system") else []
    if not obj.get(reporter):
        found.append(required(reporter))
    found += checks.qualified_name(obj.get(reporter, ""), reporter)
    for name, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        if not obj.get(name):
            found.append(required(name))
        elif len(obj[name]) > limit:
            found.append(invalid_value(name, "", f"can have at most {limit} characters"))
    if len(obj.get(note, "")) > 1024:
        found.append(invalid_value("message", "", "can have at most 1024 characters"))
    return found


def limit_range(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{index}]"
        kind = item.get("type", "")
        if wrong := checks.qualified_name(kind, f"{path}.type"):
            found += wrong
        elif kind not in _LIMIT_TYPES and "/" not in kind:
            detail = "must be a standard limit type or fully qualified"
            found.append(invalid_value(f"{path}.type", kind, detail))
        if kind in seen:
            found.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        found += _limit_order(item, path)
    return found


_ORDER = (
    # What must be at most what, at which field and with which value this is said, and in which words.
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest",
     "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)  # fmt: skip


def _limit_order(item: Object, path: str) -> list[Cause]:
    found: list[Cause] = []
    names_used = {name for group in ("min", "max", "default", "defaultRequest") for name in item.get(group) or ()}
    for name in sorted(names_used):
        for low, high, field, shown, text in _ORDER:
            least, most = (item.get(low) or {}).get(name), (item.get(high) or {}).get(name)
            if least is not None and most is not None and parse(least) > parse(most):
                found.append(invalid_value(f"{path}.{field}[{name}]", item[shown][name], text.format(least, most)))
    return found


def resource_quota(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    for name, amount in sorted(((obj.get("spec") or {}).get("hard") or {}).items()):
        path = f"spec.hard[{name}]"
        found += checks.qualified_name(name, path)
        if parse(amount).nanos < 0:
            found.append(invalid_value(path, amount, checks.NOT_NEGATIVE))
    scopes = (obj.get("spec") or {}).get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            found.append(invalid_value("spec.scopes", scopes, "unsupported scope"))
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= set(scopes):
            found.append(invalid_value("spec.scopes", scopes, "conflicting scopes"))
    return found


def pod_template(obj: Object) -> list[Cause]:
    return validate_template(obj.get("template") or {}, "template")


NAMESPACE = Rules(
    builtin.Namespace,
    check_update=namespace_update,
    check_status=namespace_status,
    prepare=_prepare_namespace,
    prepare_update=_prepare_namespace_update,
    status=True,
    initial_status={"phase": "Active"},
    name=names.dns_label,
)

RULES = (
    Rules(builtin.ConfigMap, config_map, config_map_update, empties=("binaryData",)),
    Rules(
        builtin.Secret,
        secret,
        secret_update,
        default=_default_secret,
        prepare_update=_keep_secret_type,
        empties=("data",),
    ),
    Rules(builtin.ServiceAccount),
    Rules(builtin.Node, status=True, status_at_create=True),
    Rules(builtin.Endpoints, endpoints, endpoints_update),
    Rules(builtin.Event, event),
    Rules(NEW_EVENT, new_event, new_event_update),
    Rules(builtin.LimitRange, limit_range),
    Rules(builtin.ResourceQuota, resource_quota, status=True),
    Rules(builtin.PodTemplate, pod_template, generation="content"),
)
