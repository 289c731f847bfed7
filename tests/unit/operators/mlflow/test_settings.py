"""Settings from the environment."""

from __future__ import annotations

import pytest

from modelyard.operators.mlflow.config import DEFAULT_IMAGE, Settings, Switch, version_of
from modelyard.operators.mlflow.operator import operator
from modelyard.runtime.declaring.settings import SettingError


def test_the_defaults_are_upstreams() -> None:
    settings = Settings.from_environ({})
    assert settings == Settings()
    assert (settings.namespace, settings.image, settings.supported_version) == ("opendatahub", DEFAULT_IMAGE, "3.14.0")
    assert (settings.gateway_name, settings.gateway_namespace) == ("data-science-gateway", "openshift-ingress")
    assert [settings.url_configured, settings.module, settings.namespace_rbac] == [False, False, False]


def test_every_variable_is_read() -> None:
    settings = Settings.from_environ(
        {
            "POD_NAMESPACE": "odh",
            "MLFLOW_IMAGE": "me/mlflow:1",
            "MLFLOW_VERSION": "v3.17.2",
            "MLFLOW_URL": "https://gw",
            "GATEWAY_NAME": "gw",
            "GATEWAY_NAMESPACE": "gateways",
            "MLFLOW_HOSTNAMES": "a.example.com, b.example.com",
            "SECTION_TITLE": "ML",
            "MLFLOW_TLS_SECRET": "tls",
            "MLFLOW_METRICS": "off",
            "APPLICATIONS_NAMESPACE": "apps",
            "ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER": "true",
            "ENABLE_NAMESPACE_RBAC": "true",
            "RESOURCE_NAME_PREFIX": "x-",
            "PREDECESSOR_NAMESPACES": "elsewhere",
        }
    )
    assert settings == Settings(
        namespace="odh",
        image="me/mlflow:1",
        supported_version="3.17.2",
        image_vouched=False,
        url="https://gw",
        url_configured=True,
        gateway_name="gw",
        gateway_namespace="gateways",
        hostnames=("a.example.com", "b.example.com"),
        section_title="ML",
        tls_secret="tls",
        metrics=Switch.OFF,
        applications_namespace="apps",
        module=True,
        namespace_rbac=True,
        resource_name_prefix="x-",
        predecessor_namespaces=("odh", "elsewhere"),
    )
    assert {"opendatahub", "apps", "odh", "elsewhere"} <= set(settings.predecessor.namespaces)
    assert settings.target_namespace == "apps"
    assert settings.view_role == "x-mlflow-view"


@pytest.mark.parametrize("url", ["", "  "])
def test_an_empty_url_is_none(url: str) -> None:
    assert not Settings.from_environ({"MLFLOW_URL": url}).url_configured


def test_the_related_image_goes_first() -> None:
    environ = {"RELATED_IMAGE_ODH_MLFLOW_IMAGE": "a", "MLFLOW_IMAGE": "b"}
    assert Settings.from_environ(environ).image == "a"


@pytest.mark.parametrize(
    ("environ", "vouched"),
    [
        ({}, True),
        ({"MLFLOW_IMAGE": DEFAULT_IMAGE}, True),
        ({"MLFLOW_IMAGE": DEFAULT_IMAGE, "MLFLOW_VERSION": "3.17.2"}, False),
        ({"MLFLOW_IMAGE": "me/mlflow:1", "MLFLOW_VERSION": "3.17.2"}, False),
        ({"MLFLOW_IMAGE": "me/mlflow:1"}, False),
    ],
)
def test_only_the_built_in_pair_is_vouched_for(environ: dict[str, str], vouched: bool) -> None:
    assert Settings.from_environ(environ).image_vouched is vouched


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"MLFLOW_VERSION": "3.15.0"}, "setting MLFLOW_VERSION='3.15.0' cannot be used: set MLFLOW_IMAGE"),
        ({"MLFLOW_VERSION": "new", "MLFLOW_IMAGE": "x"}, "write it like 3.14.0"),
        ({"MLFLOW_METRICS": "maybe"}, "use one of auto, on, off"),
        (
            {"ENABLE_NAMESPACE_RBAC": "perhaps"},
            "setting ENABLE_NAMESPACE_RBAC='perhaps' cannot be used: use true or false",
        ),
    ],
)
def test_a_bad_setting_is_named_with_its_remedy(environ: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as error:
        Settings.from_environ(environ)
    assert said in str(error.value)


def test_the_two_extra_controllers_are_off_by_default() -> None:
    assert [c.name for c in operator({}).controllers] == ["mlflow"]
    both = {"ENABLE_NAMESPACE_RBAC": "true", "ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER": "true"}
    assert [c.name for c in operator(both).controllers] == ["mlflow", "mlflow-module", "mlflow-namespaces"]


def test_every_setting_is_documented_once() -> None:
    settings = operator({}).settings
    names = [name for setting in settings for name in setting.variables]
    assert len(names) == len(set(names))
    assert all(setting.description for setting in settings)


@pytest.mark.parametrize(
    ("text", "version"), [("3.14.0", (3, 14, 0)), ("v3.9", (3, 9, 0)), ("3.14.0+rhai.1", (3, 14, 0)), ("new", None)]
)
def test_versions_are_compared_as_numbers(text: str, version: tuple[int, int, int] | None) -> None:
    assert version_of(text) == version
