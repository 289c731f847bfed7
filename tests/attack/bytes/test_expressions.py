"""Expressions of users: regular ones run in linear time, and CEL rules within a budget that is a refusal when it is over."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.structural.patterns import matcher
from modelyard.local.network.routes import Table, from_http_route, invalid_expressions
from tests.attack.bytes.confined import request

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOSTILE = ("(a+)+$", "a*a*a*a*a*a*a*b", "(a|aa)+$", ".*.*.*.*=.*;")


def ruled(rule: str, most: int | None = None) -> Object:
    numbers: Object = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]}
    numbers |= {} if most is None else {"maxItems": most}
    schema = {"type": "object", "properties": {"l": numbers}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.attack.example.com"},
        "spec": {"group": "attack.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def sent(server: ApiServer, path: str, body: Object) -> tuple[int, Any]:
    reply = await server.handle(request("POST", path, json.dumps(body).encode()))
    assert isinstance(reply.body, bytes)
    return reply.status, json.loads(reply.body)


async def test_a_rule_that_can_take_too_long_is_refused_when_it_is_written() -> None:
    rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d > 0))))"
    async with ApiServer() as server:
        status, answer = await sent(server, DEFINITIONS, ruled(rule))
    assert status == 422
    assert "estimated rule cost exceeds budget by factor of more than 100x" in answer["message"]


async def test_a_rule_over_its_budget_refuses_the_object() -> None:
    async with ApiServer() as server:
        status, _ = await sent(server, DEFINITIONS, ruled("self.all(a, self.all(b, a + b > 0))", 1100))
        assert status == 201
        await server.settle()
        thing = {"apiVersion": "attack.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "l": [1] * 1100}
        status, answer = await sent(server, "/apis/attack.example.com/v1/namespaces/default/things", thing)
    assert status == 422
    assert "no further validation rules will be run due to call cost exceeding limit for rule" in answer["message"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_pattern_that_backtracks_takes_no_time(pattern: str) -> None:
    assert not matcher(pattern)("a" * 900 + "!")


@pytest.mark.parametrize("pattern", ["(" * 2000 + ")" * 2000, "((a{100}){100}){100}"])
def test_a_pattern_that_no_engine_can_read_matches_or_not(pattern: str) -> None:
    assert matcher(pattern)("aaa") in (True, False)


@pytest.mark.parametrize("pattern", ["(a{1000})" * 50, "a" * 5000, "(" * 2000 + ")" * 2000 + "|" * 200])
def test_a_route_whose_expression_every_request_would_wait_for_is_refused(pattern: str) -> None:
    rule = {"matches": [{"path": {"type": "RegularExpression", "value": pattern}}], "backendRefs": []}
    (route,) = from_http_route({"metadata": {"namespace": "n", "name": "r"}, "spec": {"rules": [rule]}})
    (said,) = invalid_expressions(route)
    assert "is too large a regular expression" in said
    assert not invalid_expressions(replace(route, path="/a{1,20}b"))


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_route_that_backtracks_does_not_stop_the_gateway(pattern: str) -> None:
    rule = {"matches": [{"path": {"type": "RegularExpression", "value": f"/{pattern}"}}], "backendRefs": []}
    route = {"metadata": {"namespace": "n", "name": "r"}, "spec": {"rules": [rule]}}
    assert Table(from_http_route(route)).find("localhost", "GET", "/" + "a" * 900 + "!", {}, {}) is None
