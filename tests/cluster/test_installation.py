"""What `modelyard manifests` prints is enough: a plane that has this service account and no more does all its work."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4

import aiohttp
import pytest

from greetings_operator.api import GREETING
from greetings_operator.operator import operator as demo
from modelyard.cli.installation import CERTIFICATE_SECRET, METRICS_READER, NAME, Choice, crds, manifests, webhooks
from modelyard.cli.plane import Plane, PlaneOptions
from modelyard.kube.builtin import ClusterRoleBinding, CustomResourceDefinition, Deployment, Secret, ServiceAccount
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import conditions_of, key_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.registry import load, shared
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.webhooks import ServiceAddress
from tests.accounts import noting, token_of
from tests.cluster.conftest import Api

PATIENCE = 60.0


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE:g} s until {what}") from None


class Installation:
    """The manifests in a cluster, all but the Deployment: the plane runs in this process, with its account."""

    def __init__(self, api: Api, home: str) -> None:
        self.api = api
        self.home = home
        environ = {"POD_NAMESPACE": home, "REGISTRIES_NAMESPACE": home}
        self.operators: list[Operator] = [demo(environ), *load(["mlflow", "model-registry"], environ)]
        self.operators += shared(environ, self.operators)
        self.forbidden: list[str] = []
        self._made: list[tuple[Kind, Object]] = []

    async def apply(self, objects: list[Object]) -> None:
        for obj in objects:
            served = {(kind.api_version, kind.kind): kind for kind in await self.api.client.discover()}
            kind = served[obj["apiVersion"], obj["kind"]]
            await self.api.client.apply(kind, obj, field_manager="admin", force=True)
            self._made.append((kind, obj))

    async def install(self) -> None:
        objects = manifests(self.operators, Choice(namespace=self.home))
        hooks = ("Deployment", "Namespace", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        await self.apply([obj for obj in objects if obj["kind"] not in hooks])
        kinds = {definition.kind for operator in self.operators for definition in operator.definitions}

        async def served() -> bool:
            return kinds <= await self.api.client.discover()

        await until(served, "all kinds are served")

    async def plane(self) -> Plane:
        token = await token_of(self.api.client, self.home, NAME)
        options = PlaneOptions(
            home=self.home,
            lease=True,
            webhook_host="127.0.0.1",
            webhook_port=0,
            webhook_names=["127.0.0.1"],
            health=None,
            metrics_host="127.0.0.1",
            metrics_port=0,
        )
        return Plane(noting(self.api.as_user(token), self.forbidden), self.operators, options)

    async def point_webhooks_at(self, plane: Plane) -> None:
        """No Service leads to this process: the admin writes its address, the plane the bundle."""
        address = ServiceAddress(url=f"https://127.0.0.1:{plane.webhook_port}")
        bundle = await self.bundle()
        await self.apply(webhooks(self.operators, address, bundle))
        for crd in crds(self.operators, address, bundle):
            conversion = crd["spec"].get("conversion")
            if conversion:
                conversion["webhook"]["clientConfig"].setdefault("service", None)
                await self.api.client.patch(
                    CustomResourceDefinition, "", crd["metadata"]["name"], {"spec": {"conversion": conversion}}
                )

    async def bundle(self) -> bytes:
        secret = await self.api.client.get(Secret, self.home, CERTIFICATE_SECRET)
        return b64decode(secret["data"]["ca.crt"])

    async def remove(self) -> None:
        await self.api.forget_conversions()
        for kind, obj in reversed(self._made):
            with suppress(ApiError):
                await self.api.client.delete(kind, *key_of(obj))
        for kind, obj in self._made:
            if kind == CustomResourceDefinition:
                await until(partial(self._ended, key_of(obj).name), f"{key_of(obj).name} is gone")

    async def _ended(self, name: str) -> bool:
        """Whether a definition is gone; if not, it is touched.

        kube-apiserver gives a definition's end up when a write of its status meets another one, and begins again only
        when something other than its status changes: a definition deleted right after it was made could stay for minutes.
        """
        touch = {"metadata": {"annotations": {"test.modelyard.dev/touched": uuid4().hex}}}
        try:
            await self.api.client.patch(CustomResourceDefinition, "", name, touch)
        except NotFound:
            return True
        return False


@pytest.fixture
async def installation(api: Api) -> AsyncIterator[Installation]:
    made = Installation(api, await api.namespace("home"))
    await made.install()
    yield made
    await made.remove()


def resources(home: str) -> list[tuple[Kind, Object, str]]:
    """A resource of each operator, and a condition that says it was looked after."""
    database = {"host": "db", "username": "u", "database": "d", "passwordSecret": {"name": "db", "key": "pw"}}
    stores = {"backendStoreUri": "sqlite:////mlflow/mlflow.db", "registryStoreUri": "sqlite:////mlflow/mlflow.db"}
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    collection = {"enabled": True, "schedule": "0 2 * * *"}
    mlflow = {**stores, "artifactsDestination": "file:///mlflow/artifacts", "serveArtifacts": True, "storage": storage}
    return [
        (GREETING.kind.at("v1alpha1"), _resource("hi", home, {"message": "old words"}), "Ready"),
        (MLFLOW.kind, _resource("mlflow", "", {**mlflow, "garbageCollection": collection}), "Available"),
        (
            MODEL_REGISTRY.kind,
            _resource("registry", home, {"rest": {}, "kubeRBACProxy": {}, "mysql": database}),
            "Available",
        ),
        (
            MODEL_REGISTRY.kind,
            _resource("generated", home, {"rest": {}, "postgres": {"generateDeployment": True}}),
            "Available",
        ),
    ]


def _resource(name: str, namespace: str, spec: Object) -> Object:
    return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {}), "spec": spec}


async def test_a_plane_with_the_generated_role_does_all_its_work(api: Api, installation: Installation) -> None:
    home, user = installation.home, api.client
    async with await installation.plane() as plane:
        await plane.wait_ready()
        await installation.point_webhooks_at(plane)
        made = resources(home)
        for kind, resource, condition in made:
            title = f"{kind.kind} {key_of(resource).name}"
            await until(partial(_taken, user, kind, resource), f"{title} is taken")
            await until(partial(_says, user, kind, resource, condition), f"{title} says {condition}")
        for name in ("hi", "registry", "generated-postgres", "model-catalog"):
            await until(partial(_there, user, Deployment, Key(home, name)), f"Deployment {name} is there")
        await until(partial(_there, user, Secret, Key(home, "mlflow-tls")), "the server has its certificate")
        await plane.manager.idle(quiet=0.3)
        for kind, resource, _ in made:
            await user.delete(kind, *key_of(resource))
        for kind, resource, _ in made:
            await until(partial(_gone, user, kind, resource), f"{kind.kind} {key_of(resource).name} is gone")
        await plane.manager.idle(quiet=0.3)
    assert installation.forbidden == []


async def _there(user: Client, kind: Kind, key: Key) -> bool:
    return await user.find(kind, *key) is not None


async def _gone(user: Client, kind: Kind, obj: Object) -> bool:
    return not await _there(user, kind, key_of(obj))


async def _taken(user: Client, kind: Kind, resource: Object) -> bool:
    """A webhook's new address is in force a moment after it was written."""
    try:
        await user.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **resource})
    except ApiError as error:
        if error.code >= 500:
            return False
        raise
    return True


async def _says(user: Client, kind: Kind, resource: Object, condition: str) -> bool:
    found = await user.get(kind, *key_of(resource))
    return any(each["type"] == condition for each in conditions_of(found))


async def test_metrics_are_for_those_whom_the_api_lets_read_them(api: Api, installation: Installation) -> None:
    home, user = installation.home, api.client
    for name in ("scraper", "stranger"):
        await user.create(ServiceAccount, {"metadata": {"name": name, "namespace": home}})
    binding = {
        "apiVersion": ClusterRoleBinding.api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"scraper-{home}"},
        "roleRef": {"apiGroup": ClusterRoleBinding.group, "kind": "ClusterRole", "name": METRICS_READER},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": home}],
    }
    await installation.apply([binding])
    async with await installation.plane() as plane:
        await plane.wait_ready()
        context = ssl.create_default_context(cadata=(await installation.bundle()).decode())
        url = f"https://127.0.0.1:{plane.metrics_port}"

        async def read(path: str, token: str = "") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with (
                aiohttp.ClientSession() as session,
                session.get(url + path, headers=headers, ssl=context) as answer,
            ):
                return answer.status, await answer.text()

        status, text = await read("/metrics", await token_of(user, home, "scraper"))
        assert status == 200, text
        assert 'rest_client_requests_total{code="200"' in text
        assert (await read("/metrics"))[0] == 401
        assert (await read("/metrics", "made-up"))[0] == 401
        status, text = await read("/metrics", await token_of(user, home, "stranger"))
        assert (status, "stranger may not get /metrics" in text) == (403, True)
        assert (await read("/healthz", await token_of(user, home, "scraper")))[0] == 404
    assert installation.forbidden == []
