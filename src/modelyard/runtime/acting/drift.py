"""Does a live object still carry what we want of it, and nothing of ours that we no longer want? Pure."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

from modelyard.kube import fieldsets
from modelyard.kube.builtin import ConfigMap
from modelyard.kube.fieldsets import FieldSet, path_text
from modelyard.kube.fieldsets.typed import index
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.schema import DEDUCED, Schema, builtin_schema


@lru_cache(maxsize=1024)
def schema_of(kind: Kind) -> Schema:
    """The schema to compare by: a built-in kind's own; of any other, only the metadata is known."""
    known = builtin_schema(kind)
    if known is not None:
        return known
    metadata = builtin_schema(ConfigMap)
    assert metadata is not None
    return Schema(
        type="object", fields={"metadata": metadata.fields["metadata"]}, values=DEDUCED, preserve_unknown=True
    )


def differences(kind: Kind, desired: Object, live: Object, managed: Object | None) -> tuple[str, ...]:
    """The paths where the live object is not as desired, and (with a minus) those we own but no longer want."""
    schema = schema_of(kind)
    if managed and fieldsets.agrees(live, desired, schema, managed):
        return ()
    wanted = FieldSet(fieldsets.fieldset_of(desired, schema).root)
    owned = FieldSet.parse(managed)
    found = fieldsets.drift(live, desired, schema)
    changed = [
        path
        for path in found.changed.paths()
        if not (path in owned and _is_completed(_at(live, path, schema), _at(desired, path, schema)))
    ]
    # Of a kind whose schema we do not know, we cannot tell what is below a list that we want as a whole.
    stale = owned - wanted if builtin_schema(kind) is not None else owned.without(wanted)
    left = [path for path in stale.paths() if _at(live, path, schema) is not None]
    return (*(path_text(path) for path in changed), *(f"-{path_text(path)}" for path in left))


def stored(kind: Kind, obj: Object) -> Object:
    """An object the way the API stores it, where that differs from what one may write: so it is applied and compared."""
    if kind.group == "" and kind.kind == "Secret" and obj.get("stringData"):
        data = dict(obj.get("data") or {})
        for name, text in obj["stringData"].items():
            data[name] = base64.b64encode(str(text).encode()).decode()
        return {k: v for k, v in obj.items() if k != "stringData"} | {"data": data}
    return obj


def _is_completed(live: Any, wanted: Any) -> bool:
    """Is the live value the wanted one with defaults filled in?

    Only asked of a value that is owned as a whole and still ours: had anyone else changed it, it would be theirs.
    """
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return live is None and not wanted
        return all(_is_completed(live.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(live, list):
            return live is None and not wanted
        return len(live) == len(wanted) and all(_is_completed(a, b) for a, b in zip(live, wanted, strict=True))
    if live is None:
        return wanted is None or wanted in ("", 0)
    return bool(live == wanted)


def _at(value: Any, path: tuple[str, ...], schema: Schema) -> Any:
    """The value at a path of FieldsV1 elements; None where there is none."""
    for element in path:
        if element[0] == "f":
            if not isinstance(value, dict):
                return None
            name = element[2:]
            value, schema = value.get(name), schema.child(name) or DEDUCED
        else:
            if not isinstance(value, list):
                return None
            value, schema = index(value, schema).get(element), schema.items or DEDUCED
    return value
