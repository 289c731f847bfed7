"""What of root's power a container keeps when modelyard runs as root; as a plain user nobody has any.

Only the standard library may be imported here: the keeper runs in a bare interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Collection, Mapping
from typing import Any, Final

_NUMBERS: Final = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
    "NET_BIND_SERVICE": 10, "IPC_LOCK": 14, "SYS_CHROOT": 18, "SYS_NICE": 23,
}  # fmt: skip
"""All that can be had. The others reach beyond a container that shares the machine's network and devices."""
_ON_REQUEST: Final = ("IPC_LOCK", "SYS_NICE")

_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT: Final = 47
_CLEAR_ALL: Final = 4
_VERSION: Final = 0x20080522
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def wanted(context: Mapping[str, Any]) -> tuple[list[int], list[str]]:
    """The capabilities of a container by its securityContext, and the names of those that it asks for in vain."""
    asked = context.get("capabilities") or {}
    added = [_plain(name) for name in asked.get("add") or []]
    dropped = {_plain(name) for name in asked.get("drop") or []}
    kept = set() if "ALL" in dropped else set(_NUMBERS) - set(_ON_REQUEST) - dropped
    if "ALL" in added:
        kept = set(_NUMBERS) - dropped
    kept |= {name for name in added if name in _NUMBERS}
    return sorted(_NUMBERS[name] for name in kept), sorted({name for name in added if name not in _NUMBERS})


def _plain(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def limit(keep: Collection[int]) -> None:
    """Nothing that this process runs can ever have another capability; before the user is changed."""
    for number in range(64):
        if number in keep:
            continue
        if _LIBC.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:
            code = ctypes.get_errno()
            if code == errno.EINVAL:
                break
            if code == errno.EPERM and not _has_any():
                return
            raise OSError(code, f"drop capability {number}: {os.strerror(code)}")


def hold(keep: Collection[int]) -> None:
    """Let go of all but these; after the user is changed."""
    with contextlib.suppress(OSError):
        _LIBC.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), 0, 0, 0)
    permitted = _sets()[1]
    mask = sum(1 << number for number in keep) & permitted
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    if _LIBC.capset(header, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capset: {os.strerror(code)}")


def _has_any() -> bool:
    return _sets()[1] != 0


def _sets() -> tuple[int, int]:
    """Effective and permitted."""
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    if _LIBC.capget(header, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capget: {os.strerror(code)}")
    return data[0] | data[3] << 32, data[1] | data[4] << 32
