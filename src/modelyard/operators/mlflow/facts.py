"""What the children of an `MLflow` depend on besides its spec, and the names that follow from it. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import MLflow
from modelyard.operators.mlflow.config import Settings, Switch, version_of
from modelyard.operators.mlflow.rules import RESERVED_ACCOUNTS
from modelyard.operators.parts.ca_bundle import Source
from modelyard.operators.parts.missing_references import Missing

SHARED_NAME = "mlflow"
"""Name of the ClusterRole and binding that all instances would share."""
COMPONENT = "mlflow"
PORT = 8443
PREFIX = "/mlflow"
GC_ACCOUNT, ARCHIVAL_ACCOUNT = RESERVED_ACCOUNTS
DEFAULT_ACCOUNT = "mlflow-sa"
SERVING_CA_DIRECTORY = "/etc/tls/ca"
PLATFORM_CA = "odh-trusted-ca-bundle"
FORCE_MIGRATE = "mlflow.opendatahub.io/force-migrate"
DELETE_STORAGE = "modelyard.dev/delete-storage"
"""Annotation on the MLflow: `true` lets its volume claim go with it, as upstream does."""

_API_UNDER_PREFIX = (3, 12, 0)


@dataclass(frozen=True)
class Names:
    """The names of one instance's objects."""

    suffix: str
    namespace: str

    @classmethod
    def of(cls, mlflow: MLflow, namespace: str) -> Names:
        return cls("" if mlflow.name == SHARED_NAME else f"-{mlflow.name}", namespace)

    @property
    def server(self) -> str:
        """Deployment, Service, policy, HTTPRoute, ConsoleLink and the pods' `app` label."""
        return f"mlflow{self.suffix}"

    @property
    def claim(self) -> str:
        return f"mlflow-pvc{self.suffix}"

    @property
    def gc(self) -> str:
        return f"mlflow-gc{self.suffix}"

    @property
    def archival(self) -> str:
        return f"mlflow-trace-archival{self.suffix}"

    @property
    def archival_config(self) -> str:
        return f"mlflow-trace-archival-config{self.suffix}"

    @property
    def monitor(self) -> str:
        return f"mlflow-metrics-monitor{self.suffix}"

    @property
    def serving_ca(self) -> str:
        return f"mlflow-serving-ca{self.suffix}"

    @property
    def migration_policy(self) -> str:
        return f"mlflow{self.suffix}-migration"

    @property
    def host(self) -> str:
        return f"{self.server}.{self.namespace}.svc"

    @property
    def path(self) -> str:
        """Where the server is below the gateway."""
        return f"{PREFIX}{self.suffix}"

    @property
    def labels(self) -> dict[str, str]:
        return labels(self.server)


def labels(app: str) -> dict[str, str]:
    return {"app": app, "component": COMPONENT}


@dataclass(frozen=True)
class Facts:
    """What the cluster and the settings say."""

    settings: Settings
    openshift: bool = False
    routes: bool = False
    """HTTPRoutes are served."""
    console: bool = False
    """ConsoleLinks are served."""
    monitors: bool = False
    """ServiceMonitors are served."""
    platform_ca: bool = False
    """The platform's CA ConfigMap is in the namespace."""
    backend_tls: bool = False
    """BackendTLSPolicies are served."""
    serving_ca: str = ""
    """The CA that signed the server's certificate, in base64, where it came along: our own clients and the gateway check with it."""
    claim: Object | None = None
    """The volume claim that exists already."""
    storage_class: Object | None = None
    """The class of that claim."""
    foreign_claim: bool = False
    """A claim of that name exists and is someone else's: it is used as it is."""
    foreign_account: bool = False
    """The named ServiceAccount exists and is someone else's: it is used as it is."""
    digest: str = ""
    """Of the Secrets and ConfigMaps that the server reads at start."""
    read: Mapping[str, str] = field(default_factory=dict)
    """The annotation that tells the next pass which of them were there."""
    missing: tuple[Missing, ...] = ()
    """What is not there of them."""

    @property
    def serving_ca_file(self) -> str:
        """Where our own clients find the CA of the server's certificate; empty where nobody gave it to us.
        OpenShift puts the CA of its service certificates next to every account's token."""
        if self.serving_ca:
            return f"{SERVING_CA_DIRECTORY}/ca.crt"
        return "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt" if self.openshift else ""

    @property
    def metrics(self) -> bool:
        return self.settings.metrics is Switch.ON or (self.settings.metrics is Switch.AUTO and self.monitors)

    @property
    def api_under_prefix(self) -> bool:
        """Servers before 3.12 answer `/api` without the static prefix."""
        version = version_of(self.settings.supported_version)
        return version is None or version >= _API_UNDER_PREFIX

    def names(self, mlflow: MLflow) -> Names:
        return Names.of(mlflow, self.settings.target_namespace)

    def account(self, mlflow: MLflow) -> str:
        """The ServiceAccount of the server."""
        return mlflow.spec.service_account_name or DEFAULT_ACCOUNT

    def image(self, mlflow: MLflow) -> str:
        return (mlflow.spec.image and mlflow.spec.image.image) or self.settings.image

    def ca_sources(self, mlflow: MLflow) -> list[Source]:
        """The CA ConfigMaps, the platform's first."""
        sources = [Source(PLATFORM_CA, "/etc/pki/tls/certs/platform")] if self.platform_ca else []
        if mlflow.spec.ca_bundle_config_map:
            sources.append(Source(mlflow.spec.ca_bundle_config_map.name, "/etc/pki/tls/certs/custom"))
        return sources

    def address(self, mlflow: MLflow) -> str:
        """The URL inside the cluster."""
        return f"https://{self.names(mlflow).host}:{PORT}{PREFIX if self.api_under_prefix else ''}"

    def url(self, mlflow: MLflow) -> str:
        """The external URL; empty where none is known."""
        if not (self.routes and self.settings.url_configured):
            return ""
        return self.settings.url.rstrip("/") + self.names(mlflow).path
