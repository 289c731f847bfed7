"""Objects' bytes, with what many of them say alike kept once: two objects of one kind and manager differ in little else than
their values, and what managedFields say of them is often longer than they are."""

from __future__ import annotations

from typing import TypeAlias

Kept: TypeAlias = bytes | tuple[bytes, ...]
"""The bytes in one piece, or in pieces of which every second one is shared."""

# Each ends with what is rare in JSON, which is what the search looks for first.
_BEGIN = b'"fieldsV1'
_NEXT, _LAST = b'},{"m', b"}]"
_LEAST = 200
"""Shorter texts are not worth it: a piece takes memory too."""
_MOST_KNOWN = 2048


class FieldTexts:
    """The field sets of managedFields that were seen of late."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def share(self, raw: bytes) -> Kept:
        """Where it cuts is a matter of memory alone: the pieces are what was given, whatever that is."""
        pieces: list[bytes] = []
        at = 0
        start = raw.find(_BEGIN)
        while start >= 0:
            start += len(_BEGIN)
            end = raw.find(_NEXT, start)
            if end < 0:
                end = raw.find(_LAST, start)
            if end - start >= _LEAST:
                pieces += (raw[at:start], self._shared(raw[start:end]))
                at = end
            start = raw.find(_BEGIN, max(start, at))
        if not pieces:
            return raw
        pieces.append(raw[at:])
        return tuple(pieces)

    def _shared(self, text: bytes) -> bytes:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[text] = text
        return known


def own_size(kept: Kept) -> int:
    """How many bytes are not shared."""
    return len(kept) if isinstance(kept, bytes) else sum(map(len, kept[::2]))
