"""Validation of custom resources against their schema, compiled once into closures, in the words of Kubernetes.

Each check also counts what matched, as Kubernetes does to choose which branch of an anyOf or oneOf to explain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.problems import Cause, go_quote, go_value
from modelyard.local.apiserver.structural.formats import format_check, is_known_format
from modelyard.local.apiserver.structural.nodes import Node
from modelyard.local.apiserver.structural.patterns import matcher

UNRELATED: Any = object()
"""No old value is known to correspond to the new one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule broken. `name` is the path as Kubernetes' validator writes it: with a leading dot for a root property."""

    rule: str
    name: str
    value: Any
    detail: str


Check = Callable[[Any, str, list[Finding], Any], int]
"""(value, path, findings, old value) -> how many checks matched."""


class Validator:
    """A compiled schema. `base` is the path that its root has in the object (`status` for status writes)."""

    def __init__(self, root: Node, base: str = "") -> None:
        self._check = _compile(root.raw)
        self._base = base

    def validate(self, value: Any) -> list[Cause]:
        return self._causes(self._run(value, UNRELATED))

    def validate_update(self, value: Any, old: Any) -> list[Cause]:
        """As `validate`, but what is unchanged may stay wrong: a rule added later must not block other changes."""
        if not self._run(value, UNRELATED):
            return []
        if self._base and value == old:
            return []
        return self._causes(self._run(value, old))

    def _run(self, value: Any, old: Any) -> list[Finding]:
        findings: list[Finding] = []
        self._check(value, "", findings, old)
        return findings

    def _causes(self, findings: list[Finding]) -> list[Cause]:
        seen: set[tuple[str, str]] = set()
        causes = []
        for finding in findings:
            key = (finding.rule + finding.name, finding.detail)
            if key not in seen:
                seen.add(key)
                causes.append(self._cause(finding))
        return causes

    def _cause(self, finding: Finding) -> Cause:
        name = finding.name.removeprefix(".")
        path = f"{self._base}.{name}" if self._base and name else name or self._base or "<nil>"
        match finding.rule:
            case "required":
                return problems.required(path)
            case "enum":
                return problems.not_supported(path, finding.value, finding.detail.split("\0"))
            case "too long":
                return problems.too_long(path, finding.value)
            case "too many":
                return problems.too_many(path, *finding.value)
            case "type":
                return problems.type_invalid(path, finding.value, finding.detail)
            case "composite":
                return problems.invalid_value(self._base or "<nil>", "", finding.detail)
            case _:
                return problems.invalid_value(path, finding.value, finding.detail)


def _compile(schema: Mapping[str, Any]) -> Check:
    """The check of one schema, value rules and nested schemas included."""
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    declared = ("integer", "string") if int_or_string else (schema["type"],) if schema.get("type") else ()
    single = declared[0] if len(declared) == 1 else ""
    form = schema.get("format") or ""
    if not is_known_format(form, single):
        form = ""
    check_type = _type_check(declared, form, bool(schema.get("nullable")))
    combined = _combinations(schema)
    on_string = _string_check(schema, form, single)
    on_number = _number_check(schema, single, form)
    on_list = _list_check(schema)
    on_object = _object_check(schema)
    enum = schema.get("enum")
    check_enum = _enum_check(enum) if enum else None
    typed = 1 if declared or form else 0

    def check(value: Any, path: str, out: list[Finding], old: Any) -> int:
        kind = type(value)
        if value is None:
            matched = check_type(value, path, out)
            if check_enum is not None:
                check_enum(value, path, out)
            return matched
        # One for the whole, one each for combinations and enum, one for the combinations' own count.
        matched = 4 + typed
        if typed:
            matched += check_type(value, path, out)
        if combined is not None:
            matched += combined(value, path, out, old)
        if kind is str:
            matched += on_string(value, path, out)
        elif kind is int or kind is float:
            matched += on_number(value, path, out)
        elif kind is list:
            matched += on_list(value, path, out, old)
        if check_enum is not None:
            check_enum(value, path, out)
        if kind is dict:
            matched += on_object(value, path, out, old)
        return matched

    return check if schema.keys() - _PLAIN_KEYWORDS else _plain(single, check)


def _plain(type_name: str, check: Check) -> Check:
    """Most values are plain ones: their type is all there is to check."""
    wanted, matched = _PLAIN_TYPES.get(type_name, (None, 0))
    if wanted is None:
        return check

    def check_plain(value: Any, path: str, out: list[Finding], old: Any) -> int:
        if type(value) is wanted and (type_name != "integer" or _is_int64(value)):
            return matched
        return check(value, path, out, old)

    return check_plain


def _is_int64(value: Any) -> bool:
    return bool(-(2**63) <= value < 2**63)


_PLAIN_TYPES: dict[str, tuple[type, int]] = {"string": (str, 7), "boolean": (bool, 6), "integer": (int, 8)}
_PLAIN_KEYWORDS = frozenset(
    {"type", "description", "default", "nullable", "title", "example", "externalDocs", "x-kubernetes-validations"}
)
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_JSON_FORMATS = {int: "int64", float: "float64"}


def _type_check(declared: tuple[str, ...], form: str, nullable: bool) -> Callable[[Any, str, list[Finding]], int]:
    wanted = ",".join(declared)
    accepted = set(declared)
    numeric = "number" in accepted or "integer" in accepted

    def wrong(path: str, out: list[Finding], expected: str, found: str) -> int:
        out.append(Finding("type", path, found, f"{path} in body must be of type {expected}: {go_quote(found)}"))
        return 0

    def check(value: Any, path: str, out: list[Finding]) -> int:
        if value is None:
            return wrong(path, out, wanted, "null") if declared and not nullable else 1
        kind = type(value)
        found = _JSON_TYPES[kind]
        if found in accepted:
            return 1
        if (kind is float and value.is_integer() and "integer" in accepted) or (kind is int and "number" in accepted):
            return 1
        if form:
            if kind is not str and kind is not list:
                return wrong(path, out, form, _JSON_FORMATS.get(kind, ""))
            if not numeric:
                return 1
        return wrong(path, out, wanted, found)

    return check


def _string_check(schema: Mapping[str, Any], form: str, type_name: str) -> Callable[[str, str, list[Finding]], int]:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    check_format = format_check(form, type_name) if form else None
    search = matcher(pattern) if pattern else None
    if longest is None and shortest is None and search is None and check_format is None:
        return lambda value, path, out: 1
    matched = 2 if check_format else 1

    def check(value: str, path: str, out: list[Finding]) -> int:
        if longest is not None and len(value) > longest:
            out.append(Finding("too long", path, longest, ""))
        elif shortest is not None and len(value) < shortest:
            text = f"{path} in body should be at least {shortest} chars long"
            out.append(Finding("invalid", path, value, text))
        elif search is not None and not search(value):
            out.append(Finding("invalid", path, value, f"{path} in body should match '{pattern}'"))
        if check_format is not None and not check_format(value):
            out.append(Finding("type", path, value, f"{path} in body must be of type {form}: {go_quote(value)}"))
        return matched

    return check


def _number_check(schema: Mapping[str, Any], type_name: str, form: str) -> Callable[[float, str, list[Finding]], int]:
    low, high, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    above, below = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))
    limit = 2**31 if form == "int32" else 2**63

    def check(value: float, path: str, out: list[Finding]) -> int:
        shown = _shown(value)
        if type_name == "integer" and not (-limit <= value < limit and type(shown) is int):
            described = f"with format {form}" if form else "(default format)"
            out.append(Finding("composite", "", "", f"Checked value must be of type integer {described} in {path}"))
        # Kubernetes compares integers with the integer part of a bound.
        whole = int if type(value) is int else float
        if factor is not None and whole(factor) <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {go_number(whole(factor))}"
            out.append(Finding("invalid", path, _shown(whole(factor)), text))
        elif factor is not None and not _is_multiple(value, whole(factor)):
            text = f"{path} in body should be a multiple of {go_number(whole(factor))}"
            out.append(Finding("invalid", path, shown, text))
        if low is not None and (value <= whole(low) if above else value < whole(low)):
            words = "greater than" if above else "greater than or equal to"
            text = f"{path} in body should be {words} {go_number(whole(low))}"
            out.append(Finding("invalid", path, shown, text))
        if high is not None and (value >= whole(high) if below else value > whole(high)):
            words = "less than" if below else "less than or equal to"
            text = f"{path} in body should be {words} {go_number(whole(high))}"
            out.append(Finding("invalid", path, shown, text))
        return 2

    return check


def _is_multiple(value: float, factor: float) -> bool:
    if type(value) is int and type(factor) is int:
        return value % factor == 0
    ratio = 1 / factor * value if factor < 1 else value / factor
    return math.isclose(ratio, round(ratio), rel_tol=1e-9, abs_tol=1e-9)


def _shown(value: Any) -> Any:
    """Go prints a whole float without a fraction."""
    return int(value) if type(value) is float and value.is_integer() else value


def go_number(value: float) -> str:
    """A number as Go's %v prints it."""
    if type(value) is int:
        return str(value)
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa.removesuffix('.0')}e{power[0]}{power[1:].zfill(2)}" if exponent else text


def _list_check(schema: Mapping[str, Any]) -> Check:
    items = schema.get("items")
    check_item = _Lazy(items) if isinstance(items, Mapping) else None
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    correlated = schema.get("x-kubernetes-list-type") == "map" and bool(keys)

    def check(value: list[Any], path: str, out: list[Finding], old: Any) -> int:
        matched = 2
        if check_item is not None:
            former = _by_keys(old, keys) if correlated and type(old) is list else None
            for index, element in enumerate(value):
                old_element = UNRELATED if former is None else former.get(_key(element, keys), UNRELATED)
                if old_element is UNRELATED or element != old_element:
                    matched += check_item(element, f"{path}[{index}]", out, old_element)
        size = len(value)
        if fewest is not None and size < fewest:
            out.append(Finding("invalid", path, size, f"{path} in body should have at least {fewest} items"))
        if most is not None and size > most:
            out.append(Finding("too many", path, (size, most), ""))
        return matched

    return check


def _key(element: Any, keys: tuple[str, ...]) -> str:
    return go_value([element.get(key) for key in keys]) if type(element) is dict else ""


def _by_keys(elements: list[Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {_key(element, keys): element for element in elements if type(element) is dict}


def _object_check(schema: Mapping[str, Any]) -> Check:
    properties: dict[str, Check] = {}
    for property_name, child_schema in (schema.get("properties") or {}).items():
        properties[property_name] = _Lazy(child_schema, properties, property_name)
    needed = schema.get("required") or ()
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    additional = schema.get("additionalProperties")
    check_additional = _Lazy(additional) if isinstance(additional, Mapping) else None
    forbidden = additional is False

    def check(value: dict[str, Any], path: str, out: list[Finding], old: Any) -> int:
        matched = 1
        size = len(value)
        if fewest is not None and size < fewest:
            out.append(Finding("invalid", path, size, f"{path} in body should have at least {fewest} properties"))
        if most is not None and size > most:
            out.append(Finding("too many", path, (size, most), ""))
        former = old if type(old) is dict else None
        for name, child in value.items():
            check_child = properties.get(name) or check_additional
            if check_child is None:
                if forbidden:
                    out.append(Finding("invalid", path, name, f"{path}.{name} in body is a forbidden property"))
                continue
            old_child = UNRELATED
            if former is not None and (path or name not in ("apiVersion", "kind")):
                old_child = former.get(name, UNRELATED)
                if old_child is not UNRELATED and child == old_child:
                    continue
            below = f"{path}.{name}" if path or name not in properties else name
            matched += check_child(child, below, out, old_child)
        for name in needed:
            if name not in value:
                out.append(Finding("required", f"{path}.{name}", None, ""))
        return matched

    return check


class _Lazy:
    """A check that compiles when data first reaches it: most of a big schema is never met."""

    __slots__ = ("_check", "_holder", "_name", "_schema")

    def __init__(self, schema: Mapping[str, Any], holder: dict[str, Check] | None = None, name: str = "") -> None:
        self._schema = schema
        self._check: Check | None = None
        self._holder = holder
        self._name = name

    def __call__(self, value: Any, path: str, out: list[Finding], old: Any) -> int:
        check = self._check
        if check is None:
            check = self._check = _compile(self._schema)
            if self._holder is not None:
                # From now on the compiled check is called straight away.
                self._holder[self._name] = check
        return check(value, path, out, old)


def _enum_check(allowed: list[Any]) -> Callable[[Any, str, list[Finding]], None]:
    names = "\0".join(option if isinstance(option, str) else go_value(option) for option in allowed)
    strings = {option for option in allowed if isinstance(option, str)}

    numbers = {option for option in allowed if type(option) in (int, float)}
    whole = all(type(option) is int for option in numbers)

    def check(value: Any, path: str, out: list[Finding]) -> None:
        kind = type(value)
        if kind is str:
            if value in strings:
                return
        elif kind is int or kind is float:
            # Kubernetes converts a number to the type of the allowed ones: a fraction is cut off.
            if (int(value) if whole and kind is float else value) in numbers:
                return
        elif value is not None and any(option == value and type(option) is kind for option in allowed):
            return
        out.append(Finding("enum", path, _shown(value), names))

    return check


def _combinations(schema: Mapping[str, Any]) -> Check | None:
    any_of = [_Lazy(branch) for branch in schema.get("anyOf") or ()]
    one_of = [_Lazy(branch) for branch in schema.get("oneOf") or ()]
    all_of = [_Lazy(branch) for branch in schema.get("allOf") or ()]
    excluded = schema.get("not")
    check_not = _Lazy(excluded) if isinstance(excluded, Mapping) else None
    if not (any_of or one_of or all_of or check_not):
        return None

    def check(value: Any, path: str, out: list[Finding], old: Any) -> int:
        matched = 0
        if any_of:
            valid, best, count = _branches(any_of, value, path, old, first_only=True)
            matched += count
            if not valid:
                out.append(Finding("composite", "", "", f"{go_quote(path)} must validate at least one schema (anyOf)"))
                out.extend(best)
        if one_of:
            valid, best, count = _branches(one_of, value, path, old, first_only=False)
            if valid == 1:
                matched += count
            else:
                words = f"Found {valid} valid alternatives" if valid else "Found none valid"
                text = f"{go_quote(path)} must validate one and only one schema (oneOf). {words}"
                out.append(Finding("composite", "", "", text))
                if not valid:
                    out.extend(best)
                    matched += count
        if all_of:
            failed = 0
            for branch in all_of:
                before = len(out)
                matched += branch(value, path, out, old)
                failed += len(out) > before
            if failed:
                words = ". None validated" if failed == len(all_of) else ""
                out.append(
                    Finding("composite", "", "", f"{go_quote(path)} must validate all the schemas (allOf){words}")
                )
        if check_not is not None:
            found: list[Finding] = []
            check_not(value, path, found, UNRELATED)
            if not found:
                out.append(Finding("composite", "", "", f"{go_quote(path)} must not validate the schema (not)"))
        return matched

    return check


def _branches(
    branches: list[_Lazy], value: Any, path: str, old: Any, *, first_only: bool
) -> tuple[int, list[Finding], int]:
    """How many branches hold, and the findings and count of the one to report: the first that holds, else the nearest."""
    valid, best, best_count = 0, list[Finding](), -1
    success_count = 0
    for branch in branches:
        found: list[Finding] = []
        count = branch(value, path, found, old)
        if not found:
            if not valid:
                success_count = count
            valid += 1
            if first_only:
                break
        elif count > best_count:
            best, best_count = found, count
    return (valid, [], success_count) if valid else (0, best, best_count)
