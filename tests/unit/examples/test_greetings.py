"""The example operator without a server: what comes out of a Greeting."""

from __future__ import annotations

from typing import Any

from greetings_operator.api import GREETING
from greetings_operator.config import NAME, Settings
from greetings_operator.controller import greetings, greetings_using
from greetings_operator.operator import operator
from greetings_operator.webhooks import check, convert, fill_in
from modelyard.kube.builtin import ClusterRole, ConfigMap, Deployment, HTTPRoute, Secret, Service
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.declaring.operator_metrics import CacheGauge
from modelyard.runtime.testing import FakeWorld, RunOutcome, bench, make_ready, run, settle
from modelyard.runtime.webhooks import AdmissionRequest, Denied


def greeting(**spec: Any) -> Object:
    return {
        "apiVersion": "demo.modelyard.dev/v1",
        "kind": "Greeting",
        "metadata": {"name": "hi", "namespace": "shop"},
        "spec": {"text": "Hello"} | spec,
    }


def test_a_greeting_gets_its_objects() -> None:
    outcome = run(greetings(), greeting())
    assert outcome.failures == ()
    assert outcome.children.names() == [
        "ClusterRole greeting-shop-hi", "ConfigMap hi", "Deployment hi", "Secret hi-key", "Service hi",
    ]  # fmt: skip
    assert outcome.condition("Ready")["reason"] == "Starting"


def test_it_is_ready_when_its_replicas_are() -> None:
    settled = settle(greetings(), greeting(replicas=2), react=make_ready)
    assert settled.condition("Ready")["status"] == "True"
    assert settled.status["url"] == "http://hi.shop.svc/"


def test_it_has_a_route_only_where_routes_are_served() -> None:
    assert run(greetings(), greeting(host="a.b")).children.names(HTTPRoute) == []
    outcome = run(greetings(), greeting(host="a.b"), served=[HTTPRoute])
    assert outcome.children[HTTPRoute, "hi"]["spec"]["hostnames"] == ["a.b"]
    assert outcome.status["url"] == "http://a.b/"


def test_a_missing_secret_holds_and_a_changed_one_rolls_the_pods() -> None:
    assert run(greetings(), greeting(secretName="s")).condition("Ready")["reason"] == "SecretMissing"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "shop"},
        "data": {"a": "eA=="},
    }
    story = bench(greetings(), greeting(secretName="s"), [secret])
    before = story.run().children[Deployment, "hi"]["spec"]["template"]["metadata"]
    story.edit(Secret, "shop", "s", lambda s: s["data"].update(a="eQ=="))
    assert story.run().children[Deployment, "hi"]["spec"]["template"]["metadata"] != before


def test_the_secret_wakes_those_who_use_it() -> None:
    world = FakeWorld([greeting(secretName="s")], kinds=[GREETING.kind])
    secret = {"metadata": {"name": "s", "namespace": "shop"}}
    assert list(greetings_using(secret, world)) == [Key("shop", "hi")]


def test_the_key_is_made_once() -> None:
    story = bench(greetings(), greeting())
    key = story.run().children[Secret, "hi-key"]["data"]["key"]
    story.edit_resource(lambda r: r["spec"].update(text="Bye"))
    outcome = story.run()
    assert outcome.children[Secret, "hi-key"]["data"]["key"] == key
    assert outcome.children[ConfigMap, "hi"]["data"] == {"index.txt": "Bye"}


def test_deleting_it_removes_the_cluster_role_first() -> None:
    story = bench(greetings(), greeting())
    story.run()
    story.delete_resource()
    outcome = story.run()
    assert outcome.deleted == ((ClusterRole, Key("", "greeting-shop-hi")),)
    assert outcome.resource is None
    assert (Service, Key("shop", "hi")) in story.cluster.objects


def test_webhooks_fill_in_check_and_convert() -> None:
    filled = fill_in(AdmissionRequest("CREATE", greeting(text="  ")))
    assert isinstance(filled, dict)
    assert filled["spec"]["text"] == "Hello"
    assert isinstance(check(AdmissionRequest("CREATE", greeting(replicas=11))), Denied)
    assert check(AdmissionRequest("CREATE", greeting(replicas=10))) is None
    old = convert(greeting(), "demo.modelyard.dev/v1alpha1")
    assert old["spec"] == {"message": "Hello"}
    assert convert(old, "demo.modelyard.dev/v1")["spec"] == {"text": "Hello"}


def image(outcome: RunOutcome) -> str:
    pod = outcome.children[Deployment, "hi"]["spec"]["template"]["spec"]
    return str(pod["containers"][0]["image"])


def test_its_image_can_be_changed_while_it_runs() -> None:
    settings = Settings.from_environ({"GREETINGS_IMAGE": "me/python:1", "POD_NAMESPACE": "home"})
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "home"}}
    story = bench(greetings(settings), greeting())
    assert image(story.run()) == "me/python:1"
    story.cluster.put(words | {"data": {"image": "me/python:2"}})
    assert image(story.run()) == "me/python:2"


def test_its_metric_counts_greetings_by_readiness() -> None:
    (gauge,) = operator({}).metrics
    assert isinstance(gauge, CacheGauge)
    story = bench(greetings(), greeting())
    story.settle(make_ready)
    assert story.resource is not None
    world = FakeWorld([story.resource], kinds=[GREETING.kind])
    assert gauge.values(world) == {("True",): 1}
