"""Values of Secrets, in and out of their base64."""

from __future__ import annotations

import pytest

from modelyard.kube.secrets import encoded, encoded_value_of, text_of, value_of

SECRET = {"data": {"text": "w6TDtg==", "bytes": "/w==", "broken": "a", "letters": "ä", "empty": ""}}


def test_a_value_comes_out_as_it_went_in() -> None:
    assert value_of({"data": {"key": encoded(b"\xff\x00")}}, "key") == b"\xff\x00"
    assert text_of({"data": {"key": encoded("äö")}}, "key") == "äö"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("text", "äö".encode(), "äö"),
        ("bytes", b"\xff", ""),
        ("broken", b"", ""),
        ("letters", b"", ""),
        ("empty", b"", ""),
        ("missing", b"", ""),
    ],
)
def test_what_cannot_be_read_is_empty(key: str, value: bytes, text: str) -> None:
    assert (value_of(SECRET, key), text_of(SECRET, key)) == (value, text)


@pytest.mark.parametrize("secret", [None, {}, {"data": None}])
def test_a_secret_without_data_has_no_values(secret: dict[str, None] | None) -> None:
    assert encoded_value_of(secret, "key") == ""
    assert value_of(secret, "key") == b""
