"""Ingress, HTTPRoute and OpenShift Route objects as one table of routes, and which route a request takes. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.structural.patterns import pattern_problem, weight, whole_matcher

_HEAVIEST = 4096


class PathKind(IntEnum):
    """How a path is matched; the larger goes before the smaller when both match."""

    REGEX = 0
    PREFIX = 1
    EXACT = 2


@dataclass(frozen=True, slots=True)
class Backend:
    namespace: str
    service: str
    port: str
    """A number, or the name of a port."""
    weight: int = 1
    https: bool | None = None
    """None: as the Service's port says."""
    permitted: bool = True
    """Whether the route may lead there: a Service of another namespace needs a ReferenceGrant."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What happens to a request on its way."""

    prefix: str | None = None
    """Replaces the matched prefix."""
    path: str | None = None
    """Replaces the whole path."""
    host: str | None = None
    set_headers: Mapping[str, str] = field(default_factory=dict)
    remove_headers: tuple[str, ...] = ()
    response_headers: Mapping[str, str] = field(default_factory=dict)
    redirect: Object | None = None


@dataclass(frozen=True, slots=True)
class Route:
    source: str
    """`Kind/namespace/name`, for messages."""
    host: str
    kind: PathKind
    path: str
    backends: tuple[Backend, ...]
    rewrite: Rewrite = Rewrite()
    method: str = ""
    headers: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    """Name to (is a regular expression, value)."""
    query: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    order: tuple[str, int] = ("", 0)
    """Age and place, for ties: the older object, then the earlier rule."""

    def target_path(self, path: str) -> str:
        """The path the backend sees."""
        if self.rewrite.path is not None:
            return self.rewrite.path
        if self.rewrite.prefix is not None and self.kind is PathKind.PREFIX:
            rest = path[len(self.path.rstrip("/")) :]
            joined = self.rewrite.prefix.rstrip("/") + ("/" + rest.lstrip("/") if rest.strip("/") or rest else "")
            return joined or "/"
        return path


def invalid_expressions(route: Route) -> list[str]:
    """What is wrong with the regular expressions of a route. One with such an expression cannot be matched."""
    paths = [("path", route.path)] if route.kind is PathKind.REGEX else []
    headers = [(f"header {name}", value) for name, (regex, value) in route.headers.items() if regex]
    query = [(f"query parameter {name}", value) for name, (regex, value) in route.query.items() if regex]
    found = []
    for where, expression in (*paths, *headers, *query):
        if weight(expression) > _HEAVIEST:
            found.append(
                f"{where} {expression[:60]} is too large a regular expression: its characters and counted repetitions are "
                f"more than {_HEAVIEST} together, and every request would wait for it"
            )
        elif problem := pattern_problem(expression):
            found.append(f"{where} {expression} is not a valid regular expression ({problem}): correct it")
    return found


class Table:
    """All routes, best first for any request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = sorted(
            routes,
            key=lambda r: (-int(r.kind), -len(r.path), not r.method, -len(r.headers), -len(r.query), r.order),
        )

    def find(
        self, host: str, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]
    ) -> Route | None:
        name = host.partition(":")[0].lower()
        best: tuple[int, Route] | None = None
        for route in self.routes:
            rank = _host_rank(route.host, name)
            if rank and (best is None or rank > best[0]) and _matches(route, method, path, headers, query):
                best = (rank, route)
                if rank == _EXACT_HOST:
                    break
        return best[1] if best else None


_EXACT_HOST = 4


def _host_rank(wanted: str, name: str) -> int:
    """How well a host fits a route: exactly, by wildcard, for any host, or because this is the only name there is here."""
    if not wanted:
        return 2
    if wanted == name or (
        name.endswith(".localhost") and name.removesuffix(".localhost") in (wanted, wanted.split(".")[0])
    ):
        return _EXACT_HOST
    if wanted.startswith("*.") and name.endswith(wanted[1:]):
        return 3
    # No DNS leads other names to a laptop: at localhost, a route for another host is served if none is better.
    return 1 if name == "localhost" or name.startswith("127.") else 0


def _matches(route: Route, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
    if route.method and route.method != method:
        return False
    match route.kind:
        case PathKind.EXACT:
            fits = path == route.path
        case PathKind.PREFIX:
            prefix = route.path.rstrip("/")
            fits = not prefix or path == prefix or path.startswith(prefix + "/")
        case PathKind.REGEX:
            fits = bool(whole_matcher(route.path)(path))
    return fits and _values_match(route.headers, headers) and _values_match(route.query, query)


def _values_match(wanted: Mapping[str, tuple[bool, str]], given: Mapping[str, str]) -> bool:
    for name, (regex, value) in wanted.items():
        found = given.get(name)
        if found is None or (not whole_matcher(value)(found) if regex else found != value):
            return False
    return True


def from_http_route(obj: Object) -> list[Route]:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    source = f"HTTPRoute/{meta['namespace']}/{meta['name']}"
    routes = []
    for place, rule in enumerate(spec.get("rules") or []):
        rewrite = _filters(rule.get("filters") or [])
        backends = tuple(
            Backend(
                ref.get("namespace") or meta["namespace"], ref["name"], str(ref.get("port") or ""),
                1 if ref.get("weight") is None else int(ref["weight"]),
            )
            for ref in rule.get("backendRefs") or []
            if (ref.get("kind") or "Service") == "Service"
        )  # fmt: skip
        for match in rule.get("matches") or [{}]:
            path = match.get("path") or {}
            kind = {"Exact": PathKind.EXACT, "RegularExpression": PathKind.REGEX}.get(
                path.get("type", ""), PathKind.PREFIX
            )
            for host in spec.get("hostnames") or [""]:
                routes.append(
                    Route(
                        source, host.lower(), kind, path.get("value") or "/", backends, rewrite, match.get("method") or "",
                        _wanted(match.get("headers")), _wanted(match.get("queryParams")),
                        (meta.get("creationTimestamp") or "", place),
                    )
                )  # fmt: skip
    return routes


def _wanted(items: list[Object] | None) -> dict[str, tuple[bool, str]]:
    return {item["name"]: (item.get("type") == "RegularExpression", item["value"]) for item in items or []}


def _filters(filters: list[Object]) -> Rewrite:
    prefix = path = host = None
    set_headers: dict[str, str] = {}
    removed: list[str] = []
    response: dict[str, str] = {}
    redirect: Object | None = None
    for item in filters:
        match item.get("type"):
            case "URLRewrite":
                rewrite = item.get("urlRewrite") or {}
                host = rewrite.get("hostname")
                change = rewrite.get("path") or {}
                prefix, path = change.get("replacePrefixMatch"), change.get("replaceFullPath")
            case "RequestHeaderModifier":
                change = item.get("requestHeaderModifier") or {}
                set_headers |= {h["name"]: h["value"] for h in [*(change.get("add") or []), *(change.get("set") or [])]}
                removed += change.get("remove") or []
            case "ResponseHeaderModifier":
                change = item.get("responseHeaderModifier") or {}
                response |= {h["name"]: h["value"] for h in [*(change.get("add") or []), *(change.get("set") or [])]}
            case "RequestRedirect":
                redirect = item.get("requestRedirect") or {}
    return Rewrite(prefix, path, host, set_headers, tuple(removed), response, redirect)


def from_ingress(obj: Object) -> list[Route]:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    annotations = meta.get("annotations") or {}
    source = f"Ingress/{meta['namespace']}/{meta['name']}"
    secure = annotations.get("nginx.ingress.kubernetes.io/backend-protocol", "").upper() == "HTTPS" or None
    target = annotations.get("nginx.ingress.kubernetes.io/rewrite-target")
    routes = []

    def backend(item: Object) -> tuple[Backend, ...]:
        service = item.get("service")
        if not service:
            return ()
        port = service.get("port") or {}
        return (
            Backend(
                meta["namespace"], service["name"], str(port.get("number") or port.get("name") or ""), https=secure
            ),
        )

    for place, rule in enumerate(spec.get("rules") or []):
        for item in (rule.get("http") or {}).get("paths") or []:
            kind = PathKind.EXACT if item.get("pathType") == "Exact" else PathKind.PREFIX
            rewrite = Rewrite(prefix=target) if target and "$" not in target else Rewrite()
            host = (rule.get("host") or "").lower()
            order = (meta.get("creationTimestamp") or "", place)
            routes.append(
                Route(source, host, kind, item.get("path") or "/", backend(item["backend"]), rewrite, order=order)
            )
    if spec.get("defaultBackend"):
        routes.append(Route(source, "", PathKind.PREFIX, "/", backend(spec["defaultBackend"]), order=("~", 0)))
    return routes


def from_openshift(obj: Object) -> list[Route]:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    to = spec.get("to") or {}
    if not to.get("name"):
        return []
    port = str((spec.get("port") or {}).get("targetPort") or "")
    secure = (spec.get("tls") or {}).get("termination") in ("reencrypt", "passthrough")
    backends = [Backend(meta["namespace"], to["name"], port, to.get("weight") or 100, secure or None)]
    for other in spec.get("alternateBackends") or []:
        backends.append(Backend(meta["namespace"], other["name"], port, other.get("weight") or 0, secure or None))
    target = (meta.get("annotations") or {}).get("haproxy.router.openshift.io/rewrite-target")
    source = f"Route/{meta['namespace']}/{meta['name']}"
    order = (meta.get("creationTimestamp") or "", 0)
    return [
        Route(
            source, (spec.get("host") or "").lower(), PathKind.PREFIX, spec.get("path") or "/", tuple(backends),
            Rewrite(prefix=target), order=order,
        )
    ]  # fmt: skip


def service_port(service: Object, wanted: str) -> Object | None:
    """The port of a Service that a route means: by number, by name or target port, or the only one."""
    ports: list[Object] = (service.get("spec") or {}).get("ports") or []
    if not wanted:
        return ports[0] if len(ports) == 1 else None
    for port in ports:
        if wanted in (str(port.get("port")), port.get("name"), str(port.get("targetPort"))):
            return port
    return None


def speaks_https(port: Object) -> bool:
    """Whether a Service's port expects TLS, by what it says of itself."""
    protocol = str(port.get("appProtocol") or "").lower()
    if protocol:
        return protocol in ("https", "kubernetes.io/wss", "wss")
    return str(port.get("name") or "").startswith("https") or port.get("port") in (443, 8443)
