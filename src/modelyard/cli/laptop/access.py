"""Who the laptop's user is to a service: an account for each, which may use that service and nothing else.

A service sees the tokens that are sent to it, so a token must be worth nothing elsewhere: not at the API, and not at another
service. The accounts belong to the routes, and go with them."""

from __future__ import annotations

from urllib.parse import urlsplit

from modelyard.cli.laptop.ray import is_guarded_dashboard, ray_head
from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, Role, RoleBinding, ServiceAccount
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.local.network.doors import ServiceToken
from modelyard.local.network.published import Published
from modelyard.operators.mlflow.api import MLFLOW

MANAGER = "modelyard-login"
SECONDS = 3600
_MLFLOW_ROLE = "modelyard-mlflow-user"
_MLFLOW_GROUP = "mlflow.kubeflow.org"
_RBAC = "rbac.authorization.k8s.io"


async def service_token(client: Client, one: Published, *, seconds: int = SECONDS) -> ServiceToken:
    """A token of the account for this service; a Ray head without a proxy before it knows one token only, its own."""
    head = await ray_head(client, one)
    if head is not None and head.token and _services(one) == {one.namespace: [head.service]}:
        return ServiceToken(head.token, float(seconds))
    account = f"login-{one.label}"
    await _apply(client, ServiceAccount, _object(account, one.namespace, _owned_by(one)))
    for namespace, services in _services(one).items():
        # A reference across namespaces is not possible: there, what the route may lead to decides.
        owner = _owned_by(one) if namespace == one.namespace else None
        rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"], "resourceNames": services}]
        if owner is not None and len(services) == 1 and await is_guarded_dashboard(client, one, services[0]):
            # What the proxy of a Ray dashboard asks for.
            rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
        await _apply(client, Role, _object(account, namespace, owner) | {"rules": rules})
        binding = _binding("Role", account, account, one.namespace)
        await _apply(client, RoleBinding, _object(account, namespace, owner) | binding)
    if (mlflow := await _mlflow(client, one)) is not None:
        await _apply(client, ClusterRole, _object(_MLFLOW_ROLE) | {"rules": [_MLFLOW_RULE]})
        binding = _binding("ClusterRole", _MLFLOW_ROLE, account, one.namespace)
        await _apply(client, ClusterRoleBinding, _object(account, owner=mlflow) | binding)
    # MLflow and the access proxies ask the API about a caller with the caller's own token, so that it must be good there. For anything
    # else it is a name and no more.
    audiences = [] if one.from_controller else [f"modelyard.dev/{one.source}"]
    request: Object = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": account, "namespace": one.namespace},
        "spec": {"expirationSeconds": seconds, "audiences": audiences},
    }
    answer = await client.create(ServiceAccount, request, subresource="token")
    return ServiceToken(str(answer["status"]["token"]), float(answer["spec"]["expirationSeconds"]))


def _services(one: Published) -> dict[str, list[str]]:
    """The Services behind it, by namespace. The right to `get` a Service is the right to use it, for an access proxy."""
    found: dict[str, set[str]] = {}
    for route in one.routes:
        for backend in route.backends:
            if backend.permitted:
                found.setdefault(backend.namespace, set()).add(backend.service)
    return {namespace: sorted(names) for namespace, names in found.items()}


async def _mlflow(client: Client, one: Published) -> Object | None:
    """The MLflow that this route leads to. What a route says of its owner is not enough: anybody may write that. The MLflow
    itself says where its server is."""
    kind = MLFLOW.kind
    if one.owner is None or one.owner.get("kind") != kind.kind:
        return None
    found = await client.find(kind, "", str(one.owner.get("name") or ""))
    if found is None or found["metadata"]["uid"] != one.owner.get("uid"):
        return None
    address = ((found.get("status") or {}).get("address") or {}).get("url") or ""
    host = (urlsplit(address).hostname or "").removesuffix(".cluster.local").removesuffix(".svc")
    service, _, namespace = host.partition(".")
    if _services(one) != {namespace: [service]} or namespace != one.namespace:
        return None
    meta = found["metadata"]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta["name"], "uid": meta["uid"]}


async def _apply(client: Client, kind: Kind, obj: Object) -> None:
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    await client.apply(kind, whole, field_manager=MANAGER, force=True)


def _object(name: str, namespace: str = "", owner: Object | None = None) -> Object:
    metadata: Object = {"name": name, "labels": {"app.kubernetes.io/managed-by": MANAGER}}
    if namespace:
        metadata["namespace"] = namespace
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"metadata": metadata}


def _owned_by(one: Published) -> Object:
    return {"apiVersion": one.kind.api_version, "kind": one.kind.kind, "name": one.name, "uid": one.uid}


def _binding(kind: str, role: str, account: str, namespace: str) -> Object:
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


_MLFLOW_RULE: Object = {
    "apiGroups": [_MLFLOW_GROUP],
    "resources": [
        "experiments",
        "registeredmodels",
        "datasets",
        "jobs",
        "mcpservers",
        "gatewaysecrets",
        "gatewaysecrets/use",
        "gatewayendpoints",
        "gatewayendpoints/use",
        "gatewaymodeldefinitions",
        "gatewaymodeldefinitions/use",
    ],
    "verbs": ["get", "list", "create", "update", "delete"],
}
"""What MLflow asks about its callers, in every workspace. None of these are objects of the API."""
