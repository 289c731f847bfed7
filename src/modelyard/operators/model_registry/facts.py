"""What the children of a registry depend on beside its spec: names, labels, the settings, and what the cluster says."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.model_registry.api import GROUP, ModelRegistry
from modelyard.operators.model_registry.config import OPENSHIFT_ROUTES, Settings
from modelyard.operators.parts.missing_references import Missing
from modelyard.runtime.declaring.predecessor import Predecessor

FINALIZER = f"{GROUP}/finalizer"
NAMESPACE_LABEL = f"{GROUP}/namespace"
PLAIN_HTTP = f"{GROUP}/plain-http"
"""Annotation: `true` leaves a registry on OpenShift without the proxy that it would get."""
DATABASE = f"{GROUP}/database"
"""Annotation on generated credentials: the database that they were made for."""
EXTERNAL_ADDRESS = "routing.opendatahub.io/external-address-rest"
REQUIRED_SCC = {"openshift.io/required-scc": "restricted-v2"}
DISPLAY_NAME = "openshift.io/display-name"
DESCRIPTION = "openshift.io/description"
OPERATOR = "model-registry-operator"
CREATED_BY = {"app.kubernetes.io/created-by": OPERATOR}
UPSTREAM = Predecessor(
    name=OPERATOR,
    lease="85f368d1.opendatahub.io",
    namespaces=("opendatahub", "redhat-ods-applications", "model-registry-operator-system"),
    managers=("manager",),
    labels=CREATED_BY,
    stop="kubectl -n {namespace} scale deployment model-registry-operator-controller-manager --replicas=0",
)
"""Whom we take over from."""
COMPONENT = "model-registry"
INGRESS_NAMESPACES: Object = {"matchLabels": {"network.openshift.io/policy-group": "ingress"}}
PLATFORM_NAMESPACES: Object = {"matchLabels": {"opendatahub.io/generated-namespace": "true"}}
GRANT = "allow-gateway-httproutes"
ReferenceGrant = builtin.ReferenceGrant


def route_namespace(settings: Settings, namespace: str, *, openshift: bool) -> str:
    """Where the HTTPRoute of a server in that namespace goes."""
    return settings.route_namespace or (OPENSHIFT_ROUTES if openshift else namespace)


def predecessor(settings: Settings) -> Predecessor:
    """Whom we take over from, and where it may run under these settings."""
    return UPSTREAM.also_in(settings.namespace, *settings.predecessor_namespaces)


@dataclass(frozen=True)
class Names:
    """The names of one registry's objects."""

    name: str
    namespace: str

    @classmethod
    def of(cls, registry: ModelRegistry) -> Names:
        return cls(registry.name, registry.namespace)

    @property
    def role(self) -> str:
        return f"registry-user-{self.name}"

    @property
    def users(self) -> str:
        """The Group, and the RoleBinding that lets it in."""
        return f"{self.name}-users"

    @property
    def http_route(self) -> str:
        return f"{self.name}-http"

    @property
    def https_route(self) -> str:
        return f"{self.name}-https"

    @property
    def route_policy(self) -> str:
        return f"{self.name}-https-route"

    @property
    def proxy_policy(self) -> str:
        return f"{self.name}-proxy"

    @property
    def gateway_route(self) -> str:
        return f"model-registry-{self.name}"

    @property
    def proxy_config(self) -> str:
        return f"{self.name}-kube-rbac-proxy-config"

    @property
    def serving_cert(self) -> str:
        return f"{self.name}-kube-rbac-proxy"

    @property
    def serving_ca(self) -> str:
        return f"{self.name}-serving-ca"

    @property
    def auth_delegator(self) -> str:
        """A ClusterRoleBinding: registries of this name in other namespaces have one of their own."""
        return f"{self.old_auth_delegator}.{self.namespace}"

    @property
    def old_auth_delegator(self) -> str:
        """The binding's name as upstream and our earlier versions have it."""
        return f"{self.name}-auth-delegator"

    @property
    def postgres(self) -> str:
        return f"{self.name}-postgres"

    @property
    def credentials(self) -> str:
        return f"{self.name}-postgres-credentials"

    @property
    def claim(self) -> str:
        return f"{self.name}-postgres-storage"

    @property
    def pods(self) -> dict[str, str]:
        """The labels that select the server's pods."""
        return {"app": self.name, "component": COMPONENT, "app.kubernetes.io/name": self.name}

    @property
    def postgres_pods(self) -> dict[str, str]:
        return {"app": self.name, "component": COMPONENT, "app.kubernetes.io/name": self.postgres}

    @property
    def postgres_labels(self) -> dict[str, str]:
        return {
            "app": self.postgres,
            "component": "model-registry-postgres",
            "app.kubernetes.io/name": self.postgres,
            "app.kubernetes.io/instance": self.postgres,
            "app.kubernetes.io/component": "database",
            "app.kubernetes.io/part-of": COMPONENT,
            "app.kubernetes.io/managed-by": OPERATOR,
            **CREATED_BY,
        }

    def labels(self, instance: str) -> dict[str, str]:
        return {
            "app": self.name,
            "component": COMPONENT,
            "app.kubernetes.io/name": self.name,
            "app.kubernetes.io/instance": instance,
            "app.kubernetes.io/component": COMPONENT,
            "app.kubernetes.io/part-of": COMPONENT,
            "app.kubernetes.io/managed-by": OPERATOR,
            **CREATED_BY,
        }


@dataclass(frozen=True)
class Credentials:
    """What a generated database was made with."""

    username: str
    database: str


@dataclass(frozen=True)
class Facts:
    """What the cluster and the settings say."""

    settings: Settings
    openshift: bool = False
    """Routes are served."""
    user_api: bool = False
    """Groups are served."""
    gateway: bool = False
    """HTTPRoutes are served, and we know the Gateway's domain."""
    grants: bool = False
    """ReferenceGrants are served, and the namespace has none of ours."""
    domain: str = ""
    serving_ca: str = ""
    """The CA that signed the proxy's certificate, in base64, where a gateway can be told of it."""
    secret: Object | None = None
    """With the generated database's credentials, once it exists."""
    credentials: Credentials | None = None
    """What is in it."""
    claim: Object | None = None
    """The generated database's volume claim, once it exists."""
    storage_class: Object | None = None
    awkward_password: bool = False
    """The database's password cannot stand in a URL as it is."""
    digest: str = ""
    """Of the Secrets and ConfigMaps that the server reads at start."""
    missing: tuple[Missing, ...] = ()
    """What the server reads at start and the cluster does not have."""
    database_digest: str = ""
    """Of the Secret that the generated database reads at start."""
    problems: tuple[str, ...] = field(default=())
    """What will not work as its author thinks."""

    def route_namespace(self, namespace: str) -> str:
        """Where the HTTPRoute of a registry in that namespace goes."""
        return route_namespace(self.settings, namespace, openshift=self.openshift)
