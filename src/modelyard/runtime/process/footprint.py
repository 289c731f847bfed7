"""Settings of Python and of the C library that suit a process which holds many connections and idles most of the time."""

from __future__ import annotations

import ctypes
from asyncio import sslproto

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_TLS_BUFFER = 16 * 1024


def keep_small() -> None:
    """For the whole process; called once, before it opens connections."""
    # glibc keeps large buffers for later once it has seen some.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 128 * 1024)
        mallopt(_ARENA_MAX, 2)
    # Each TLS connection has a buffer of this size for as long as it lives, 256 kB unless told; a TLS record has no more than 16.
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
