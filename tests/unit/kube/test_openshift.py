"""The one answer to whether a cluster is an OpenShift cluster."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import ConsoleLink, Group, HTTPRoute, Route
from modelyard.kube.kinds import Kind
from modelyard.kube.openshift import is_openshift


class Api:
    def __init__(self, *kinds: Kind) -> None:
        self._kinds = kinds

    def serves(self, kind: Kind) -> bool:
        return kind in self._kinds


@pytest.mark.parametrize(
    ("served", "answer"),
    [((), False), ((HTTPRoute,), False), ((Route,), True), ((ConsoleLink,), True), ((Route, ConsoleLink, Group), True)],
)
def test_routes_or_a_console_make_an_openshift(served: tuple[Kind, ...], answer: bool) -> None:
    assert is_openshift(Api(*served)) is answer
