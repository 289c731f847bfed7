"""The laptop's user as a service account: a token for clients, a one-time link for browsers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from modelyard.cli.laptop.layout import Layout
from modelyard.cli.output import Failed
from modelyard.kube.builtin import ClusterRoleBinding, Namespace, ServiceAccount
from modelyard.kube.client import Client
from modelyard.kube.config import connect, resolve
from modelyard.kube.errors import AlreadyExists, ApiError, Unreachable
from modelyard.kube.kinds import Object
from modelyard.local.network.gateway import OWN, Control

T = TypeVar("T")

HOME = "modelyard"
USER = "laptop-user"
TOKEN_SECONDS = 12 * 3600


def with_laptop(layout: Layout, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs work on the laptop cluster of this folder; what goes wrong is said in a sentence."""
    layout.require_running()

    async def run() -> T:
        client = connect(layout.kubeconfig)
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except (ApiError, Unreachable) as error:
        raise Failed(str(error)) from None


async def user_token(client: Client, seconds: int = TOKEN_SECONDS) -> str:
    """A bearer token of the laptop's user, who may do everything here."""
    account: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": USER, "namespace": HOME},
    }
    binding: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{HOME}-{USER}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": USER, "namespace": HOME}],
    }
    home: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    for kind, obj in ((Namespace, home), (ServiceAccount, account), (ClusterRoleBinding, binding)):
        try:
            await client.create(kind, obj)
        except AlreadyExists:
            continue
    request: Object = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": USER, "namespace": HOME},
        "spec": {"expirationSeconds": seconds, "audiences": []},
    }
    answer = await client.create(ServiceAccount, request, subresource="token")
    return str(answer["status"]["token"])


async def login_link(layout: Layout, token: str, path: str) -> str:
    """A link that logs a browser in with this token; it works once."""
    control = Control.read(layout.kubelet)
    if control is None:
        raise Failed(f"the gateway of {layout.directory} does not run; see `modelyard logs kubelet`")
    trust = ssl.create_default_context(cadata=authority(layout))
    try:
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {control.secret}"}
            body = {"token": token, "next": path}
            where = f"{control.url}{OWN}/links"
            async with session.post(where, json=body, headers=headers, ssl=trust) as answer:
                if answer.status != 200:
                    raise Failed(f"the gateway made no link: {answer.status} {(await answer.text()).strip()}")
                return str((await answer.json())["url"])
    except aiohttp.ClientError as error:
        raise Failed(f"the gateway at {urlsplit(control.url).netloc} does not answer: {error}") from None


def gateway_url(layout: Layout) -> str:
    control = Control.read(layout.kubelet)
    if control is None:
        raise Failed(f"the gateway of {layout.directory} does not run; see `modelyard logs kubelet`")
    return control.url


def authority(layout: Layout) -> str:
    """The certificate (PEM) that clients trust: one CA signs for the API server and for the gateway."""
    return resolve(layout.kubeconfig).endpoint.ca
