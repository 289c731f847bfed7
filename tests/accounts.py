"""A plane's service account as an installation makes it: its role holds what the controllers declare, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, NotFound
from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of
from modelyard.kube.transport import Around, Response, Sent, Transport
from modelyard.runtime.declaring import rbac
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.webhooks import Webhook
from tests.chaos.faults import Answer

NAME = "plane-under-test"
_KINDS = {
    kind.kind: kind for kind in (builtin.Role, builtin.RoleBinding, builtin.ClusterRole, builtin.ClusterRoleBinding)
}


class _Noted(Around):
    """Notes which requests the role does not allow; the API also forbids what no role could."""

    def __init__(self, inner: Transport, forbidden: list[str]) -> None:
        super().__init__(inner)
        self._forbidden = forbidden

    async def pass_on(self, sent: Sent) -> Response:
        response = await super().pass_on(sent)
        if response.status != 403:
            return response
        refusal = Answer(response.status, await response.read(), response.headers)
        if b" cannot " in refusal.body or b"not currently held" in refusal.body:
            self._forbidden.append(f"{sent.method} {sent.path}")
        return refusal


@dataclass
class Account:
    """`client` acts as the service account. `forbidden` are the requests that its role did not allow."""

    client: Client
    admin: Client
    objects: list[Object]
    forbidden: list[str] = field(default_factory=list)

    async def remove(self) -> None:
        for obj in self.objects:
            with suppress(NotFound):  # It may have gone with its namespace.
                await self.admin.delete(_KINDS[obj["kind"]], *key_of(obj))


async def service_account(
    admin: Client,
    login: Callable[[str], Client],
    home: str,
    controllers: Sequence[Controller],
    webhooks: Sequence[Webhook] = (),
) -> Account:
    """An account in the namespace `home` with the generated roles, in force."""
    granted = rbac.grants(controllers, webhooks=webhooks, home=home)
    for namespace in granted.places:
        if namespace:
            with suppress(AlreadyExists):
                await admin.create(builtin.Namespace, {"metadata": {"name": namespace}})
    await admin.apply(builtin.ServiceAccount, _account(home), field_manager="tests", force=True)
    objects = rbac.manifests(granted, f"{NAME}-{home}", NAME, home)
    for obj in objects:
        await admin.apply(_KINDS[obj["kind"]], obj, field_manager="tests", force=True)
    client = login(await token_of(admin, home, NAME))
    await _in_force(client, granted)
    forbidden: list[str] = []
    return Account(noting(client, forbidden), admin, objects, forbidden)


async def token_of(admin: Client, namespace: str, account: str) -> str:
    """A token of a service account."""
    made = await admin.object("POST", builtin.ServiceAccount.path(namespace, account, "token"), body={"spec": {}})
    return str(made["status"]["token"])


def noting(client: Client, forbidden: list[str]) -> Client:
    """The same client; requests that are forbidden go onto the list."""
    return client.through(lambda transport: _Noted(transport, forbidden))


def _account(home: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": home}}


async def _in_force(client: Client, granted: rbac.Grants) -> None:
    """A real server learns of new roles a moment after they were written; one right of each role stands for it."""
    by_place = {
        place: (group, resource, names, verbs) for (place, group, resource, names), verbs in granted.verbs.items()
    }
    for place, (group, resource, names, verbs) in by_place.items():
        plural, _, subresource = resource.partition("/")
        asked: Object = {"namespace": place, "group": group, "resource": plural, "verb": min(verbs)}
        asked |= {"subresource": subresource, "name": names[0] if names else ""}
        async with asyncio.timeout(30.0):
            while not await _allowed(client, asked):
                await asyncio.sleep(0.02)


async def _allowed(client: Client, asked: Object) -> bool:
    review = await client.create(builtin.SelfSubjectAccessReview, {"spec": {"resourceAttributes": asked}})
    return bool(review["status"]["allowed"])
