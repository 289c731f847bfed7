"""What the scenarios have in common: valid registries, ready ones, and short names for what they look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import conditions_of
from modelyard.kube.times import format_time, utc_now
from modelyard.operators.model_registry.api import DEFINITIONS, MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.operators.model_registry.facts import CREATED_BY, ReferenceGrant
from modelyard.operators.model_registry.webhooks import CONVERSIONS, webhooks
from modelyard.operators.parts.availability import SERVICE_NAME
from modelyard.runtime.declaring.operator import Operator
from tests.cluster import stories
from tests.cluster.stories import Server
from tests.ground import LONG_AGO, ApiGround, MemoryGround

REGISTRY = MODEL_REGISTRY.kind
OLD = Kind(REGISTRY.group, "v1alpha1", REGISTRY.kind, REGISTRY.plural)
OPENSHIFT = (builtin.Route, builtin.Group)
GATEWAY = (builtin.HTTPRoute, ReferenceGrant)
MYSQL: Object = {"host": "h", "username": "u", "database": "db", "passwordSecret": {"name": "db-secret", "key": "pw"}}
POSTGRES: Object = {
    "host": "pg",
    "username": "u",
    "database": "db",
    "passwordSecret": {"name": "db-secret", "key": "pw"},
}
GENERATED: Object = {"generateDeployment": True}


@dataclass
class RegistryScene(stories.Scene):
    """A ground in which the model registry operator is at work."""

    kind = REGISTRY
    usual_name = "mr"
    definitions = DEFINITIONS

    settings: Settings = field(default_factory=Settings)
    made: list[tuple[str, str]] = field(default_factory=list)

    @property
    def delegator(self) -> str:
        """The binding of the proxy of registry `mr`."""
        return f"mr-auth-delegator.{self.namespace}"

    @property
    def now(self) -> datetime:
        return self.ground.cluster.now if isinstance(self.ground, MemoryGround) else utc_now()

    async def start(self, *served: Kind, anywhere: bool = False, hooks: bool = False, **settings: Any) -> None:
        """Serves the optional kinds and starts the operator with these settings, with its webhooks if asked."""
        for kind in served:
            await self.ground.serve(kind)
        self.settings = Settings(**{"namespace": "" if anywhere else self.namespace, **settings})
        controller = registry_controller(self.settings)
        await self.ground.start([controller])
        if hooks:
            assert isinstance(self.ground, ApiGround)
            made = Operator(
                "model-registry", "", "", [controller], webhooks=webhooks(self.settings), conversions=CONVERSIONS
            )
            await self.ground.serve_webhooks(made)

    async def create(
        self,
        name: str = "mr",
        *,
        kind: Kind = REGISTRY,
        namespace: str | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        """A registry with a REST server and what is given; without a database it gets MySQL. None leaves a field out."""
        body: Object = {"rest": {}, **spec}
        if "postgres" not in spec and "mysql" not in spec:
            body["mysql"] = MYSQL
        body = {key: value for key, value in body.items() if value is not None}
        more = {"annotations": annotations} if annotations else {}
        self.made.append((name, namespace or self.namespace))
        return await self.ground.create(kind, name, namespace=namespace, spec=body, **more)

    async def close(self) -> None:
        """Lets the registries go while someone is there to finish them."""
        if not isinstance(self.ground, ApiGround) or self.ground.manager is None:
            return
        for name, namespace in self.made:
            if await self.ground.find(REGISTRY, name, namespace=namespace) is not None:
                await self.ground.delete(REGISTRY, name, namespace=namespace)
                await self.ground.gone(REGISTRY, name, namespace=namespace)

    async def deployment_up(self, name: str = "mr", since: str = LONG_AGO) -> None:
        await self.ground.until(builtin.Deployment, name)
        await self.ground.deployment_ready(name, since=since)

    async def endpoints(self, name: str = "mr", *, ready: bool = True) -> None:
        endpoint = {"addresses": ["10.0.0.7"], "conditions": {"ready": ready}}
        # As Kubernetes does it, with the labels of the Service.
        labels = {SERVICE_NAME: name, **CREATED_BY}
        await self.ground.create(
            builtin.EndpointSlice, f"{name}-test", labels=labels, addressType="IPv4", endpoints=[endpoint], ports=[]
        )

    async def pod(
        self,
        pod: str = "mr-1",
        *,
        of: str = "mr",
        proxy: bool = False,
        unready: Sequence[str] = (),
        finalizers: Sequence[str] = (),
        **state: Any,
    ) -> None:
        """A pod of a registry; `state` is that of its REST container."""
        names = ["rest-container", *(["kube-rbac-proxy"] if proxy else [])]
        labels = {"app": of, "component": "model-registry", "app.kubernetes.io/name": of}
        containers = [{"name": name, "image": "x"} for name in names]
        held: dict[str, Any] = {"finalizers": list(finalizers)} if finalizers else {}
        await self.ground.create(builtin.Pod, pod, labels=labels, spec={"containers": containers}, **held)
        await self.pod_status(pod, names, unready=unready, **state)

    async def pod_status(self, pod: str, names: list[str], *, unready: Sequence[str] = (), **state: Any) -> None:
        running = {"running": {"startedAt": LONG_AGO}}
        statuses = [
            {
                "name": name,
                "image": "x",
                "imageID": "",
                "restartCount": 0,
                "ready": name not in unready,
                "state": state if state and name == names[0] else running,
            }
            for name in names
        ]
        await self.ground.set_status(builtin.Pod, pod, {"phase": "Running", "containerStatuses": statuses})

    async def make_ready(self, name: str = "mr", *, proxy: bool = False) -> None:
        """As if all of a registry ran."""
        await self.pod(f"{name}-1", of=name, proxy=proxy)
        await self.endpoints(name)
        await self.deployment_up(name)

    async def admit(self, route: str) -> None:
        """The router lets a Route in."""
        admitted = {"type": "Admitted", "status": "True"}
        ingress = [{"host": "x", "conditions": [admitted]}]
        await self.ground.edit(builtin.Route, route, lambda obj: obj.update(status={"ingress": ingress}))

    async def says(self, type: str, start: str, name: str = "mr", **expected: Any) -> None:
        """Until a condition is as expected and its message begins like this."""
        await self.ground.until(REGISTRY, name, lambda registry: _says(registry, type, start, expected))

    async def server(self, name: str = "mr", container: str = "rest-container") -> Server:
        await self.ground.until(builtin.Deployment, name)
        return Server(await self.ground.get(builtin.Deployment, name), container)

    def soon(self) -> str:
        return format_time(self.now)


def _says(registry: Object, type: str, start: str, expected: Mapping[str, Any]) -> bool:
    found = find_condition(conditions_of(registry), type) or {}
    return str(found.get("message", "")).startswith(start) and expected.items() <= found.items()


Scenario = Callable[[RegistryScene], Awaitable[None]]
Book = stories.Book[RegistryScene]
