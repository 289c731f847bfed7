"""Patterns as Go reads them, and the formats that Kubernetes checks."""

import time

import pytest

from modelyard.local.apiserver.structural.formats import format_check, is_known_format
from modelyard.local.apiserver.structural.patterns import matcher, pattern_problem


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("b", "abc", True),
        (r"^\d+$", "١", False),
        (r"^[[:alpha:]]+$", "abc", True),
        (r"^\p{Lu}$", "Ä", True),
        (r"^[$]$", "$", True),
        (r"^\$$", "$", True),
        (r"(?i)^A$", "a", True),
        (r"^([a-z]([-a-z]*[a-z])?)(\.[a-z]+)*$", "a-b.c", True),
        (r"\Aa\z", "a", True),
    ],
)
def test_pattern(pattern: str, text: str, matches: bool) -> None:
    assert bool(matcher(pattern)(text)) is matches


def test_pattern_takes_no_exponential_time() -> None:
    start = time.monotonic()
    assert not matcher("^(a+)+$")("a" * 60 + "b")
    assert not matcher("^((a|a)*)*$")("a" * 60 + "b")
    assert not matcher("^(a|aa)+$")("a" * 60 + "b")
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a+", None),
        ("(", "error parsing regexp: missing closing ): `(`"),
        ("a)", "error parsing regexp: unexpected ): `a)`"),
        ("[a", "error parsing regexp: missing closing ]: `[a`"),
        ("*", "error parsing regexp: missing argument to repetition operator: `*`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ("a{2000}", "error parsing regexp: invalid repeat count: `{2000}`"),
        ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
    ],
)
def test_wrong_pattern_is_described_as_go_does(pattern: str, problem: str | None) -> None:
    assert pattern_problem(pattern) == problem


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2024-02-29"], ["2023-02-29", "2024-2-1"]),
        ("date-time", ["2024-01-01T00:00:00Z", "2024-01-01t00:00:00.5+01:00"], ["2024-01-01", "2024-01-01T24:00:00Z"]),
        ("duration", ["1h30m", "0", "1.5s", "2 days"], ["h", "later"]),
        ("ipv4", ["10.0.0.1", "010.0.0.1"], ["10.0.0", "256.0.0.1", "::1"]),
        ("ipv6", ["::1", "fe80::1"], ["10.0.0.1", "fe80::1%eth0", ":::"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33"]),
        ("mac", ["01:23:45:67:89:ab", "0123.4567.89ab"], ["01:23:45:67:89", "xx"]),
        ("uuid", ["a1a2a3a4-b1b2-c1c2-d1d2-d3d4d5d6d7d8", "A1A2A3A4B1B2C1C2D1D2D3D4D5D6D7D8"], ["a1"]),
        ("uuid4", ["a1a2a3a4-b1b2-4cc2-91d2-d3d4d5d6d7d8"], ["a1a2a3a4-b1b2-1cc2-91d2-d3d4d5d6d7d8"]),
        ("byte", ["aGVsbG8=", "YQ=="], ["a", "", "a!=="]),
        ("uri", ["https://example.com/a", "/path"], ["example.com", "https://a b/"]),
        ("email", ["a@b.c", "Ann <a@b.c>"], ["a", "a@"]),
        ("hostname", ["a-b.example.com", "host"], ["-a.example.com", "a..b"]),
        ("hexcolor", ["#fff", "a1b2c3"], ["#ggg"]),
        ("rgbcolor", ["rgb(1, 2,255)"], ["rgb(1,2)"]),
        ("isbn", ["978-0321751041", "0321751043"], ["123"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
        ("ssn", ["111-11-1111"], ["11-111-1111"]),
        ("k8s-short-name", ["abc-1"], ["a.b", "-a", "a" * 64]),
        ("k8s-long-name", ["a.b-c"], ["a..b"]),
        ("password", ["anything"], []),
    ],
)
def test_format(name: str, good: list[str], bad: list[str]) -> None:
    check = format_check(name, "string")
    assert check is not None
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


def test_unknown_formats_are_not_checked() -> None:
    assert format_check("colour", "string") is None
    assert is_known_format("int32", "integer")
    assert not is_known_format("int32", "string")
    assert not is_known_format("date", "integer")
