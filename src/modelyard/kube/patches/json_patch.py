"""JSON patch (RFC 6902), with the leniencies and messages of Kubernetes' API server."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import msgspec

from modelyard.kube.patches.errors import PatchError

_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch
_ABSENT: Final = object()
MOST_COPIED = 3 * 1024 * 1024
"""So many bytes may the copies of one patch add, as with Kubernetes."""
MOST_MOVED = 2_000_000
"""So many members of objects and lists may be put into another place on the way."""


def json_patch(doc: Any, operations: Sequence[Any]) -> Any:
    """The patched document; neither it nor the operations are changed, unchanged parts are shared."""
    if not isinstance(operations, list | tuple) or not all(isinstance(each, dict) for each in operations):
        raise PatchError("a JSON patch is a list of operations, each an object with op and path")
    patched = _Document(doc)
    for operation in operations:
        patched.do(operation)
    return patched.root


class _Document:
    """A document under change: containers are copied before the first write to them."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._own: dict[int, Any] = {}
        self._copied = self._moved = 0

    def do(self, operation: dict[str, Any]) -> None:
        kind = operation.get("op")
        match kind:
            case "add":
                self._add(operation)
            case "remove":
                path = _text(operation, "path", "remove operation failed to decode path: missing value")
                self._remove(
                    path,
                    f'remove operation does not apply: doc is missing path: "{path}": missing value',
                    path,
                    "remove",
                )
            case "replace":
                self._replace(operation)
            case "move":
                self._move(operation)
            case "copy":
                self._copy(operation)
            case "test":
                self._test(operation)
            case _:
                raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")

    def _add(self, operation: dict[str, Any]) -> None:
        path = _text(operation, "path", "add operation failed to decode path: missing value")
        container, key = self._find(path, f'add operation does not apply: doc is missing path: "{path}": missing value')
        self._insert(container, key, operation.get("value"), f"error in add for path: '{path}'")

    def _remove(self, path: str, missing: str, shown: str, doing: str) -> Any:
        container, key = self._find(path, missing)
        prefix = f"error in {doing} for path: '{shown}'"
        if isinstance(container, dict):
            if key not in container:
                raise PatchError(f"{prefix}: Unable to remove nonexistent key: {key}: missing value")
            return container.pop(key)
        return container.pop(_position(key, len(container), prefix))

    def _replace(self, operation: dict[str, Any]) -> None:
        path = _text(
            operation, "path", "replace operation failed to decode path: operation missing path field: missing value"
        )
        value = operation.get("value")
        if path == "":
            if not isinstance(value, dict | list):
                raise PatchError("replace operation value must be object or array")
            self.root = value
            return
        container, key = self._find(
            path, f"replace operation does not apply: doc is missing path: {path}: missing value"
        )
        if isinstance(container, dict):
            container[key] = value
        else:
            missing = f"replace operation does not apply: doc is missing key: {path}: missing value"
            container[_position(key, len(container), "", missing)] = value

    def _move(self, operation: dict[str, Any]) -> None:
        source = _text(
            operation, "from", "move operation failed to decode from: operation, missing from field: missing value"
        )
        key = _decoded(source.rsplit("/", 1)[-1])
        missing = f"move operation does not apply: doc is missing from path: {source}: missing value"
        value = self._remove(source, missing, key, "move")
        path = _text(
            operation, "path", "move operation failed to decode path: operation missing path field: missing value"
        )
        missing = f"move operation does not apply: doc is missing destination path: {path}: missing value"
        container, key = self._find(path, missing)
        self._insert(container, key, value, f"error in move for path: '{path}'")

    def _copy(self, operation: dict[str, Any]) -> None:
        source = _text(
            operation, "from", "copy operation failed to decode from: operation, missing from field: missing value"
        )
        missing = f"copy operation does not apply: doc is missing from path: {source}: missing value"
        value = self._read(source, missing, f"error in copy for from: '{source}'")
        self._spend(value)
        path = _text(operation, "path", "copy operation failed to decode path: missing value")
        missing = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        container, key = self._find(path, missing)
        # The copy may be written to later; what was owned for writing is shared with the source no longer.
        self._own.clear()
        container, key = self._find(path, missing)
        self._insert(container, key, None if value is _ABSENT else value, "error while adding value during copy")

    def _spend(self, value: Any) -> None:
        """Counts what is copied: copies of copies grow exponentially."""
        self._copied += len(msgspec.json.encode(None if value is _ABSENT else value))
        if self._copied > MOST_COPIED:
            raise PatchError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                f"exceeding the limit {MOST_COPIED}"
            )

    def _test(self, operation: dict[str, Any]) -> None:
        path = _text(
            operation, "path", "test operation failed to decode path: operation missing path field: missing value"
        )
        missing = f"test operation does not apply: is missing path: {path}: missing value"
        found = self.root if path == "" else self._read(path, missing, f"error in test for path: '{path}'")
        if not _equal(None if found is _ABSENT else found, operation.get("value")):
            raise PatchError(f"testing value {path} failed: test failed")

    def _read(self, path: str, missing: str, failed: str) -> Any:
        node, (*parts, last) = self.root, _split(path, missing)
        for part in parts:
            node = _child(node, part, missing)
        if isinstance(node, dict):
            return node.get(last, _ABSENT)
        if not isinstance(node, list):
            raise PatchError(missing)
        return node[_position(last, len(node), failed)]

    def _find(self, path: str, missing: str) -> tuple[Any, str]:
        """The container that the path's last part is in, ours to write, and that part."""
        *parts, last = _split(path, missing)
        self.root = node = self._writable(self.root)
        if not isinstance(node, dict | list):
            raise PatchError(missing)
        for part in parts:
            child = self._writable(_child(node, part, missing))
            if not isinstance(child, dict | list):
                raise PatchError(missing)
            if isinstance(node, dict):
                node[part] = child
            else:
                node[_position(part, len(node), "", missing)] = child
            node = child
        return node, last

    def _writable(self, node: Any) -> Any:
        if not isinstance(node, dict | list) or id(node) in self._own:
            return node
        copied = node.copy()
        self._moved += len(copied)
        if self._moved > MOST_MOVED:
            raise PatchError("the patch copies and changes the same large parts too often")
        self._own[id(copied)] = copied
        return copied

    def _insert(self, container: Any, key: str, value: Any, failed: str) -> None:
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        elif not _INTEGER(key):
            said = f"strconv.Atoi: parsing {json.dumps(key)}: invalid syntax"
            raise PatchError(f"{failed}: value was not a proper array index: '{key}': {said}")
        else:
            container.insert(_position(key, len(container) + 1, failed), value)


def _text(operation: dict[str, Any], name: str, missing: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise PatchError(missing)
    return value


def _split(path: str, missing: str) -> list[str]:
    parts = path.split("/")
    if len(parts) < 2:
        raise PatchError(missing)
    return [_decoded(part) for part in parts[1:]]


def _decoded(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _child(node: Any, part: str, missing: str) -> Any:
    if isinstance(node, dict):
        found = node.get(part)
    elif isinstance(node, list):
        found = node[_position(part, len(node), "", missing)]
    else:
        found = None
    if found is None:
        raise PatchError(missing)
    return found


def _position(key: str, length: int, failed: str, missing: str = "") -> int:
    """The index that a path's part names; negative ones count from the end, as Kubernetes allows."""

    def refuse(said: str) -> NoReturn:
        raise PatchError(missing or (f"{failed}: {said}" if failed else said))

    if not _INTEGER(key):
        refuse(f"strconv.Atoi: parsing {json.dumps(key)}: invalid syntax")
    index = int(key)
    if not -length <= index < length:
        refuse(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _equal(left: Any, right: Any) -> bool:
    """JSON equality: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
