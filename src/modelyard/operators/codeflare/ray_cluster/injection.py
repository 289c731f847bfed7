"""What the webhook puts into the pods of a RayCluster: the proxy before the dashboard, and the certificates of its nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.objects import lookup, spec_of
from modelyard.operators.codeflare.config import KubeRaySettings, Settings
from modelyard.operators.codeflare.ray_cluster.names import Names
from modelyard.operators.codeflare.ray_cluster.policies import DASHBOARD, PROXY
from modelyard.operators.parts import build, rbac_proxy, security

OAUTH_PROXY = "oauth-proxy"
PROXIES = (OAUTH_PROXY, rbac_proxy.CONTAINER)
PROXY_CERTIFICATE, PROXY_CONFIG = "proxy-tls-secret", rbac_proxy.CONFIG_VOLUME
PROXY_DIRECTORY = "/etc/tls/private"
CREATE_CERT, CA_VOLUME, TLS_VOLUME = "create-cert", "ca-vol", "server-cert"
WORKSPACE = "/home/ray/workspace"
CA_DIRECTORY, TLS_DIRECTORY = f"{WORKSPACE}/ca", f"{WORKSPACE}/tls"
POD_FILES = ("ca.crt", "server.crt", "server.key")
"""What of the cluster's Secret a Ray pod uses. The key of the CA stays out."""
ADDRESSES = "addresses"
"""And the addresses that the certificate is good for, one a line."""
TLS_VARIABLES = (
    "MY_POD_IP",
    "RAY_USE_TLS",
    "RAY_TLS_SERVER_CERT",
    "RAY_TLS_SERVER_KEY",
    "RAY_TLS_CA_CERT",
)
_WAIT_FOR_CERTIFICATE = (
    f'until grep -qxF "$MY_POD_IP" {CA_DIRECTORY}/{ADDRESSES}; do sleep 1; done; '
    f"cp {' '.join(f'{CA_DIRECTORY}/{name}' for name in POD_FILES)} {TLS_DIRECTORY}/"
)
_SMALL = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


@dataclass(frozen=True)
class Injection:
    """What belongs into the pods of one cluster under these settings."""

    names: Names
    settings: Settings
    kuberay: KubeRaySettings
    openshift: bool

    @cached_property
    def proxy(self) -> Object:
        """The container before the dashboard."""
        certificate = build.mount(PROXY_CERTIFICATE, PROXY_DIRECTORY, read_only=True)
        tls = (f"{PROXY_DIRECTORY}/tls.crt", f"{PROXY_DIRECTORY}/tls.key")
        if not self.openshift:
            sidecar = rbac_proxy.Sidecar(self.settings.access_proxy_image, PROXY, DASHBOARD, *tls)
            return rbac_proxy.container(sidecar, [certificate])
        allowed = f'{{"/":{{"resource":"pods","namespace":"{self.names.namespace}","verb":"get"}}}}'
        return {
            "name": OAUTH_PROXY,
            "image": self.settings.oauth_proxy_image,
            "args": [
                f"--https-address=:{PROXY}",
                "--provider=openshift",
                f"--openshift-service-account={self.names.account}",
                f"--upstream=http://localhost:{DASHBOARD}",
                f"--tls-cert={tls[0]}",
                f"--tls-key={tls[1]}",
                "--cookie-secret=$(COOKIE_SECRET)",
                f"--openshift-delegate-urls={allowed}",
            ],
            "env": [build.env_from_secret("COOKIE_SECRET", self.names.oauth_config, "cookie_secret")],
            "ports": [{"name": OAUTH_PROXY, "containerPort": PROXY}],
            "volumeMounts": [certificate],
        }

    @property
    def proxy_volumes(self) -> list[Object]:
        made = [build.secret_volume(PROXY_CERTIFICATE, self.names.serving_certificate)]
        if not self.openshift:
            made.append(build.secret_volume(PROXY_CONFIG, self.names.oauth_config))
        return made

    @property
    def tls_variables(self) -> list[Object]:
        files = dict(zip(("SERVER_CERT", "SERVER_KEY", "CA_CERT"), ("server.crt", "server.key", "ca.crt"), strict=True))
        return [
            _MY_POD_IP,
            build.env("RAY_USE_TLS", "1"),
            *(build.env(f"RAY_TLS_{name}", f"{TLS_DIRECTORY}/{file}") for name, file in files.items()),
        ]

    @property
    def tls_volumes(self) -> list[Object]:
        shown = {name: name for name in (*POD_FILES, ADDRESSES)}
        return [build.secret_volume(CA_VOLUME, self.names.ca, items=shown), build.empty_dir(TLS_VOLUME)]

    def create_cert(self, pod: Object) -> Object:
        """Waits until the operator has made a certificate for the pod's address, and puts it where Ray reads it."""
        return {
            "name": CREATE_CERT,
            "image": self.settings.certificate_image or str(pod["containers"][0].get("image") or ""),
            "command": ["sh", "-c", _WAIT_FOR_CERTIFICATE],
            "env": [_MY_POD_IP],
            "resources": _SMALL,
            "securityContext": security.CONTAINER,
            "volumeMounts": _TLS_MOUNTS,
        }

    # Into the pods

    def into(self, cluster: Object) -> None:
        """Puts everything into a cluster whose groups have containers, and takes out what we put in under other settings."""
        head, *workers = pods_of(cluster)
        proxies = (self.proxy["name"],) if self.kuberay.oauth else ()
        _take_back_proxy(head, self.names, keep=proxies)
        if self.kuberay.oauth:
            upsert(head.setdefault("containers", []), self.proxy)
            _upsert_all(head, "volumes", self.proxy_volumes)
            head["serviceAccountName"] = self.names.account
        for pod in (head, *workers):
            if self.kuberay.mtls:
                self._certify(pod)
            else:
                _take_back_certificates(pod, self.names)

    def _certify(self, pod: Object) -> None:
        ray = pod["containers"][0]
        _upsert_all(ray, "env", self.tls_variables)
        _upsert_all(ray, "volumeMounts", _TLS_MOUNTS)
        _upsert_all(pod, "volumes", self.tls_volumes)
        _upsert_all(pod, "initContainers", [self.create_cert(pod)])


_MY_POD_IP: Object = {"name": "MY_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
_TLS_MOUNTS = [build.mount(CA_VOLUME, CA_DIRECTORY, read_only=True), build.mount(TLS_VOLUME, TLS_DIRECTORY)]


def pods_of(cluster: Object) -> list[Object]:
    """The pod specs of the head and of every worker group, to be read or changed."""
    spec = spec_of(cluster)
    return [
        group.setdefault("template", {}).setdefault("spec", {})
        for group in (spec.setdefault("headGroupSpec", {}), *(spec.get("workerGroupSpecs") or ()))
    ]


def is_guarded(cluster: Object) -> bool:
    """Does the head have a proxy of ours?"""
    head = lookup(cluster, "spec", "headGroupSpec", "template", "spec") or {}
    return _has_our_proxy(head, Names.of(cluster))


def has_certificates(cluster: Object) -> bool:
    """Do its pods mount the Secret with our certificates?"""
    head = lookup(cluster, "spec", "headGroupSpec", "template", "spec") or {}
    return _mounts(head, CA_VOLUME, _both(Names.of(cluster), "ca"))


def _both(names: Names, what: str) -> set[str]:
    return {str(getattr(names.new, what)), str(getattr(names.old, what))}


def _mounts(pod: Object, volume: str, secrets: set[str]) -> bool:
    found = (lookup(one, "secret", "secretName") for one in pod.get("volumes") or () if one.get("name") == volume)
    return any(secret in secrets for secret in found)


def _has_our_proxy(pod: Object, names: Names) -> bool:
    return _mounts(pod, PROXY_CERTIFICATE, _both(names, "serving_certificate"))


def _take_back_proxy(pod: Object, names: Names, *, keep: Sequence[str]) -> None:
    if not _has_our_proxy(pod, names):
        return
    _drop(pod, "containers", [name for name in PROXIES if name not in keep])
    volumes = (PROXY_CERTIFICATE, PROXY_CONFIG) if not keep else () if rbac_proxy.CONTAINER in keep else (PROXY_CONFIG,)
    _drop(pod, "volumes", volumes)
    if not keep and pod.get("serviceAccountName") in _both(names, "account"):
        del pod["serviceAccountName"]


def _take_back_certificates(pod: Object, names: Names) -> None:
    if not _mounts(pod, CA_VOLUME, _both(names, "ca")):
        return
    _drop(pod, "initContainers", [CREATE_CERT])
    _drop(pod, "volumes", [CA_VOLUME, TLS_VOLUME])
    for ray in (pod.get("containers") or [])[:1]:
        _drop(ray, "env", TLS_VARIABLES)
        _drop(ray, "volumeMounts", [CA_VOLUME, TLS_VOLUME])


def _drop(holder: Object, field: str, names: Sequence[str]) -> None:
    kept = [one for one in holder.get(field) or () if one.get("name") not in names]
    if kept:
        holder[field] = kept
    else:
        holder.pop(field, None)


def upsert(items: list[Object], item: Object) -> None:
    """In place of the first one of its name, else at the end."""
    for position, one in enumerate(items):
        if one.get("name") == item["name"]:
            items[position] = item
            return
    items.append(item)


def _upsert_all(holder: Object, field: str, items: Sequence[Object]) -> None:
    into = holder.get(field) or []
    for item in items:
        upsert(into, item)
    holder[field] = into


# What another webhook may have changed afterwards


@dataclass(frozen=True)
class Expected:
    """One item that must be in a list, and what to say where it is not."""

    path: str
    items: Sequence[Object]
    item: Object
    message: str

    @property
    def problem(self) -> str:
        """Empty where it is there as it should be; more may be there."""
        found = next((one for one in self.items if one.get("name") == self.item["name"]), None)
        if found is None:
            return f"Required value: {self.message}"
        return "" if matches(self.item, found) else f"Invalid value: {self.message}"


def expected_proxy(injection: Injection, cluster: Object) -> Iterator[Expected]:
    head = pods_of(cluster)[0]
    path = "spec.headGroupSpec.template.spec"
    containers = head.get("containers") or ()
    yield Expected(f"{path}.containers", containers, injection.proxy, "OAuth Proxy container is immutable")
    for volume in injection.proxy_volumes:
        yield Expected(
            f"{path}.volumes", head.get("volumes") or (), volume, "OAuth Proxy TLS Secret volume is immutable"
        )


def expected_certificates(injection: Injection, cluster: Object) -> Iterator[Expected]:
    for index, pod in enumerate(pods_of(cluster)):
        group = "spec.headGroupSpec" if not index else f"spec.workerGroupSpecs.{index - 1}"
        path = f"{group}.template.spec"
        said = "create-cert Init Container is immutable"
        yield Expected(f"{path}.initContainers", pod.get("initContainers") or (), injection.create_cert(pod), said)
        said = "RAY_TLS related environment variables are immutable"
        for variable in injection.tls_variables:
            yield Expected(f"{path}.containers.0.env", pod["containers"][0].get("env") or (), variable, said)
        said = "ca-vol and server-cert Secret volumes are immutable"
        for volume in injection.tls_volumes:
            yield Expected(f"{path}.volumes", pod.get("volumes") or (), volume, said)


def matches(expected: Any, actual: Any) -> bool:
    """Is all of the expected in the actual? Of a list, its beginning."""
    if isinstance(expected, Mapping):
        held = actual if isinstance(actual, Mapping) else {}
        return all(
            matches(value, held.get(name)) for name, value in expected.items() if value not in (None, "", [], {})
        )
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple) or len(actual) < len(expected):
            return False
        return all(matches(one, other) for one, other in zip(expected, actual, strict=False))
    return bool(expected == actual)
