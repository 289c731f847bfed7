"""Reads the world for one RayCluster: the facts that its children depend on."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import namespace_of, spec_of
from modelyard.kube.openshift import is_openshift
from modelyard.kube.secrets import encoded_value_of
from modelyard.operators.codeflare.config import KubeRaySettings, Settings
from modelyard.operators.codeflare.ray_cluster.children import Facts
from modelyard.operators.codeflare.ray_cluster.names import Names
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import cluster_domain
from modelyard.runtime.declaring.world import World

DSCInitialization = Kind(
    "dscinitialization.opendatahub.io", "v1", "DSCInitialization", "dscinitializations", namespaced=False
)
KUBERAY_PODS = {"app.kubernetes.io/component": "kuberay-operator"}


async def observe(cluster: Object, world: World, settings: Settings) -> Facts:
    """What the cluster and the settings say now; a bad setting is a `SettingError`."""
    kuberay = KubeRaySettings.of(settings.document(world))
    names, openshift = Names.of(cluster), is_openshift(world)
    gateway = not openshift and bool(settings.gateway_domain) and world.serves(builtin.HTTPRoute)
    serving = None
    if gateway and world.serves(BackendTLSPolicy):
        serving = await world.fetch(builtin.Secret, names.namespace, names.serving_certificate)
    domain = kuberay.ingress_domain or settings.ingress_domain or (cluster_domain(world) if openshift else "")
    return Facts(
        names,
        settings,
        kuberay,
        openshift=openshift,
        suspended=spec_of(cluster).get("suspend") is True,
        gateway=gateway,
        domain=settings.gateway_domain if gateway else domain,
        serving_ca=encoded_value_of(serving, "ca.crt"),
        kuberay_namespaces=_kuberay_namespaces(world, openshift=openshift),
    )


def _kuberay_namespaces(world: World, *, openshift: bool) -> tuple[str, ...]:
    """Where KubeRay runs. On OpenShift the platform says so, and until it does it may be in either of its usual places."""
    if openshift:
        platform = world.get(DSCInitialization, "", "default-dsci") if world.serves(DSCInitialization) else None
        namespace = str(spec_of(platform or {}).get("applicationsNamespace") or "")
        return (namespace,) if namespace else ("opendatahub", "redhat-ods-applications")
    found = {namespace_of(pod) for pod in world.list(builtin.Pod, labels=KUBERAY_PODS)}
    return tuple(sorted(found)) or ("ray-system",)
