"""Reads a built-in object the way the Go types do: drops what serialises to nothing, adds what always appears, checks types.

The table `shapes.json` says for each field whether it is a pointer (`*`), always written (`!`) or dropped when zero (`~`), which
Go type it has where that is not its plain one (`@`), and which embedded struct it comes from (`^`)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

from modelyard.kube.quantities import QuantityError, canonical

Reader: TypeAlias = Callable[[Any], Any]

_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_RANGES = {
    "int": (-(2**63), 2**63 - 1), "int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "int8": (-128, 127),
    "uint8": (0, 255), "uint16": (0, 65535),
}  # fmt: skip
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class ShapeError(Exception):
    """A value that cannot be decoded into its Go type; `path` grows while the error travels outwards."""

    def __init__(self, found: str, wanted: str, text: str = "") -> None:
        self.found, self.wanted, self.text = found, wanted, text
        self.owner = ""
        self.path: list[str] = []
        super().__init__(text)

    def within(self, owner: str, field: str) -> None:
        self.owner = self.owner or owner
        self.path.append(field)

    @property
    def message(self) -> str:
        if self.text:
            return self.text
        if not self.path:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.wanted}"
        path = ".".join(reversed(self.path))
        return f"json: cannot unmarshal {self.found} into Go struct field {self.owner}.{path} of type {self.wanted}"


def reader_for(name: str) -> Reader | None:
    """The reader of a kind, as `apps/v1.Deployment`; None where the kind has no Go shape."""
    return _struct(name) if name in _table() else None


def written_as_null(name: str) -> tuple[str, ...]:
    """The lists at the top of a kind that are always written. An empty one is someone's own, but is stored as null."""
    return tuple(field for field, text in _table().get(name, {}).items() if text.startswith(("![]", "!{}")))


@cache
def _table() -> dict[str, dict[str, str]]:
    content = files(__package__).joinpath("shapes.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, dict[str, str]])


class _Struct:
    """The reader of one struct; its fields are compiled when it is first used, so recursive types need no care."""

    __slots__ = ("_always", "_fields", "_key", "_name", "_ready", "_zero")

    def __init__(self, key: str) -> None:
        self._key = key
        self._name = key.rsplit(".", 1)[1]
        self._fields: dict[str, tuple[Reader, bool, str]] = {}
        """Reader, whether an empty value is kept, and the path in messages."""
        self._always: list[tuple[str, Reader | None, Any, bool]] = []
        """Name, reader of an absent struct, else the zero value, and whether an empty list or map is written as null."""
        self._ready = False

    def _compile(self) -> None:
        # A kind's own empty lists turn to null only when it is stored.
        nested = "metadata" not in _table()[self._key]
        for name, text in _table()[self._key].items():
            always, zero_dropped, declared = _marks(text)
            declared, *embedded = declared.split("^")
            path = ".".join([*reversed(embedded), name])
            pointer = declared.startswith("*")
            whole = declared.lstrip("*")
            bare = whole.partition("@")[0]
            reader = _reader(whole)
            structural = isinstance(reader, _Struct) or bare in (
                "IntOrString",
                "Quantity",
                "Time",
                "MicroTime",
                "Duration",
            )
            keep_empty = pointer or always or (structural and not zero_dropped)
            self._fields[name] = (reader, keep_empty, path)
            if pointer:
                if always:
                    self._always.append((name, None, None, False))
            elif isinstance(reader, _Struct):
                if not zero_dropped:
                    self._always.append((name, reader, None, False))
            elif keep_empty:
                self._always.append((name, None, _ZEROS.get(bare), nested and bare.startswith(("[]", "{}"))))
        self._ready = True

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict:
            raise ShapeError(_json_name(value), _go_name(self._key))
        if not self._ready:
            self._compile()
        out = {}
        fields = self._fields
        for name, item in value.items():
            field = fields.get(name)
            if field is None or item is None:
                continue
            try:
                read = field[0](item)
            except ShapeError as error:
                error.within(self._name, field[2])
                raise
            if read or field[1]:
                out[name] = read
        for name, reader, zero, collection in self._always:
            if name not in out:
                out[name] = reader({}) if reader is not None else zero
            elif collection and not out[name]:
                out[name] = None
        return out


_ZEROS: dict[str, Any] = {
    "string": "", "bool": False, "int": 0, "int8": 0, "int32": 0, "int64": 0, "uint8": 0, "uint16": 0, "float64": 0,
    "Quantity": "0", "IntOrString": 0, "Duration": "0s",
}  # fmt: skip


def _marks(text: str) -> tuple[bool, bool, str]:
    always = text.startswith("!")
    text = text.removeprefix("!")
    return always, text.startswith("~"), text.removeprefix("~")


@cache
def _struct(key: str) -> _Struct:
    return _Struct(key)


@cache
def _reader(declared: str) -> Reader:
    if declared.startswith("*"):
        return _reader(declared[1:])
    if declared.startswith("[]"):
        return _list_reader(_reader(declared[2:]), declared[2:])
    if declared.startswith("{}"):
        values, _, named = declared[2:].partition("@")
        return _map_reader(_reader(values), values, named or f"map[string]{_go_name(values)}")
    plain, _, named = declared.partition("@")
    if plain in _RANGES:
        return _integer_reader(plain, named or plain)
    if plain == "string" and named:
        return _string_reader(named)
    return _SCALARS.get(plain) or _struct(plain)


def _zero_of(declared: str, reader: Reader) -> Any:
    if declared == "bytes":
        return ""
    return reader({}) if isinstance(reader, _Struct) else _ZEROS.get(declared.partition("@")[0])


def _go_name(declared: str) -> str:
    if declared.startswith("[]"):
        return "[]" + _go_name(declared[2:])
    if declared.startswith("{}"):
        return "map[string]" + _go_name(declared[2:])
    if "@" in declared:
        return declared.partition("@")[2]
    if "/" in declared:
        return declared.rsplit("/", 1)[1]
    return _GO_NAMES.get(declared, declared)


_GO_NAMES = {
    "bytes": "[]uint8",
    "Quantity": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "Time": "v1.Time",
}


def _list_reader(item: Reader, declared: str) -> Reader:
    wanted = f"[]{_go_name(declared)}"

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise ShapeError(_json_name(value), wanted)
        return [_zero_of(declared, item) if element is None else item(element) for element in value]

    return read


def _map_reader(item: Reader, declared: str, wanted: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ShapeError(_json_name(value), wanted)
        return {key: _zero_of(declared, item) if element is None else item(element) for key, element in value.items()}

    return read


def _json_name(value: Any) -> str:
    return _JSON_NAMES.get(type(value), "value")


def _string(value: Any) -> Any:
    if type(value) is not str:
        raise ShapeError(_json_name(value), "string")
    return value


def _string_reader(wanted: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not str:
            raise ShapeError(_json_name(value), wanted)
        return value

    return read


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise ShapeError(_json_name(value), "bool")
    return value


def _float(value: Any) -> Any:
    if type(value) is not float and type(value) is not int:
        raise ShapeError(_json_name(value), "float64")
    return value


def _integer_reader(declared: str, wanted: str) -> Reader:
    low, high = _RANGES[declared]

    def read(value: Any) -> Any:
        if type(value) is not int:
            found = f"number {value}" if type(value) is float else _json_name(value)
            raise ShapeError(found, wanted)
        if not low <= value <= high:
            raise ShapeError(f"number {value}", wanted)
        return value

    return read


def _int_or_string(value: Any) -> Any:
    if type(value) is int:
        if not -(2**31) <= value <= 2**31 - 1:
            raise ShapeError(f"number {value}", "int32")
        return value
    if type(value) is float:
        raise ShapeError(f"number {value}", "int32")
    if type(value) is not str:
        raise ShapeError(_json_name(value), "int32")
    return value


def _quantity(value: Any) -> Any:
    if type(value) is int or type(value) is float:
        value = str(value)
    if type(value) is not str:
        raise ShapeError("", "", _QUANTITY_RULE)
    return _canonical(value)


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    try:
        return canonical(text)
    except QuantityError as error:
        raise ShapeError("", "", str(error)) from None


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise ShapeError(_json_name(value), "string")
    if _SECONDS.fullmatch(value):
        return value
    return _moment(value, "2006-01-02T15:04:05Z07:00").strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any) -> Any:
    if type(value) is not str:
        raise ShapeError(_json_name(value), "string")
    if _MICROS.fullmatch(value):
        return value
    layout = "2006-01-02T15:04:05.000000Z07:00"
    if match := re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?!\.\d{6})", value):
        rest = value[match.end() :]
        raise ShapeError("", "", f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as ".000000"')
    return _moment(value, layout).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(value: str, layout: str) -> datetime:
    try:
        if len(value) < 11 or value[10] != "T":
            raise ValueError
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
    except ValueError:
        raise ShapeError("", "", f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"') from None
    return moment.astimezone(UTC)


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        raise ShapeError(_json_name(value), "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        cleaned = value.replace("\n", "").replace("\r", "")
        try:
            base64.b64decode(cleaned, validate=True)
        except (binascii.Error, ValueError):
            place = _illegal_byte(value)
            raise ShapeError("", "", f"illegal base64 data at input byte {place}") from None
        return cleaned
    return value


def _illegal_byte(text: str) -> int:
    match = re.search(r"[^A-Za-z0-9+/\r\n]", text)
    if match is None or (text[match.start()] == "=" and len(text.rstrip("=")) % 4 != 1):
        return len(text) - len(text) % 4
    return match.start()


def _raw(value: Any) -> Any:
    return value


_SCALARS: dict[str, Reader] = {
    "string": _string, "bool": _boolean, "float64": _float, "Quantity": _quantity, "IntOrString": _int_or_string,
    "Time": _time, "MicroTime": _micro_time, "Duration": _string, "bytes": _bytes, "raw": _raw,
}  # fmt: skip
