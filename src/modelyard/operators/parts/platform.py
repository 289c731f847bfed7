"""What the platform tells: kinds that it defines and that may or may not be there."""

from __future__ import annotations

from modelyard.kube.kinds import Kind
from modelyard.kube.objects import spec_of
from modelyard.runtime.declaring.world import World

Auth = Kind("services.platform.opendatahub.io", "v1alpha1", "Auth", "auths", namespaced=False)
"""Who may use and who administers the platform."""
AUTH_NAME = "auth"
ClusterIngress = Kind("config.openshift.io", "v1", "Ingress", "ingresses", namespaced=False)


def cluster_domain(world: World) -> str:
    """Below which an OpenShift cluster's hosts are; empty elsewhere."""
    cluster = world.get(ClusterIngress, "", "cluster") if world.serves(ClusterIngress) else None
    spec = spec_of(cluster or {})
    return str(spec.get("appsDomain") or spec.get("domain") or "")
