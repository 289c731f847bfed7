"""The settings of the MLflow operator: read once from the environment, checked, then passed around as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from modelyard.operators.parts.settings import beside_us, predecessor_setting
from modelyard.pins import pins
from modelyard.runtime.declaring.predecessor import Predecessor
from modelyard.runtime.declaring.settings import SettingError, matching, read_settings, setting

DEFAULT_IMAGE = f"{pins()['mlflow'].image}:odh-stable"
DEFAULT_VERSION = pins()["mlflow"].cluster
DEFAULT_URL = "https://mlflow.example.com"
UPSTREAM = Predecessor(
    name="mlflow-operator",
    lease="a5eb1b3b.opendatahub.io",
    namespaces=("opendatahub", "redhat-ods-applications"),
    # What it applies, and what it creates or updates under the name of its program.
    managers=("mlflow-operator", "manager"),
    labels={"component": "mlflow"},
    stop="kubectl -n {namespace} scale deployment mlflow-operator-controller-manager --replicas=0",
)
"""Whom we take over from."""


class Switch(Enum):
    """Whether something is done: always, never, or where the cluster can use it."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?([-+.].*)?")


def version_of(text: str) -> tuple[int, int, int] | None:
    """A version as numbers that can be compared; None where the text is not a version."""
    match = _VERSION.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


_VERSIONS = matching(lambda text: version_of(text) is not None, "write it like 3.14.0")
_NONE: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """Everything that an admin may set about the operator. The defaults are upstream's."""

    namespace: str = setting(
        "MLFLOW_NAMESPACE", "opendatahub", "Where the server and all that belongs to it live", also=["POD_NAMESPACE"]
    )
    previous_namespace: str = setting(
        "MLFLOW_PREVIOUS_NAMESPACE",
        "",
        "After a change of MLFLOW_NAMESPACE: where the server was. It is removed there before the new one starts",
    )
    image: str = setting("RELATED_IMAGE_ODH_MLFLOW_IMAGE", DEFAULT_IMAGE, "The server's image", also=["MLFLOW_IMAGE"])
    supported_version: str = setting(
        "MLFLOW_VERSION", DEFAULT_VERSION, "The MLflow version in that image; set both or neither", form=_VERSIONS
    )
    """The MLflow version that `image` holds. The two are one pair."""
    image_vouched: bool = True
    """True for the built-in pair alone: any other is checked before a server is stopped for it."""
    url: str = setting(
        "MLFLOW_URL", DEFAULT_URL, "The external base URL; status.url and the ConsoleLink need it to be set"
    )
    url_configured: bool = False
    gateway_name: str = setting("GATEWAY_NAME", "data-science-gateway", "The Gateway that the HTTPRoute attaches to")
    gateway_namespace: str = setting("GATEWAY_NAMESPACE", "openshift-ingress", "The namespace of that Gateway")
    hostnames: tuple[str, ...] = setting(
        "MLFLOW_HOSTNAMES", _NONE, "Host names of the HTTPRoute, comma-separated; none: those of the Gateway"
    )
    section_title: str = setting("SECTION_TITLE", "MLflow", "The section of the ConsoleLink")
    tls_secret: str = setting("MLFLOW_TLS_SECRET", "mlflow-tls", "The Secret with the serving certificate")
    metrics: Switch = setting(
        "MLFLOW_METRICS", Switch.AUTO, "Expose metrics: auto (where ServiceMonitors are served), on or off"
    )
    applications_namespace: str = setting(
        "APPLICATIONS_NAMESPACE", "", "With the module: the namespace of the server and of the platform's ConfigMap"
    )
    module: bool = setting(
        "ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER", False, "Wait for the platform's MLflowOperator resource"
    )
    namespace_rbac: bool = setting(
        "ENABLE_NAMESPACE_RBAC", False, "Bind the platform's groups in namespaces that ask for it"
    )
    resource_name_prefix: str = setting(
        "RESOURCE_NAME_PREFIX", "mlflow-operator-", "Prefix of the roles that those bindings refer to"
    )
    predecessor_namespaces: tuple[str, ...] = predecessor_setting()
    """Where the public operator may run besides its usual namespaces and the server's."""

    @property
    def predecessor(self) -> Predecessor:
        """Whom we take over from."""
        return UPSTREAM.also_in(self.target_namespace, *self.predecessor_namespaces)

    @property
    def target_namespace(self) -> str:
        return (self.applications_namespace or self.namespace) if self.module else self.namespace

    @property
    def namespace_before(self) -> str:
        """The namespace to be left; empty where there is none."""
        return self.previous_namespace if self.previous_namespace != self.target_namespace else ""

    @property
    def view_role(self) -> str:
        return f"{self.resource_name_prefix}mlflow-view"

    @property
    def edit_role(self) -> str:
        return f"{self.resource_name_prefix}mlflow-edit"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Read the operator's environment variables; a bad value is a `SettingError` that names it."""
        read = read_settings(cls, environ)
        given = {name for name, value in environ.items() if value.strip()}
        version = environ.get("MLFLOW_VERSION", "").strip()
        if version and not given & {"MLFLOW_IMAGE", "RELATED_IMAGE_ODH_MLFLOW_IMAGE"}:
            raise SettingError(
                "MLFLOW_VERSION", version, "set MLFLOW_IMAGE to an image that holds this version as well"
            )
        return replace(
            read,
            supported_version=read.supported_version.removeprefix("v"),
            image_vouched=read.image == DEFAULT_IMAGE and not version,
            url_configured="MLFLOW_URL" in given,
            predecessor_namespaces=beside_us(environ, read.predecessor_namespaces),
        )
