"""The pods of a RayCluster: from the templates of its groups to what really runs. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.parts.build import Labels, env, env_from_secret, filled, mount, obj, resources
from modelyard.operators.parts.ray_crd import HeadGroup, RayCluster, RayClusterSpec, WorkerGroup
from modelyard.operators.ray import names as label
from modelyard.operators.ray.config import TOKEN, Settings
from modelyard.operators.ray.names import Names
from modelyard.operators.ray.start import (
    SHELL,
    container_command,
    head_port,
    probes,
    start_command,
    start_params,
    wait_script,
)

SHARED_MEMORY = "shared-mem"
LOGS = "ray-logs"
WAIT = "wait-gcs-ready"
AUTOSCALER = "autoscaler"
TOKEN_KEY = "auth_token"
AUTOSCALE = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE) & "
    'child=$!; trap "kill $child" TERM; wait $child'
)
"""As a container's first process it would not hear that it is to end."""
_TLS = ("RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


@dataclass(frozen=True)
class Plan:
    """What all pods of one cluster are made from."""

    names: Names
    spec: RayClusterSpec
    settings: Settings
    auth_secret: str = ""
    """The Secret with the token that clients show; empty: they show none."""
    own_command: bool = False
    spec_hash: str = ""
    """What the pods are made from, to be found again on each."""

    @classmethod
    def of(cls, cluster: RayCluster, spec: RayClusterSpec, settings: Settings, spec_hash: str = "") -> Plan:
        names = Names.of(cluster, settings.cluster_domain)
        own = (cluster.metadata.annotations or {}).get(label.OWN_COMMAND) == "true"
        secret = auth_secret(cluster, spec, settings)
        return cls(names, spec, settings, secret, own, spec_hash)

    @property
    def autoscaling(self) -> bool:
        return self.spec.enable_in_tree_autoscaling is True

    @property
    def address(self) -> str:
        """Where workers find the head."""
        return f"{self.names.head_address}:{head_port(self.spec.head_group_spec.ray_start_params)}"


def auth_secret(cluster: RayCluster, spec: RayClusterSpec, settings: Settings) -> str:
    """The Secret with the clients' token. Where the cluster does not say, it needs one unless something else protects it."""
    options = spec.auth_options
    if options is None or options.mode is None:
        secured = label.SECURED in (cluster.metadata.annotations or {})
        protected = secured or _sets(ray_container(spec.head_group_spec), *_TLS, "RAY_AUTH_MODE")
        wanted = settings.auth == TOKEN and not protected
    else:
        wanted = options.mode == TOKEN
    if not wanted:
        return ""
    return (options.secret_name if options else None) or cluster.metadata.name


def ray_container(group: HeadGroup | WorkerGroup) -> Object:
    """The container that runs Ray: always the first."""
    found: Object = ((group.template.get("spec") or {}).get("containers") or [{}])[0]
    return found


def _sets(container: Object, *variables: str) -> bool:
    return any(item.get("name") in variables for item in container.get("env") or [])


def head_pod(plan: Plan, name: str) -> Object:
    group = plan.spec.head_group_spec
    params = start_params(group.ray_start_params or {}, ray_container(group))
    if plan.autoscaling:
        # The autoscaler runs beside Ray, not in it.
        params["no-monitor"] = "true"
    params = with_resources(params, group)
    notes = {label.FAULT_TOLERANT: "false"}
    pod = _pod(
        plan, group, name, plan.names.labels(label.HEAD, label.HEAD_GROUP), notes, start_command(params, head=True)
    )
    if plan.autoscaling:
        _add_autoscaler(plan, pod)
    return pod


def worker_pod(plan: Plan, group: WorkerGroup, name: str, place: Mapping[str, str]) -> Object:
    """`place`: the labels that say which replica of the group it is."""
    params = start_params(group.ray_start_params or {}, ray_container(group), plan.address)
    params = with_resources(params, group)
    labels = {**plan.names.labels(label.WORKER, group.group_name), **place}
    pod = _pod(plan, group, name, labels, {}, start_command(params, head=False))
    if plan.settings.wait_for_head:
        pod["spec"].setdefault("initContainers", []).append(_waiting(plan, pod["spec"]["containers"][0]))
    return pod


def with_resources(params: dict[str, str], group: HeadGroup | WorkerGroup) -> dict[str, str]:
    """`resources` and `labels` of the group are flags too."""
    amounts = {name.lower(): value for name, value in (group.resources or {}).items()}
    found = dict(params)
    for name, flag in (("cpu", "num-cpus"), ("gpu", "num-gpus"), ("memory", "memory")):
        if name in amounts:
            found[flag] = amounts.pop(name)
    if amounts:
        kept = {name: value for name, value in (group.resources or {}).items() if name.lower() in amounts}
        inner = ", ".join(f'"{name}": {value}' for name, value in sorted(kept.items()))
        found["resources"] = f"'{{{inner}}}'"
    if group.labels:
        found["labels"] = ",".join(f"{name}={value}" for name, value in sorted(group.labels.items()))
    return found


def _pod(
    plan: Plan, group: HeadGroup | WorkerGroup, name: str, labels: Labels, notes: Labels, start: str
) -> Object:  # fmt: skip
    template = copy.deepcopy(group.template)
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    fixed = {key: labels[key] for key in (label.NODE_TYPE, label.GROUP, label.CLUSTER)}
    own = {**labels, **(meta.get("labels") or {}), **fixed}
    for container in spec.get("initContainers") or []:
        _add_env(container, _head_names(plan))
    _complete(plan, spec, labels[label.NODE_TYPE] == label.HEAD, start)
    said = {**(meta.get("annotations") or {}), **notes, label.SPEC_HASH: plan.spec_hash, label.MADE_BY: label.US}
    return obj(builtin.Pod, name, plan.names.namespace, own, said, spec=spec)


def _complete(plan: Plan, spec: Object, head: bool, start: str) -> None:
    """What the Ray container needs beyond its template."""
    container: Object = spec["containers"][0]
    if not plan.own_command:
        container |= container_command(container, start)
    _add_env(container, _variables(plan, head, start))
    ports = container.setdefault("ports", [])
    if not any(port.get("name") == "metrics" or port.get("containerPort") == label.METRICS_PORT for port in ports):
        ports.append({"name": "metrics", "containerPort": label.METRICS_PORT, "protocol": "TCP"})
    _add_shared_memory(spec, container, plasma="plasma-directory" in start)
    if plan.settings.probes:
        times = (plan.settings.readiness_delay, plan.settings.readiness_period)
        for name, made in probes(plan.spec.ray_version or "", head=head, delay=times[0], period=times[1]).items():
            container.setdefault(name, made)


def _add_shared_memory(spec: Object, container: Object, *, plasma: bool) -> None:
    """Ray keeps its objects in shared memory; what a container gets of it by itself is too little."""
    mounts = container.setdefault("volumeMounts", [])
    if plasma or any(item.get("mountPath") == "/dev/shm" for item in mounts):
        return
    given = container.get("resources") or {}
    size = (given.get("limits") or {}).get("memory", (given.get("requests") or {}).get("memory"))
    mounts.append(mount(SHARED_MEMORY, "/dev/shm"))
    volume = {"name": SHARED_MEMORY, "emptyDir": filled(medium="Memory", sizeLimit=size)}
    spec.setdefault("volumes", []).append(volume)


def _head_names(plan: Plan) -> list[Object]:
    return [env("FQ_RAY_IP", plan.names.head_address), env("RAY_IP", plan.names.head_service)]


def _variables(plan: Plan, head: bool, start: str) -> list[Object]:
    port = head_port(plan.spec.head_group_spec.ray_start_params)
    return [
        *([] if head else _head_names(plan)),
        _from_pod("RAY_CLUSTER_NAME", f"metadata.labels['{label.CLUSTER}']"),
        _from_pod("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _from_pod("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _from_pod("RAY_NODE_TYPE_NAME", f"metadata.labels['{label.GROUP}']"),
        env("KUBERAY_GEN_RAY_START_CMD", start),
        env("RAY_PORT", port),
        env("RAY_ADDRESS", f"127.0.0.1:{port}" if head else plan.address),
        env("RAY_USAGE_STATS_KUBERAY_IN_USE", "1"),
        env("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1"),
        *([env("RAY_USAGE_STATS_EXTRA_TAGS", f"kuberay_version={label.US};kuberay_crd=RayCluster")] if head else []),
        *_autoscaler_version(plan),
        *_auth(plan),
    ]


def _auth(plan: Plan) -> list[Object]:
    if not plan.auth_secret:
        return []
    return [env("RAY_AUTH_MODE", TOKEN), env_from_secret("RAY_AUTH_TOKEN", plan.auth_secret, TOKEN_KEY)]


def _autoscaler_version(plan: Plan) -> list[Object]:
    version = plan.spec.autoscaler_options.version if plan.autoscaling and plan.spec.autoscaler_options else None
    return [env("RAY_enable_autoscaler_v2", "1" if version == "v2" else "0")] if version else []


def _from_pod(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _add_env(container: Object, variables: list[Object]) -> None:
    """What the user has set stays."""
    own = container.setdefault("env", [])
    given = {item.get("name") for item in own}
    own += [item for item in variables if item["name"] not in given]


def _waiting(plan: Plan, container: Object) -> Object:
    """Lets a worker begin only when the head answers. With the Ray container's variables and files, so that TLS works."""
    amounts = {"cpu": "200m", "memory": "256Mi"}
    return filled(
        name=WAIT,
        image=container.get("image"),
        imagePullPolicy=container.get("imagePullPolicy"),
        command=list(SHELL),
        args=[wait_script(plan.address)],
        env=copy.deepcopy(container.get("env")),
        envFrom=copy.deepcopy(container.get("envFrom")),
        volumeMounts=copy.deepcopy(container.get("volumeMounts")),
        securityContext=copy.deepcopy(container.get("securityContext")),
        resources=resources(amounts, amounts),
    )


def _add_autoscaler(plan: Plan, pod: Object) -> None:
    """Ray's autoscaler beside the head; it changes `replicas` and `workersToDelete` of the RayCluster, and the pods follow."""
    spec: Object = pod["spec"]
    ray: Object = spec["containers"][0]
    options = plan.spec.autoscaler_options
    given = options.to_dict() if options else {}
    spec.setdefault("serviceAccountName", plan.names.cluster)
    if given.get("version") == "v2":
        # It replaces pods itself; one that restarts in place would be another node with the same name.
        spec["restartPolicy"] = "Never"
    if not any(item.get("mountPath") == "/tmp/ray" for item in ray["volumeMounts"]):
        ray["volumeMounts"].append(mount(LOGS, "/tmp/ray"))
        spec.setdefault("volumes", []).append({"name": LOGS, "emptyDir": {}})
    logs = next(item for item in ray["volumeMounts"] if item.get("mountPath") == "/tmp/ray")
    tls = [copy.deepcopy(item) for item in ray["env"] if item["name"] in _TLS]
    own_files = [
        copy.deepcopy(item)
        for item in ray["volumeMounts"]
        if tls and item not in (logs,) and item["name"] != SHARED_MEMORY
    ]
    amounts = {"cpu": "500m", "memory": "512Mi"}
    container = filled(
        name=AUTOSCALER,
        image=given.get("image") or ray.get("image"),
        imagePullPolicy=given.get("imagePullPolicy") or ray.get("imagePullPolicy"),
        command=given.get("command") or list(SHELL),
        args=given.get("args") or [AUTOSCALE],
        env=list(given.get("env") or []),
        envFrom=given.get("envFrom"),
        resources=given.get("resources") or resources(amounts, amounts),
        securityContext=given.get("securityContext"),
        volumeMounts=[copy.deepcopy(logs), *own_files, *(given.get("volumeMounts") or [])],
    )
    _add_env(
        container,
        [
            _from_pod("RAY_CLUSTER_NAME", f"metadata.labels['{label.CLUSTER}']"),
            _from_pod("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            _from_pod("RAY_HEAD_POD_NAME", "metadata.name"),
            env("KUBERAY_CRD_VER", "v1"),
            *_autoscaler_version(plan),
            *_auth(plan),
            *tls,
        ],
    )
    spec["containers"].append(container)
