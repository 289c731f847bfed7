"""The kinds that a laptop cluster serves beside Kubernetes' own: Gateway API always, OpenShift's and others on request.

Small definitions of ours: the fields that controllers write and the gateway reads are typed, everything else is kept as given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from modelyard.kube.builtin import (
    Certificate,
    ConsoleLink,
    Gateway,
    Group,
    HTTPRoute,
    ReferenceGrant,
    Route,
    ServiceMonitor,
)
from modelyard.kube.kinds import Kind, Object

Schema = dict[str, Any]
_ANY: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Schema = {"type": "string"}
_PORT: Schema = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535}


def _object(required: Iterable[str] = (), /, **properties: Schema) -> Schema:
    made: Schema = {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}
    return made | ({"required": list(required)} if required else {})


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic", **more}


_PARENTS = _list(
    _object(
        ["name"],
        group={**_TEXT, "default": "gateway.networking.k8s.io"},
        kind={**_TEXT, "default": "Gateway"},
        name=_TEXT,
        namespace=_TEXT,
        sectionName=_TEXT,
        port=_PORT,
    ),
    maxItems=32,
)
_EVERY_PATH = {"path": {"type": "PathPrefix", "value": "/"}}
_PATH = _object(
    type={**_TEXT, "default": "PathPrefix", "enum": ["Exact", "PathPrefix", "RegularExpression"]},
    value={**_TEXT, "default": "/", "maxLength": 1024},
) | {"default": _EVERY_PATH["path"]}
_BACKENDS = _list(
    _object(
        ["name"],
        group={**_TEXT, "default": ""},
        kind={**_TEXT, "default": "Service"},
        name=_TEXT,
        namespace=_TEXT,
        port=_PORT,
        weight={"type": "integer", "format": "int32", "default": 1, "minimum": 0, "maximum": 1000000},
    ),
    maxItems=16,
)
_HTTP_ROUTE = _object(
    parentRefs=_PARENTS,
    hostnames=_list({**_TEXT, "maxLength": 253}, maxItems=16),
    rules=_list(
        _object(
            name=_TEXT,
            matches=_list(_object(path=_PATH), maxItems=64, default=[_EVERY_PATH]),
            filters=_list(_object(["type"], type=_TEXT), maxItems=16),
            backendRefs=_BACKENDS,
        ),
        maxItems=16,
        default=[{"matches": [_EVERY_PATH]}],
    ),
)
_GATEWAY = _object(["gatewayClassName", "listeners"], gatewayClassName=_TEXT, listeners=_list(_ANY, maxItems=64))
_GRANT = _object(
    ["from", "to"],
    **{
        "from": _list(_object(["group", "kind", "namespace"], group=_TEXT, kind=_TEXT, namespace=_TEXT), maxItems=16),
        "to": _list(_object(["group", "kind"], group=_TEXT, kind=_TEXT, name=_TEXT), maxItems=16),
    },
)
_SCHEMAS: dict[Kind, Schema] = {
    HTTPRoute: _object(["spec"], spec=_HTTP_ROUTE, status=_ANY),
    Gateway: _object(["spec"], spec=_GATEWAY, status=_ANY),
    ReferenceGrant: _object(spec=_GRANT),
    Route: _object(spec=_ANY, status=_ANY),
    ConsoleLink: _object(spec=_ANY, status=_ANY),
    Group: _object(users={"type": "array", "items": _TEXT, "nullable": True}),
    ServiceMonitor: _object(["spec"], spec=_ANY, status=_ANY),
    Certificate: _object(spec=_ANY, status=_ANY),
}
GATEWAY_API = (HTTPRoute, Gateway, ReferenceGrant)
OPENSHIFT = (Route, ConsoleLink, Group)


def platform_crds(platform: str = "kubernetes") -> list[Object]:
    """What `modelyard up` installs: Gateway API, and with `openshift` the kinds of an OpenShift cluster."""
    return [crd_of(kind) for kind in (*GATEWAY_API, *(OPENSHIFT if platform == "openshift" else ()))]


def crd_of(kind: Kind) -> Object:
    """Our definition of a kind that others define on a real cluster; one that we know nothing of takes everything as given."""
    name = f"{kind.plural}.{kind.group}"
    crd: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMAS.get(kind, _ANY)},
                    "subresources": {"status": {}} if kind not in (Group, ReferenceGrant) else {},
                }
            ],
        },
    }
    if kind.group.endswith(".k8s.io"):
        crd["metadata"]["annotations"] = {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/4000"
        }
    return crd
