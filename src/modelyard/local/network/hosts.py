"""Service names inside pods: a hosts file for each pod, kept current, since no DNS server answers for the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from modelyard.kube.kinds import Object

DOMAIN = "cluster.local"


def service_names(namespace: str, services: Iterable[Object], slices: Iterable[Object]) -> list[tuple[str, list[str]]]:
    """Address and names of all Services, as a pod in `namespace` may call them (its own namespace's also by short name)."""
    by_service: dict[tuple[str, str], list[Object]] = {}
    for item in slices:
        meta = item["metadata"]
        name = (meta.get("labels") or {}).get("kubernetes.io/service-name", "")
        by_service.setdefault((meta["namespace"], name), []).append(item)
    lines: list[tuple[str, list[str]]] = []
    for service in sorted(services, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"])):
        meta, spec = service["metadata"], service["spec"]
        names = _forms(meta["name"], meta["namespace"], namespace)
        address = spec.get("clusterIP") or ""
        if address and address != "None":
            lines.append((address, names))
        elif address == "None":
            unready = bool(spec.get("publishNotReadyAddresses"))
            for address, hostname in _endpoints(by_service.get((meta["namespace"], meta["name"]), []), unready):
                own = _forms(f"{hostname}.{meta['name']}", meta["namespace"], namespace) if hostname else []
                lines.append((address, [*names, *own]))
    return lines


def _forms(name: str, namespace: str, seen_from: str) -> list[str]:
    long = [f"{name}.{namespace}.svc.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*long, name] if namespace == seen_from else long


def _endpoints(slices: Iterable[Object], unready: bool) -> list[tuple[str, str]]:
    found = {}
    for item in slices:
        for endpoint in item.get("endpoints") or []:
            if unready or (endpoint.get("conditions") or {}).get("ready") is not False:
                for address in endpoint.get("addresses") or []:
                    found[address] = endpoint.get("hostname") or ""
    return sorted(found.items())


def pod_names(pod: Object, pod_ip: str) -> list[tuple[str, list[str]]]:
    """The pod's own lines: its loopback name and its host name, with its subdomain if it has one."""
    spec, meta = pod["spec"], pod["metadata"]
    hostname = spec.get("hostname") or meta["name"][:63].rstrip("-.")
    names = [hostname]
    if spec.get("subdomain"):
        names.insert(0, f"{hostname}.{spec['subdomain']}.{meta['namespace']}.svc.{DOMAIN}")
    lines = [(pod_ip, ["localhost"]), (pod_ip, names)]
    for alias in spec.get("hostAliases") or []:
        lines.append((alias["ip"], list(alias.get("hostnames") or [])))
    return lines


def hosts_text(lines: Iterable[tuple[str, list[str]]]) -> str:
    return "# Kept by modelyard.\n" + "".join(f"{address}\t{' '.join(names)}\n" for address, names in lines)


def write_hosts(path: Path, text: str) -> None:
    """Replace the content, not the file: containers have this very file mounted."""
    data = text.encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if os.fstat(descriptor).st_size == len(data) and os.pread(descriptor, len(data) + 1, 0) == data:
            return
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
