"""Names, policies, rules and settings around a RayCluster."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.config import KubeRaySettings
from modelyard.operators.codeflare.ray_cluster.names import VERSION, Names
from modelyard.operators.codeflare.ray_cluster.policies import Peers, head_policy, workers_policy
from modelyard.operators.codeflare.ray_cluster.rules import name_errors, spec_errors
from modelyard.runtime.declaring.settings import SettingError

TEST = Names("test-raycluster", "test-namespace")
DEMO = Names("demo", "team-a")


def config(*texts: str) -> Object:
    metadata = {"name": "codeflare-operator-config", "namespace": "ours"}
    return {"metadata": metadata, "data": {f"config-{n}.yaml": text for n, text in enumerate(texts)}}


def cluster(**head: Any) -> Object:
    pod = {"template": {"spec": {"containers": [{"name": "ray"}]}}}
    return {"metadata": {"name": "demo"}, "spec": {"headGroupSpec": {**pod, **head}, "workerGroupSpecs": [dict(pod)]}}


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        (TEST.account, "ecaffa62"),
        (TEST.oauth_config, "01e408a7"),
        (TEST.serving_certificate, "3e5a0266"),
        (TEST.ca, "001432aa"),
        (TEST.oauth_service, "c845f575"),
        (TEST.head_policy, "facfaeff"),
        (TEST.workers_policy, "9327ac2a"),
        (TEST.binding, "b561edfa"),
    ],
)
def test_new_names_end_in_the_known_digests(name: str, digest: str) -> None:
    assert name.startswith("test-raycluster-")
    assert name.endswith(f"-{digest}")


def test_a_cluster_without_the_version_annotation_keeps_the_old_names() -> None:
    metadata: Object = {"name": "demo", "namespace": "team-a"}
    old = Names.of({"metadata": metadata})
    assert (old.ca, old.binding, old.head_policy) == ("ca-secret-demo", "demo-team-a-auth", "demo-head")
    assert Names.of({"metadata": metadata | {"annotations": {VERSION: ""}}}) == DEMO


def test_the_dashboard_without_login_is_not_open_to_the_namespace() -> None:
    rules = head_policy(DEMO, mtls=True)["spec"]["ingress"]
    (neighbors,) = [rule for rule in rules if rule.get("from") == [{"podSelector": {}}]]
    assert [port["port"] for port in neighbors["ports"]] == [10001]


@pytest.mark.parametrize(("mtls", "ports"), [(True, [8443, 10001]), (False, [8443])])
def test_scenario_23_the_last_rule_is_for_everyone(mtls: bool, ports: list[int]) -> None:
    last = head_policy(DEMO, mtls=mtls)["spec"]["ingress"][-1]
    assert "from" not in last
    assert [port["port"] for port in last["ports"]] == ports


def test_the_head_admits_kuberay_from_its_namespaces() -> None:
    rule = head_policy(DEMO, mtls=True, peers=Peers(kuberay=["kr"]))["spec"]["ingress"][2]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchExpressions"][0]["values"] == ["kr"]


def test_workers_are_for_their_cluster_only() -> None:
    spec = workers_policy(DEMO)["spec"]
    assert spec["podSelector"]["matchLabels"] == {"ray.io/cluster": "demo", "ray.io/node-type": "worker"}
    assert spec["ingress"] == [{"from": [{"podSelector": {"matchLabels": {"ray.io/cluster": "demo"}}}]}]


def test_scenario_5_enable_ingress_is_refused() -> None:
    (error,) = spec_errors(cluster(enableIngress=True))
    assert str(error) == (
        "spec.headGroupSpec.enableIngress: Invalid value: true: RayCluster with enableIngress set to true is not allowed"
    )
    assert list(spec_errors(cluster(enableIngress=False))) == []
    assert list(spec_errors(cluster())) == []


def test_groups_without_a_ray_container_are_refused() -> None:
    bare: Object = {"spec": {"headGroupSpec": {}, "workerGroupSpecs": [{}]}}
    assert [error.field for error in spec_errors(bare)] == [
        "spec.headGroupSpec.template.spec.containers",
        "spec.workerGroupSpecs.0.template.spec.containers",
    ]


def test_a_cluster_with_a_generated_name_is_refused() -> None:
    (error,) = name_errors({"metadata": {"generateName": "demo-"}}, "team-a")
    assert "instead of generateName" in error.message


def test_a_name_that_leaves_no_room_is_refused() -> None:
    assert list(name_errors({"metadata": {"name": "c" * 48}}, "")) == []
    assert [error.field for error in name_errors({"metadata": {"name": "c" * 49}}, "n")] == ["metadata.name"] * 2
    assert len(list(name_errors({"metadata": {"name": "c" * 20}}, "n" * 40))) == 1


def test_without_a_config_map_everything_is_protected() -> None:
    assert KubeRaySettings.of(None) == KubeRaySettings(oauth=True, mtls=True, ingress_domain="")


def test_what_is_null_or_absent_keeps_its_default() -> None:
    assert KubeRaySettings.of(config("")) == KubeRaySettings()
    assert KubeRaySettings.of(config("kuberay: {mTLSEnabled: null}")) == KubeRaySettings()
    found = KubeRaySettings.of(config("kuberay: {rayDashboardOAuthEnabled: false, ingressDomain: kind}\nnew: 1"))
    assert found == KubeRaySettings(oauth=False, ingress_domain="kind")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["a: 1", "b: 2"], "exactly one key"),
        ([], "exactly one key"),
        (["[1]"], "YAML mapping"),
        (["a: ["], "as YAML"),
        (["kuberay: 3"], "YAML mapping"),
        (["kuberay: {mTLSEnabled: 'off'}"], "kuberay.mTLSEnabled of ConfigMap ours/codeflare-operator-config"),
        (["kuberay: {ingressDomain: 3}"], "use a text"),
    ],
)
def test_a_bad_document_is_said(texts: list[str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        KubeRaySettings.of(config(*texts))
