"""Bytes of objects in pieces: together they are what was given, and what is said alike is kept once."""

from __future__ import annotations

import msgspec
import pytest

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.storage.shared_text import FieldTexts, Kept, own_size

_FIELDS: Object = {"f:spec": {f"f:field-{number}": {} for number in range(40)}}


def an_object(name: str, fields: object, *managers: str) -> bytes:
    entries = [{"manager": manager, "operation": "Update", "fieldsV1": fields} for manager in managers]
    return msgspec.json.encode({"metadata": {"name": name, "managedFields": entries}, "spec": {"name": name}})


def whole(kept: Kept) -> bytes:
    return kept if isinstance(kept, bytes) else b"".join(kept)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{}", b'"fieldsV1', b'{"fieldsV1":{}}', b'"fieldsV1"' * 500, b'"fieldsV1":' + b"x" * 300,
        b'{"fieldsV1":' + b"}]" * 300, an_object("a", _FIELDS), an_object("a", _FIELDS, "one"), an_object("a", _FIELDS, "one", "two"),
        an_object("a", {'v:"},{"manager" }] "fieldsV1": ' + "x" * 300: {}}, "one", "two"),
    ],
)  # fmt: skip
def test_the_pieces_are_what_was_given(raw: bytes) -> None:
    assert whole(FieldTexts().share(raw)) == raw


def test_objects_share_what_is_said_of_their_fields() -> None:
    texts = FieldTexts()
    first, second = (texts.share(an_object(name, _FIELDS, "one", "two")) for name in ("a", "b"))
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert len(first) == 5
    assert first[1] is second[1] is first[3] is second[3]
    assert own_size(second) < len(whole(second)) // 2
