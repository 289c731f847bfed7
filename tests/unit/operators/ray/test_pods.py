"""What becomes of the templates of a RayCluster."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.operators.parts.ray_crd import RayCluster
from modelyard.operators.ray.children import children, head_service
from modelyard.operators.ray.config import Settings
from modelyard.operators.ray.pods import Plan, head_pod, worker_pod
from modelyard.operators.ray.problems import first_problem, unused_fields
from modelyard.operators.ray.start import container_command, start_command
from modelyard.runtime.declaring.desired import Child
from tests.cluster.ray.scene import cluster, named_container, ray, template, variables, workers

FQDN = "demo-head-svc.ns.svc.cluster.local"


def parsed(spec: Object, name: str = "demo", **metadata: Any) -> RayCluster:
    place = {"name": name, "namespace": "ns", **metadata}
    return RayCluster.parse({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": place, "spec": spec})


def plan(spec: Object, settings: Settings = Settings(), **metadata: Any) -> Plan:
    made = parsed(spec, **metadata)
    assert made.spec is not None
    return Plan.of(made, made.spec, settings)


def head(spec: Object, settings: Settings = Settings(), **metadata: Any) -> Object:
    return head_pod(plan(spec, settings, **metadata), "demo-head-x")


def worker(spec: Object, settings: Settings = Settings()) -> Object:
    made = plan(spec, settings)
    assert made.spec.worker_group_specs
    return worker_pod(made, made.spec.worker_group_specs[0], "demo-small-worker-x", {})


def limited(**limits: str) -> Object:
    made = template()
    made["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


def test_ray_start_gets_the_users_flags_and_what_follows_from_the_limits() -> None:
    pod = head(cluster(head={"template": limited(cpu="1500m", memory="2Gi"), "rayStartParams": {"port": "6380"}}))
    (text,) = ray(pod)["args"]
    assert ray(pod)["command"] == ["/bin/bash", "-c", "--"]
    assert text == (
        "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start --head --block --dashboard-agent-listen-port=52365 "
        "--dashboard-host=0.0.0.0 --memory=2147483648 --metrics-export-port=8080 --num-cpus=2 --port=6380"
    )
    assert variables(ray(pod))["RAY_ADDRESS"] == "127.0.0.1:6380"


def test_a_worker_joins_the_head_at_its_port() -> None:
    pod = worker(cluster(head={"rayStartParams": {"port": "6380"}}))
    assert f"--address={FQDN}:6380" in ray(pod)["args"][0]
    assert variables(ray(pod))["FQ_RAY_IP"] == FQDN
    (waiting,) = pod["spec"]["initContainers"]
    assert f"{FQDN}:6380" in waiting["args"][0]
    assert waiting["resources"]["limits"] == {"cpu": "200m", "memory": "256Mi"}


def test_flags_that_are_switches() -> None:
    params = {"block": "true", "no-monitor": "false", "include-dashboard": "false", "log-color": "true"}
    assert start_command(params, head=True) == "ray start --head --block --include-dashboard=false --log-color=true"


def test_the_users_command_comes_first() -> None:
    made = container_command({"command": ["pip", "install"], "args": ["x"]}, "ray start")
    assert made["args"] == ["pip install x && ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start"]


@pytest.mark.parametrize(
    "own", [{"command": ["sh", "-c", "ray start --head"]}, {"args": ["ray start --head; sleep 1"]}]
)
def test_a_command_that_starts_ray_itself_stays(own: Object) -> None:
    given = template()
    given["spec"]["containers"][0] |= own
    made = ray(head(cluster(head={"template": given})))
    assert {name: made.get(name) for name in own} == own


def test_an_annotation_leaves_the_command_to_the_user() -> None:
    pod = head(cluster(), annotations={"ray.io/overwrite-container-cmd": "true"})
    assert "args" not in ray(pod)
    assert variables(ray(pod))["KUBERAY_GEN_RAY_START_CMD"].startswith("ray start --head")


def test_variables_and_probes_of_the_user_stay() -> None:
    given = template()
    given["spec"]["containers"][0] |= {"env": [{"name": "RAY_PORT", "value": "1"}], "livenessProbe": {"exec": {}}}
    made = ray(head(cluster(head={"template": given})))
    assert variables(made)["RAY_PORT"] == "1"
    assert made["livenessProbe"] == {"exec": {}}
    assert made["readinessProbe"]["httpGet"] == {"path": "/api/healthz", "port": 52365}


def test_older_versions_are_probed_with_a_command() -> None:
    made = ray(head(cluster(rayVersion="2.46.0")))["readinessProbe"]
    assert "http://localhost:52365/api/local_raylet_healthz" in made["exec"]["command"][2]
    assert "http://localhost:8265/api/gcs_healthz" in made["exec"]["command"][2]
    assert (made["initialDelaySeconds"], made["periodSeconds"], made["timeoutSeconds"]) == (10, 5, 5)


def test_shared_memory_is_as_large_as_the_memory_unless_the_user_mounts_some() -> None:
    pod = head(cluster(head={"template": limited(memory="2Gi")}))
    assert pod["spec"]["volumes"] == [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}]
    given = template(volumes=[{"name": "mine", "emptyDir": {}}])
    given["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/dev/shm"}]
    assert head(cluster(head={"template": given}))["spec"]["volumes"] == [{"name": "mine", "emptyDir": {}}]


def test_resources_and_labels_of_a_group_are_flags() -> None:
    group = workers(resources={"CPU": "4", "fast": "1"}, labels={"zone": "a"})
    (text,) = ray(worker(cluster(group)))["args"]
    assert "--num-cpus=4" in text
    assert """--resources='{"fast": 1}'""" in text
    assert "--labels=zone=a" in text


def test_labels_of_the_template_win_but_for_those_that_name_the_place() -> None:
    given = template() | {"metadata": {"labels": {"app.kubernetes.io/name": "mine", "ray.io/cluster": "other"}}}
    labels = head(cluster(head={"template": given}))["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "mine"
    assert labels["ray.io/cluster"] == "demo"
    made = head_service(plan(cluster(head={"template": given})))
    assert made["spec"]["selector"]["app.kubernetes.io/name"] == "mine"


def test_the_template_is_not_changed() -> None:
    spec = cluster()
    made = plan(spec)
    assert head_pod(made, "a") == head_pod(made, "a")


@pytest.mark.parametrize(
    ("given", "metadata", "settings", "needed"),
    [
        ({}, {}, Settings(), True),
        ({}, {}, Settings(auth="disabled"), False),
        ({"authOptions": {"mode": "disabled"}}, {}, Settings(), False),
        ({"authOptions": {"mode": "token"}}, {}, Settings(auth="disabled"), True),
        ({}, {"annotations": {"ray.openshift.ai/version": "1"}}, Settings(), False),
    ],
)
def test_who_must_show_a_token(given: Object, metadata: Object, settings: Settings, needed: bool) -> None:
    pod = head(cluster(**given), settings, **metadata)
    assert ("RAY_AUTH_TOKEN" in variables(ray(pod))) is needed


def test_a_cluster_with_mutual_tls_needs_no_token_and_its_autoscaler_has_the_certificates() -> None:
    given = template(volumes=[{"name": "certs", "emptyDir": {}}])
    given["spec"]["containers"][0] |= {
        "env": [{"name": "RAY_USE_TLS", "value": "1"}],
        "volumeMounts": [{"name": "certs", "mountPath": "/certs"}],
    }
    pod = head(cluster(head={"template": given}, enableInTreeAutoscaling=True))
    assert "RAY_AUTH_MODE" not in variables(ray(pod))
    scaler = named_container(pod, "autoscaler")
    assert variables(scaler)["RAY_USE_TLS"] == "1"
    assert {"name": "certs", "mountPath": "/certs"} in scaler["volumeMounts"]


def test_a_token_of_the_users_own_is_used_and_not_made() -> None:
    made = plan(cluster(authOptions={"mode": "token", "secretName": "mine"}))
    assert made.auth_secret == "mine"
    wanted = children(parsed(cluster()), made, str, routes=False)
    kinds = [child.object["kind"] if isinstance(child, Child) else child["kind"] for child in wanted]
    assert "Secret" not in kinds


def test_a_service_of_the_users_own_is_completed() -> None:
    own = {
        "metadata": {"name": "mine", "annotations": {"a": "theirs", "b": "theirs"}},
        "spec": {"type": "NodePort", "ports": [{"name": "extra", "port": 9}]},
    }
    made = head_service(plan(cluster(head={"headService": own}, headServiceAnnotations={"a": "ours"})))
    assert made["metadata"]["name"] == "mine"
    assert made["metadata"]["annotations"] == {"a": "ours", "b": "theirs"}
    assert made["spec"]["type"] == "NodePort"
    assert [port["name"] for port in made["spec"]["ports"]][:2] == ["extra", "client"]
    assert "clusterIP" not in made["spec"]


def test_a_head_that_declares_ports_has_these_and_metrics() -> None:
    given = template()
    given["spec"]["containers"][0]["ports"] = [{"name": "dashboard", "containerPort": 8265}, {"containerPort": 9}]
    made = head_service(plan(cluster(head={"template": given})))
    assert {port["name"]: port["port"] for port in made["spec"]["ports"]} == {
        "9-port": 9,
        "dashboard": 8265,
        "metrics": 8080,
    }


@pytest.mark.parametrize(
    ("name", "spec", "reason", "part"),
    [
        ("a" * 54, cluster(), "InvalidRayClusterMetadata", "at most 53"),
        ("9lives", cluster(), "InvalidRayClusterMetadata", "metadata.name: 9lives"),
        ("demo", cluster(head={"template": {"spec": {}}}), "InvalidRayClusterSpec", "spec.headGroupSpec.template.spec.containers"),
        ("demo", cluster(workers(template={})), "InvalidRayClusterSpec", "spec.workerGroupSpecs[0].template.spec.containers"),
        ("demo", cluster(workers(minReplicas=-1)), "InvalidRayClusterSpec", "may not be negative"),
        (
            "demo",
            cluster(workers(resources={"CPU": "1"}, rayStartParams={"num-cpus": "1"})),
            "InvalidRayClusterSpec",
            "num-cpus in rayStartParams too",
        ),
        ("demo", cluster(head={"rayStartParams": {"labels": "a=b"}}), "InvalidRayClusterSpec", "use spec.headGroupSpec.labels"),
        ("demo", cluster(workers(suspend=True), enableInTreeAutoscaling=True), "InvalidRayClusterSpec", "suspend"),
        ("demo", cluster(workers(), workers()), "InvalidRayClusterSpec", "the name of another group"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_field(name: str, spec: Object, reason: str, part: str) -> None:
    found = first_problem(parsed(spec, name))
    assert found is not None
    assert found.reason == reason
    assert part in found.message


def test_fields_that_nobody_acts_on_are_named() -> None:
    made = parsed(cluster(networkPolicy={"mode": "DenyAll"}, authOptions={"enableK8sTokenAuth": True}))
    assert made.spec is not None
    assert unused_fields(made.spec) == ["spec.networkPolicy", "spec.authOptions.enableK8sTokenAuth"]
