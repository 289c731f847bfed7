"""Random custom resources, judged by the embedded and by the real server: status, causes and the settled object agree."""

from __future__ import annotations

import random
from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from tests.cluster.api.calls import call
from tests.cluster.api.definitions import definition, install, spec, version
from tests.cluster.conftest import Api

COUNT = 400
STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}
SCHEMA = spec(
    plain=STRING,
    limited=STRING | {"minLength": 2, "maxLength": 4, "pattern": "^a"},
    choice=STRING | {"enum": ["x", "y"]},
    number_choice=INTEGER | {"enum": [1, 2]},
    whole=INTEGER,
    small=INTEGER | {"format": "int32", "minimum": -5, "maximum": 1000},
    fraction={"type": "number", "minimum": 0.5, "multipleOf": 0.5},
    flag={"type": "boolean"},
    either={"x-kubernetes-int-or-string": True, "maxLength": 3, "minimum": 2},
    nullable=STRING | {"nullable": True, "enum": ["q"]},
    when=STRING | {"format": "date-time"},
    span=STRING | {"format": "duration"},
    address=STRING | {"format": "ipv4"},
    place=STRING | {"format": "uri"},
    raw=STRING | {"format": "byte"},
    items={"type": "array", "items": STRING, "minItems": 1, "maxItems": 2},
    nested={"type": "array", "items": {"type": "array", "items": INTEGER}},
    unique={"type": "array", "items": INTEGER, "x-kubernetes-list-type": "set"},
    keyed={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": spec(k=STRING, v=INTEGER, d=INTEGER | {"default": 4}) | {"required": ["k"]},
    },
    numbers={"type": "object", "additionalProperties": INTEGER, "maxProperties": 2},
    objects={
        "type": "object",
        "additionalProperties": spec(a=STRING, b=STRING | {"default": "z"}) | {"required": ["a"]},
    },
    inner=spec(a=STRING, b=INTEGER, c=spec(z=STRING, y=INTEGER | {"default": 3}) | {"required": ["z"]})
    | {"required": ["a"]},
    open={
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": INTEGER, "q": spec(a=STRING)},
    },
    anything={"x-kubernetes-preserve-unknown-fields": True},
    filled=spec(x=INTEGER | {"default": 1}, y=STRING) | {"default": {"y": "w"}},
    embedded={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    one=spec(a=STRING, b=STRING, c=INTEGER)
    | {"oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"c": {"minimum": 3}}}]},
    some=spec(a=INTEGER, b=STRING)
    | {"anyOf": [{"required": ["a"], "properties": {"a": {"minimum": 5}}}, {"required": ["b"]}]},
    every=STRING | {"allOf": [{"minLength": 2}, {"pattern": "^z"}]},
    none=INTEGER | {"not": {"enum": [3]}},
)
VALUES: list[Any] = [
    None, "", "a", "ab", "abcde", "x", "z", "zz", "q", 0, 1, 2, 3, 5, 7, -1, 1.5, 2.0, 0.5, 1e3, 2**31, 2**40, True, False, [], {},
    ["a"], ["a", "a"], ["a", "b", "c"], [1, 1], [1, 2], [None], [[1], ["x"]], [{"k": "a"}, {"k": "a", "v": 2}],
    [{"k": "a", "x": 1}, {"k": "b", "v": "s"}], [{}], [{}, {}], {"a": 1}, {"a": "s"}, {"a": 1, "b": 2, "c": 3}, {"b": "s"},
    {"a": None}, {"k": {"a": "s"}}, {"k": {}}, {"k": None}, {"a": "s", "b": "t"}, {"a": "s", "c": {}},
    {"a": "s", "c": {"z": "s", "w": 1}}, {"c": {"z": None}}, {"q": {"a": "s", "zz": 1}, "w": {"e": 1}}, {"x": None, "y": 5},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, {"apiVersion": "v1"}, {"kind": "A_", "apiVersion": "a/b/c"},
    {"a": 6}, {"b": "s", "c": 2}, {"b": "s", "c": 4}, "2024-01-01T00:00:00Z", "1h", "10.0.0.1", "https://a.b/c", "aGk=", "no base64!",
]  # fmt: skip


def random_spec(rnd: random.Random) -> Object:
    fields = rnd.sample(list(SCHEMA["properties"]), rnd.randint(1, 3))
    value = {field: rnd.choice(VALUES) for field in fields}
    return value | {"unknown": 1} if rnd.random() < 0.1 else value


async def verdict(api: Api, path: str, body: Object) -> Any:
    answer = await call(api, "POST", path, body, dryRun="All")
    if answer.status < 400:
        return answer.status, answer.body.get("spec")
    causes = (answer.body.get("details") or {}).get("causes") or ()
    # The real server walks objects in no particular order.
    return answer.status, sorted((cause["field"], cause["message"]) for cause in causes) or answer.message


@pytest.mark.real
async def test_both_servers_judge_random_objects_alike(api: Api) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    obj = definition(version(schema=SCHEMA))
    real = await install(api, obj)
    async with ApiServer() as server:
        ours = Api(server.client(), server=server)
        await install(ours, obj)
        path = real.kind.path("default")
        for number in range(COUNT):
            body = {
                "apiVersion": real.kind.api_version, "kind": real.kind.kind, "metadata": {"name": "x"},
                "spec": random_spec(rnd),
            }  # fmt: skip
            expected = await verdict(api, path, body)
            assert await verdict(ours, path, body) == expected, f"seed {seed}, object {number}: {body['spec']}"
