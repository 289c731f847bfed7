"""The custom resources that the differential fuzzer defines: schemas of several shapes, and random objects that mostly fit."""

from __future__ import annotations

from typing import Any

from modelyard.kube.kinds import Kind, Object
from tests.chaos.differential_chance import Chance

GROUP = "fuzz.modelyard.dev"
WIDGET = Kind(GROUP, "v1", "Widget", "widgets")
GADGET = Kind(GROUP, "v1", "Gadget", "gadgets")
GIZMO = Kind(GROUP, "v1", "Gizmo", "gizmos")
OLD_GIZMO = Kind(GROUP, "v1beta1", "Gizmo", "gizmos")

_WIDGET: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 100},
                "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
                "port": {"x-kubernetes-int-or-string": True},
                "note": {"type": "string", "nullable": True, "maxLength": 20},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "parts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.note) || self.size > 0", "message": "a note needs a size"},
                {"rule": "self.size >= oldSelf.size - 50", "message": "must not shrink by more than 50"},
            ],
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "seen": {"type": "integer"}}},
    },
}
_GADGET: Object = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "spec": {
            "type": "object",
            "default": {"colour": "red"},
            "properties": {
                "colour": {"type": "string", "pattern": "^[a-z]+$", "default": "blue"},
                "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "multipleOf": 0.5},
                "when": {"type": "string", "format": "date-time"},
                "address": {"type": "string", "format": "ipv4"},
                "level": {"type": "integer", "format": "int32", "enum": [1, 2, 3]},
                "on": {"type": "boolean"},
                "name": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is given once"}],
                },
                "words": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "minLength": 2}},
                "limits": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
                },
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["number", "protocol"],
                    "items": {
                        "type": "object",
                        "required": ["number"],
                        "properties": {
                            "number": {"type": "integer", "minimum": 1},
                            "protocol": {"type": "string", "default": "TCP"},
                            "title": {"type": "string", "nullable": True},
                        },
                    },
                },
                "nested": {
                    "type": "object",
                    "maxProperties": 2,
                    "additionalProperties": {
                        "type": "object",
                        "properties": {"x": {"type": "integer", "default": 7}, "y": {"type": "string"}},
                    },
                },
                "either": {
                    "type": "object",
                    "properties": {"left": {"type": "string"}, "right": {"type": "string"}},
                    "oneOf": [{"required": ["left"]}, {"required": ["right"]}],
                },
                "held": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.words) || self.words.all(w, w != self.colour)",
                    "messageExpression": "'no word may be ' + self.colour",
                    "fieldPath": ".words",
                    "reason": "FieldValueForbidden",
                },
                {
                    "rule": "!has(self.level) || oldSelf.optMap(o, !has(o.level) || o.level <= self.level).orValue(true)",
                    "optionalOldSelf": True,
                    "message": "level only rises",
                },
            ],
        },
        "status": {
            "type": "object",
            "properties": {"ready": {"type": "boolean"}, "count": {"type": "integer", "default": 0}},
        },
    },
}  # fmt: skip


def _gizmo(*, beta: bool) -> Object:
    properties: Object = {
        "size": {"type": "integer", "default": 1 if beta else 2},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic" if beta else "set"},
    }
    properties["old" if beta else "new"] = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}},
            },
        },
    }


def _version(name: str, schema: Object, *, storage: bool = True, **more: Any) -> Object:
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def _definition(kind: Kind, *versions: Object) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"},
            "versions": list(versions),
        },
    }  # fmt: skip


_SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}
_COLUMNS = [
    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
    {"name": "Level", "type": "integer", "jsonPath": ".spec.level", "priority": 1},
    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
    {"name": "First", "type": "string", "jsonPath": ".spec.words[0]"},
]
DEFINITIONS: tuple[Object, ...] = (
    _definition(WIDGET, _version("v1", _WIDGET, subresources={"status": {}})),
    _definition(GADGET, _version("v1", _GADGET, additionalPrinterColumns=_COLUMNS)),
    _definition(
        GIZMO,
        _version("v1", _gizmo(beta=False), subresources={"status": {}, "scale": _SCALE}),
        _version("v1beta1", _gizmo(beta=True), storage=False, subresources={"status": {}, "scale": _SCALE}),
    ),
)
KINDS = (WIDGET, GADGET, GIZMO, OLD_GIZMO)


def widget(chance: Chance) -> Object:
    spec: Object = {"size": chance.pick([0, 1, 50, 100], [101, "3", -1])} if not chance.wrong(0.3) else {}
    chance.maybe(spec, 0.4, mode=chance.pick(["fast", "slow"], ["other"]))
    chance.maybe(spec, 0.3, port=chance.pick([80, "web"], [1.5]))
    chance.maybe(spec, 0.3, note=chance.pick(["hello", None], ["x" * 30]))
    chance.maybe(spec, 0.4, tags=chance.pick([["a"], ["a", "b"], ["b", "a"], []], [["a", "a"]]))
    parts = [
        {"name": name, **({"count": 2} if chance.random() < 0.4 else {})}
        for name in chance.pick(["a", "ab", "ba"], ["aa"])
    ]
    chance.maybe(spec, 0.4, parts=parts)
    chance.maybe(spec, 0.2, free={"x": {"y": [1, "2"]}})
    chance.maybe(spec, 0.2, labels={"k": "v"})
    if chance.wrong(0.8):
        spec["unknown"] = 1
    return {"spec": spec}


def gadget(chance: Chance) -> Object:
    if chance.random() < 0.1:
        return {}
    spec: Object = {}
    chance.maybe(spec, 0.4, colour=chance.pick(["red", "green"], ["Red", "", 3]))
    chance.maybe(spec, 0.3, ratio=chance.pick([1, 0.5, 2.0], [0, 0.3, "1", -1]))
    chance.maybe(
        spec, 0.3, when=chance.pick(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5+01:00"], ["yesterday", ""])
    )
    chance.maybe(spec, 0.2, address=chance.pick(["10.0.0.1"], ["10.0.0", "::1"]))
    chance.maybe(spec, 0.4, level=chance.pick([1, 2, 3], [4, 2**40]))
    chance.maybe(spec, 0.3, on=chance.pick([True, False], ["true"]))
    chance.maybe(spec, 0.3, name=chance.choice(["one", "two"]))
    chance.maybe(spec, 0.3, words=chance.pick([["aa"], ["aa", "bb"]], [[], ["a"], ["aa", "red"], ["aa"] * 4]))
    chance.maybe(spec, 0.2, limits=chance.pick([{"cpu": 1}, {"cpu": "1", "memory": "1Gi"}], [{"cpu": 1.5}]))
    ports: list[Object] = [{"number": 80}, {"number": 80, "protocol": "UDP"}, {"number": 81, "title": None}]
    chance.maybe(spec, 0.4, ports=chance.pick([ports[:1], ports[:2], ports[1:], ports[::-1]], [ports[:1] * 2, [{}]]))
    chance.maybe(
        spec, 0.3, nested=chance.pick([{"a": {}}, {"a": {"x": 1}, "b": {"y": "z"}}, {}], [{"a": None}, {"a": 1}])
    )
    chance.maybe(spec, 0.2, either=chance.pick([{"left": "l"}, {"right": "r"}], [{}, {"left": "l", "right": "r"}]))
    held: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}, "data": {"a": "b"}}
    chance.maybe(
        spec, 0.2, held=chance.pick([held], [{"data": {}}, {**held, "metadata": {"labels": {"bad key!": "x"}}}])
    )
    made: Object = {"spec": spec}
    chance.maybe(made, 0.2, status={"ready": chance.random() < 0.5})
    chance.maybe(made, 0.2, other={"kept": [1, {"x": None}]})
    return made


def gizmo(chance: Chance) -> Object:
    spec: Object = {}
    chance.maybe(spec, 0.5, size=chance.pick([0, 3], [-1, "x"]))
    chance.maybe(spec, 0.5, tags=chance.pick([["a"], ["a", "b"]], [["a", "a"]]))
    chance.maybe(spec, 0.3, old="o")
    chance.maybe(spec, 0.3, new="n")
    return {"spec": spec}


CONTENTS = {"Widget": widget, "Gadget": gadget, "Gizmo": gizmo}
PATCHES: dict[str, list[Object]] = {
    "Widget": [
        {"spec": {"size": 7}},
        {"spec": {"tags": ["q"]}},
        {"spec": {"note": None}},
        {"spec": {"mode": None}},
        {"spec": {"parts": [{"name": "p"}]}},
        {"spec": {"free": {"x": None, "z": 1}}},
    ],
    "Gadget": [
        {"spec": {"colour": None}},
        {"spec": {"name": "three"}},
        {"spec": {"level": 2}},
        {"spec": {"nested": {"a": {"x": None}, "c": {}}}},
        {"spec": {"limits": {"cpu": 2}}},
        {"spec": None},
        {"status": {"ready": True}},
    ],
    "Gizmo": [{"spec": {"size": None}}, {"spec": {"new": "m"}}, {"spec": {"tags": ["z"]}}, {"spec": {"old": "p"}}],
}
STATUSES: dict[str, list[Object]] = {
    "Widget": [{"phase": "x", "seen": 1}, {"phase": "x"}, {"seen": 3, "other": 1}, {"seen": "x"}],
    "Gizmo": [{"size": 2, "selector": "a=b"}, {"size": -1}, {"selector": "!"}, {}],
}
