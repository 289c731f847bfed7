"""Who may serve what: the objects that ask the gateway for hosts and paths, and which of them get what they ask for. No I/O.

The first owner of a host and path wins. Another namespace gets nothing at, above or below it: clients send their tokens there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.local.network import routes
from modelyard.local.network.origins import HOME, is_local, label_of
from modelyard.local.network.routes import Backend, PathKind, Route

READERS: dict[Kind, Callable[[Object], list[Route]]] = {
    builtin.Ingress: routes.from_ingress,
    builtin.HTTPRoute: routes.from_http_route,
    builtin.Route: routes.from_openshift,
}
_MOST_ROUTES = 2048
"""Of one object: every request looks through them."""


@dataclass(frozen=True, slots=True)
class Published:
    """One Ingress, HTTPRoute or Route, and the routes that it asks for."""

    kind: Kind
    object: Object = field(hash=False, compare=False)
    routes: tuple[Route, ...]

    @classmethod
    def read(cls, kind: Kind, obj: Object) -> Published:
        return cls(kind, obj, tuple(READERS[kind](obj)))

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"].get("uid") or "")

    @property
    def source(self) -> str:
        return f"{self.kind.kind}/{self.namespace}/{self.name}"

    @property
    def label(self) -> str:
        return label_of(self.source, self.name)

    @property
    def own_host(self) -> str:
        """The host name that leads here and nowhere else."""
        return f"{self.label}.{HOME}"

    @property
    def owner(self) -> Object | None:
        """The reference to the resource whose controller made this object."""
        owners = self.object["metadata"].get("ownerReferences") or ()
        return next((owner for owner in owners if owner.get("controller")), None)

    @property
    def from_controller(self) -> bool:
        """Whether a controller made it, for a service that asks who its callers are."""
        labels = self.object["metadata"].get("labels") or {}
        return self.owner is not None or "app.kubernetes.io/created-by" in labels

    @property
    def path(self) -> str:
        """Where a person begins: the shortest path that it serves."""
        plain = [route.path for route in self.routes if route.kind is not PathKind.REGEX]
        return min(plain, key=len).rstrip("/") + "/" if plain else "/"

    @property
    def created(self) -> str:
        return str(self.object["metadata"].get("creationTimestamp") or "")


@dataclass(frozen=True, slots=True)
class Settled:
    """What an object got."""

    published: Published
    routes: tuple[Route, ...]
    refusals: tuple[str, ...] = ()
    """Which hosts and paths it did not get, and why."""
    forbidden: tuple[str, ...] = ()
    """Which backends of other namespaces it may not use."""
    invalid: tuple[str, ...] = ()
    """Which of its matches nobody can serve, and why."""

    @property
    def is_complete(self) -> bool:
        """It got all that it asks for."""
        return not self.refusals and not self.invalid


def settle(published: Iterable[Published], grants: Sequence[Object] = ()) -> list[Settled]:
    """The oldest first, each with what is left for it. Of those made in the same second, the one that is named first is older."""
    claims = _Claims()
    return [_settle(each, grants, claims) for each in sorted(published, key=lambda each: each.created)]


def _settle(one: Published, grants: Sequence[Object], claims: _Claims) -> Settled:
    kept, refusals, forbidden, invalid = [], [], [], []
    for route in one.routes[:_MOST_ROUTES]:
        if wrong := routes.invalid_expressions(route):
            invalid += wrong
            continue
        holder = claims.holder(one, route)
        if holder and one.kind == builtin.Route and not route.host:
            # OpenShift's router makes up a host for a Route that names none, so that each is served.
            route = replace(route, host=one.own_host)
        elif holder:
            refusals.append(f"{route.host or 'any host'}{' ' if not route.host else ''}{route.path}: {holder} has it")
            continue
        backends = []
        for backend in route.backends:
            if backend.namespace != one.namespace and not _granted(one, backend, grants):
                forbidden.append(f"Service {backend.namespace}/{backend.service}")
                backend = replace(backend, permitted=False)
            backends.append(backend)
        kept.append(replace(route, backends=tuple(backends)))
    if len(one.routes) > _MOST_ROUTES:
        refusals.append(
            f"{len(one.routes)} combinations of hosts and paths are more than the {_MOST_ROUTES} of one object"
        )
    for route in kept:
        if route.host != one.own_host:
            claims.add(one, route)
    return Settled(one, tuple(kept), *(tuple(dict.fromkeys(texts)) for texts in (refusals, forbidden, invalid)))


class _Claims:
    """The routes that were given, by path."""

    def __init__(self) -> None:
        self._at: dict[str, dict[tuple[str, str], str]] = {}
        self._below: dict[str, dict[tuple[str, str], str]] = {}
        self._same: dict[object, str] = {}

    def add(self, one: Published, route: Route) -> None:
        key = (one.namespace, route.host)
        self._at.setdefault(_place(route), {}).setdefault(key, one.source)
        self._same.setdefault((one.namespace, _match(route)), one.source)
        for parent in _parents(route):
            self._below.setdefault(parent, {}).setdefault(key, one.source)

    def holder(self, one: Published, route: Route) -> str:
        """Who has the place already; empty if nobody has."""
        if same := self._same.get((one.namespace, _match(route))):
            return same
        place = _place(route)
        held = [self._at.get(place, {}), *(self._at.get(parent, {}) for parent in _parents(route))]
        if route.kind is PathKind.PREFIX and route.path.rstrip("/"):
            held.append(self._below.get(place, {}))
        for group in held:
            for (namespace, host), source in group.items():
                if namespace != one.namespace and _same_hosts(host, route.host):
                    return source
        return ""


def _match(route: Route) -> object:
    wanted = (tuple(sorted(route.headers.items())), tuple(sorted(route.query.items())))
    return (route.host, route.kind, route.path, route.method, *wanted)


def _place(route: Route) -> str:
    return f"~{route.path}" if route.kind is PathKind.REGEX else route.path.rstrip("/")


def _parents(route: Route) -> list[str]:
    """The paths above, without the root: who serves the root serves what nobody else does."""
    if route.kind is PathKind.REGEX:
        return []
    parts = route.path.rstrip("/").split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _same_hosts(one: str, other: str) -> bool:
    """Whether a request could mean either."""
    if one == other:
        return True
    if not one or not other:
        return is_local(one or other)
    return any(a.startswith("*.") and b.endswith(a[1:]) for a, b in ((one, other), (other, one)))


def _granted(one: Published, backend: Backend, grants: Sequence[Object]) -> bool:
    """Whether a ReferenceGrant in the backend's namespace lets this object lead there."""
    for grant in grants:
        if grant["metadata"]["namespace"] != backend.namespace:
            continue
        spec = grant.get("spec") or {}
        wanted = (one.kind.group, one.kind.kind, one.namespace)
        givers = [(each.get("group"), each.get("kind"), each.get("namespace")) for each in spec.get("from") or ()]
        targets = [(each.get("group") or "", each.get("kind"), each.get("name")) for each in spec.get("to") or ()]
        if wanted in givers and any(to in (("", "Service", None), ("", "Service", backend.service)) for to in targets):
            return True
    return False
