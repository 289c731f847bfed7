"""The CEL rules of `MLflow`: upstream's with their exact messages, and ours for what upstream admits and then cannot run."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube.crd import Rule

METADATA_SCHEMES = ("sqlite://", "sqlite+", "postgresql://", "postgresql+", "mysql://", "mysql+")

MANAGED_ENV = ("MLFLOW_BACKEND_STORE_URI", "MLFLOW_REGISTRY_STORE_URI", "MLFLOW_K8S_AUTH_AUTHORIZATION_MODE")
"""Variables that the operator always sets and that nobody else may: upstream's Deployment is refused with any of them."""

RESERVED_LABELS = ("app", "app.kubernetes.io/instance")
"""Pod labels that select the server's pods and put them under its network policy."""

_SERVES_ARTIFACTS = "(has(self.serveArtifacts) && self.serveArtifacts)"
_ARCHIVES = (
    "!has(self.traceArchival) || !has(self.traceArchival.enabled) || self.traceArchival.enabled == false || "
    "(has(self.traceArchival.{0}) && size(self.traceArchival.{0}) > 0)"
)


def _begins_with_one_of(field: str, prefixes: Iterable[str]) -> str:
    return " || ".join(f"self.{field}.startsWith('{prefix}')" for prefix in prefixes)


def _scheme(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || {_begins_with_one_of(field, METADATA_SCHEMES)}",
        f"{field} must use a supported SQL metadata store URI scheme",
    )


def _exclusive(field: str) -> Rule:
    return Rule(f"!(has(self.{field}) && has(self.{field}From))", f"{field} and {field}From are mutually exclusive")


def _complete(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || (size(self.{field}.name) > 0 && size(self.{field}.key) > 0)",
        f"{field}.name and {field}.key must be non-empty when {field} is set",
    )


def _needs_storage(field: str, what: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || (!self.{field}.startsWith('sqlite://') && !self.{field}.startsWith('file://')) || "
        "has(self.storage)",
        f"storage must be configured when using file-based {what} store (sqlite:// or file:// prefix)",
    )


def _env_not(name: str, message: str) -> Rule:
    return Rule(f"!has(self.env) || self.env.all(e, e.name != '{name}')", message)


def _egress(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || self.{field}.all(r, (has(r.ports) && size(r.ports) > 0) || (has(r.to) && size(r.to) > 0))",
        f"each {field} entry must specify at least one port or one destination",
    )


def _archival(field: str) -> Rule:
    return Rule(_ARCHIVES.format(field), f"traceArchival.{field} is required when traceArchival.enabled is true")


SPEC_RULES = (
    Rule(
        f"has(self.defaultArtifactRoot) || {_SERVES_ARTIFACTS}",
        "defaultArtifactRoot must be set when serveArtifacts is not true",
    ),
    Rule(
        "!has(self.defaultArtifactRoot) || !self.defaultArtifactRoot.startsWith('file://') || " + _SERVES_ARTIFACTS,
        "serveArtifacts must be enabled when defaultArtifactRoot uses file-based storage (file:// prefix)",
    ),
    Rule(
        "(has(self.backendStoreUri) && size(self.backendStoreUri) > 0) || (has(self.backendStoreUriFrom) && "
        "size(self.backendStoreUriFrom.name) > 0 && size(self.backendStoreUriFrom.key) > 0)",
        "backendStoreUri or backendStoreUriFrom must be set",
    ),
    _exclusive("backendStoreUri"),
    _exclusive("readReplicaBackendStoreUri"),
    _complete("readReplicaBackendStoreUriFrom"),
    _exclusive("registryStoreUri"),
    _complete("registryStoreUriFrom"),
    _scheme("backendStoreUri"),
    _scheme("readReplicaBackendStoreUri"),
    _scheme("registryStoreUri"),
    _needs_storage("backendStoreUri", "backend"),
    Rule(
        "!has(self.readReplicaBackendStoreUri) || !self.readReplicaBackendStoreUri.startsWith('sqlite://') || "
        "has(self.storage)",
        "storage must be configured when using a file-based read-replica backend store (sqlite:// prefix)",
    ),
    _needs_storage("registryStoreUri", "registry"),
    Rule(
        "!has(self.artifactsDestination) || !self.artifactsDestination.startsWith('file://') || has(self.storage)",
        "storage must be configured when artifactsDestination uses file-based storage (file:// prefix)",
    ),
    Rule(
        "!has(self.artifactsDestination) || !self.artifactsDestination.startsWith('file://') || " + _SERVES_ARTIFACTS,
        "serveArtifacts must be enabled when artifactsDestination uses file-based storage (file:// prefix)",
    ),
    _env_not(
        "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE",
        "setting the MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE environment variable is not allowed",
    ),
    _env_not(
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION",
        "setting the MLFLOW_SERVER_ENABLE_JOB_EXECUTION environment variable is not allowed; "
        "the operator manages job execution lifecycle",
    ),
    _egress("networkPolicyEgressRules"),
    _egress("networkPolicyAdditionalEgressRules"),
    Rule(
        "!has(self.resourceClaims) || self.resourceClaims.all(c, ((has(c.resourceClaimName) && "
        "size(c.resourceClaimName) > 0) != (has(c.resourceClaimTemplateName) && size(c.resourceClaimTemplateName) > 0)))",
        "each resourceClaims entry must set exactly one non-empty value: resourceClaimName or resourceClaimTemplateName",
    ),
    Rule(
        "!has(self.traceArchival) || !has(self.traceArchival.location) || "
        "!self.traceArchival.location.startsWith('file://') || has(self.storage)",
        "storage must be configured when traceArchival.location uses file-based storage (file:// prefix)",
    ),
    _archival("schedule"),
    _archival("location"),
    _archival("retention"),
)

LABEL_VALUES = Rule("self.all(key, size(self[key]) <= 63)", "label values must be 63 characters or less")

# Ours. Upstream admits these and then its Deployment or CronJob is refused; here the author hears it at once.

ENV_RULES = (
    Rule(
        "!has(self.env) || self.env.all(e, !(e.name in [{}]))".format(", ".join(f"'{name}'" for name in MANAGED_ENV)),
        "env must not name {}: the operator sets them (use backendStoreUri and registryStoreUri)".format(
            ", ".join(MANAGED_ENV)
        ),
    ),
)

RESERVED_ACCOUNTS = ("mlflow-gc-sa", "mlflow-trace-archival-sa")
"""ServiceAccounts of the scheduled jobs, with rights of their own."""

ACCOUNT_RULES = (
    Rule(
        "!has(self.serviceAccountName) || !(self.serviceAccountName in [{}])".format(
            ", ".join(f"'{name}'" for name in RESERVED_ACCOUNTS)
        ),
        "serviceAccountName must not be {}: the operator makes these for its scheduled jobs; choose another name".format(
            " or ".join(RESERVED_ACCOUNTS)
        ),
    ),
)

POD_LABELS = Rule(
    " && ".join(f"(!('{label}' in self) || self['{label}'] == 'mlflow')" for label in RESERVED_LABELS),
    "podLabels must not change {}: the server's pods are selected by them".format(" or ".join(RESERVED_LABELS)),
)

SCHEDULE = Rule(
    r"self.matches('^\\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly|every\\s.+)|\\S+(\\s+\\S+){4})\\s*$')",
    "schedule must be a cron expression of five fields, such as 0 2 * * 0, or a word such as @daily",
)
