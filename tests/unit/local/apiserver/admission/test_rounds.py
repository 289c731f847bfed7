"""Which webhooks a request concerns, and which are called a second time."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment, Namespace
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.admission.configurations import HookRule, Webhook
from modelyard.local.apiserver.admission.reviews import BadAnswer, denial, read_answer
from modelyard.local.apiserver.admission.webhooks import Rounds
from modelyard.local.apiserver.requests.hooks import Admission, Operation
from modelyard.local.apiserver.requests.messages import LOOPBACK
from modelyard.local.apiserver.served.resources import PlainStrategy, ServedResource


def hook_rule(
    resources: str = "*", *, operations: str = "*", groups: str = "*", versions: str = "*", scope: str = "*"
) -> HookRule:
    split = [frozenset(text.split(",")) for text in (operations, groups, versions, resources)]
    return HookRule(split[0], split[1], split[2], split[3], scope)


def admission(kind: Kind, operation: Operation = "CREATE", subresource: str = "") -> Admission:
    return Admission(operation, ServedResource(kind, PlainStrategy()), LOOPBACK, "a", "x", subresource)


@pytest.mark.parametrize(
    ("rule", "asked", "expected"),
    [
        (hook_rule("configmaps"), admission(ConfigMap), True),
        (hook_rule("*"), admission(ConfigMap), True),
        (hook_rule("*"), admission(Deployment, subresource="scale"), False),
        (hook_rule("*/*"), admission(Deployment, subresource="scale"), True),
        (hook_rule("*/*"), admission(Deployment), True),
        (hook_rule("deployments/*"), admission(Deployment), True),
        (hook_rule("deployments/scale"), admission(Deployment), False),
        (hook_rule("*/scale"), admission(Deployment, subresource="scale"), True),
        (hook_rule("deployments", groups="apps", versions="v1"), admission(Deployment), True),
        (hook_rule("deployments", groups="apps", versions="v2"), admission(Deployment), False),
        (hook_rule("deployments", groups=""), admission(Deployment), False),
        (hook_rule("configmaps", operations="UPDATE,DELETE"), admission(ConfigMap), False),
        (hook_rule("configmaps", scope="Namespaced"), admission(ConfigMap), True),
        (hook_rule("namespaces", scope="Namespaced"), admission(Namespace), False),
        (hook_rule("namespaces", scope="Cluster"), admission(Namespace), True),
    ],
)
def test_rules(rule: HookRule, asked: Admission, expected: bool) -> None:
    assert rule.matches(asked, asked.resource) is expected


def webhook(position: int, policy: str = "Never") -> Webhook:
    return Webhook("c", {"name": f"h{position}", "reinvocationPolicy": policy}, True, position)


class TestRounds:
    def test_no_change_no_second_round(self) -> None:
        rounds = Rounds()
        rounds.called(webhook(0, "IfNeeded"))
        assert not rounds.again

    def test_only_those_before_a_change_that_asked_for_it(self) -> None:
        first, second, third = webhook(0, "IfNeeded"), webhook(1), webhook(2, "IfNeeded")
        rounds = Rounds()
        rounds.called(first)
        rounds.changed()
        rounds.called(second)
        rounds.called(third)
        assert rounds.again
        rounds.second(others_changed=False)
        assert [rounds.wants(each) for each in (first, second, third)] == [True, False, False]

    def test_all_that_asked_for_it_when_the_server_changed_the_object(self) -> None:
        first = webhook(0, "IfNeeded")
        rounds = Rounds()
        rounds.changed()
        rounds.called(first)
        rounds.second(others_changed=True)
        assert rounds.wants(first)


QUESTION: Object = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}


def answer(**response: object) -> Object:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "1", **response}}


@pytest.mark.parametrize(
    ("given", "mutating", "message"),
    [
        ({}, False, 'no kind "None" is registered for version "None"'),
        ({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, False, "webhook response was absent"),
        (answer(uid="2"), False, 'expected response.uid="1", got "2"'),
        (answer(patch="W10="), False, "validating webhook may not return response.patch"),
        (answer(patchType="JSONPatch"), False, "validating webhook may not return response.patchType"),
        (answer(patch="W10="), True, "webhook returned response.patch but not response.patchType"),
        (answer(patchType="JSONPatch"), True, "webhook returned response.patchType but not response.patch"),
        (answer(patch="W10=", patchType="Merge"), True, 'unsupported patch type "Merge"'),
        (answer(patch="e30=", patchType="JSONPatch"), True, "received undecodable patch in webhook response"),
        (answer(patch="!", patchType="JSONPatch"), True, "received undecodable patch in webhook response"),
    ],
)
def test_answers_that_cannot_be_used(given: Object, mutating: bool, message: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        read_answer(QUESTION, given, mutating=mutating)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("result", "code", "message"),
    [
        ({}, 400, 'admission webhook "h" denied the request without explanation'),
        ({"message": "no", "code": 403}, 403, 'admission webhook "h" denied the request: no'),
        ({"reason": "Why", "code": 200}, 400, 'admission webhook "h" denied the request: Why'),
        ({"code": "x"}, 400, 'admission webhook "h" denied the request without explanation'),
    ],
)
def test_denials(result: Object, code: int, message: str) -> None:
    problem = denial("h", result)
    assert (problem.code, problem.message) == (code, message)
