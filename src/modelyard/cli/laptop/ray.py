"""What a client of a Ray cluster on the laptop needs: the head's address and the token that it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from modelyard.kube.builtin import Pod, Secret, Service
from modelyard.kube.client import Client
from modelyard.kube.kinds import Object
from modelyard.kube.objects import controller_of, name_of, spec_of, status_of, uid_of
from modelyard.kube.secrets import text_of
from modelyard.local.network.published import Published
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from modelyard.operators.ray.names import CLIENT_PORT, CLUSTER, DASHBOARD_PORT, HEAD, NODE_TYPE


@dataclass(frozen=True)
class RayHead:
    """A head that runs. Its address is one of this machine's alone."""

    address: str
    service: str
    token: str
    """Empty: it asks for none."""
    uses_tls: bool = False

    def variables(self) -> dict[str, str]:
        """Under the names that Ray's own clients read: `ray job submit`, and `ray.init()`."""
        found = {"RAY_API_SERVER_ADDRESS": f"http://{self.address}:{DASHBOARD_PORT}"}
        if not self.uses_tls:
            # Without certificates, which only CodeFlare gives, `ray.init()` would wait for an answer in vain.
            found["RAY_ADDRESS"] = f"ray://{self.address}:{CLIENT_PORT}"
        return found | ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if self.token else {})


async def ray_head(client: Client, one: Published) -> RayHead | None:
    """The head of the RayCluster that this route belongs to; None if it belongs to none, or the head does not run."""
    cluster = await _cluster(client, one)
    if cluster is None:
        return None
    labels = f"{CLUSTER}={name_of(cluster)},{NODE_TYPE}={HEAD}"
    for pod in (await client.list(Pod, one.namespace, labels=labels)).items:
        address = status_of(pod).get("podIP")
        if address and _belongs(pod, cluster):
            service = await _service(client, cluster, one.namespace)
            token = await _token(client, pod, one.namespace)
            return RayHead(str(address), service, token, _variable(pod, "RAY_USE_TLS").get("value") == "1")
    return None


async def is_guarded_dashboard(client: Client, one: Published, service: str) -> bool:
    """Does this route lead to a Service that its RayCluster has beside the head's? A proxy is behind it, which asks who may
    `get` pods."""
    cluster = await _cluster(client, one)
    found = await client.find(Service, one.namespace, service) if cluster is not None else None
    return cluster is not None and found is not None and _belongs(found, cluster)


async def _cluster(client: Client, one: Published) -> Object | None:
    """The RayCluster that a route belongs to."""
    kind = RAY_CLUSTER.kind
    if one.owner is None or (one.owner.get("kind"), one.owner.get("apiVersion")) != (kind.kind, kind.api_version):
        return None
    cluster = await client.find(kind, one.namespace, str(one.owner.get("name") or ""))
    return cluster if cluster is not None and uid_of(cluster) == one.owner.get("uid") else None


def _belongs(obj: Object, cluster: Object) -> bool:
    """Labels are anybody's to write; the reference to the owner is checked by the garbage collector."""
    return bool((controller_of(obj) or {}).get("uid") == uid_of(cluster))


async def _service(client: Client, cluster: Object, namespace: str) -> str:
    """The head's own Service; empty where it is not the cluster's."""
    name = str((status_of(cluster).get("head") or {}).get("serviceName") or "")
    found = await client.find(Service, namespace, name) if name else None
    return name if found is not None and _belongs(found, cluster) else ""


async def _token(client: Client, pod: Object, namespace: str) -> str:
    """What the head compares its clients' tokens with."""
    given = _variable(pod, "RAY_AUTH_TOKEN")
    reference = (given.get("valueFrom") or {}).get("secretKeyRef")
    if not reference:
        return str(given.get("value") or "")
    secret = await client.find(Secret, namespace, str(reference.get("name")))
    return text_of(secret, str(reference.get("key")))


def _variable(pod: Object, name: str) -> Object:
    """A variable of the container that runs Ray."""
    variables: list[Object] = spec_of(pod)["containers"][0].get("env") or []
    return next((item for item in variables if item.get("name") == name), {})
