"""Kubernetes' CEL functions that the CEL library lacks: lists, sets, regex, url, quantity, ip, cidr and semver.

Values of Kubernetes' own types are maps with one marking key: the library cannot carry foreign types."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from modelyard.kube.quantities import parse
from modelyard.local.apiserver.structural.patterns import is_quick, matcher

_T = cel.Type
_OPAQUE = _T.Map(_T.STRING, _T.DYN)
_LIST = _T.List(_T.DYN)


def extensions() -> list[Any]:
    """What the CEL library itself has to offer beyond the core."""
    return [
        ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_math.ExtMath(), ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
    ]  # fmt: skip


def function_declarations() -> list[Any]:
    declared: dict[str, list[Any]] = {}
    for name, result, parameters, member, function in _FUNCTIONS:
        identity = f"{name}_{len(declared.get(name, ()))}_{'member' if member else 'global'}"
        overload = cel.Overload(identity, result, list(parameters), is_member=member, impl=function)
        declared.setdefault(name, []).append(overload)
    return [cel.FunctionDecl(name, overloads) for name, overloads in declared.items()]


def _date(text: str) -> datetime:
    """A value of format `date`, which is a timestamp to rules."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _is_sorted(values: Sequence[Any]) -> bool:
    return all(a <= b for a, b in pairwise(values))


def _least(values: Sequence[Any]) -> Any:
    if not values:
        raise ValueError("min called on empty list")
    return min(values)


def _greatest(values: Sequence[Any]) -> Any:
    if not values:
        raise ValueError("max called on empty list")
    return max(values)


def _distinct(values: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    out.extend(value for value in values if value not in out)
    return out


def _flatten(values: Sequence[Any]) -> list[Any]:
    return [inner for value in values for inner in (value if isinstance(value, list) else [value])]


def _find(text: str, pattern: str) -> str:
    if not matcher(pattern)(text):
        return ""
    _check_quick(text, pattern)
    match = re.search(pattern, text)
    return match[0] if match else ""


def _check_quick(text: str, pattern: str) -> None:
    if not is_quick(pattern, len(text)):
        raise ValueError("the pattern repeats too much to be searched for here: use matches, or repeat no groups")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if not matcher(pattern)(text):
        return []
    _check_quick(text, pattern)
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _url(text: str) -> dict[str, Any]:
    if not _is_url(text):
        raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return {"url": text}


def _is_url(text: str) -> bool:
    if text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
        return bool(parts.scheme) and (parts.port is None or parts.port >= 0) and " " not in text
    except ValueError:
        return False


def _host(url: dict[str, Any]) -> str:
    return str(urlsplit(url["url"]).netloc).rpartition("@")[2]


def _port(url: dict[str, Any]) -> str:
    port = urlsplit(url["url"]).port
    return "" if port is None else str(port)


def _query(url: dict[str, Any]) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url["url"]).query, keep_blank_values=True)


_NANOS = 1_000_000_000


def _quantity(text: str) -> dict[str, Any]:
    return {"quantity": str(parse(text).nanos)}


def _nanos(value: dict[str, Any]) -> int:
    return int(value["quantity"])


def _combine(sign: int) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    def run(value: dict[str, Any], other: Any) -> dict[str, Any]:
        return {"quantity": str(_nanos(value) + sign * (_nanos(other) if isinstance(other, dict) else other * _NANOS))}

    return run


def _is_integer(value: dict[str, Any]) -> bool:
    return _nanos(value) % _NANOS == 0 and -(2**63) <= _nanos(value) // _NANOS < 2**63


def _as_integer(value: dict[str, Any]) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // _NANOS


def _sort_key(value: dict[str, Any]) -> Any:
    """For comparing two quantities or two versions."""
    return _version_key(value["semver"]) if "semver" in value else _nanos(value)


def _compare(value: dict[str, Any], other: dict[str, Any]) -> int:
    a, b = _sort_key(value), _sort_key(other)
    return int(a > b) - int(a < b)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string: not allowed")
    return address


def _holds(check: Callable[[str], Any]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            check(text)
        except ValueError:
            return False
        return True

    return run


def _ip(text: str) -> dict[str, Any]:
    return {"ip": str(_address(text))}


def _network(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    if "/" not in text:
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    return ipaddress.ip_interface(text)


def _cidr(text: str) -> dict[str, Any]:
    return {"cidr": str(_network(text))}


def _contains_ip(value: dict[str, Any], other: Any) -> bool:
    address = _address(other["ip"] if isinstance(other, dict) else other)
    network = _network(value["cidr"]).network
    return address.version == network.version and address in network


def _contains_cidr(value: dict[str, Any], other: Any) -> bool:
    inner = _network(other["cidr"] if isinstance(other, dict) else other).network
    outer = _network(value["cidr"]).network
    return inner.version == outer.version and inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _family(value: dict[str, Any]) -> int:
    return ipaddress.ip_address(value["ip"]).version


def _trait(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: bool(getattr(ipaddress.ip_address(value["ip"]), name))


def _is_global_unicast(value: dict[str, Any]) -> bool:
    address = ipaddress.ip_address(value["ip"])
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def _is_link_local_multicast(value: dict[str, Any]) -> bool:
    address = ipaddress.ip_address(value["ip"])
    return address in ipaddress.ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16")


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


def _semver(text: str) -> dict[str, Any]:
    if not _SEMVER.fullmatch(text):
        raise ValueError(f"Invalid Semantic Version: {text!r}")
    return {"semver": text}


def _version_key(text: str) -> Any:
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"Invalid Semantic Version: {text!r}")
    release = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in (match[4] or "").split(".") if part]
    return (int(match[1]), int(match[2]), int(match[3])), match[4] is None, release


def _version_part(index: int) -> Callable[[dict[str, Any]], int]:
    return lambda value: int(_version_key(value["semver"])[0][index])


_FUNCTIONS: list[tuple[str, Any, Sequence[Any], bool, Callable[..., Any]]] = [
    ("dateToTimestamp", _T.TIMESTAMP, (_T.STRING,), False, _date),
    ("isSorted", _T.BOOL, (_LIST,), True, _is_sorted),
    ("sum", _T.DYN, (_LIST,), True, sum),
    ("min", _T.DYN, (_LIST,), True, _least),
    ("max", _T.DYN, (_LIST,), True, _greatest),
    ("distinct", _LIST, (_LIST,), True, _distinct),
    ("flatten", _LIST, (_LIST,), True, _flatten),
    ("slice", _LIST, (_LIST, _T.INT, _T.INT), True, lambda values, start, end: values[start:end]),
    ("sort", _LIST, (_LIST,), True, sorted),
    ("lists.range", _T.List(_T.INT), (_T.INT,), False, lambda count: list(range(count))),
    ("sets.contains", _T.BOOL, (_LIST, _LIST), False, lambda a, b: all(value in a for value in b)),
    ("sets.intersects", _T.BOOL, (_LIST, _LIST), False, lambda a, b: any(value in a for value in b)),
    ("sets.equivalent", _T.BOOL, (_LIST, _LIST), False, lambda a, b: all(v in a for v in b) and all(v in b for v in a)),
    ("find", _T.STRING, (_T.STRING, _T.STRING), True, _find),
    ("findAll", _T.List(_T.STRING), (_T.STRING, _T.STRING), True, _find_all),
    ("findAll", _T.List(_T.STRING), (_T.STRING, _T.STRING, _T.INT), True, _find_all),
    ("url", _OPAQUE, (_T.STRING,), False, _url),
    ("isURL", _T.BOOL, (_T.STRING,), False, _is_url),
    ("getScheme", _T.STRING, (_OPAQUE,), True, lambda url: urlsplit(url["url"]).scheme),
    ("getHost", _T.STRING, (_OPAQUE,), True, _host),
    ("getHostname", _T.STRING, (_OPAQUE,), True, lambda url: urlsplit(url["url"]).hostname or ""),
    ("getPort", _T.STRING, (_OPAQUE,), True, _port),
    ("getEscapedPath", _T.STRING, (_OPAQUE,), True, lambda url: urlsplit(url["url"]).path),
    ("getQuery", _T.Map(_T.STRING, _T.List(_T.STRING)), (_OPAQUE,), True, _query),
    ("quantity", _OPAQUE, (_T.STRING,), False, _quantity),
    ("isQuantity", _T.BOOL, (_T.STRING,), False, _holds(parse)),
    ("isInteger", _T.BOOL, (_OPAQUE,), True, _is_integer),
    ("asInteger", _T.INT, (_OPAQUE,), True, _as_integer),
    ("asApproximateFloat", _T.DOUBLE, (_OPAQUE,), True, lambda value: _nanos(value) / _NANOS),
    ("sign", _T.INT, (_OPAQUE,), True, lambda value: (_nanos(value) > 0) - (_nanos(value) < 0)),
    ("add", _OPAQUE, (_OPAQUE, _OPAQUE), True, _combine(1)),
    ("add", _OPAQUE, (_OPAQUE, _T.INT), True, _combine(1)),
    ("sub", _OPAQUE, (_OPAQUE, _OPAQUE), True, _combine(-1)),
    ("sub", _OPAQUE, (_OPAQUE, _T.INT), True, _combine(-1)),
    ("isLessThan", _T.BOOL, (_OPAQUE, _OPAQUE), True, lambda a, b: _compare(a, b) < 0),
    ("isGreaterThan", _T.BOOL, (_OPAQUE, _OPAQUE), True, lambda a, b: _compare(a, b) > 0),
    ("compareTo", _T.INT, (_OPAQUE, _OPAQUE), True, _compare),
    ("ip", _OPAQUE, (_T.STRING,), False, _ip),
    ("ip", _OPAQUE, (_OPAQUE,), True, lambda value: _ip(str(_network(value["cidr"]).ip))),
    ("isIP", _T.BOOL, (_T.STRING,), False, _holds(_address)),
    ("ip.isCanonical", _T.BOOL, (_T.STRING,), False, lambda text: str(_address(text)) == text),
    ("family", _T.INT, (_OPAQUE,), True, _family),
    ("isUnspecified", _T.BOOL, (_OPAQUE,), True, _trait("is_unspecified")),
    ("isLoopback", _T.BOOL, (_OPAQUE,), True, _trait("is_loopback")),
    ("isLinkLocalUnicast", _T.BOOL, (_OPAQUE,), True, _trait("is_link_local")),
    ("isLinkLocalMulticast", _T.BOOL, (_OPAQUE,), True, _is_link_local_multicast),
    ("isGlobalUnicast", _T.BOOL, (_OPAQUE,), True, _is_global_unicast),
    ("cidr", _OPAQUE, (_T.STRING,), False, _cidr),
    ("isCIDR", _T.BOOL, (_T.STRING,), False, _holds(_network)),
    ("containsIP", _T.BOOL, (_OPAQUE, _T.STRING), True, _contains_ip),
    ("containsIP", _T.BOOL, (_OPAQUE, _OPAQUE), True, _contains_ip),
    ("containsCIDR", _T.BOOL, (_OPAQUE, _T.STRING), True, _contains_cidr),
    ("containsCIDR", _T.BOOL, (_OPAQUE, _OPAQUE), True, _contains_cidr),
    ("prefixLength", _T.INT, (_OPAQUE,), True, lambda value: _network(value["cidr"]).network.prefixlen),
    ("masked", _OPAQUE, (_OPAQUE,), True, lambda value: _cidr(str(_network(value["cidr"]).network))),
    ("semver", _OPAQUE, (_T.STRING,), False, _semver),
    ("isSemver", _T.BOOL, (_T.STRING,), False, lambda text: _SEMVER.fullmatch(text) is not None),
    ("major", _T.INT, (_OPAQUE,), True, _version_part(0)),
    ("minor", _T.INT, (_OPAQUE,), True, _version_part(1)),
    ("patch", _T.INT, (_OPAQUE,), True, _version_part(2)),
]
