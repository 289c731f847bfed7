"""Which object gets the hosts and paths that it asks for, and where the others are served."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.laptop.places import base_url
from modelyard.local.network.published import Published, Settled, settle
from modelyard.local.network.route_reports import status_of

GATEWAY = "https://localhost:8443"


def route(name: str, *, namespace: str = "shop", host: str = "") -> Published:
    spec: Object = {"to": {"kind": "Service", "name": name}} | ({"host": host} if host else {})
    obj: Object = {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec}
    return Published.read(builtin.Route, obj)


def reported(settled: Settled) -> tuple[str, str]:
    """The host of a Route and whether it is admitted, as its status says."""
    (said,) = (status_of(settled, 8443, lambda backend: True, "now") or {})["ingress"]
    return said["host"], said["conditions"][0]["status"]


@pytest.mark.parametrize("namespace", ["shop", "other"])
def test_each_openshift_route_without_a_host_is_served(namespace: str) -> None:
    first, second = settle([route("catalog"), route("models", namespace=namespace)])
    assert reported(first) == ("localhost", "True")
    assert reported(second) == (second.published.own_host, "True")
    (served,) = second.routes
    assert [backend.service for backend in served.backends] == ["models"]


def test_a_host_that_is_asked_for_has_one_owner() -> None:
    first, second = settle([route("catalog", host="shop.example.com"), route("models", host="shop.example.com")])
    assert reported(first) == ("shop.example.com", "True")
    assert reported(second) == ("shop.example.com", "False")
    assert second.routes == ()


def test_programs_are_told_the_host_of_a_route_that_has_one_of_its_own() -> None:
    first, second = (Published(each.published.kind, each.published.object, each.routes) for each in settle(
        [route("catalog"), route("models")]
    ))  # fmt: skip
    assert base_url(first, GATEWAY) == GATEWAY
    assert base_url(second, GATEWAY) == f"https://{second.own_host}:8443"
