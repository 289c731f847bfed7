"""Discovery: which groups, versions and resources are served, in the plain and in the aggregated form, and the server's version."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Iterable

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.crds.lifecycle import version_rank
from modelyard.local.apiserver.requests import problems, rendering
from modelyard.local.apiserver.requests.messages import JSON, Reply, Request
from modelyard.local.apiserver.requests.negotiation import negotiate
from modelyard.local.apiserver.served.resources import Registry, ServedResource, Subresource
from modelyard.local.apiserver.storage.store import encode

VERSION = "v1.37.1"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_GROUP_ORDER = (
    "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io",
)  # fmt: skip


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


class Discovery:
    """Answers the discovery paths; what it builds is kept until the registry changes."""

    def __init__(self, registry: Registry, version: str = VERSION) -> None:
        self._registry = registry
        self._version = version
        self._cache: dict[tuple[str, str], tuple[bytes, str]] = {}
        registry.listen(self._cache.clear)

    def reply(self, request: Request, extra_paths: Iterable[str] = ()) -> Reply | None:
        """None for a path that is not discovery's. `extra_paths` are listed at `/` too."""
        path = request.path.rstrip("/") or "/"
        parts = path.strip("/").split("/")
        if path == "/version":
            _only_read(request)
            return self._plain(request, "version", self._version_info)
        if path == "/":
            return self._plain(request, "/", lambda: {"paths": sorted({*self._paths(), *extra_paths})})
        if parts[0] not in ("api", "apis") or len(parts) > (2 if parts[0] == "api" else 3):
            return None
        if len(parts) == 1:
            if parts[0] == "api":
                _only_read(request)
            return self._root(request, parts[0])
        if parts[0] == "api":
            return self._resources(request, "", parts[1])
        if len(parts) == 2:
            if not self._versions(parts[1]):
                return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")
            return self._plain(request, path, lambda: self._group(parts[1], alone=True))
        return self._resources(request, parts[1], parts[2])

    def _root(self, request: Request, root: str) -> Reply:
        wanted = _aggregated_version(request.headers.get("accept", ""))
        if wanted:
            return self._aggregated(request, root, wanted)
        if root == "api":
            address = request.headers.get("host") or "127.0.0.1"
            versions = {
                "kind": "APIVersions",
                "versions": self._versions(""),
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
            }
            return rendering.reply(encode(versions), negotiate(request, shapes=False))
        groups = [self._group(group, alone=False) for group in self._groups()]
        return self._plain(request, "/apis", lambda: {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def _plain(self, request: Request, key: str, build: Callable[[], Object]) -> Reply:
        return rendering.reply(self._kept(key, "", build)[0], negotiate(request, shapes=False))

    def _aggregated(self, request: Request, root: str, version: str) -> Reply:
        body, etag = self._kept(root, version, lambda: self._aggregated_document(root, version))
        headers = [("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public")]
        if request.headers.get("if-none-match") == etag:
            return Reply(304, b"", _AGGREGATED.format(version), headers)
        return Reply(200, body, _AGGREGATED.format(version), headers)

    def _kept(self, key: str, variant: str, build: Callable[[], Object]) -> tuple[bytes, str]:
        kept = self._cache.get((key, variant))
        if kept is None:
            body = encode(build())
            kept = self._cache[key, variant] = (body, etag_of(body))
        return kept

    def _version_info(self) -> Object:
        major, minor = self._version.removeprefix("v").split(".")[:2]
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        return {
            "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
            "minCompatibilityMajor": major, "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": self._version, "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "", "compiler": f"python{sys.version_info[0]}.{sys.version_info[1]}",
            "platform": f"linux/{machine}",
        }  # fmt: skip

    # What is served.

    def _groups(self) -> list[str]:
        found = {resource.kind.group for resource in self._registry.all()} - {""}
        known = [group for group in _GROUP_ORDER if group in found]
        return known + sorted(found.difference(known))

    def _versions(self, group: str) -> list[str]:
        """The versions of a group, the preferred one first."""
        found = {resource.kind.version for resource in self._registry.all() if resource.kind.group == group}
        return sorted(found, key=version_rank, reverse=True)

    def _served(self, group: str, version: str) -> list[ServedResource]:
        found = [r for r in self._registry.all() if r.kind.group == group and r.kind.version == version]
        return sorted(found, key=lambda resource: resource.kind.plural)

    def _paths(self) -> list[str]:
        paths = ["/api", "/apis", "/version", "/healthz", "/livez", "/metrics", "/readyz"]
        paths += [f"/api/{version}" for version in self._versions("")]
        for group in self._groups():
            paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in self._versions(group))]
        return paths

    # The documents.

    def _group(self, group: str, *, alone: bool) -> Object:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._versions(group)]
        head: Object = {"kind": "APIGroup", "apiVersion": "v1"} if alone else {}
        return head | {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, request: Request, group: str, version: str) -> Reply:
        served = self._served(group, version)
        if not served:
            if self._registry.is_builtin(group):
                raise problems.no_such_path()
            return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")
        if not served[0].custom:
            _only_read(request)

        def build() -> Object:
            head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
            entries = [entry for resource in served for entry in _entries(resource)]
            name = f"{group}/{version}" if group else version
            return head | {"groupVersion": name, "resources": entries}

        return self._plain(request, f"{group}/{version}", build)

    def _aggregated_document(self, root: str, version: str) -> Object:
        groups = [""] if root == "api" else self._groups()
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": v,
                        "resources": [_aggregated_entry(resource) for resource in self._served(group, v)],
                        "freshness": "Current",
                    }
                    for v in self._versions(group)
                ],
            }
            for group in groups
        ]
        return {
            "kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items,
        }  # fmt: skip


def _only_read(request: Request) -> None:
    if request.method != "GET":
        raise problems.method_not_served()


def _aggregated_version(accept: str) -> str:
    """Which aggregated form the client prefers; empty for the plain one."""
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        named = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if media == JSON and named.get("g") == "apidiscovery.k8s.io" and named.get("as") == "APIGroupDiscoveryList":
            if named.get("v") in ("v2", "v2beta1"):
                return named["v"]
        elif media in (JSON, "*/*") and "g" not in named:
            return ""
    return ""


def _entries(resource: ServedResource) -> list[Object]:
    kind = resource.kind
    entry: Object = {
        "name": kind.plural, "singularName": resource.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": list(resource.verbs),
    }  # fmt: skip
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = list(resource.subresources.values())
    if not resource.custom:
        subresources.sort(key=lambda sub: sub.name)
    return [entry, *(_subresource_entry(resource, sub) for sub in subresources)]


def _subresource_entry(resource: ServedResource, sub: Subresource) -> Object:
    entry: Object = {
        "name": f"{resource.kind.plural}/{sub.name}", "singularName": "", "namespaced": resource.kind.namespaced,
    }  # fmt: skip
    if sub.version:
        entry |= {"group": sub.group, "version": sub.version} if sub.group else {"version": sub.version}
    return entry | {"kind": sub.kind, "verbs": list(sub.verbs)}


def _aggregated_entry(resource: ServedResource) -> Object:
    kind = resource.kind
    own = {"group": kind.group, "version": kind.version} if resource.custom else {"group": "", "version": ""}
    entry: Object = {
        "resource": kind.plural,
        "responseKind": own | {"kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind}
                if sub.version
                else own | {"kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in sorted(resource.subresources.values(), key=lambda sub: sub.name)
        ]
    return entry
