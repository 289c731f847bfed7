"""Kubernetes' defaulting of the built-in kinds, one function a kind. Objects have their Go shape already and are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.builtin.pods.defaults import (
    default_claim_spec,
    default_disk,
    default_pod,
    default_pod_template,
)

Default = Callable[[Object], None]

_RBAC = "rbac.authorization.k8s.io"
_CLIENT_IP_TIMEOUT = 10800
_MAX_INT32 = 2**31 - 1


def _fill(target: Object, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        target.setdefault(key, value)


def namespace(obj: Object) -> None:
    metadata = obj["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    obj.setdefault("status", {}).setdefault("phase", "Active")


def node(obj: Object) -> None:
    status = obj.get("status") or {}
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    # The one address range of old and the list of them say the same; where they differ, the old field wins.
    spec = obj.get("spec") or {}
    single, ranges = spec.get("podCIDR") or "", spec.get("podCIDRs") or []
    if single and single not in ranges[:1]:
        spec["podCIDRs"] = [single]
    elif ranges:
        spec["podCIDR"] = ranges[0]


def secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")


def service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _CLIENT_IP_TIMEOUT}}
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (0, "", None):
            port["targetPort"] = port.get("port", 0)
    kind = spec["type"]
    external = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if external:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def persistent_volume(obj: Object) -> None:
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    default_disk(spec)
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")


def persistent_volume_claim(obj: Object) -> None:
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    default_claim_spec(obj.setdefault("spec", {}))


def endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def limit_range(obj: Object) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = dict(item.get("default") or {})
        requests = dict(item.get("defaultRequest") or {})
        _fill(limits, item.get("max") or {})
        _fill(requests, limits)
        _fill(requests, item.get("min") or {})
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def pod_template(obj: Object) -> None:
    default_pod_template(obj.get("template"))


def replication_controller(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))
    spec.setdefault("replicas", 1)
    default_pod_template(spec.get("template"))


def _rolling(strategy: Object, values: Mapping[str, Any]) -> None:
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), values)


def deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    _rolling(spec.setdefault("strategy", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})
    default_pod_template(spec.get("template"))


def replica_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_pod_template(spec.get("template"))


def daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _rolling(spec.setdefault("updateStrategy", {}), {"maxUnavailable": 1, "maxSurge": 0})
    spec.setdefault("revisionHistoryLimit", 10)
    default_pod_template(spec.get("template"))


def stateful_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10})
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        _fill(strategy["rollingUpdate"], {"partition": 0, "maxUnavailable": 1})
    _fill(
        spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), {"whenDeleted": "Retain", "whenScaled": "Retain"}
    )
    for claim in spec.get("volumeClaimTemplates") or ():
        persistent_volume_claim(claim)
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
    default_pod_template(spec.get("template"))


def job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        # One and the same dict: labels that the server adds to the template appear on the Job too, as in Kubernetes.
        obj["metadata"]["labels"] = labels
    _job_spec(spec)


def _job_spec(spec: Object) -> None:
    failed = spec.get("podFailurePolicy") is not None
    _fill(
        spec,
        {
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "Failed" if failed else "TerminatingOrFailed",
            "manualSelector": False,
        },
    )
    _failure_policy(spec)
    default_pod_template(spec.get("template"))


def _failure_policy(spec: Object) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _fill(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    _failure_policy(template)
    default_pod_template(template.get("template"))


def horizontal_pod_autoscaler(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        up = behavior.setdefault("scaleUp", {})
        _fill(
            up,
            {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ],
            },
        )
        down = behavior.setdefault("scaleDown", {})
        _fill(down, {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]})


def network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def ingress_class(obj: Object) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        _fill(port, {"name": "", "protocol": "TCP"})


def storage_class(obj: Object) -> None:
    _fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _fill(
        spec,
        {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": False,
            "seLinuxMount": False,
            "preventPodSchedulingIfMissing": False,
        },
    )
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def priority_class(obj: Object) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def binding(obj: Object) -> None:
    reference = obj.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC


def _webhooks(obj: Object, more: Mapping[str, Any]) -> None:
    for webhook in obj.get("webhooks") or ():
        _fill(
            webhook,
            {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10},
        )
        for selector in ("namespaceSelector", "objectSelector"):
            if webhook.get(selector) is None:
                webhook[selector] = {}
        _fill(webhook, more)
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        reference = (webhook.get("clientConfig") or {}).get("service")
        if reference is not None:
            reference.setdefault("port", 443)


def mutating_webhooks(obj: Object) -> None:
    _webhooks(obj, {"reinvocationPolicy": "Never"})


def validating_webhooks(obj: Object) -> None:
    _webhooks(obj, {})


DEFAULTS: Mapping[Kind, Default] = {
    builtin.Namespace: namespace,
    builtin.Node: node,
    builtin.Pod: default_pod,
    builtin.Secret: secret,
    builtin.Service: service,
    builtin.PersistentVolume: persistent_volume,
    builtin.PersistentVolumeClaim: persistent_volume_claim,
    builtin.Endpoints: endpoints,
    builtin.LimitRange: limit_range,
    builtin.PodTemplate: pod_template,
    builtin.ReplicationController: replication_controller,
    builtin.Deployment: deployment,
    builtin.ReplicaSet: replica_set,
    builtin.StatefulSet: stateful_set,
    builtin.DaemonSet: daemon_set,
    builtin.Job: job,
    builtin.CronJob: cron_job,
    builtin.HorizontalPodAutoscaler: horizontal_pod_autoscaler,
    builtin.NetworkPolicy: network_policy,
    builtin.IngressClass: ingress_class,
    builtin.EndpointSlice: endpoint_slice,
    builtin.StorageClass: storage_class,
    builtin.PriorityClass: priority_class,
    builtin.RoleBinding: binding,
    builtin.ClusterRoleBinding: binding,
    builtin.MutatingWebhookConfiguration: mutating_webhooks,
    builtin.ValidatingWebhookConfiguration: validating_webhooks,
}
