"""The controller of RayClusters: what it watches, and a reconcile that reads the world and says what should be around a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import (
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    lookup,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
)
from modelyard.kube.openshift import MARKS
from modelyard.kube.secrets import text_of
from modelyard.operators.codeflare.config import Settings
from modelyard.operators.codeflare.ray_cluster import certificates
from modelyard.operators.codeflare.ray_cluster.children import COOKIE, Facts, access, policies, proxy_secret
from modelyard.operators.codeflare.ray_cluster.injection import has_certificates, is_guarded
from modelyard.operators.codeflare.ray_cluster.names import (
    CLUSTER_NAME,
    CLUSTER_NAMESPACE,
    CONTROLLER,
    FINALIZER,
    NODE_TYPE,
    RAY_CLUSTER,
    Names,
    RayCluster,
)
from modelyard.operators.codeflare.ray_cluster.observe import KUBERAY_PODS, DSCInitialization, observe
from modelyard.operators.parts import rbac_proxy
from modelyard.operators.parts.mappings import everyone, readers, users
from modelyard.operators.parts.network import OWN_HOSTS, BackendTLSPolicy
from modelyard.operators.parts.platform import ClusterIngress
from modelyard.runtime.declaring.controller import Controller, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Edit, EventNote, Hold
from modelyard.runtime.declaring.predecessor import Predecessor
from modelyard.runtime.declaring.settings import SettingError
from modelyard.runtime.declaring.world import World

UPSTREAM = Predecessor(
    name="codeflare-operator",
    lease="codeflare-operator",
    namespaces=("openshift-operators", "opendatahub", "redhat-ods-applications", "codeflare-operator-system"),
    managers=(CONTROLLER,),
    stop="kubectl -n {namespace} scale deployment codeflare-operator-manager --replicas=0",
)
"""Whom we take over from. It has a Lease only where its settings name one, and runs without one by default."""
UPSTREAM_PODS = {"app.kubernetes.io/name": "codeflare-operator", "app.kubernetes.io/part-of": "codeflare"}
GUARD: tuple[Kind, ...] = (builtin.Secret, builtin.Service, builtin.ServiceAccount, builtin.ClusterRoleBinding)
"""What a proxy in a pod needs to run."""
WAYS: tuple[Kind, ...] = (builtin.Route, builtin.Ingress, builtin.HTTPRoute, BackendTLSPolicy, builtin.ConfigMap)


def predecessor(settings: Settings) -> Predecessor:
    """Whom we take over from, and where it may run under these settings."""
    known = UPSTREAM.also_in(settings.namespace, *settings.predecessor_namespaces)
    return replace(known, lease=settings.predecessor_lease)


def ray_cluster_controller(settings: Settings) -> Controller:
    controller = Controller(
        "codeflare-raycluster",
        RayCluster,
        optional=True,
        owns=[
            Owns(builtin.Secret, labels=CLUSTER_NAME),
            Owns(builtin.Service, labels=CLUSTER_NAME, serving_certificates=True),
            Owns(builtin.ServiceAccount, labels=CLUSTER_NAME),
            Owns(builtin.Ingress, labels=CLUSTER_NAME),
            Owns(builtin.NetworkPolicy, labels=CLUSTER_NAME),
            Owns(builtin.Route, labels=CLUSTER_NAME, optional=True),
            Owns(builtin.HTTPRoute, labels=CLUSTER_NAME, optional=True),
            Owns(BackendTLSPolicy, labels=CLUSTER_NAME, optional=True),
            Owns(builtin.ConfigMap, labels=CLUSTER_NAME),
            Owns(builtin.ClusterRoleBinding, labels=CLUSTER_NAME),
        ],
        watches=[
            # Also those that lost their label, and those that an issuer writes.
            Watch(builtin.Secret, to=users(_READERS), metadata_only=True),
            Watch(builtin.ClusterRoleBinding, to=_bound, labels=CLUSTER_NAME),
            Watch(builtin.Pod, to=_node, labels=RAY_CLUSTER, verbs=("get", "list", "watch", "patch", "delete")),
            Watch(builtin.Pod, to=everyone(RayCluster), labels=KUBERAY_PODS),
            replace(settings.followed, to=everyone(RayCluster)),
            Watch(builtin.Deployment, to=everyone(RayCluster), labels=UPSTREAM_PODS),
            Watch(DSCInitialization, to=everyone(RayCluster), optional=True),
            Watch(ClusterIngress, to=everyone(RayCluster), optional=True),
        ],
        finalizer=FINALIZER,
        permissions=_GRANTED,
        predecessor=predecessor(settings),
        asks=MARKS,
        indexes=[_READERS],
    )

    @controller.reconcile
    async def reconcile(cluster: Object, world: World) -> Desired | Hold:
        return await reconcile_cluster(cluster, world, settings)

    @controller.cleanup
    def cleanup(cluster: Object, world: World) -> Desired:
        """The binding goes with our finalizer; nothing is made for a cluster that ends, whoever else holds it."""
        return Desired(prune=False, edits=[_removed(builtin.ClusterRoleBinding, one) for one in _left(cluster, world)])

    return controller


_GRANTED = (*rbac_proxy.GRANTED, OWN_HOSTS)
"""What the role that we bind grants, too: the API lets nobody grant what they do not have."""


async def reconcile_cluster(cluster: Object, world: World, settings: Settings) -> Desired | Hold:
    if other := _at_work(world, settings):
        return _told("OtherOperatorRunning", other)
    try:
        facts = await observe(cluster, world, settings)
    except SettingError as error:
        return _told("SettingInvalid", str(error))
    pods = [
        pod
        for pod in world.list(builtin.Pod, facts.names.namespace, {RAY_CLUSTER: facts.names.cluster})
        if is_controlled_by(pod, cluster)
    ]
    children, edits = await _certified(cluster, facts, pods, world)
    if not facts.suspended:
        children += await _accessed(cluster, facts, world)
    children += policies(facts)
    return Desired(
        children,
        keep=_kept(cluster, facts, pods, world),
        edits=[*edits, *_unprivileged(cluster, facts, pods, world), *_replaced(cluster, facts, pods, world)],
        events=_events(facts),
        requeue_after=certificates.RECHECK,
    )


def _told(reason: str, message: str) -> Hold:
    """The status of a RayCluster is KubeRay's, so only an Event can tell."""
    return Hold(reason, message, events=[EventNote(reason, message, "Warning")])


def _at_work(world: World, settings: Settings) -> str:
    """Why nothing may be done now: the operator before us runs, which has no Lease by default."""
    places = predecessor(settings).namespaces
    for deployment in world.list(builtin.Deployment, labels=UPSTREAM_PODS):
        if namespace_of(deployment) in places and status_of(deployment).get("replicas"):
            stop = f"kubectl -n {namespace_of(deployment)} scale deployment {name_of(deployment)} --replicas=0"
            return (
                f"{UPSTREAM.name} is at work here: Deployment {key_of(deployment)} has pods. Nothing is changed as long as it "
                f"does. Stop it: {stop}; then its objects are taken over"
            )
    return ""


async def _certified(cluster: Object, facts: Facts, pods: list[Object], world: World) -> tuple[list[Child], list[Edit]]:
    """The nodes' certificates, where they are on or pods still use them."""
    if not facts.kuberay.mtls and not has_certificates(cluster):
        return [], []
    names = facts.names
    known = await _own_secret(names.ca, cluster, world)
    before = await _own_secret(names.old.ca, cluster, world) if names.hashed else None
    called = certificates.hosts(names, facts.settings.cluster_domain, facts.ways)
    secret = certificates.certificates(names, known, before, called, pods, world.now)
    return [Child(secret)], certificates.nudges(names, known, pods)


async def _own_secret(name: str, cluster: Object, world: World) -> Object | None:
    """Nobody else's: what is in it becomes the cluster's identity."""
    found = await world.fetch(builtin.Secret, namespace_of(cluster), name)
    return found if found is not None and is_controlled_by(found, cluster) and not is_deleting(found) else None


async def _accessed(cluster: Object, facts: Facts, world: World) -> list[Child]:
    if not facts.kuberay.oauth:
        return access(facts)
    known = await _own_secret(facts.names.oauth_config, cluster, world)
    return [proxy_secret(facts, text_of(known, COOKIE) or world.token(24)), *access(facts)]


def _kept(cluster: Object, facts: Facts, pods: list[Object], world: World) -> list[tuple[Kind, Key]]:
    """A suspended cluster keeps its ways in; a proxy that is switched off keeps what it needs as long as pods have it."""
    kinds: tuple[Kind, ...] = (*GUARD, *WAYS) if facts.suspended else ()
    if not facts.kuberay.oauth and is_guarded(cluster):
        kinds = (*kinds, *GUARD)
    certified = {facts.names.ca, facts.names.old.ca}
    awaited = [(builtin.Secret, Key(facts.names.namespace, facts.names.old.ca))] if _old_is_awaited(facts, pods) else []
    return awaited + [
        (kind, key_of(obj))
        for kind in dict.fromkeys(kinds)
        if world.serves(kind)
        for obj in world.owned(kind)
        if name_of(obj) not in certified
    ]


def _old_is_awaited(facts: Facts, pods: list[Object]) -> bool:
    """Does a pod from before the names with digests still wait to begin? It needs the Secret under the older name."""
    return facts.names.hashed and any(certificates.waits_for(facts.names.old.ca, pod) for pod in pods)


def _unprivileged(cluster: Object, facts: Facts, pods: list[Object], world: World) -> list[Edit]:
    """A head that began before OpenShift had given its account the secrets to pull images with: it is made again with them."""
    head = lookup(cluster, "spec", "headGroupSpec", "template", "spec") or {}
    account = world.get(builtin.ServiceAccount, facts.names.namespace, facts.names.account)
    if not facts.openshift or facts.suspended or not facts.kuberay.oauth or head.get("imagePullSecrets") or not account:
        return []
    wanted = {one.get("name") for one in account.get("imagePullSecrets") or ()}
    heads = [pod for pod in pods if labels_of(pod).get(NODE_TYPE) == "head" and not is_deleting(pod)]
    return [
        _removed(builtin.Pod, pod)
        for pod in heads[:1]
        if wanted - {one.get("name") for one in spec_of(pod).get("imagePullSecrets") or ()}
    ]


# What was made under older names


def _replaced(cluster: Object, facts: Facts, pods: list[Object], world: World) -> list[Edit]:
    """Once the cluster has its names with digests, what the public operator made under the old ones goes."""
    if not facts.names.hashed or facts.suspended:
        return []
    old = facts.names.old
    named: dict[Kind, set[str]] = {
        builtin.Secret: {old.oauth_config, old.ca},
        builtin.Service: {old.oauth_service},
        builtin.ServiceAccount: {old.account},
        builtin.NetworkPolicy: {old.head_policy, old.workers_policy},
    }
    left = [
        (kind, obj)
        for kind, gone in named.items()
        for obj in world.list(kind, old.namespace, facts.names.labels)
        if name_of(obj) in gone and is_controlled_by(obj, cluster) and not is_deleting(obj)
    ]
    if world.get(builtin.Secret, old.namespace, facts.names.ca) is None or _old_is_awaited(facts, pods):
        left = [
            (kind, obj) for kind, obj in left if name_of(obj) != old.ca
        ]  # Its CA is still to be taken over, or needed.
    bindings = [obj for obj in _left(cluster, world) if name_of(obj) == old.binding]
    return [
        *(_removed(kind, obj) for kind, obj in left),
        *(_removed(builtin.ClusterRoleBinding, one) for one in bindings),
    ]


def _left(cluster: Object, world: World) -> Iterator[Object]:
    """The bindings that the public operator made for this cluster; they name no owner."""
    names = Names.of(cluster)
    ours = {key_of(obj) for obj in world.owned(builtin.ClusterRoleBinding)}
    for obj in world.list(builtin.ClusterRoleBinding, labels=names.binding_labels):
        named = name_of(obj) in (names.old.binding, names.new.binding)
        if named and key_of(obj) not in ours and not is_deleting(obj):
            yield obj


def _removed(kind: Kind, obj: Object) -> Edit:
    return Edit(kind, key_of(obj), resource_version_of(obj), None)


def _events(facts: Facts) -> list[EventNote]:
    if facts.suspended or facts.openshift or facts.domain:
        return []
    message = (
        f"no Ingress leads to the dashboard: set kuberay.ingressDomain in ConfigMap "
        f"{facts.settings.namespace}/{facts.settings.config_map}, or reach it through Service {facts.names.oauth_service}"
    )
    return [EventNote("DashboardNotExposed", message)]


# Whom an event wakes


def _node(pod: Object, reader: Reader) -> Iterable[Key]:
    """A Ray pod wakes its cluster."""
    name = labels_of(pod).get(RAY_CLUSTER)
    return [Key(namespace_of(pod), name)] if name else []


def _bound(binding: Object, reader: Reader) -> Iterable[Key]:
    labels = labels_of(binding)
    name, namespace = labels.get(CLUSTER_NAME), labels.get(CLUSTER_NAMESPACE)
    return [Key(namespace, name)] if name and namespace else []


def _secrets_of(cluster: Object) -> set[str]:
    names = Names.of(cluster)
    return {names.ca, names.old.ca, names.oauth_config, names.serving_certificate}


_READERS = readers(RayCluster, _secrets_of)
