"""Bodies that are small on the wire and large in memory, or long to look at: each is refused, or bounded, at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from modelyard.kube import bounded_yaml
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import Request
from modelyard.operators.model_registry.catalog.sources import without_default_catalog
from tests.attack.bytes.confined import CONFIG_MAPS, answers, request

PODS = "/api/v1/namespaces/default/pods"
HEAD = '"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}'
JSON_PATCH = "application/json-patch+json"


def nested_aliases(merging: bool) -> str:
    """A text of some hundred bytes that stands for millions of values."""
    lines = ["a0: &a0 {x: 1}" if merging else "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 9):
        inner = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{inner}]}}" if merging else f"[{inner}]"))
    return "\n".join(lines) + "\n"


def yaml_bombs() -> list[Request]:
    texts = [nested_aliases(True), nested_aliases(False), "[" + "[]," * 1_000_000 + "]", "[" * 100_000]
    return [request("POST", CONFIG_MAPS, text.encode(), "application/yaml") for text in texts]


def lists_of_lists() -> list[Request]:
    many = ",".join(["[]"] * 900_000)
    pods = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[%s]}}'
    applied = f'{{{HEAD},"x":[{many}]}}'.encode()
    return [
        request("POST", CONFIG_MAPS, f"[{many}]".encode()),
        request("POST", CONFIG_MAPS, f'{{{HEAD},"x":[{many}]}}'.encode()),
        request("POST", PODS, (pods % ",".join(["{}"] * 900_000)).encode()),
        request("PATCH", CONFIG_MAPS + "/a", applied, "application/apply-patch+yaml", {"fieldManager": ["a"]}),
    ]


def copies() -> list[Request]:
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(24)]
    many: list[dict[str, Any]] = [{"op": "add", "path": "/data", "value": {f"k{n}": "" for n in range(100_000)}}]
    many += [{"op": "copy", "from": "/kind", "path": f"/data/c{number}"} for number in range(9000)]
    return [
        request("PATCH", CONFIG_MAPS + "/prey", json.dumps(operations).encode(), JSON_PATCH)
        for operations in (doubling, many)
    ]


def unknown_fields() -> list[Request]:
    unknown = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "u"},
        **{f"f{n}": 1 for n in range(100_000)},
    }
    twice = ",".join(f'"f{number // 2}":1' for number in range(150_000))
    deep = '{"a":' * 190 + "{" + twice + "}" + "}" * 190
    return [
        request("POST", CONFIG_MAPS, json.dumps(unknown).encode()),
        request("POST", CONFIG_MAPS, json.dumps(unknown).encode(), query={"fieldValidation": ["Strict"]}),
        request("POST", CONFIG_MAPS, f"{{{HEAD},{twice}}}".encode()),
        request("POST", CONFIG_MAPS, deep.encode()),
    ]


@pytest.mark.parametrize(
    ("bomb", "statuses"),
    [
        ("yaml_bombs", [400, 400, 400, 400]),
        ("lists_of_lists", [413, 413, 413, 413]),
        ("copies", [422, 422]),
        ("unknown_fields", [201, 400, 201, 422]),
    ],
)
def test_a_bomb_is_defused_with_little_memory_and_time(bomb: str, statuses: list[int]) -> None:
    assert answers(bomb, "tests.attack.bytes.test_bodies") == statuses


async def test_only_the_first_unknown_fields_are_told_of() -> None:
    async with ApiServer() as server:
        reply = await server.handle(unknown_fields()[0])
    warnings = [value for name, value in reply.headers if name == "Warning"]
    assert 10 < len(warnings) <= 100
    assert sum(map(len, warnings)) < 10_000


async def test_an_answer_is_not_many_times_as_large_as_its_question() -> None:
    labels = ",".join(f'"-{number}":"-"' for number in range(50_000))
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","labels":{{{labels}}}}}}}'.encode()
    async with ApiServer() as server:
        reply = await server.handle(request("POST", CONFIG_MAPS, body))
    assert reply.status == 422
    assert isinstance(reply.body, bytes)
    assert len(reply.body) < 2 * len(body)
    assert b"more]" in reply.body


@pytest.mark.parametrize("merging", [True, False])
def test_aliases_in_a_catalog_list_do_not_stop_the_plane(merging: bool) -> None:
    assert without_default_catalog(nested_aliases(merging) + "catalogs: [{id: default_catalog}]\n") is None


def test_a_few_aliases_are_read() -> None:
    assert bounded_yaml.load("a: &a {x: 1}\nb: {<<: *a, y: 2}\n") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


@pytest.mark.parametrize("text", ["a: !!bool x", "a: !!int x", "a: 2001-99-99", "a: &a [*a]", "a: {[]: 1}"])
def test_a_value_that_cannot_be_read_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        bounded_yaml.load(text)
