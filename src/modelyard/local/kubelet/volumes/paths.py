"""Paths that somebody else may change while they are walked: component by component, by descriptors, never out of a directory.

No link is followed by the kernel, so that no swap of a directory and a link in between leads anywhere else. Only the standard
library may be imported here: the keeper runs in a bare interpreter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_STEPS: Final = 4096
_MOST_LINKS: Final = 40


class LeadsOut(ValueError):
    """The path leads out of the directory that it must stay in."""


class Found(NamedTuple):
    """What a path leads to; the descriptors are closed by whoever opened it."""

    descriptor: int
    parent: int
    name: str

    def again(self) -> int:
        """Opened once more by its name, so that what has been mounted on it is seen."""
        return os.open(self.name, _OPEN, dir_fd=self.parent)


def by_descriptor(descriptor: int) -> str:
    """A path that is this very file, whatever happened to its name."""
    return f"/proc/self/fd/{descriptor}"


def open_beneath(base: str, relative: str, *, make: str = "", mode: int = 0o777, links: int = _MOST_LINKS) -> int:
    """A descriptor of a path inside a directory; so many links inside it are followed, as long as they stay there."""
    if relative.startswith("/") or ".." in relative.split("/"):
        raise LeadsOut(f"{relative!r} must be relative and must not contain '..'")
    top = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _walked(top, relative, confined=True, make=make, mode=mode, allowed=links) as found:
            return os.dup(found.descriptor)
    finally:
        os.close(top)


@contextlib.contextmanager
def in_root(root: int, path: str, *, make: str = "") -> Iterator[Found]:
    """What a path means to whoever has this directory as its root; `make` says what a missing last part becomes."""
    with _walked(root, path, confined=False, make=make, mode=0o755, allowed=_MOST_LINKS) as found:
        yield found


@contextlib.contextmanager
def _walked(top: int, path: str, *, confined: bool, make: str, mode: int, allowed: int) -> Iterator[Found]:
    stack, names = [os.dup(top)], [""]
    pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    links, made = 0, False
    try:
        for _ in range(_MOST_STEPS):
            if not pending:
                break
            part = pending.pop()
            if part == "..":
                if len(stack) > 1:
                    os.close(stack.pop())
                    names.pop()
                elif confined:
                    raise LeadsOut(f"{path!r} leads out of its directory")
                continue
            try:
                descriptor = os.open(part, _OPEN, dir_fd=stack[-1])
            except FileNotFoundError:
                if not make:
                    raise
                _make(part, stack[-1], "dir" if pending else make)
                pending.append(part)
                made = True
                continue
            kind = os.fstat(descriptor).st_mode
            if stat.S_ISLNK(kind):
                target = os.readlink("", dir_fd=descriptor)
                os.close(descriptor)
                links += 1
                if links > allowed:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    if confined:
                        raise LeadsOut(f"{path!r} leads out of its directory")
                    while len(stack) > 1:
                        os.close(stack.pop())
                        names.pop()
                pending += [step for step in reversed(target.split("/")) if step not in ("", ".")]
                continue
            stack.append(descriptor)
            names.append(part)
            if made and stat.S_ISDIR(kind):
                os.chmod(by_descriptor(descriptor), mode)
            made = False
        else:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        yield Found(stack[-1], stack[-2] if len(stack) > 1 else -1, names[-1])
    finally:
        for descriptor in stack:
            os.close(descriptor)


def _make(name: str, parent: int, kind: str) -> None:
    with contextlib.suppress(FileExistsError):
        if kind == "dir":
            os.mkdir(name, 0o755, dir_fd=parent)
        else:
            os.close(
                os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=parent)
            )
