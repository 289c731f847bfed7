"""What a RayCluster has beside its pods: Services, the autoscaler's rights, the clients' token, the way to its dashboard. Pure."""

from __future__ import annotations

import copy
from collections.abc import Callable

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.secrets import encoded
from modelyard.operators.parts import build
from modelyard.operators.parts.network import http_route, path_rule
from modelyard.operators.parts.ray_crd import HeadGroup, RayCluster
from modelyard.operators.ray import names as label
from modelyard.operators.ray.pods import TOKEN_KEY, Plan, ray_container
from modelyard.runtime.declaring.desired import Child

_DEFAULT_PORTS = {
    "client": label.CLIENT_PORT,
    "dashboard": label.DASHBOARD_PORT,
    "gcs-server": label.GCS_PORT,
    "metrics": label.METRICS_PORT,
    "serve": label.SERVE_PORT,
}


def children(cluster: RayCluster, plan: Plan, token: Callable[[], str], *, routes: bool) -> list[Child | Object]:
    """`routes`: HTTPRoutes are served here."""
    spec = plan.spec
    made: list[Child | Object] = []
    if plan.autoscaling:
        made += autoscaler_rights(plan)
    if spec.head_group_spec.enable_ingress:
        made.append(ingress(plan))
    if plan.auth_secret == cluster.metadata.name:
        made.append(_token_secret(plan, token))
    made.append(head_service(plan))
    if any(group.num_of_hosts > 1 for group in spec.worker_group_specs or []):
        made.append(workers_service(plan))
    annotations = cluster.metadata.annotations or {}
    if annotations.get(label.SERVE_SERVICE) == "true":
        made.append(serve_service(plan))
    if routes and plan.settings.gateway and label.SECURED not in annotations:
        made.append(dashboard_route(plan))
    return made


def head_service(plan: Plan) -> Object:
    """With the ports of the Ray container; the user's own Service is completed where they give one."""
    group, names = plan.spec.head_group_spec, plan.names
    pod_labels = (group.template.get("metadata") or {}).get("labels") or {}
    selector = {
        label.CLUSTER: names.cluster,
        label.NODE_TYPE: label.HEAD,
        label.IDENTIFIER: f"{names.cluster}-{label.HEAD}",
        label.APP: pod_labels.get(label.APP, "kuberay"),
        label.CREATOR: "kuberay-operator",
    }
    own = copy.deepcopy(group.head_service or {})
    meta, spec = own.get("metadata") or {}, own.get("spec") or {}
    given = spec.get("ports") or []
    taken = {port.get("name") for port in given} | {port.get("port") for port in given}
    ports = [*given, *(port for port in head_ports(group) if not {port["name"], port["port"]} & taken)]
    kind = spec.get("type") or group.service_type or None
    spec |= {"selector": selector, "ports": ports} | build.present(type=kind)
    if not own and not plan.settings.head_address and kind in (None, "ClusterIP"):
        # Workers look for the head before it is ready: that is what they wait for.
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    notes = {**(meta.get("annotations") or {}), **(plan.spec.head_service_annotations or {})}
    return build.obj(
        builtin.Service,
        names.head_service,
        names.namespace,
        {**(meta.get("labels") or {}), **selector},
        notes,
        spec=spec,
    )


def head_ports(group: HeadGroup) -> list[Object]:
    """Sorted by name, as the API is asked for them in the same order every time."""
    declared = ray_container(group).get("ports") or []
    found = {str(port.get("name") or f"{port['containerPort']}-port"): int(port["containerPort"]) for port in declared}
    found = found or dict(_DEFAULT_PORTS)
    if label.METRICS_PORT not in found.values():
        found.setdefault("metrics", label.METRICS_PORT)
    return [
        {"name": name, "port": port, "targetPort": port, "protocol": "TCP", "appProtocol": "tcp"}
        for name, port in sorted(found.items())
    ]


def _port(plan: Plan, name: str, otherwise: int) -> int:
    """The head's port of that name."""
    return next((port["port"] for port in head_ports(plan.spec.head_group_spec) if port["name"] == name), otherwise)


def workers_service(plan: Plan) -> Object:
    """Names for the pods of replicas with several hosts."""
    names = plan.names
    labels = {label.CLUSTER: names.cluster, label.NODE_TYPE: label.WORKER}
    return build.obj(
        builtin.Service,
        names.workers_service,
        names.namespace,
        labels,
        spec={"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels},
    )


def serve_service(plan: Plan) -> Object:
    """Leads to every pod of the cluster: each of them answers for Ray Serve."""
    names = plan.names
    port = _port(plan, "serve", label.SERVE_PORT)
    return build.service(
        names.serve_service,
        names.namespace,
        selector={label.CLUSTER: names.cluster, label.IS_NODE: "yes"},
        ports=[{**build.service_port(port, name="serve"), "appProtocol": "tcp"}],
        labels={label.CLUSTER: names.cluster, "ray.io/serve": f"{names.cluster}-serve"},
    )


def autoscaler_rights(plan: Plan) -> list[Object]:
    """Rights on the pods of its namespace and on this one RayCluster. A named account is its owner's to make."""
    names = plan.names
    own = (plan.spec.head_group_spec.template.get("spec") or {}).get("serviceAccountName")
    account = str(own or names.cluster)
    labels = {label.CLUSTER: names.cluster, label.CREATOR: "kuberay-operator"}
    rules = [
        build.rule([""], ["pods"], ["get", "list", "watch", "patch"]),
        build.rule([""], ["pods/resize"], ["patch"]),
        build.rule(["ray.io"], ["rayclusters"], ["get", "patch"], names=[names.cluster]),
    ]
    subject = build.service_account_subject(account, names.namespace)
    return [
        *([] if own else [build.service_account(account, names.namespace, labels)]),
        build.role(names.cluster, names.namespace, rules, labels),
        build.role_binding(names.cluster, names.namespace, names.cluster, [subject], labels),
    ]


def ingress(plan: Plan) -> Object:
    """To the dashboard, as `ingressOptions` say."""
    names, options = plan.names, plan.spec.head_group_spec.ingress_options
    given = options.to_dict() if options else {}
    path = given.get("path") or ("/" if given.get("host") else f"/{names.cluster}")
    port = _port(plan, "dashboard", label.DASHBOARD_PORT)
    backend = {"service": {"name": names.head_service, "port": {"number": port}}}
    paths = [{"path": path, "pathType": given.get("pathType") or "Prefix", "backend": backend}]
    rule = build.present(host=given.get("host"), http={"paths": paths})
    labels = {label.CLUSTER: names.cluster, label.IDENTIFIER: f"{names.cluster}-head-ingress", label.APP: "kuberay"}
    return build.obj(
        builtin.Ingress,
        names.ingress,
        names.namespace,
        labels,
        spec=build.present(rules=[rule], tls=given.get("tls")),
    )


def dashboard_route(plan: Plan) -> Object:
    names = plan.names
    port = _port(plan, "dashboard", label.DASHBOARD_PORT)
    rule = path_rule(f"/ray/{names.namespace}/{names.cluster}", names.head_service, port, rewrite="/")
    return http_route(
        names.cluster,
        names.namespace,
        gateway=plan.settings.gateway,
        gateway_namespace=plan.settings.gateway_namespace,
        rules=[rule],
        labels={label.CLUSTER: names.cluster},
    )


def _token_secret(plan: Plan, token: Callable[[], str]) -> Child:
    names = plan.names
    secret = build.obj(builtin.Secret, names.cluster, names.namespace, {label.CLUSTER: names.cluster}, type="Opaque")
    return Child(secret, generate=lambda: {"data": {TOKEN_KEY: encoded(token())}})
