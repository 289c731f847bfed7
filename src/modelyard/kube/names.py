"""Checks of names, label keys and label values with Kubernetes' own rules and messages; each returns what is wrong, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

DNS_LABEL_MAX = 63
DNS_SUBDOMAIN_MAX = 253

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_DNS_SUBDOMAIN}"
_LABEL_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_NAME})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HTTP_HEADER = "[-A-Za-z0-9]+"

_dns_label = re.compile(_DNS_LABEL).fullmatch
_dns_subdomain = re.compile(_DNS_SUBDOMAIN).fullmatch
_dns_1035 = re.compile(_DNS_1035).fullmatch
_wildcard = re.compile(_WILDCARD).fullmatch
_label_name = re.compile(_LABEL_NAME).fullmatch
_label_value = re.compile(_LABEL_VALUE).fullmatch
_config_key = re.compile(_CONFIG_KEY).fullmatch
_percent = re.compile(_PERCENT).fullmatch
_http_header = re.compile(_HTTP_HEADER).fullmatch
_port_charset = re.compile("[-a-z0-9]+").fullmatch
_port_letter = re.compile("[a-z]").search

_ENDS = "must start and end with an alphanumeric character"


def _pattern_message(rule: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _size(value: str) -> int:
    """The length Kubernetes counts: bytes."""
    return len(value) if value.isascii() else len(value.encode())


@lru_cache(maxsize=1024)
def dns_label(value: str) -> tuple[str, ...]:
    """What is wrong with a DNS-1123 label, such as a namespace's name."""
    wrong = [too_long(DNS_LABEL_MAX)] if _size(value) > DNS_LABEL_MAX else []
    if not _dns_label(value):
        if _dns_subdomain(value):
            wrong.append("must not contain dots")
        else:
            rule = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}"
            wrong.append(_pattern_message(rule, _DNS_LABEL, "my-name", "123-abc"))
    return tuple(wrong)


@lru_cache(maxsize=1024)
def dns_subdomain(value: str) -> tuple[str, ...]:
    """What is wrong with a DNS-1123 subdomain, the form of most objects' names."""
    wrong = [too_long(DNS_SUBDOMAIN_MAX)] if _size(value) > DNS_SUBDOMAIN_MAX else []
    if not _dns_subdomain(value):
        rule = f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ENDS}"
        wrong.append(_pattern_message(rule, _DNS_SUBDOMAIN, "example.com"))
    return tuple(wrong)


@lru_cache(maxsize=2048)
def dns_1035_label(value: str) -> tuple[str, ...]:
    """What is wrong with a DNS-1035 label, such as a Service's name."""
    wrong = [too_long(DNS_LABEL_MAX)] if _size(value) > DNS_LABEL_MAX else []
    if not _dns_1035(value):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        wrong.append(_pattern_message(rule, _DNS_1035, "my-name", "abc-123"))
    return tuple(wrong)


@lru_cache(maxsize=256)
def wildcard_subdomain(value: str) -> tuple[str, ...]:
    """What is wrong with a wildcard host such as `*.example.com`."""
    wrong = [too_long(DNS_SUBDOMAIN_MAX)] if _size(value) > DNS_SUBDOMAIN_MAX else []
    if not _wildcard(value):
        rule = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
            "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        wrong.append(_pattern_message(rule, _WILDCARD, "*.example.com"))
    return tuple(wrong)


@lru_cache(maxsize=1024)
def label_key(value: str) -> tuple[str, ...]:
    """What is wrong with a label key (a qualified name): an optional DNS prefix, a slash and a name."""
    rule = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
    pattern = _pattern_message(rule, _LABEL_NAME, "MyName", "my.name", "123-abc")
    parts = value.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    name = parts[-1]
    wrong: list[str] = []
    if len(parts) == 2:
        wrong = (
            [f"prefix part {said}" for said in dns_subdomain(parts[0])]
            if parts[0]
            else ["prefix part must be non-empty"]
        )
    if not name:
        wrong.append("name part must be non-empty")
    elif _size(name) > DNS_LABEL_MAX:
        wrong.append(f"name part {too_long(DNS_LABEL_MAX, 'bytes')}")
    if not _label_name(name):
        wrong.append(f"name part {pattern}")
    return tuple(wrong)


@lru_cache(maxsize=1024)
def label_value(value: str) -> tuple[str, ...]:
    """What is wrong with a label's value."""
    wrong = [too_long(DNS_LABEL_MAX, "bytes")] if _size(value) > DNS_LABEL_MAX else []
    if not _label_value(value):
        rule = (
            f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
        )
        wrong.append(_pattern_message(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return tuple(wrong)


@lru_cache(maxsize=2048)
def config_key(value: str) -> tuple[str, ...]:
    """What is wrong with a key of a ConfigMap or Secret."""
    wrong = [too_long(DNS_SUBDOMAIN_MAX)] if _size(value) > DNS_SUBDOMAIN_MAX else []
    if not _config_key(value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(_pattern_message(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        wrong.append(f"must not be '{value}'")
    elif value.startswith(".."):
        wrong.append("must not start with '..'")
    return tuple(wrong)


@lru_cache(maxsize=2048)
def env_name(value: str) -> tuple[str, ...]:
    """What is wrong with an environment variable's name: printable ASCII without `=` is asked for."""
    wrong = [] if value else ["environment variable name must be non-empty"]
    if any(not " " <= char <= "~" or char == "=" for char in value):
        wrong.append("a valid environment variable name must consist only of printable ASCII characters other than '='")
    return tuple(wrong)


@lru_cache(maxsize=1024)
def port_name(value: str) -> tuple[str, ...]:
    """What is wrong with a container port's name."""
    wrong = [too_long(15)] if _size(value) > 15 else []
    if not _port_charset(value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _port_letter(value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        wrong.append("must not begin or end with a hyphen")
    return tuple(wrong)


def port_number(value: int) -> tuple[str, ...]:
    return () if 1 <= value <= 65535 else (in_range(1, 65535),)


def in_range(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


@lru_cache(maxsize=256)
def percent(value: str) -> tuple[str, ...]:
    if _percent(value):
        return ()
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return (_pattern_message(rule, _PERCENT, "1%", "93%"),)


@lru_cache(maxsize=256)
def http_header(value: str) -> tuple[str, ...]:
    if _http_header(value):
        return ()
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (_pattern_message(rule, _HTTP_HEADER, "X-Header-Name"),)


def path_segment(value: str) -> tuple[str, ...]:
    """What is wrong with a name that only has to fit into a URL path, such as a Role's."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> tuple[str, ...]:
    return tuple(f"may not contain '{char}'" for char in ("/", "%") if char in value)


def mask_trailing_dash(prefix: str) -> str:
    """A generateName prefix as the name that is checked: it may end with a dash because a suffix will follow."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def joined(messages: Sequence[str]) -> str:
    return "; ".join(messages)
