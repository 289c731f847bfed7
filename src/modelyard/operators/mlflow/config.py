"""The settings of the MLflow operator: read once from the environment, checked, then passed around as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from modelyard.operators.parts.images import pin
from modelyard.operators.parts.settings import Environ, SettingError
from modelyard.runtime.predecessor import Predecessor

DEFAULT_IMAGE = f"{pin('mlflow').image}:odh-stable"
DEFAULT_VERSION = pin("mlflow").version
DEFAULT_URL = "https://mlflow.example.com"
UPSTREAM = Predecessor(
    name="mlflow-operator",
    lease="a5eb1b3b.opendatahub.io",
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


@dataclass(frozen=True)
class Settings:
    """Everything that an admin may set about the operator. The defaults are upstream's."""

    namespace: str = "opendatahub"
    """Where the server and all that belongs to it live."""
    image: str = DEFAULT_IMAGE
    supported_version: str = DEFAULT_VERSION
    """The MLflow version that `image` holds. The two are one pair."""
    image_vouched: bool = True
    """True for the built-in pair alone: any other is checked before a server is stopped for it."""
    url: str = DEFAULT_URL
    """The external base URL."""
    url_configured: bool = False
    gateway_name: str = "data-science-gateway"
    gateway_namespace: str = "openshift-ingress"
    hostnames: tuple[str, ...] = ()
    """Host names of the HTTPRoute; none: those of the Gateway."""
    section_title: str = "MLflow"
    tls_secret: str = "mlflow-tls"
    metrics: Switch = Switch.AUTO
    """AUTO: exposed where ServiceMonitors are served."""
    applications_namespace: str = ""
    module: bool = False
    """Wait for the platform's `MLflowOperator` before doing anything."""
    namespace_rbac: bool = False
    """Bind the platform's groups in namespaces that ask for it."""
    resource_name_prefix: str = "mlflow-operator-"

    @property
    def target_namespace(self) -> str:
        return (self.applications_namespace or self.namespace) if self.module else self.namespace

    @property
    def view_role(self) -> str:
        return f"{self.resource_name_prefix}mlflow-view"

    @property
    def edit_role(self) -> str:
        return f"{self.resource_name_prefix}mlflow-edit"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Read the operator's environment variables; a bad value is a `SettingError` that names it."""
        env = Environ(environ)
        image = env.text("RELATED_IMAGE_ODH_MLFLOW_IMAGE") or env.text("MLFLOW_IMAGE")
        version = env.text("MLFLOW_VERSION")
        if version and not image:
            raise SettingError(
                "MLFLOW_VERSION", version, "set MLFLOW_IMAGE to an image that holds this version as well"
            )
        if version and version_of(version) is None:
            raise SettingError("MLFLOW_VERSION", version, "write it like 3.14.0")
        url = env.text("MLFLOW_URL")
        return cls(
            namespace=env.text("MLFLOW_NAMESPACE") or env.text("POD_NAMESPACE") or cls.namespace,
            image=image or DEFAULT_IMAGE,
            supported_version=version.removeprefix("v") or DEFAULT_VERSION,
            image_vouched=image in ("", DEFAULT_IMAGE) and not version,
            url=url or DEFAULT_URL,
            url_configured=bool(url),
            gateway_name=env.text("GATEWAY_NAME", cls.gateway_name),
            gateway_namespace=env.text("GATEWAY_NAMESPACE", cls.gateway_namespace),
            hostnames=env.words("MLFLOW_HOSTNAMES"),
            section_title=env.text("SECTION_TITLE", cls.section_title),
            tls_secret=env.text("MLFLOW_TLS_SECRET", cls.tls_secret),
            metrics=env.choice("MLFLOW_METRICS", Switch, Switch.AUTO),
            applications_namespace=env.text("APPLICATIONS_NAMESPACE"),
            module=env.flag("ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER"),
            namespace_rbac=env.flag("ENABLE_NAMESPACE_RBAC"),
            resource_name_prefix=env.text("RESOURCE_NAME_PREFIX", cls.resource_name_prefix),
        )


_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?([-+.].*)?")


def version_of(text: str) -> tuple[int, int, int] | None:
    """A version as numbers that can be compared; None where the text is no version."""
    match = _VERSION.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
