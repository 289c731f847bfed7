"""The server's OpenAPI document as a judge of answers, and as a source of requests: what it allows, and what comes close."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_TEXTS = st.sampled_from(["", "a", "1", "2", "7", "1700000000000", "it's %_", "ä\N{GRINNING FACE}"]) | st.text(
    max_size=12
)
_BYTES = st.sampled_from(["eyJhIjoxfQ==", "e30=", "AAAA", "not base64"])
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
}  # fmt: skip


@dataclass(frozen=True)
class Contract:
    document: Schema

    def operations(self) -> Iterator[tuple[str, str, Schema]]:
        """Method, path and description of each."""
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield method.upper(), path, operation

    def problems(self, operation: Schema, status: int, body: object) -> list[str]:
        """What is wrong with an answer."""
        responses = operation["responses"]
        described = responses.get(str(status), responses["default"] if status >= 400 else None)
        if described is None:
            return [f"status {status} is not described"]
        return list(self._check(described["content"]["application/json"]["schema"], body, "$"))

    def _resolved(self, schema: Schema) -> Schema:
        if "$ref" not in schema:
            return schema
        found: Schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        return found

    def _check(self, schema: Schema, value: object, where: str) -> Iterator[str]:
        schema = self._resolved(schema)
        if "oneOf" in schema:
            tried = [list(self._check(each, value, where)) for each in schema["oneOf"]]
            if sum(not problems for problems in tried) != 1:
                yield f"{where}: {value!r} fits not exactly one of the alternatives"
            return
        expected = _TYPES[schema["type"]]
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            yield f"{where}: {value!r} is not of type {schema['type']}"
        elif "enum" in schema and value not in schema["enum"]:
            yield f"{where}: {value!r} is none of {schema['enum']}"
        elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            yield f"{where}: {value!r} does not match {schema['pattern']}"
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._check(schema["items"], item, f"{where}[{index}]")
        elif isinstance(value, dict):
            yield from self._check_members(schema, value, where)

    def _check_members(self, schema: Schema, value: dict[str, object], where: str) -> Iterator[str]:
        yield from (f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        others = schema.get("additionalProperties", True)
        for name, given in value.items():
            known = schema.get("properties", {}).get(name)
            if known is not None:
                yield from self._check(known, given, f"{where}.{name}")
            elif others is False:
                yield f"{where}.{name} is not described"
            elif isinstance(others, dict):
                yield from self._check(others, given, f"{where}.{name}")

    def bodies(self, operation: Schema) -> st.SearchStrategy[object]:
        """Bodies that the operation describes, some of them with a value that it does not."""
        if "requestBody" not in operation:
            return st.just(None)
        return self._values(operation["requestBody"]["content"]["application/json"]["schema"])

    def _values(self, schema: Schema) -> st.SearchStrategy[Any]:
        schema = self._resolved(schema)
        if "oneOf" in schema:
            return st.one_of([self._values(each) for each in schema["oneOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        match schema["type"]:
            case "string":
                if schema.get("format") == "byte":
                    return _BYTES
                return st.from_regex(schema["pattern"], fullmatch=True) if "pattern" in schema else _TEXTS
            case "integer":
                return st.integers(-5, 5) | st.integers()
            case "number":
                return st.floats(allow_nan=False, allow_infinity=False) | st.integers()
            case "boolean":
                return st.booleans()
            case "array":
                return st.lists(self._values(schema["items"]), max_size=3)
        members = {name: self._nearly(each) for name, each in schema.get("properties", {}).items()}
        required = set(schema.get("required", ()))
        if isinstance(schema.get("additionalProperties"), dict):
            return st.dictionaries(_TEXTS, self._values(schema["additionalProperties"]), max_size=3)
        return st.fixed_dictionaries(
            {name: each for name, each in members.items() if name in required},
            optional={name: each for name, each in members.items() if name not in required},
        )

    def _nearly(self, schema: Schema) -> st.SearchStrategy[Any]:
        usual = self._values(schema)
        return st.one_of(*([usual] * 12), ANY_JSON)
