"""`ModelRegistry` as types, in both of its versions; its definition is generated from these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from modelyard.kube.crd import Column, Definition, Model, Resource, Rule, Version
from modelyard.operators.parts.types import Condition, Int64, ResourceRequirements

GROUP = "modelregistry.opendatahub.io"
DEPRECATED = (
    "Version v1alpha1 of the ModelRegistry API is deprecated and will be removed in a future release. "
    "Please use v1beta1 instead."
)
_DOMAIN_PART = r"([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])"
DOMAIN_PATTERN = rf"^({_DOMAIN_PART}(\.{_DOMAIN_PART})*)?$"

Domain: TypeAlias = Annotated[str, Meta(max_length=253, pattern=DOMAIN_PATTERN)]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65535, extra_json_schema={"format": "int32"})]
PortOrNone: TypeAlias = Annotated[int, Meta(ge=0, le=65535, extra_json_schema={"format": "int32"})]
"""0 stands for: as the operator thinks best."""
Switch: TypeAlias = Literal["disabled", "enabled"]
SSLMode: TypeAlias = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


class KeyOf(Model):
    """One key of a Secret or of a ConfigMap in the registry's namespace."""

    name: str
    key: str


class Rest(Model):
    """The REST server."""

    port: Port = 8080
    service_route: Switch = "disabled"
    resources: ResourceRequirements | None = None
    image: str | None = None


class Grpc(Model):
    """Once a second server; accepted and ignored."""

    port: PortOrNone = 9090
    resources: ResourceRequirements | None = None
    image: str | None = None


class PostgresConnection(Model):
    """A PostgreSQL database, as both versions have it."""

    host: str | None = None
    host_address: str | None = None
    port: Port = 5432
    username: str | None = None
    password_secret: KeyOf | None = None
    skip_db_creation: bool = msgspec.field(default=False, name="skipDBCreation")
    ssl_mode: SSLMode | None = "disable"
    ssl_certificate_secret: KeyOf | None = None
    ssl_key_secret: KeyOf | None = None
    ssl_password_secret: KeyOf | None = None
    ssl_root_certificate_config_map: KeyOf | None = None
    ssl_root_certificate_secret: KeyOf | None = None


class Postgres(PostgresConnection):
    """A PostgreSQL database: one that is there, or one that is made for this registry."""

    rules: ClassVar[Sequence[Rule]] = (
        Rule(
            "has(self.generateDeployment) && self.generateDeployment ? true : "
            "(size(self.host) > 0 || size(self.hostAddress) > 0)",
            "GenerateDeployment must be set to true if host/hostAddress are not provided",
        ),
        Rule(
            "has(self.database) && size(self.database) > 0 ? has(self.username) && size(self.username) > 0 : true",
            "Username must be set if database is specified",
        ),
        Rule(
            "!(has(self.generateDeployment) && self.generateDeployment) || ((!has(self.host) || size(self.host) == 0) "
            "&& (!has(self.hostAddress) || size(self.hostAddress) == 0))",
            "host and hostAddress must not be set when generateDeployment is true",
        ),
    )

    database: str | None = None
    generate_deployment: bool | None = None
    image: str | None = None

    @property
    def is_generated(self) -> bool:
        return bool(self.generate_deployment)


class MySQL(Model, kw_only=True):
    """A MySQL or MariaDB database."""

    host: str
    port: Port = 3306
    username: str
    password_secret: KeyOf | None = None
    database: str
    skip_db_creation: bool = msgspec.field(default=False, name="skipDBCreation")
    ssl_certificate_secret: KeyOf | None = None
    ssl_key_secret: KeyOf | None = None
    ssl_root_certificate_config_map: KeyOf | None = None
    ssl_root_certificates_config_map_name: str | None = None
    ssl_root_certificate_secret: KeyOf | None = None
    ssl_root_certificates_secret_name: str | None = None
    ssl_cipher: str | None = None
    verify_server_cert: bool | None = None


class Proxy(Model):
    """An authenticating proxy in front of the server."""

    rules: ClassVar[Sequence[Rule]] = (
        Rule(
            "has(self.tlsCertificateSecret) == has(self.tlsKeySecret)",
            "tlsCertificateSecret and tlsKeySecret MUST be set together",
        ),
    )

    port: PortOrNone = 8443
    tls_certificate_secret: KeyOf | None = None
    tls_key_secret: KeyOf | None = None
    service_route: Switch = "enabled"
    domain: Domain | None = None
    route_port: PortOrNone = 443
    image: str | None = None


class ModelRegistrySpec(Model):
    """What the author asks for."""

    rules: ClassVar[Sequence[Rule]] = (
        Rule("!(has(self.oauthProxy) && has(self.kubeRBACProxy))", "Cannot use both oauthProxy and kubeRBACProxy"),
    )

    rest: Rest
    grpc: Grpc | None = None
    postgres: Postgres | None = None
    mysql: MySQL | None = None
    enable_database_upgrade: bool | None = msgspec.field(default=None, name="enable_database_upgrade")
    downgrade_db_schema_version: Int64 | None = msgspec.field(default=None, name="downgrade_db_schema_version")
    oauth_proxy: Proxy | None = None
    kube_rbac_proxy: Proxy | None = msgspec.field(default=None, name="kubeRBACProxy")


class ModelRegistryStatus(Model):
    """What is the case."""

    hosts: list[str] | None = None
    hosts_str: str | None = None
    spec_defaults: str | None = None
    conditions: list[Condition] | None = None


class ModelRegistry(Resource):
    """A registry of models, their versions and artifacts."""

    spec: ModelRegistrySpec | None = None
    status: ModelRegistryStatus | None = None


# v1alpha1


class OldPostgres(PostgresConnection, kw_only=True):
    """A PostgreSQL database that is there."""

    database: str


class GatewayTLS(Model):
    """How the mesh's gateway ended TLS."""

    mode: Literal["SIMPLE", "MUTUAL", "ISTIO_MUTUAL", "OPTIONAL_MUTUAL"] = "SIMPLE"
    credential_name: str | None = None


class GatewayServer(Model):
    """One port of the mesh's gateway."""

    port: PortOrNone | None = None
    gateway_route: Switch | None = None
    tls: GatewayTLS | None = None


class IstioGateway(Model, kw_only=True):
    """The mesh's gateway."""

    domain: Domain | None = None
    istio_ingress: str | None = None
    control_plane: str | None = None
    rest: GatewayServer
    grpc: GatewayServer


class Istio(Model):
    """A service mesh in front of the server; it became a proxy."""

    auth_provider: str | None = None
    auth_config_labels: dict[str, str] | None = None
    tls_mode: str = "ISTIO_MUTUAL"
    audiences: list[str] | None = None
    gateway: IstioGateway | None = None


class OldModelRegistrySpec(Model, kw_only=True):
    """What the author asked for in v1alpha1."""

    rules: ClassVar[Sequence[Rule]] = (
        Rule("!(has(self.istio) && has(self.oauthProxy))", "Cannot use both istio and oauthProxy"),
    )

    rest: Rest
    grpc: Grpc
    postgres: OldPostgres | None = None
    mysql: MySQL | None = None
    enable_database_upgrade: bool | None = msgspec.field(default=None, name="enable_database_upgrade")
    downgrade_db_schema_version: Int64 | None = msgspec.field(default=None, name="downgrade_db_schema_version")
    istio: Istio | None = None
    oauth_proxy: Proxy | None = None


class OldModelRegistry(Resource):
    """A registry as v1alpha1 has it."""

    spec: OldModelRegistrySpec | None = None
    status: ModelRegistryStatus | None = None


def _condition_column(name: str, type: str, field: str = "status", priority: int = 2) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{type}")].{field}', priority=priority)


_AVAILABLE = _condition_column("Available", "Available", priority=0)
_AGE = Column("Age", ".metadata.creationTimestamp", type="date")
_HOSTS = Column("Hosts", ".status.hostsStr", priority=2)
_STATUS = _condition_column("Status", "Available", "message")

MODEL_REGISTRY = Definition(
    group=GROUP,
    kind_name="ModelRegistry",
    plural="modelregistries",
    short_names=["mr"],
    versions=[
        Version(
            "v1beta1",
            ModelRegistry,
            columns=[
                _AVAILABLE,
                _condition_column("KubeRBACProxy", "KubeRBACProxyAvailable"),
                _AGE,
                _HOSTS,
                _STATUS,
            ],
        ),
        Version(
            "v1alpha1",
            OldModelRegistry,
            storage=False,
            deprecated=True,
            deprecation_warning=DEPRECATED,
            columns=[
                _AVAILABLE,
                _condition_column("Istio", "IstioAvailable"),
                _condition_column("Gateway", "GatewayAvailable"),
                _condition_column("OAuthProxy", "OAuthProxyAvailable"),
                _AGE,
                _HOSTS,
                _STATUS,
            ],
        ),
    ],
    conversion_path="/convert",
)

DEFINITIONS = (MODEL_REGISTRY,)
