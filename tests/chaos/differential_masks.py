"""What the differential fuzzer does not compare: each mask says why, and a run counts the steps that it touched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Mend = Callable[[Any], Any]
"""Makes one value (an object, a list or a scalar, with its parts done already) the same on both servers."""


@dataclass(frozen=True)
class Mask:
    """One reason not to compare something."""

    name: str
    why: str
    mend: Mend
    most: float = 0.1
    """The share of requests of which it may take a difference away; a run in which it does more often fails."""


def text_mask(name: str, why: str, pattern: str, replacement: str, *, flags: int = 0, most: float = 0.1) -> Mask:
    compiled = re.compile(pattern, flags)
    return Mask(name, why, lambda value: compiled.sub(replacement, value) if isinstance(value, str) else value, most)


def field_mask(name: str, why: str, *fields: str, keep: tuple[Any, ...] = (), most: float = 0.1) -> Mask:
    """Whatever is in the fields is as good as any other, but not as nothing."""

    def mend(value: Any) -> Any:
        if not isinstance(value, dict) or not any(field in value for field in fields):
            return value
        return {
            key: "*" if key in fields and one and one not in keep and isinstance(one, (str, int, list)) else one
            for key, one in value.items()
        }

    return Mask(name, why, mend, most)


def _managers(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("managedFields"), list):
        return value
    keys = ("operation", "manager", "subresource", "apiVersion")
    entries = sorted(value["managedFields"], key=lambda entry: tuple(str(entry.get(key)) for key in keys))
    return {**value, "managedFields": entries}


def _ages(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("cells"), list):
        return value
    return {**value, "cells": ["AGE" if re.fullmatch(r"\d+s", str(cell)) else cell for cell in value["cells"]]}


def _descriptions(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("columnDefinitions"), list):
        return value
    columns = [{**column, "description": "*"} for column in value["columnDefinitions"]]
    return {**value, "columnDefinitions": columns}


def _cause_key(cause: dict[str, Any]) -> tuple[str, str, str]:
    return str(cause.get("field", "")), str(cause.get("message", "")), str(cause.get("reason", ""))


def _listed_causes(value: Any) -> Any:
    """A message that lists its causes says nothing that they do not; one that does not is left alone."""
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return value
    causes = (value.get("details") or {}).get("causes") or ()
    begin, found, rest = str(value.get("message")).partition(" is invalid: ")
    texts = list(dict.fromkeys(f"{cause.get('field')}: {cause.get('message')}" for cause in causes))
    if found and texts and rest == (texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"):
        return {**value, "message": f"{begin}{found}the causes"}
    return value


def _causes(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("causes"), list):
        return value
    return {**value, "causes": sorted(value["causes"], key=_cause_key)}


def _rules_of_another_kind(value: Any) -> Any:
    """Without what the rules at `spec` say of an object that is refused for its kind anyhow."""
    if not isinstance(value, dict) or not isinstance(value.get("causes"), list):
        return value
    stranger = any(
        cause.get("field") == "kind" and re.search(r": must be \w+\Z", str(cause.get("message")))
        for cause in value["causes"]
    )
    return (
        {**value, "causes": [cause for cause in value["causes"] if cause.get("field") != "spec"]} if stranger else value
    )


def _typed_errors(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return value
    begin, found, rest = str(value.get("message")).partition("): ")
    if not found or "typed patch object" not in begin:
        return value
    if "field not declared in schema" in rest:
        return {**value, "message": f"{begin}{found}some field is not declared in schema"}
    return {**value, "message": "\n".join([begin, *sorted(rest.removeprefix("errors:\n").split("\n"))])}


MASKS: tuple[Mask, ...] = (
    text_mask(
        "generated names",
        "each server makes up the last five characters",
        r"\b(kube-api-access-|gen-|Bad_)[b-z2-9]{5}\b",
        r"\1*",
        most=0.2,
    ),
    field_mask(
        "times",
        "each server looks at the clock at its own moment",
        *("creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime"),
        most=1.0,
    ),
    text_mask(
        "times in texts",
        "each server looks at the clock at its own moment",
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
        "TIME",
    ),
    field_mask("versions", "each server counts all its writes, those of its controllers too", "resourceVersion", most=1.0),
    text_mask(
        "versions in texts",
        "each server counts all its writes",
        r'(resourceVersion"?: ?"?|ResourceVersion in record \()\d+',
        r"\1*",
    ),
    field_mask("continue tokens", "opaque, and made of versions", "continue"),
    field_mask("ports and addresses", "each server allots its own at random", "nodePort", "healthCheckNodePort"),
    field_mask("cluster addresses", "each server allots its own at random", "clusterIP", "clusterIPs", keep=("None", ["None"])),
    text_mask("addresses in texts", "each server allots its own at random", r"\b10\.96\.\d+\.\d+\b", "IP"),
    text_mask("ports in tables", "each server allots its own at random", r"(\d:)3\d{4}(/(TCP|UDP))", r"\1PORT\2"),
    text_mask(
        "ports in texts", "each server allots its own at random", r"(\A|nodePort: )(Duplicate value: )3\d{4}\b", r"\1\2PORT"
    ),
    field_mask("certificates", "each server has its own authority", "ca.crt"),
    Mask("ages", "seconds since the creation, by each server's own clock", _ages, 0.2),
    Mask("column descriptions", "Kubernetes' are its API's prose, ours are our own words", _descriptions, 0.2),
    Mask("order of managers", "sorted by time in seconds, and the seconds begin at the same moment on no two servers", _managers),
    Mask("lists of causes", "a message that lists the causes, which are compared themselves", _listed_causes),
    text_mask(
        "immutable value",
        "Kubernetes prints the refused value as its internal Go type, unset fields and Go's names included",
        r"\AInvalid value: .*: field is immutable\Z",
        "Invalid value: VALUE: field is immutable",
        flags=re.DOTALL,
    ),
    text_mask(
        "difference of specs",
        "Kubernetes prints the difference of two Go structs, line by line",
        r"\A(Forbidden: (spec is immutable after creation except|pod updates may not change fields other than)[^\n]*)\n.*",
        r"\1 DIFFERENCE",
        flags=re.DOTALL,
    ),
    text_mask(
        "quoted patch result",
        "Kubernetes prints the object that a patch made as Go encodes its map, before decoding refuses it",
        r'\A(Invalid value: )"\{.*\}(\\n)?": ',
        r"\1OBJECT: ",
        flags=re.DOTALL,
    ),
    Mask(
        "rules of another kind",
        "a custom resource of another kind is not checked against the schema, yet its rules run: what cel-go and our library say of "
        "values of the wrong type differs",
        _rules_of_another_kind,
    ),
    Mask("order of causes", "Go walks its maps in a random order, and finds what is wrong in that order", _causes),
    Mask(
        "type errors of an apply",
        "Go walks its maps in a random order, and ends the walk at the first field that is not declared: which others it saw is chance",
        _typed_errors,
    ),
)  # fmt: skip


def _mended(mask: Mask, value: Any) -> Any:
    if isinstance(value, dict):
        return mask.mend({key: _mended(mask, one) for key, one in value.items()})
    if isinstance(value, list):
        return mask.mend([_mended(mask, one) for one in value])
    return mask.mend(value)


def paths(ours: Any, real: Any, at: str = "") -> list[str]:
    """Where two answers differ."""
    if isinstance(ours, dict) and isinstance(real, dict):
        found: list[str] = []
        for key in sorted(set(ours) | set(real)):
            if key not in ours:
                found.append(f"{at}.{key}: only real: {real[key]!r}")
            elif key not in real:
                found.append(f"{at}.{key}: only ours: {ours[key]!r}")
            else:
                found += paths(ours[key], real[key], f"{at}.{key}")
        return found
    if isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        return [line for i, (a, b) in enumerate(zip(ours, real, strict=True)) for line in paths(a, b, f"{at}[{i}]")]
    return [] if ours == real else [f"{at}: ours {ours!r} != real {real!r}"]


def differences(ours: Any, real: Any, touched: Counter[str]) -> list[str]:
    """Where two answers differ for no reason known here. `touched` counts the masks that took a difference away."""
    found = paths(ours, real)
    for mask in MASKS:
        if not found:
            break
        ours, real = _mended(mask, ours), _mended(mask, real)
        left = paths(ours, real)
        if len(left) < len(found):
            touched[mask.name] += 1
        found = left
    return found
