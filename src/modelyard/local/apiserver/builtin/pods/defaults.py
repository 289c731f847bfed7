"""What Kubernetes fills into a pod spec: containers, probes, ports, volumes. Objects are changed in place."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.quantities import parse

_MODE = 0o644
_FILE_VOLUMES = ("secret", "configMap", "downwardAPI", "projected")
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_image = re.compile(
    rf"(?:(?=[^/]*[.:A-Z]|localhost/)(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
).fullmatch
_ISCSI = {"iscsiInterface": "default"}
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_AZURE_DISK = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}
_SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}


def default_pod_template(template: Object | None) -> None:
    if template:
        default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Object) -> None:
    """The defaults that a pod and a pod template share."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            default_container(container)
    _round_up(spec.get("overhead"))


def default_pod(pod: Object) -> None:
    """The defaults of a pod itself, which its template does not get."""
    spec = pod.setdefault("spec", {})
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            limits = (container.get("resources") or {}).get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, amount in limits.items():
                    requests.setdefault(name, amount)
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    spec.setdefault("enableServiceLinks", True)
    default_pod_spec(spec)
    _default_pod_status(pod.setdefault("status", {}))


def _default_pod_status(status: Object) -> None:
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip", "")


def default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            if source.get("fieldRef") is not None:
                source["fieldRef"].setdefault("apiVersion", "v1")
            if source.get("fileKeyRef") is not None:
                source["fileKeyRef"].setdefault("optional", False)
    resources = container["resources"]
    _round_up(resources.get("limits"))
    _round_up(resources.get("requests"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and hook.get("httpGet") is not None:
            _default_http_get(hook["httpGet"])


def default_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    if probe.get("httpGet") is not None:
        _default_http_get(probe["httpGet"])
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http_get(action: Object) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def default_volume(volume: Object) -> None:
    if len(volume) < 2 and (not volume or "name" in volume):
        volume["emptyDir"] = {}
        return
    for name in _FILE_VOLUMES:
        source = volume.get(name)
        if source is None:
            continue
        source.setdefault("defaultMode", _MODE)
        if name == "downwardAPI":
            _default_downward_items(source)
        elif name == "projected":
            for projection in source.get("sources") or ():
                if projection.get("downwardAPI"):
                    _default_downward_items(projection["downwardAPI"])
                if projection.get("serviceAccountToken") is not None:
                    projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if volume.get("image") is not None and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = pull_policy(volume["image"].get("reference") or "")
    if volume.get("ephemeral") is not None:
        template = volume["ephemeral"].get("volumeClaimTemplate")
        if template is not None:
            default_claim_spec(template.setdefault("spec", {}))
    default_disk(volume)


def default_disk(source: Object) -> None:
    """The network disks, in a pod's volume and in a persistent volume alike."""
    for name, values in (("iscsi", _ISCSI), ("rbd", _RBD), ("azureDisk", _AZURE_DISK), ("scaleIO", _SCALE_IO)):
        disk = source.get(name)
        if disk is not None:
            for key, value in values.items():
                disk.setdefault(key, value)


def default_claim_spec(spec: Object) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.setdefault("resources", {})
    _round_up(resources.get("limits"))
    _round_up(resources.get("requests"))


def _default_downward_items(source: Object) -> None:
    for item in source.get("items") or ():
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _round_up(amounts: dict[str, Any] | None) -> None:
    """Amounts are kept in thousandths at the finest."""
    if amounts:
        for name, amount in amounts.items():
            if isinstance(amount, str) and amount.endswith(("n", "u")):
                amounts[name] = _milli(amount)


@lru_cache(maxsize=256)
def _milli(amount: str) -> str:
    milli = parse(amount).milli
    return f"{milli // 1000}" if milli % 1000 == 0 else f"{milli}m"


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, given or implied, else `IfNotPresent`; also for what is not an image name at all."""
    match = _image(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"
