"""What `modelyard manifests` prints: one stream that kubectl takes, least privilege, a careful Deployment."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from modelyard.cli.main import COMMANDS, command_parser, main
from modelyard.cli.manifests import operator_names
from modelyard.operators.registry import load


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> list[dict[str, Any]]:
        assert main(["manifests", "--operators", "mlflow", *arguments]) == 0
        return [obj for obj in yaml.safe_load_all(capsys.readouterr().out) if obj]

    return run


def of(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]


def test_definitions_come_before_what_needs_them(printed: Any) -> None:
    kinds = [obj["kind"] for obj in printed()]
    assert kinds[0] == "Namespace"
    assert kinds.index("CustomResourceDefinition") < kinds.index("Deployment")


def test_the_process_runs_with_nothing_it_does_not_need(printed: Any) -> None:
    (deployment,) = of(printed("--image", "example/modelyard:1", "--replicas", "2"), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert container["image"] == "example/modelyard:1"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "--lease" in container["args"]


def test_no_rule_of_the_role_is_a_wildcard(printed: Any) -> None:
    rules = [r for kind in ("ClusterRole", "Role") for obj in of(printed("--only", "rbac"), kind) for r in obj["rules"]]
    assert rules
    assert all("*" not in [*r.get("verbs", []), *r.get("resources", []), *r.get("apiGroups", [])] for r in rules)


def test_the_role_fits_the_namespace_that_the_process_will_act_in(printed: Any) -> None:
    roles = {obj["metadata"]["namespace"] for obj in of(printed("--namespace", "ml"), "Role")}
    assert roles == {"ml"}


def test_settings_of_the_environment_go_into_the_deployment(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_NAMESPACE", "tracking")
    objects = printed("--namespace", "ml")
    (container,) = of(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    assert {"name": "MLFLOW_NAMESPACE", "value": "tracking"} in container["env"]
    assert "tracking" in {obj["metadata"]["namespace"] for obj in of(objects, "Role")}


def test_what_uninstalling_deletes_holds_no_users_data(printed: Any) -> None:
    kinds = {obj["kind"] for obj in printed("--only", "plane")}
    assert "Deployment" in kinds
    assert not kinds & {"CustomResourceDefinition", "Namespace"}


@pytest.mark.parametrize(
    "resource", ["configmaps", "pods/log", "endpoints", "routes/custom-host", "modelregistries/finalizers", "secrets"]
)
def test_limited_to_a_namespace_no_registry_right_on_what_is_namespaced_is_cluster_wide(
    printed: Any, resource: str
) -> None:
    def resources(kind: str) -> set[str]:
        objects = printed("--operators", "model-registry", "--only", "rbac", "--watch-namespace", "team-a")
        return {each for obj in of(objects, kind) for rule in obj["rules"] for each in rule.get("resources", ())}

    assert resource not in resources("ClusterRole")
    assert resource in resources("Role")


def test_the_arguments_of_the_process_are_ones_that_run_takes(printed: Any) -> None:
    (deployment,) = of(printed(), "Deployment")
    name, *words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    parser = command_parser(next(command for command in COMMANDS if command.name == name))
    args = parser.parse_args(words)
    assert [operator.name for operator in load(operator_names(args), {})] == ["mlflow"]


def test_every_service_leads_to_a_port_that_the_process_opens(printed: Any) -> None:
    objects = printed()
    (container,) = of(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    opened = {port["containerPort"] for port in container["ports"]}
    targets = {port["targetPort"] for service in of(objects, "Service") for port in service["spec"]["ports"]}
    assert targets
    assert targets <= opened


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ([], True),
        (["--image", "registry.example.com:5000/modelyard"], True),
        (["--image", "registry.example.com:5000/modelyard:0.1.0"], False),
        (["--image", f"registry.example.com/modelyard@sha256:{'ab' * 32}"], False),
        (["--only", "crds"], False),
    ],
)
def test_an_image_that_may_change_is_warned_of(
    words: list[str], warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifests", "--operators", "mlflow", *words]) == 0
    assert ("name a digest or a fixed tag" in capsys.readouterr().err) is warned


def test_a_setting_on_the_command_line_goes_before_the_environment(
    printed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_URL", "https://environment.example.com")
    (deployment,) = of(printed("--set", "MLFLOW_URL=https://flag.example.com"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert values["MLFLOW_URL"] == "https://flag.example.com"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("MLFLOW_METRICS=maybe", "setting MLFLOW_METRICS='maybe' cannot be used: use one of auto, on, off"),
        ("MLFLOW_METRIC=on", "no operator that was chosen has a setting of this name; did you mean MLFLOW_METRICS?"),
        ("MLFLOW_METRICS", "--set MLFLOW_METRICS: write it as NAME=VALUE"),
        ("POD_NAMESPACE=x", "where the plane runs is said by `run --home` or `manifests --namespace`"),
    ],
)
def test_a_bad_setting_on_the_command_line_is_refused(
    given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifests", "--operators", "mlflow", "--set", given]) == 1
    assert said in capsys.readouterr().err
