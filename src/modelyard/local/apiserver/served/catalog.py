"""The built-in resources as discovery shows them, and what is particular about how each is served."""

from __future__ import annotations

from collections.abc import Callable

from modelyard.kube.kinds import Kind
from modelyard.local.apiserver.builtin import versions
from modelyard.local.apiserver.served.resources import (
    ALL_VERBS,
    Convert,
    Handler,
    ServedResource,
    Strategy,
    Subresource,
)

_STATUS = ("get", "patch", "update")

# group/version, then: plural kind scope [short names] [+categories] [subresources]
_TABLE = """
v1
  configmaps ConfigMap N cm
  endpoints Endpoints N ep
  events Event N ev
  limitranges LimitRange N limits
  namespaces Namespace C ns /status /finalize
  nodes Node C no /status
  persistentvolumeclaims PersistentVolumeClaim N pvc /status
  persistentvolumes PersistentVolume C pv /status
  pods Pod N po +all /status /attach /binding /ephemeralcontainers /eviction /exec /log /portforward /resize
  podtemplates PodTemplate N
  replicationcontrollers ReplicationController N rc +all /status /scale
  resourcequotas ResourceQuota N quota /status
  secrets Secret N
  serviceaccounts ServiceAccount N sa /token
  services Service N svc +all /status
admissionregistration.k8s.io/v1
  mutatingwebhookconfigurations MutatingWebhookConfiguration C +api-extensions
  validatingwebhookconfigurations ValidatingWebhookConfiguration C +api-extensions
apiextensions.k8s.io/v1
  customresourcedefinitions CustomResourceDefinition C crd crds +api-extensions /status
apps/v1
  controllerrevisions ControllerRevision N
  daemonsets DaemonSet N ds +all /status
  deployments Deployment N deploy +all /status /scale
  replicasets ReplicaSet N rs +all /status /scale
  statefulsets StatefulSet N sts +all /status /scale
authentication.k8s.io/v1
  selfsubjectreviews SelfSubjectReview C
  tokenreviews TokenReview C
authorization.k8s.io/v1
  localsubjectaccessreviews LocalSubjectAccessReview N
  selfsubjectaccessreviews SelfSubjectAccessReview C
  selfsubjectrulesreviews SelfSubjectRulesReview C
  subjectaccessreviews SubjectAccessReview C
autoscaling/v1
  horizontalpodautoscalers HorizontalPodAutoscaler N hpa +all /status
autoscaling/v2
  horizontalpodautoscalers HorizontalPodAutoscaler N hpa +all /status
batch/v1
  cronjobs CronJob N cj +all /status
  jobs Job N +all /status
certificates.k8s.io/v1
  certificatesigningrequests CertificateSigningRequest C csr /status /approval
coordination.k8s.io/v1
  leases Lease N
discovery.k8s.io/v1
  endpointslices EndpointSlice N
events.k8s.io/v1
  events Event N ev
networking.k8s.io/v1
  ingressclasses IngressClass C
  ingresses Ingress N ing /status
  networkpolicies NetworkPolicy N netpol
node.k8s.io/v1
  runtimeclasses RuntimeClass C
policy/v1
  poddisruptionbudgets PodDisruptionBudget N pdb /status
rbac.authorization.k8s.io/v1
  clusterrolebindings ClusterRoleBinding C
  clusterroles ClusterRole C
  rolebindings RoleBinding N
  roles Role N
scheduling.k8s.io/v1
  priorityclasses PriorityClass C pc
storage.k8s.io/v1
  csidrivers CSIDriver C
  csinodes CSINode C
  csistoragecapacities CSIStorageCapacity N
  storageclasses StorageClass C sc
  volumeattachments VolumeAttachment C /status
"""

_REVIEWS = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
_SUBRESOURCES = {
    "status": ("", "", "", _STATUS),
    "ephemeralcontainers": ("", "", "", _STATUS),
    "resize": ("", "", "", _STATUS),
    "approval": ("", "", "", _STATUS),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
    "scale": ("autoscaling", "v1", "Scale", _STATUS),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "binding": ("", "", "Binding", ("create",)),
    "exec": ("", "", "PodExecOptions", ("create", "get")),
    "attach": ("", "", "PodAttachOptions", ("create", "get")),
    "portforward": ("", "", "PodPortForwardOptions", ("create", "get")),
}
_SCALE = ("spec.replicas", "status.replicas", "spec.selector")
_CREATE_ON_UPDATE = frozenset(
    ("runtimeclasses", "rolebindings", "clusterrolebindings", "roles", "clusterroles", "leases", "limitranges", "events", "services", "endpoints")
)  # fmt: skip
_VERSION_REQUIRED = frozenset(
    (
        "runtimeclasses", "poddisruptionbudgets", "csidrivers", "csistoragecapacities", "volumeattachments", "csinodes", "leases",
        "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "customresourcedefinitions",
    )
)  # fmt: skip
_RETURNS_DELETED = frozenset(
    (
        "csidrivers", "storageclasses", "volumeattachments", "csinodes", "resourcequotas", "persistentvolumes", "serviceaccounts",
        "persistentvolumeclaims", "namespaces", "pods", "services", "podtemplates",
    )
)  # fmt: skip
_DEPRECATED = {"endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = frozenset(
    (*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "source", "type")
)
_FIELD_LABELS = {
    "pods": frozenset(
        (
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "spec.host",
            "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
        )
    ),
    "nodes": frozenset(("spec.unschedulable",)),
    "replicationcontrollers": frozenset(("status.replicas",)),
    "events": _EVENT_FIELDS,
    "events.events.k8s.io": frozenset((*(f"regarding.{name}" for name in _INVOLVED), "reason", "reportingController", "type")),
    "namespaces": frozenset(("status.phase",)),
    "secrets": frozenset(("type",)),
    "services": frozenset(("spec.clusterIP", "spec.type")),
    "jobs": frozenset(("status.successful",)),
    "certificatesigningrequests": frozenset(("spec.signerName",)),
}  # fmt: skip

_STORED: dict[tuple[str, str], tuple[str, str, Convert]] = {
    ("events.k8s.io", "events"): ("events", "v1", versions.convert_events),
    ("autoscaling", "horizontalpodautoscalers"): (
        "horizontalpodautoscalers.autoscaling", "autoscaling/v2", versions.convert_autoscalers,
    ),
}  # fmt: skip
"""Where other kinds' objects are stored, in which version, and what converts them."""

Handlers = dict[tuple[str, str], Handler]
"""By resource (`pods`, `tokenreviews.authentication.k8s.io`) and subresource (empty for the resource itself)."""


def builtin_resources(strategy_of: Callable[[Kind, bool], Strategy], handlers: Handlers) -> list[ServedResource]:
    """All built-in resources. `strategy_of` gets the kind and whether it has a status subresource."""
    found: list[ServedResource] = []
    group = version = ""
    for line in _TABLE.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            group, _, version = words[0].rpartition("/")
            continue
        plural, kind_name, scope = words[:3]
        kind = Kind(group, version, kind_name, plural, scope == "N")
        names = [word[1:] for word in words[3:] if word[0] == "/"]
        review = group in _REVIEWS
        storage, storage_version, convert = _STORED.get((group, plural), ("", "", None))
        found.append(
            ServedResource(
                kind,
                strategy_of(kind, "status" in names),
                storage=storage,
                storage_version=storage_version,
                convert=convert,
                singular="endpoints" if plural == "endpoints" else "",
                short_names=tuple(word for word in words[3:] if word[0] not in "/+"),
                categories=tuple(word[1:] for word in words[3:] if word[0] == "+"),
                verbs=_verbs(plural, review),
                subresources={name: _subresource(kind, name, handlers) for name in names},
                field_labels=_FIELD_LABELS.get(kind.resource, _FIELD_LABELS.get(plural, frozenset())),
                create_on_update=plural in _CREATE_ON_UPDATE,
                unconditional_update=plural not in _VERSION_REQUIRED,
                returns_deleted=plural in _RETURNS_DELETED,
                graceful=plural == "pods",
                deprecation=_DEPRECATED.get(kind.resource, ""),
                handler=handlers.get((kind.resource, "")),
            )
        )
    return found


def _verbs(plural: str, review: bool) -> tuple[str, ...]:
    if review:
        return ("create",)
    return tuple(verb for verb in ALL_VERBS if plural != "namespaces" or verb != "deletecollection")


def _subresource(kind: Kind, name: str, handlers: Handlers) -> Subresource:
    group, version, other, verbs = _SUBRESOURCES[name]
    scale = _SCALE if name == "scale" else None
    return Subresource(name, other or kind.kind, verbs, group, version, handlers.get((kind.resource, name)), scale)
