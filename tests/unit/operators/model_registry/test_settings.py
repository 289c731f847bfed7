"""Settings from the environment."""

from __future__ import annotations

import pytest

from modelyard.operators.model_registry.config import PROXY_IMAGE, REST_IMAGE, Settings
from modelyard.operators.model_registry.operator import operator
from modelyard.runtime.declaring.settings import SettingError


def test_the_defaults_are_upstreams() -> None:
    settings = Settings.from_environ({})
    assert settings == Settings()
    assert (settings.rest_image, settings.proxy_image) == (REST_IMAGE, PROXY_IMAGE)
    assert (settings.gateway_name, settings.gateway_namespace) == ("data-science-gateway", "openshift-ingress")


@pytest.mark.parametrize(
    ("older", "newer", "field"),
    [
        ("REST_IMAGE", "RELATED_IMAGE_ODH_MODEL_REGISTRY_IMAGE", "rest_image"),
        ("KUBE_RBAC_PROXY_IMAGE", "RELATED_IMAGE_ODH_KUBE_RBAC_PROXY_IMAGE", "proxy_image"),
        ("POSTGRES_IMAGE", "RELATED_IMAGE_POSTGRESQL_16_IMAGE", "postgres_image"),
        ("CATALOG_DATA_IMAGE", "RELATED_IMAGE_ODH_MODEL_METADATA_COLLECTION_IMAGE", "catalog_data_image"),
        ("BENCHMARK_DATA_IMAGE", "RELATED_IMAGE_ODH_MODEL_PERFORMANCE_DATA_IMAGE", "benchmark_data_image"),
    ],
)
def test_images_have_an_older_and_a_newer_name(older: str, newer: str, field: str) -> None:
    assert getattr(Settings.from_environ({older: "old"}), field) == "old"
    assert getattr(Settings.from_environ({older: "old", newer: "new"}), field) == "new"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("REGISTRIES_NAMESPACE", "Not A Name", "use the name of a namespace"),
        ("DEFAULT_DOMAIN", "a..b", "use a DNS name such as apps.example.com"),
        ("GATEWAY_DOMAIN", "https://x", "use a DNS name such as gateway.example.com"),
        ("GATEWAY_DOMAIN", "localhost:port", "use a DNS name such as gateway.example.com"),
        ("MODEL_CATALOG_DELETE_DATA", "perhaps", "use true or false"),
    ],
)
def test_a_bad_setting_is_named_with_its_remedy(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingError) as error:
        Settings.from_environ({name: value})
    assert f"setting {name}={value!r} cannot be used: {said}" in str(error.value)


def test_storage_is_migrated_only_where_asked_for() -> None:
    assert [c.name for c in operator({}).controllers] == ["modelregistry", "modelcatalog"]
    both = {"STORAGE_MIGRATION_SOURCE_VERSION": "v1alpha1", "STORAGE_MIGRATION_TARGET_VERSION": "v1beta1"}
    assert [c.name for c in operator(both).controllers] == ["modelregistry", "modelcatalog", "modelregistry-storage"]


def test_every_setting_is_documented_once() -> None:
    settings = operator({}).settings
    names = [name for setting in settings for name in setting.variables]
    assert len(names) == len(set(names))
    assert all(setting.description for setting in settings)


def test_a_gateway_may_have_a_port_of_its_own() -> None:
    assert Settings.from_environ({"GATEWAY_DOMAIN": "localhost:8443"}).gateway_domain == "localhost:8443"
