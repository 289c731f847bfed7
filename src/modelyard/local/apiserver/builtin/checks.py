"""The checks that many kinds share: names, labels, selectors, ports, immutable fields. Each returns the causes it found."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from modelyard.kube import names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.problems import Cause, field_forbidden, invalid_value, not_supported, required

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
NOT_INTEGER = "must be an integer"
POSITIVE = "must be greater than zero"
MAX_INT32 = 2**31 - 1
PROTOCOLS = ("SCTP", "TCP", "UDP")

_MAX_ANNOTATIONS = 256 * 1024

Check = Callable[[str], Sequence[str]]


def told(field: str, value: Any, messages: Iterable[str]) -> list[Cause]:
    """One cause for each message about the same value."""
    return [invalid_value(field, value, message) for message in messages]


def dns_label(value: str, field: str) -> list[Cause]:
    return told(field, value, names.dns_label(value))


def needs_name(value: str, field: str, check: Check) -> list[Cause]:
    return told(field, value, check(value)) if value else [required(field)]


def not_negative(value: int, field: str) -> list[Cause]:
    return [invalid_value(field, value, NOT_NEGATIVE)] if value < 0 else []


def not_negative_if_set(obj: Object, name: str, path: str) -> list[Cause]:
    value = obj.get(name)
    return not_negative(value, f"{path}.{name}") if value is not None else []


def one_of(value: str, field: str, supported: Sequence[str]) -> list[Cause]:
    return [] if value in supported else [not_supported(field, value, supported)]


def immutable(new: Any, old: Any, field: str) -> list[Cause]:
    return [] if new == old else [invalid_value(field, new, IMMUTABLE)]


def immutable_declared(new: Any, old: Any, field: str) -> list[Cause]:
    """As `immutable`, for fields where Kubernetes does not show the new value."""
    return [] if new == old else [invalid_value(field, None, IMMUTABLE)]


def labels(values: Mapping[str, str] | None, field: str) -> list[Cause]:
    found: list[Cause] = []
    for key, value in sorted((values or {}).items()):
        found += told(field, key, names.label_key(key))
        found += told(field, value, names.label_value(value))
    return found


def annotation_values(values: Mapping[str, str] | None, field: str) -> list[Cause]:
    found: list[Cause] = []
    size = 0
    for key, value in (values or {}).items():
        found += told(field, key, names.label_key(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        found.append(Cause(field, "FieldValueTooLong", f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"))
    return found


def label_selector(selector: Object | None, field: str) -> list[Cause]:
    if not selector:
        return []
    found = labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        found += _requirement(requirement, f"{field}.matchExpressions[{index}]")
    return found


def _requirement(requirement: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            found.append(
                field_forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    else:
        found.append(invalid_value(f"{field}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    found += told(f"{field}.key", key, names.label_key(key))
    for index, value in enumerate(values):
        found += told(f"{field}.values[{index}]", value, names.label_value(value))
    return found


def selector_is_usable(selector: Object) -> bool:
    """Whether Kubernetes could turn the selector into one that selects, right or wrong."""
    return not label_selector(selector, "")


def selects(selector: Object, wanted: Mapping[str, str]) -> bool:
    """Whether a label selector (as an object) matches labels; invalid requirements match nothing."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if wanted.get(key) != value:
            return False
    for requirement in selector.get("matchExpressions") or ():
        key, operator = requirement.get("key", ""), requirement.get("operator", "")
        values = requirement.get("values") or ()
        present = key in wanted
        holds = {
            "In": present and wanted.get(key) in values,
            "NotIn": not present or wanted.get(key) not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }.get(operator, False)
        if not holds:
            return False
    return True


def port_number(value: int, field: str) -> list[Cause]:
    return told(field, value, names.port_number(value))


def port_or_name(value: int | str, field: str) -> list[Cause]:
    if isinstance(value, int):
        return told(field, value, names.port_number(value))
    return told(field, value, names.port_name(value))


def qualified_name(value: str, field: str) -> list[Cause]:
    return told(field, value, names.label_key(value))


def ip_address(value: str, field: str) -> list[Cause]:
    """An address in its canonical form, as new fields ask for it."""
    if _parsed_ip(value) is None:
        return [invalid_value(field, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def _parsed_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def is_ipv6(value: str) -> bool:
    return isinstance(_parsed_ip(value), ipaddress.IPv6Address)


def cidr(value: str, field: str) -> list[Cause]:
    try:
        network = ipaddress.ip_network(value, strict=False) if "/" in value else None
    except ValueError:
        network = None
    if network is None:
        return [invalid_value(field, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    if network.network_address != ipaddress.ip_address(value.split("/")[0]):
        return [invalid_value(field, value, "must not have bits set beyond the prefix length")]
    return []


def int_or_percent(value: int | str, field: str) -> list[Cause]:
    if isinstance(value, str):
        if not names.percent(value):
            return []
        messages = names.percent(value)
        return told(field, value, messages)
    return not_negative(value, field)


def percent_value(value: int | str) -> int | None:
    """The number in `25%`; None for whole numbers."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]+%", value):
        return int(value[:-1])
    return None


def no_more_than_all(value: int | str, field: str) -> list[Cause]:
    percent = percent_value(value)
    return (
        [invalid_value(field, value, "must not be greater than 100%")] if percent is not None and percent > 100 else []
    )


def conditions(values: Sequence[Object] | None, field: str) -> list[Cause]:
    """metav1 conditions: type, status, reason and time are asked for, and types are unique."""
    found: list[Cause] = []
    seen: set[str] = set()
    for index, condition in enumerate(values or ()):
        path = f"{field}[{index}]"
        kind = condition.get("type", "")
        if kind in seen:
            found.append(Cause(path, "FieldValueDuplicate", f'Duplicate value: {{"type":"{kind}"}}'))
        seen.add(kind)
        found += told(f"{path}.type", kind, names.label_key(kind))
        if condition.get("status") not in ("True", "False", "Unknown"):
            found.append(not_supported(f"{path}.status", condition.get("status", ""), ("False", "True", "Unknown")))
        if not condition.get("reason"):
            found.append(required(f"{path}.reason", "must not be empty"))
    return found
