"""What Kubernetes warns of in a Service that it accepts: fields that do nothing there, or that are on their way out."""

from __future__ import annotations

from modelyard.kube.kinds import Object

_OLD_HINTS = "service.kubernetes.io/topology-aware-hints"


def service_warnings(obj: Object, old: Object | None) -> list[str]:
    spec = obj["spec"]
    kind, outside = spec.get("type"), spec.get("externalIPs")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    found: list[str] = []
    if _OLD_HINTS in (obj["metadata"].get("annotations") or {}):
        found.append(f"annotation {_OLD_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead")
    if headless:
        ignored = {
            "loadBalancerIP": bool(spec.get("loadBalancerIP")),
            "externalIPs": bool(outside),
            "SessionAffinity": spec.get("sessionAffinity") != "None",
        }
        found += [f"spec.{name} is ignored for headless services" for name, given in ignored.items() if given]
    if outside and not headless and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if outside and kind == "ExternalName":
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found
