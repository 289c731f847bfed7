"""Small builders of the objects that operators make: plain dicts shaped like the YAML a person knows. Absent options are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.openshift import SERVING_CERTIFICATE

Labels = Mapping[str, str]


def present(**fields: Any) -> Object:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def filled(**fields: Any) -> Object:
    """The fields that are not None and not empty. False and 0 are values."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {}, ())}


def obj(
    kind: Kind,
    name: str,
    namespace: str = "",
    labels: Labels | None = None,
    annotations: Labels | None = None,
    **body: Any,
) -> Object:
    """An object of a kind; the body's fields that are None are left out."""
    metadata = filled(name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {}))
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **present(**body)}


def deployment(
    name: str,
    namespace: str,
    *,
    selector: Labels,
    pod: Object,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    replicas: int | None = None,
    strategy: Object | None = None,
    pod_labels: Labels | None = None,
    pod_annotations: Labels | None = None,
) -> Object:
    """A Deployment; its pods carry `pod_labels`, or the selector's where none are given."""
    template = {
        "metadata": filled(labels=dict(pod_labels or selector), annotations=dict(pod_annotations or {})),
        "spec": pod,
    }
    spec = present(replicas=replicas, strategy=strategy, selector={"matchLabels": dict(selector)}, template=template)
    return obj(builtin.Deployment, name, namespace, labels, annotations, spec=spec)


def service(
    name: str,
    namespace: str,
    *,
    selector: Labels,
    ports: Sequence[Object],
    labels: Labels | None = None,
    annotations: Labels | None = None,
    type: str | None = "ClusterIP",
    cluster_ip: str | None = None,
    serving_certificate: str = "",
) -> Object:
    """`serving_certificate` names the Secret that the Service wants; its controller declares `Owns(Service, serving_certificates=True)`."""
    if serving_certificate:
        annotations = {SERVING_CERTIFICATE: serving_certificate, **(annotations or {})}
    spec = present(type=type, clusterIP=cluster_ip, selector=dict(selector), ports=list(ports))
    return obj(builtin.Service, name, namespace, labels, annotations, spec=spec)


def service_port(
    port: int, *, name: str | None = None, target: int | str | None = None, protocol: str = "TCP"
) -> Object:
    return present(name=name, port=port, targetPort=port if target is None else target, protocol=protocol)


def service_account(
    name: str, namespace: str, labels: Labels | None = None, *, automount: bool | None = None
) -> Object:
    return obj(builtin.ServiceAccount, name, namespace, labels, automountServiceAccountToken=automount)


def config_map(name: str, namespace: str, data: Labels, labels: Labels | None = None) -> Object:
    return obj(builtin.ConfigMap, name, namespace, labels, data=dict(data))


def claim(
    name: str,
    namespace: str,
    *,
    size: str,
    modes: Sequence[str] = ("ReadWriteOnce",),
    storage_class: str | None = None,
    labels: Labels | None = None,
) -> Object:
    """A PersistentVolumeClaim."""
    spec = filled(accessModes=list(modes), storageClassName=storage_class, resources={"requests": {"storage": size}})
    return obj(builtin.PersistentVolumeClaim, name, namespace, labels, spec=spec)


def cron_job(
    name: str, namespace: str, *, schedule: str, pod: Object, labels: Labels, pod_labels: Labels, backoff_limit: int
) -> Object:
    """A CronJob whose runs do not overlap."""
    template = {"metadata": {"labels": dict(pod_labels)}, "spec": pod}
    spec = {
        "schedule": schedule,
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {"spec": {"backoffLimit": backoff_limit, "template": template}},
    }
    return obj(builtin.CronJob, name, namespace, labels, spec=spec)


def env(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def env_from_secret(name: str, secret: str, key: str, optional: bool | None = None) -> Object:
    return {"name": name, "valueFrom": {"secretKeyRef": present(name=secret, key=key, optional=optional)}}


def probe(
    path: str,
    port: int | str,
    *,
    scheme: str | None = None,
    initial_delay: int | None = None,
    timeout: int | None = None,
    period: int | None = None,
    success: int | None = None,
    failure: int | None = None,
) -> Object:
    """An HTTP probe."""
    return present(
        httpGet=present(path=path, port=port, scheme=scheme),
        initialDelaySeconds=initial_delay,
        timeoutSeconds=timeout,
        periodSeconds=period,
        successThreshold=success,
        failureThreshold=failure,
    )


def resources(requests: Labels | None = None, limits: Labels | None = None) -> Object:
    return filled(requests=dict(requests or {}), limits=dict(limits or {}))


def mount(name: str, path: str, *, read_only: bool = False, sub_path: str | None = None) -> Object:
    return present(name=name, mountPath=path, readOnly=True if read_only else None, subPath=sub_path)


def empty_dir(name: str, size_limit: int | str | None = None) -> Object:
    return {"name": name, "emptyDir": present(sizeLimit=size_limit)}


def secret_volume(name: str, secret: str, *, mode: int | None = None, items: Labels | None = None) -> Object:
    """A Secret as files; `items` picks keys: `{key: path}`."""
    return {"name": name, "secret": present(secretName=secret, defaultMode=mode, items=_items(items))}


def config_map_volume(
    name: str, config_map: str, *, optional: bool | None = None, mode: int | None = None, items: Labels | None = None
) -> Object:
    source = present(name=config_map, optional=optional, defaultMode=mode, items=_items(items))
    return {"name": name, "configMap": source}


def claim_volume(name: str, claim: str) -> Object:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _items(items: Labels | None) -> list[Object] | None:
    return None if items is None else [{"key": key, "path": path} for key, path in items.items()]


def rule(
    groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] | None = None
) -> Object:
    return present(
        apiGroups=list(groups),
        resources=list(resources),
        verbs=list(verbs),
        resourceNames=None if names is None else list(names),
    )


def cluster_role(name: str, rules: Sequence[Object], labels: Labels | None = None) -> Object:
    return obj(builtin.ClusterRole, name, labels=labels, rules=list(rules))


def role(name: str, namespace: str, rules: Sequence[Object], labels: Labels | None = None) -> Object:
    return obj(builtin.Role, name, namespace, labels, rules=list(rules))


def service_account_subject(name: str, namespace: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def group_subject(name: str) -> Object:
    return {"kind": "Group", "name": name, "apiGroup": builtin.RoleBinding.group}


def cluster_role_binding(name: str, role: str, subjects: Sequence[Object], labels: Labels | None = None) -> Object:
    return obj(
        builtin.ClusterRoleBinding, name, labels=labels, roleRef=_role_ref("ClusterRole", role), subjects=list(subjects)
    )


def role_binding(
    name: str,
    namespace: str,
    role: str,
    subjects: Sequence[Object],
    labels: Labels | None = None,
    *,
    role_kind: str = "Role",
) -> Object:
    return obj(
        builtin.RoleBinding, name, namespace, labels, roleRef=_role_ref(role_kind, role), subjects=list(subjects)
    )


def _role_ref(kind: str, name: str) -> Object:
    return {"apiGroup": builtin.ClusterRole.group, "kind": kind, "name": name}
