"""Reading request paths as Kubernetes does: which resource, object and subresource, and which verb."""

from __future__ import annotations

from typing import NamedTuple

from modelyard.local.apiserver.requests.messages import Request

_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Target(NamedTuple):
    """What a request is about."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    subresource: str
    rest: str = ""
    within: bool = False
    """The path names the resource below a namespace."""


def parse(request: Request) -> Target | None:
    """None for a path that names no resource."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    verb = _VERBS.get(request.method, "")
    watching = False
    if parts[0] == "watch" and len(parts) > 1:
        # The old way to ask for a watch; still served.
        watching, parts = True, parts[1:]
    namespace, within = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts, within = parts[2:], True
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    rest = "/".join(parts[3:])
    if verb == "get" and (not name or watching):
        watching = watching or request.flag("watch")
        verb = "watch" if watching else "list"
    elif verb == "get" and request.flag("watch") and not subresource:
        # A watch on one object is a watch of the collection by its name.
        verb = "watch"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Target(verb, group, version, resource, namespace, name, subresource, rest, within)
