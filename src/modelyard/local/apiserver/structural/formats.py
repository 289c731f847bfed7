"""The string formats that Kubernetes checks in custom resources. A format that is not here is not checked."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr

Check = Callable[[str], bool]


def format_check(name: str, type_name: str) -> Check | None:
    """The check of a string format; None where Kubernetes accepts everything."""
    return _CHECKS.get(name.replace("-", "")) if type_name in ("", "string") else None


def is_known_format(name: str, type_name: str) -> bool:
    """Whether Kubernetes keeps the format of a schema of this type; it forgets others."""
    if type_name in ("", "string"):
        return name.replace("-", "") in _CHECKS
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(type_name, ())


def _matching(pattern: str, flags: int = 0) -> Check:
    # `re` keeps what it compiled; most of these patterns are never used.
    return lambda text: re.fullmatch(pattern, text, flags | re.ASCII) is not None


def _is_uri(text: str) -> bool:
    """An absolute URI or an absolute path."""
    if not text or any(ord(char) < 0x20 or char == "\x7f" for char in text):
        return False
    if re.search(r"%(?![0-9a-fA-F]{2})", text.partition("?")[0]):
        return False
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", text, re.ASCII | re.DOTALL)
    if scheme is None:
        return text.startswith("/")
    rest = scheme[2]
    if not rest.startswith("//"):
        # Opaque URIs (mailto:x) are not request URIs, but Go accepts them.
        return True
    authority = re.split(r"[/?#]", rest[2:], maxsplit=1)[0]
    host = authority.rpartition("@")[2]
    port = host.rpartition(":")[2] if re.search(r":[^\]]*$", host) else ""
    return " " not in host and (not port or port.isdigit()) and not re.search(r'[<>"^`{}|\\]', host)


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain) and " " not in address and "\n" not in text


_LETTER = r"[a-zA-Z0-9\u00a1-\U0010ffff]"
# `re` keeps what it compiled, when it is first used: most formats never are.
_HOSTNAME = rf"({_LETTER}((-?{_LETTER}{{0,62}})?)|({_LETTER}(({_LETTER}|-){{0,61}}{_LETTER})?\.)+[a-zA-Z\u00a1-\U0010ffff]{{2,63}})"


def _is_hostname(text: str) -> bool:
    return (
        len(text.encode()) <= 255
        and all(len(part.encode()) <= 63 for part in text.split("."))
        and re.fullmatch(_HOSTNAME, text) is not None
    )


def _is_ipv4(text: str) -> bool:
    if ":" in text:
        return "." in text and _is_ipv6(text)
    parts = text.split(".")
    return len(parts) == 4 and all(p.isascii() and p.isdigit() and len(p) <= 3 and int(p) <= 255 for p in parts)


def _is_ipv6(text: str) -> bool:
    if ":" not in text or "%" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit() or (len(length) > 1 and length[0] == "0"):
        return False
    if ":" in address:
        return _is_ipv6(address) and int(length) <= 128
    return _is_ipv4(address) and int(length) <= 32


def _is_mac(text: str) -> bool:
    for separator, width in ((":", 2), ("-", 2), (".", 4)):
        if separator in text:
            groups = text.split(separator)
            count = len(groups) * width // 2
            return count in (6, 8, 20) and all(re.fullmatch(rf"[0-9a-fA-F]{{{width}}}", group) for group in groups)
    return False


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    total = sum((index + 1) * int(digit) for index, digit in enumerate(digits[:9]))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum((1, 3)[index % 2] * int(digit) for index, digit in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


_CARDS = r"4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35\d{3})\d{11}"


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not re.fullmatch(_CARDS, digits):
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(n // 10 + n % 10 for n in doubled) % 10 == 0


def _is_base64(text: str) -> bool:
    if not text or len(text) % 4 or "\n" in text:
        return False
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        # Go knows the year 0.
        return text.startswith("0000-") and _is_date("2000" + text[4:])
    return True


_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))"


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = re.fullmatch(_TIME, parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_GO_DURATION = (
    r"[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)"
)
_LONG_DURATION = r"((\d+)\s*([A-Za-zµ]+))"
_LONG_UNITS = r"(?i:ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*)"


def _is_duration(text: str) -> bool:
    if re.fullmatch(_GO_DURATION, text):
        return True
    return any(re.fullmatch(_LONG_UNITS, match[3]) for match in re.finditer(_LONG_DURATION, text))


_SHORT_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_short_name = _matching(_SHORT_NAME)
_long_name = _matching(rf"{_SHORT_NAME}(\.{_SHORT_NAME})*")
_ssn = _matching(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_BYTE = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

_CHECKS: dict[str, Check] = {
    "bsonobjectid": _matching(r"[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _matching(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE),
    "uuid3": _matching(r"[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE),
    "uuid4": _matching(r"[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE),
    "uuid5": _matching(r"[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == 11 and _ssn(text),
    "hexcolor": _matching(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "byte": _is_base64,
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _short_name(text),
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
}
