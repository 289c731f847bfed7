"""When a live object counts as what we want, and when not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.kube import fieldsets
from modelyard.kube.builtin import ConfigMap, Deployment, HTTPRoute, NetworkPolicy, Secret, Service
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.acting.cluster import managed_by
from modelyard.runtime.acting.drift import differences, schema_of, stored

ME = "modelyard-demo"


def applied(kind: Kind, desired: Object, live: Object | None = None, manager: str = ME) -> Object:
    write = fieldsets.Write(schema_of(kind), kind.api_version, datetime(2026, 1, 1, tzinfo=UTC))
    return copy.deepcopy(fieldsets.apply(live, copy.deepcopy(desired), manager, write, force=True))


def found(kind: Kind, desired: Object, live: Object) -> tuple[str, ...]:
    return differences(kind, desired, live, managed_by(live, ME))


def deployment(**container: Any) -> Object:
    made = {"name": "app", "image": "app:1", "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}} | container
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "namespace": "shop", "labels": {"app": "app"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [made]}}},
    }


def test_what_was_just_applied_is_settled() -> None:
    assert found(Deployment, deployment(), applied(Deployment, deployment())) == ()


def test_defaults_equal_quantities_and_foreign_fields_do_not_count() -> None:
    live = applied(Deployment, deployment())
    live["metadata"]["annotations"] = {"someone": "else"}
    live["spec"]["strategy"] = {"type": "RollingUpdate"}
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["terminationMessagePath"] = "/dev/termination-log"
    container["resources"]["limits"]["cpu"] = "1"
    live["spec"]["template"]["spec"]["containers"].append({"name": "injected", "image": "proxy"})
    assert found(Deployment, deployment(), live) == ()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of an object: what holds it, and its name or index there."""
    for name in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, name
        if isinstance(value[name], dict | list):
            yield from places(value[name])


def test_the_short_walk_over_an_object_never_overlooks_a_difference() -> None:
    desired = deployment(ports=[{"containerPort": 80}], args=["a", "b"], env=[{"name": "A", "value": "1"}])
    live = applied(Deployment, desired)
    schema, managed = schema_of(Deployment), managed_by(live, ME)
    assert managed is not None
    assert fieldsets.agrees(live, desired, schema, managed)
    overlooked = []
    for which in (0, 1):
        for number in range(len(list(places((desired, live)[which])))):
            pair = [copy.deepcopy(desired), copy.deepcopy(live)]
            container, name = list(places(pair[which]))[number]
            del container[name]
            owned = fieldsets.FieldSet.parse(managed)
            differs = bool(fieldsets.drift(pair[1], pair[0], schema, owned))
            if differs and fieldsets.agrees(pair[1], pair[0], schema, managed):
                overlooked.append((which, name))
    assert not overlooked


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda o: o["spec"].update(replicas=3), ".spec.replicas"),
        (lambda o: o["metadata"]["labels"].pop("app"), ".metadata.labels.app"),
        (
            lambda o: o["spec"]["template"]["spec"]["containers"][0].update(image="app:2"),
            '.spec.template.spec.containers[name="app"].image',
        ),
        (lambda o: o["spec"]["template"]["spec"].update(containers=[]), '.spec.template.spec.containers[name="app"]'),
    ],
)
def test_a_change_of_our_field_is_named(change: Any, path: str) -> None:
    live = applied(Deployment, deployment())
    change(live)
    assert found(Deployment, deployment(), live)[0] == path


def test_a_field_that_we_no_longer_want_is_seen_from_managed_fields_alone() -> None:
    live = applied(Deployment, deployment(args=["--old"]))
    assert found(Deployment, deployment(), live) == ('-.spec.template.spec.containers[name="app"].args',)


def test_an_item_that_we_no_longer_want_is_seen() -> None:
    two = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"}}
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "grpc", "port": 81, "protocol": "TCP"}]
    live = applied(Service, two | {"spec": {"ports": ports}})
    gone = found(Service, two | {"spec": {"ports": ports[:1]}}, live)
    assert gone
    assert all(path.startswith("-.spec.ports") for path in gone)


def test_a_list_owned_as_a_whole_may_get_defaults_while_it_is_ours_but_no_longer_when_someone_took_it() -> None:
    policy: Object = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
    }
    live = applied(NetworkPolicy, policy)
    live["spec"]["ingress"][0]["ports"][0]["protocol"] = "TCP"
    assert found(NetworkPolicy, policy, live) == ()
    theirs = copy.deepcopy(policy)
    theirs["spec"]["ingress"][0]["from"] = [{"podSelector": {}}]
    taken = applied(NetworkPolicy, theirs, live, "someone")
    assert found(NetworkPolicy, policy, taken) == (".spec.ingress",)


def test_a_custom_resource_without_known_schema_tolerates_defaults_but_not_changes() -> None:
    route: Object = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"parentRefs": [{"name": "gateway"}], "hostnames": ["a.b"]},
    }
    live = applied(HTTPRoute, route)
    live["spec"]["parentRefs"][0] |= {"group": "gateway.networking.k8s.io", "kind": "Gateway"}
    assert found(HTTPRoute, route, live) == ()
    live["spec"]["hostnames"] = ["a.b", "c.d"]
    assert found(HTTPRoute, route, live) == (".spec.hostnames",)


def test_a_secret_is_applied_and_compared_as_it_is_stored() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"key": "ü"}}
    assert stored(Secret, secret)["data"] == {"key": "w7w="}
    assert "stringData" not in stored(Secret, secret)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert stored(ConfigMap, config) is config


def test_an_empty_value_is_the_same_as_none() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}}, "data": {}}
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert differences(ConfigMap, config, live, {}) == ()
