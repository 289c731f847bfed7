"""The kinds that every Kubernetes serves, and the well-known foreign ones that operators create where they are served."""

from modelyard.kube.kinds import Kind

Namespace = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
Node = Kind("", "v1", "Node", "nodes", namespaced=False)
Pod = Kind("", "v1", "Pod", "pods")
Service = Kind("", "v1", "Service", "services")
ServiceAccount = Kind("", "v1", "ServiceAccount", "serviceaccounts")
ConfigMap = Kind("", "v1", "ConfigMap", "configmaps")
Secret = Kind("", "v1", "Secret", "secrets")
PersistentVolume = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PersistentVolumeClaim = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
Endpoints = Kind("", "v1", "Endpoints", "endpoints")
Event = Kind("", "v1", "Event", "events")
LimitRange = Kind("", "v1", "LimitRange", "limitranges")
ResourceQuota = Kind("", "v1", "ResourceQuota", "resourcequotas")
PodTemplate = Kind("", "v1", "PodTemplate", "podtemplates")
ReplicationController = Kind("", "v1", "ReplicationController", "replicationcontrollers")

Deployment = Kind("apps", "v1", "Deployment", "deployments")
ReplicaSet = Kind("apps", "v1", "ReplicaSet", "replicasets")
StatefulSet = Kind("apps", "v1", "StatefulSet", "statefulsets")
DaemonSet = Kind("apps", "v1", "DaemonSet", "daemonsets")
ControllerRevision = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
Job = Kind("batch", "v1", "Job", "jobs")
CronJob = Kind("batch", "v1", "CronJob", "cronjobs")
HorizontalPodAutoscaler = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
PodDisruptionBudget = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

Ingress = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
IngressClass = Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False)
NetworkPolicy = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
EndpointSlice = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
Lease = Kind("coordination.k8s.io", "v1", "Lease", "leases")
StorageClass = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
PriorityClass = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)

Role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
RoleBinding = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
ClusterRole = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
ClusterRoleBinding = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)

MutatingWebhookConfiguration = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
ValidatingWebhookConfiguration = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
CustomResourceDefinition = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
APIService = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
TokenReview = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
SelfSubjectReview = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
SubjectAccessReview = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
LocalSubjectAccessReview = Kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
SelfSubjectAccessReview = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SelfSubjectRulesReview = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)

HTTPRoute = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
ReferenceGrant = Kind("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants")
Gateway = Kind("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
ServiceMonitor = Kind("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
Certificate = Kind("cert-manager.io", "v1", "Certificate", "certificates")
Route = Kind("route.openshift.io", "v1", "Route", "routes")
ConsoleLink = Kind("console.openshift.io", "v1", "ConsoleLink", "consolelinks", namespaced=False)
Group = Kind("user.openshift.io", "v1", "Group", "groups", namespaced=False)
