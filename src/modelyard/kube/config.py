"""Finds the API server and our credentials: kubeconfig files, or the service account of the pod we run in."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from modelyard.kube.auth import Credential, Credentials, Files, Plugin, PluginCredentials, Static, bearer
from modelyard.kube.client import Client
from modelyard.kube.http import Endpoint, HttpTransport
from modelyard.kube.kinds import Object

T = TypeVar("T")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConfigError(Exception):
    """The configuration is wrong or missing; the message says where and what to do."""


@dataclass(frozen=True)
class Target:
    """A cluster to talk to, and as whom."""

    endpoint: Endpoint
    credentials: Credentials
    namespace: str = "default"
    source: str = ""
    """Where this was found, for messages."""


def connect(kubeconfig: str | Path | None = None, context: str | None = None) -> Client:
    """A client of the cluster that `kubeconfig`, `$KUBECONFIG`, the pod's service account or `~/.kube/config` names."""
    target = resolve(kubeconfig, context)
    return Client(HttpTransport(target.endpoint, target.credentials))


def resolve(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Target:
    """Like `connect`, without connecting."""
    env = os.environ if environment is None else environment
    if kubeconfig is not None:
        return Kubeconfig.load([Path(kubeconfig)], required=True).target(context, env)
    if paths := [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]:
        if not any(path.exists() for path in paths):
            raise ConfigError(
                f"KUBECONFIG names {', '.join(map(str, paths))}, which does not exist; correct or unset it"
            )
        return Kubeconfig.load(paths).target(context, env)
    if context is None and "KUBERNETES_SERVICE_HOST" in env and (service_account / "token").exists():
        return in_cluster(env, service_account)
    default = Path(env.get("HOME") or Path.home(), ".kube", "config")
    if not default.exists():
        raise ConfigError(
            "no cluster is configured: there is no ~/.kube/config and KUBECONFIG is not set; "
            "name a file with --kubeconfig, or start a cluster on this machine with `modelyard up`"
        )
    return Kubeconfig.load([default]).target(context, env)


def in_cluster(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Target:
    """The cluster that this process runs in, as the pod's service account. The token is read again as it is rotated."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("this process does not run in a cluster: KUBERNETES_SERVICE_HOST is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        ca = (directory / "ca.crt").read_text()
    except OSError as error:
        raise ConfigError(
            f"the pod's service account has no CA certificate: {error.filename}: {error.strerror}; "
            "is automountServiceAccountToken off?"
        ) from None
    namespace = directory / "namespace"
    return Target(
        Endpoint(server, ca=ca),
        Files(Credential(), token=str(directory / "token")),
        namespace.read_text().strip() if namespace.exists() else "default",
        "the pod's service account",
    )


class _Struct(msgspec.Struct, rename="kebab"):
    """A part of a kubeconfig; fields that we do not know are ignored."""


class _Extension(_Struct):
    name: str = ""
    extension: Any = None


class _Cluster(_Struct):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[_Extension] | None = None


class _Variable(_Struct):
    name: str
    value: str


class _Exec(_Struct, rename="camel"):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class _User(_Struct):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None


class _Context(_Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Struct):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(_Struct):
    name: str
    user: _User | None = None


class _NamedContext(_Struct):
    name: str
    context: _Context | None = None


class _File(_Struct):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass
class Kubeconfig:
    """Kubeconfig files merged: whichever file says something first counts. Paths in a file are relative to it."""

    source: str
    current_context: str = ""
    clusters: dict[str, _Cluster] = field(default_factory=dict)
    users: dict[str, _User] = field(default_factory=dict)
    contexts: dict[str, _Context] = field(default_factory=dict)

    @classmethod
    def load(cls, paths: Sequence[Path], *, required: bool = False) -> Kubeconfig:
        """Files that do not exist are passed over, unless `required`."""
        config = cls(", ".join(map(str, paths)))
        for path in paths:
            if required or path.exists():
                config._add(_read(path), path.parent)
        return config

    def target(self, context: str | None, environment: Mapping[str, str]) -> Target:
        """What a context (None: the current one) stands for."""
        name = context or self.current_context
        if not name:
            raise ConfigError(
                f"{self.source}: no context is chosen{_known('contexts', self.contexts)}; "
                "choose one with --context, or with `kubectl config use-context`"
            )
        chosen = self._get("context", self.contexts, name, "")
        cluster = self._get("cluster", self.clusters, chosen.cluster, f"context {name}: ")
        user = self._get("user", self.users, chosen.user, f"context {name}: ") if chosen.user else _User()
        endpoint = self._endpoint(chosen.cluster, cluster, user, environment)
        credentials = self._credentials(chosen.user, user, cluster, endpoint)
        return Target(endpoint, credentials, chosen.namespace or "default", f"context {name} of {self.source}")

    def _add(self, file: _File, directory: Path) -> None:
        self.current_context = self.current_context or file.current_context
        for cluster in file.clusters or ():
            held = cluster.cluster or _Cluster()
            held.certificate_authority = _beside(directory, held.certificate_authority)
            self.clusters.setdefault(cluster.name, held)
        for user in file.users or ():
            who = user.user or _User()
            who.client_certificate = _beside(directory, who.client_certificate)
            who.client_key = _beside(directory, who.client_key)
            who.token_file = _beside(directory, who.token_file)
            if who.exec is not None and "/" in who.exec.command:
                who.exec.command = _beside(directory, who.exec.command)
            self.users.setdefault(user.name, who)
        for context in file.contexts or ():
            self.contexts.setdefault(context.name, context.context or _Context())

    def _get(self, what: str, known: Mapping[str, T], name: str, where: str) -> T:
        if name not in known:
            raise ConfigError(f"{self.source}: {where}there is no {what} {name!r}{_known(f'{what}s', known)}")
        return known[name]

    def _endpoint(self, name: str, cluster: _Cluster, user: _User, environment: Mapping[str, str]) -> Endpoint:
        where = f"{self.source}: cluster {name}"
        if not cluster.server:
            raise ConfigError(f"{where} has no server; set its address, like https://10.0.0.1:6443")
        ca = _content(
            cluster.certificate_authority_data, cluster.certificate_authority, f"{where}: certificate-authority"
        )
        if ca and cluster.insecure_skip_tls_verify:
            raise ConfigError(f"{where} has a certificate-authority and insecure-skip-tls-verify; remove one of them")
        server = cluster.server.rstrip("/")
        if "://" not in server:
            secure = ca or cluster.insecure_skip_tls_verify or user.client_certificate or user.client_certificate_data
            server = f"{'https' if secure else 'http'}://{server}"
        if urlsplit(server).scheme not in ("http", "https"):
            raise ConfigError(f"{where}: the server {server} must begin with https:// or http://")
        endpoint = Endpoint(server, ca, cluster.insecure_skip_tls_verify, cluster.tls_server_name, cluster.proxy_url)
        if not cluster.proxy_url and not endpoint.loopback:
            endpoint = Endpoint(
                server, ca, endpoint.insecure, endpoint.tls_server_name, _proxy_from(environment, server)
            )
        if endpoint.proxy and urlsplit(endpoint.proxy).scheme not in ("http", "https"):
            raise ConfigError(f"{where}: the proxy {endpoint.proxy} is not supported; only http and https proxies are")
        return endpoint

    def _credentials(self, name: str, user: _User, cluster: _Cluster, endpoint: Endpoint) -> Credentials:
        where = f"{self.source}: user {name}"
        if user.auth_provider is not None:
            raise ConfigError(
                f"{where} has an auth-provider, which Kubernetes no longer has; use its exec plugin instead"
            )
        certificate = _content(user.client_certificate_data, user.client_certificate, f"{where}: client-certificate")
        key = _content(user.client_key_data, user.client_key, f"{where}: client-key")
        if bool(certificate) != bool(key):
            missing, present = (
                ("client-key", "client-certificate") if certificate else ("client-certificate", "client-key")
            )
            raise ConfigError(f"{where} has a {present} but no {missing}; both are needed")
        authorization = ""
        if user.token and not user.token_file:
            authorization = bearer(user.token)
        elif user.username and user.exec is None:
            pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
            authorization = f"Basic {pair}"
        base = Credential(authorization, certificate, key, _impersonation(user))
        if user.token_file or (user.client_certificate and not user.client_certificate_data):
            files = (
                {} if user.client_certificate_data else {"certificate": user.client_certificate, "key": user.client_key}
            )
            return Files(base, token=user.token_file, **files)
        if user.exec is not None and not user.token:
            return PluginCredentials(_plugin(name, user.exec, cluster, endpoint), base)
        return Static(base)


def _plugin(user: str, described: _Exec, cluster: _Cluster, endpoint: Endpoint) -> Plugin:
    told: Object | None = None
    if described.provide_cluster_info:
        extensions = cluster.extensions or ()
        known = {
            "server": endpoint.server,
            "tls-server-name": endpoint.tls_server_name,
            "insecure-skip-tls-verify": endpoint.insecure,
            "certificate-authority-data": base64.b64encode(endpoint.ca.encode()).decode(),
            "proxy-url": endpoint.proxy,
            "disable-compression": cluster.disable_compression,
            "config": next((e.extension for e in extensions if e.name == "client.authentication.k8s.io/exec"), None),
        }
        told = {key: value for key, value in known.items() if value}
    return Plugin(
        user,
        described.command,
        described.api_version,
        tuple(described.args or ()),
        {variable.name: variable.value for variable in described.env or ()},
        described.install_hint,
        described.interactive_mode,
        told,
    )


def _impersonation(user: _User) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.as_user), ("Impersonate-Uid", user.as_uid)]
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    return tuple((name, value) for name, value in headers if value)


def _read(path: Path) -> _File:
    try:
        data = yaml.load(path.read_text(), yaml.CSafeLoader)
    except OSError as error:
        raise ConfigError(f"the kubeconfig {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"the kubeconfig {path} is not YAML: {' '.join(str(error).split())}") from None
    try:
        return msgspec.convert(_without_nulls(data or {}), _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the kubeconfig {path} is not in its form: {error}") from None


def _without_nulls(value: Any) -> Any:
    """kubectl writes `clusters: null` and the like; null and absent are the same."""
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _content(data: str, path: str, where: str) -> str:
    """PEM text from base64 data, which counts first, or from a file."""
    if data:
        try:
            return base64.b64decode(data, validate=False).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ConfigError(f"{where}-data is not base64 of PEM text: {error}") from None
    if path:
        try:
            return Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not PEM text"
            raise ConfigError(f"{where} {path} cannot be read: {reason}") from None
    return ""


def _beside(directory: Path, path: str) -> str:
    return str(directory / path) if path else ""


def _proxy_from(environment: Mapping[str, str], server: str) -> str:
    """The proxy of the environment (`HTTPS_PROXY`, `NO_PROXY`), as other Kubernetes clients use it."""
    parts = urlsplit(server)
    names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    proxy = next((environment[name] for name in names if environment.get(name)), "")
    without = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    return "" if _is_exempt(parts.hostname or "", without.split(",")) else proxy


def _is_exempt(host: str, exempt: Iterable[str]) -> bool:
    """Is a host among names (with everything below them), addresses and networks?"""
    for entry in map(str.strip, exempt):
        if entry == "*":
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            name = entry.lower().removeprefix("*").removeprefix(".")
            if name and (host == name or host.endswith(f".{name}")):
                return True
    return False


def _known(what: str, names: Iterable[str]) -> str:
    known = ", ".join(sorted(names))
    return f" (known {what}: {known})" if known else f" (it has no {what})"
