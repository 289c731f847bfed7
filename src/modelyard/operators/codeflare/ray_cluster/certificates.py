"""The certificates of the nodes of one RayCluster: a CA of its own, and one certificate for all its pods, in one Secret. Pure.

A Ray node is called by its address, which nobody knows before its pod runs. So the certificate is made again when a pod gets an
address; the pod waits for that. Only what pods need is mounted: the key of the CA stays in the Secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, is_deleting, key_of, resource_version_of, spec_of, status_of
from modelyard.kube.secrets import encoded, text_of, value_of
from modelyard.operators.codeflare.ray_cluster.injection import ADDRESSES, CA_VOLUME
from modelyard.operators.codeflare.ray_cluster.names import Names
from modelyard.operators.parts import build
from modelyard.runtime.declaring.desired import Edit
from modelyard.runtime.tls.certificates import is_good, is_pair, issue, renewed_ca, service_names
from modelyard.runtime.tls.pairs import Pair

LIFE = timedelta(days=3 * 365)
"""A pod keeps what it started with: two thirds after it was made a certificate is replaced, so each start has a year left."""
RECHECK = 12 * 3600.0
NUDGED = "ray.openshift.ai/certificate"
"""Annotation on a pod whose certificate is there: a kubelet looks at a pod's Secrets again when its annotations change."""


def certificates(
    names: Names,
    known: Object | None,
    before: Object | None,
    hosts: Sequence[str],
    pods: Iterable[Object],
    now: datetime,
) -> Object:
    """The Secret. `known` is what it holds now, `before` the one that the cluster had under an older name."""
    ca, bundle = _authority(known) or _authority(before) or (None, b"")
    ca, bundle = renewed_ca(ca, bundle, now)
    addresses = sorted({address for pod in pods for address in addresses_of(pod)})
    pair = Pair(value_of(known, "server.crt"), value_of(known, "server.key"))
    covered = covered_by(known)
    if not (is_pair(pair) and covered >= set(addresses) and is_good(pair.certificate, [*hosts, *covered], bundle, now)):
        # The key stays, so that a pod which reads in between gets two files that belong together.
        pair, covered = issue(ca, [*hosts, *addresses], now, life=LIFE, key=pair.key, client=True), set(addresses)
    data = {
        "ca.crt": bundle,
        "ca.key": ca.key,
        "server.crt": pair.certificate,
        "server.key": pair.key,
        ADDRESSES: "".join(f"{address}\n" for address in sorted(covered)).encode(),
    }
    values = {name: encoded(value) for name, value in data.items()}
    return build.obj(builtin.Secret, names.ca, names.namespace, names.labels, type="Opaque", data=values)


def _authority(secret: Object | None) -> tuple[Pair, bytes] | None:
    """The CA that signs, which is the first of those that are trusted."""
    bundle = value_of(secret, "ca.crt")
    pair = Pair(bundle, value_of(secret, "ca.key"))
    return (pair, bundle) if is_pair(pair) else None


def covered_by(secret: Object | None) -> set[str]:
    """The addresses that the certificate in the Secret is good for."""
    return set(text_of(secret, ADDRESSES).split())


def hosts(names: Names, cluster_domain: str, ways: Collection[str]) -> list[str]:
    """The names under which nodes are called; `ways` are the hosts of the ways in from outside."""
    service = service_names(names.head_service, names.namespace)
    return list(dict.fromkeys((*service, f"{service[0]}.{cluster_domain}", "localhost", "127.0.0.1", "::1", *ways)))


def addresses_of(pod: Object) -> set[str]:
    """The addresses of a pod that runs or is about to."""
    status = status_of(pod)
    if status.get("phase") in ("Succeeded", "Failed") or is_deleting(pod):
        return set()
    found = {str(one.get("ip") or "") for one in status.get("podIPs") or ()} | {str(status.get("podIP") or "")}
    return found - {""}


def nudges(names: Names, known: Object | None, pods: Iterable[Object]) -> list[Edit]:
    """Tells the kubelets of pods that wait for their certificate that it is there."""
    covered = covered_by(known)
    return [
        Edit(builtin.Pod, key_of(pod), resource_version_of(pod), {"metadata": {"annotations": {NUDGED: "ready"}}})
        for pod in pods
        if NUDGED not in annotations_of(pod) and waits_for(names.ca, pod) and addresses_of(pod) & covered
    ]


def waits_for(secret: str, pod: Object) -> bool:
    """Has the pod not begun, and does it mount this Secret?"""
    volumes = (one.get("secret") or {} for one in spec_of(pod).get("volumes") or () if one.get("name") == CA_VOLUME)
    return status_of(pod).get("phase") == "Pending" and any(one.get("secretName") == secret for one in volumes)
