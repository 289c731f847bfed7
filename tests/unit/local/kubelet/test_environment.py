from __future__ import annotations

import base64

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.kubelet.environment import ConfigError, command_line, environment, expand, service_variables
from modelyard.local.kubelet.facts import Node
from tests.unit.local.kubelet.harness import Objects, complete

NODE = Node("local", allocatable={"cpu": "4", "memory": "8Gi"})


@pytest.fixture
def objects() -> Objects:
    held = Objects()
    held.put(
        builtin.ConfigMap, {"metadata": {"name": "cm", "namespace": "demo"}, "data": {"A": "1", "b-c": "2", "x=y": "3"}}
    )
    data = {"token": base64.b64encode(b"hush").decode()}
    held.put(builtin.Secret, {"metadata": {"name": "sec", "namespace": "demo"}, "data": data})
    return held


def values(objects: Objects, container: Object, **pod: object) -> dict[str, str]:
    body = complete({"spec": {"containers": [{"name": "main", **container}]}, **pod})
    return environment(body, body["spec"]["containers"][0], objects, pod_ip="127.1.1.1", node=NODE).all


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"configMapKeyRef": {"name": "cm", "key": "A"}}, "1"),
        ({"secretKeyRef": {"name": "sec", "key": "token"}}, "hush"),
        ({"configMapKeyRef": {"name": "none", "key": "A", "optional": True}}, None),
        ({"secretKeyRef": {"name": "sec", "key": "none", "optional": True}}, None),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "web"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "demo"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "shop"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['none']"}}, ""),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "127.1.1.1"),
        ({"fieldRef": {"fieldPath": "status.hostIP"}}, "127.0.0.1"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "local"),
        ({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "default"),
        ({"resourceFieldRef": {"resource": "limits.memory"}}, "134217728"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "128"),
        ({"resourceFieldRef": {"resource": "requests.cpu"}}, "1"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "250"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "4"),
        ({"resourceFieldRef": {"resource": "requests.memory"}}, "0"),
    ],
)
def test_every_source_of_a_value(objects: Objects, source: Object, expected: str | None) -> None:
    container = {
        "env": [{"name": "X", "valueFrom": source}],
        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "250m"}},
    }
    found = values(objects, container, metadata={"labels": {"app": "shop"}})
    assert found.get("X") == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "A"}}, 'configmap "none" not found'),
        ({"configMapKeyRef": {"name": "cm", "key": "none"}}, "couldn't find key none in ConfigMap demo/cm"),
        ({"secretKeyRef": {"name": "sec", "key": "none"}}, "couldn't find key none in Secret demo/sec"),
        ({"fieldRef": {"fieldPath": "spec.nothing"}}, "unsupported fieldPath: spec.nothing"),
    ],
)
def test_a_value_that_cannot_be_had_says_why(objects: Objects, source: Object, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        values(objects, {"env": [{"name": "X", "valueFrom": source}]})
    assert str(error.value) == message


def test_whole_config_maps_come_with_a_prefix_and_skip_impossible_names(objects: Objects) -> None:
    body = complete(
        {"spec": {"containers": [{"name": "main", "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}]}]}}
    )
    found = environment(body, body["spec"]["containers"][0], objects, pod_ip="", node=NODE)
    assert found.given == {"P_A": "1", "P_b-c": "2"}
    assert found.skipped == {"ConfigMap demo/cm": ["P_x=y"]}


def test_env_overrides_env_from_and_later_overrides_earlier(objects: Objects) -> None:
    container = {"envFrom": [{"configMapRef": {"name": "cm"}}], "env": [{"name": "A", "value": "own"}]}
    assert values(objects, container)["A"] == "own"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)-$(B)", "1-two"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("$()", "$()"),
    ],
)
def test_references_are_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "two"}) == expected


def test_variables_may_use_those_before_them(objects: Objects) -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)2"},
        {"name": "C", "value": "$(D)"},
        {"name": "D", "value": "4"},
    ]
    found = values(objects, {"env": env})
    assert (found["B"], found["C"]) == ("12", "$(D)")


def test_command_and_args_are_expanded_and_absent_ones_left_to_the_image() -> None:
    assert command_line({"command": ["$(A)"], "args": ["x$(B)"]}, {"A": "1", "B": "2"}) == (["1"], ["x2"])
    assert command_line({}, {}) == (None, None)


def test_services_are_announced_by_variables(objects: Objects) -> None:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "admin-ui", "port": 9000}]
    service = {"metadata": {"name": "my-db", "namespace": "demo"}, "spec": {"clusterIP": "127.3.0.4", "ports": ports}}
    objects.put(builtin.Service, service)
    objects.put(
        builtin.Service,
        {"metadata": {"name": "head", "namespace": "demo"}, "spec": {"clusterIP": "None", "ports": ports}},
    )
    pod = complete({"spec": {"containers": [{"name": "main"}]}})
    found = service_variables(pod, objects, Node("local", api_host="127.0.0.1", api_port=6443))
    assert found["MY_DB_SERVICE_HOST"] == "127.3.0.4"
    assert found["MY_DB_SERVICE_PORT"] == "80"
    assert found["MY_DB_SERVICE_PORT_ADMIN_UI"] == "9000"
    assert found["MY_DB_PORT_80_TCP"] == found["MY_DB_PORT"] == "tcp://127.3.0.4:80"
    assert found["MY_DB_PORT_9000_TCP_ADDR"] == "127.3.0.4"
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "6443")
    assert not [name for name in found if name.startswith("HEAD")]
    pod["spec"]["enableServiceLinks"] = False
    assert not [name for name in service_variables(pod, objects, NODE) if name.startswith("MY_DB")]
