"""One story, three grounds: a test written against a `Ground` runs in memory, on the embedded API server and on a real one.

In memory the engine's own passes run over `MemoryCluster`; on a server the controllers run in a `Manager`.
"""

from __future__ import annotations

import asyncio
import copy
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.conditions import find_condition
from modelyard.kube.crd import Definition, definition_of
from modelyard.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, ServerError
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import conditions_of, key_of, metadata_of, owners_of
from modelyard.kube.selectors import parse_labels
from modelyard.kube.times import utc_now
from modelyard.kube.workload_status import job_failed, job_succeeded, replicas_status
from modelyard.runtime.acting.memory import Memory, merged
from modelyard.runtime.acting.passes import Pass
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns, Watch
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.testing.inmemory import MemoryCluster
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import load
from modelyard.runtime.webhooks import (
    ServiceAddress,
    Webhook,
    Webhooks,
    WebhookServer,
    conversion_stanza,
    webhook_configurations,
)
from modelyard.runtime.webhooks.access_review import ApiAccessReviews
from tests.accounts import NAME as ACCOUNT
from tests.accounts import Account, service_account, token_of

_CONFIGURATIONS = {
    kind.kind: kind for kind in (builtin.MutatingWebhookConfiguration, builtin.ValidatingWebhookConfiguration)
}
Check = Callable[[Object], Any]
LONG_AGO = "2026-01-01T11:00:00Z"
PATIENCE = 60.0
"""How long a server may take until something is true, in seconds."""


class Ground(ABC):
    """Objects, controllers that react to them, and questions that wait for an answer."""

    namespace: str
    fills_in: bool
    """Does the API fill in what a spec leaves open?"""

    @abstractmethod
    async def start(self, controllers: Sequence[Controller]) -> None:
        """Sets the controllers to work."""

    @abstractmethod
    async def halt(self) -> None:
        """Ends the controllers; others may be started then."""

    @abstractmethod
    async def serve(self, kind: Kind) -> None:
        """Makes the API serve a kind that plain Kubernetes does not have."""

    @abstractmethod
    async def create(self, kind: Kind, name: str, *, namespace: str | None = None, **body: Any) -> Object: ...

    @abstractmethod
    async def edit(
        self, kind: Kind, name: str, change: Callable[[Object], Any], *, namespace: str | None = None
    ) -> Object:
        """Changes an object the way a user would."""

    @abstractmethod
    async def set_status(self, kind: Kind, name: str, status: Object, *, namespace: str | None = None) -> None:
        """Writes a whole status, as the controller of that kind would."""

    @abstractmethod
    async def delete(self, kind: Kind, name: str, *, namespace: str | None = None) -> None: ...

    @abstractmethod
    async def find(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object | None: ...

    @abstractmethod
    async def names(self, kind: Kind) -> list[str]:
        """The names of all objects of a kind in the ground's namespace (or cluster-wide)."""

    @abstractmethod
    async def pass_time(self, seconds: float) -> None:
        """Lets time go by, where it does not by itself."""

    @abstractmethod
    async def quiet(self) -> None:
        """Until the controllers have nothing more to do."""

    @abstractmethod
    async def until(
        self, kind: Kind, name: str, check: Check = lambda obj: True, *, namespace: str | None = None
    ) -> Object:
        """The object, once it is there and the check holds."""

    @abstractmethod
    async def gone(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        """Until there is no such object."""

    @abstractmethod
    async def told(self, kind: Kind, name: str, said: str) -> None:
        """Until an Event about the object holds this; its text is `reason: message`."""

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object:
        """The object after all is quiet."""
        await self.quiet()
        found = await self.find(kind, name, namespace=namespace)
        assert found is not None, f"there is no {kind.kind} {name}"
        return found

    async def absent(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        """Asserts, after all is quiet, that there is no such object."""
        await self.quiet()
        found = await self.find(kind, name, namespace=namespace)
        assert found is None, f"there is a {kind.kind} {name}"

    async def condition(self, kind: Kind, name: str, type: str, **expected: Any) -> Object:
        """The condition of an object, once its fields are as expected."""

        def holds(obj: Object) -> bool:
            found = find_condition(conditions_of(obj), type)
            return found is not None and all(found.get(field) == value for field, value in expected.items())

        found = find_condition(conditions_of(await self.until(kind, name, holds)), type)
        assert found is not None
        return found

    async def deployment_ready(self, name: str, *, since: str = LONG_AGO) -> None:
        """All pods of a Deployment are up and up to date."""
        await self.deployment_has(name, since=since)

    async def deployment_has(
        self, name: str, pods: int | None = None, *, ready: int | None = None, since: str = LONG_AGO
    ) -> None:
        """A Deployment's controller reports that many pods; all that are asked for, where no number is given."""
        deployment = await self.find(builtin.Deployment, name)
        assert deployment is not None
        await self.set_status(builtin.Deployment, name, replicas_status(deployment, pods, ready, since=since))

    async def job_succeeds(self, name: str) -> None:
        await self.set_status(builtin.Job, name, job_succeeded("2026-01-01T11:50:00Z"))

    async def job_fails(
        self, name: str, *, message: str = "Job has reached the specified backoff limit", at: str
    ) -> None:
        await self.set_status(builtin.Job, name, job_failed(at, failures=4, message=message))

    async def job_pod(
        self, job: str, container: str, *, exit_code: int | None = None, waiting: Object | None = None, orphan: str = ""
    ) -> str:
        """A pod of a Job, with its one container ended or waiting; gives its name. `orphan`: it was left behind by a Job
        with this uid that had the name before."""
        owner = await self.find(builtin.Job, job)
        assert owner is not None
        uid = orphan or metadata_of(owner)["uid"]
        labels = {f"{prefix}job-name": job for prefix in ("", "batch.kubernetes.io/")}
        labels |= {f"{prefix}controller-uid": uid for prefix in ("", "batch.kubernetes.io/")}
        name = f"{job}-{'x' if exit_code is None else exit_code}"
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
        template = owner["spec"]["template"]
        pod = {"containers": [{"name": container, "image": "x"}], "restartPolicy": "Never"}
        await self.create(
            builtin.Pod,
            name,
            labels={**template["metadata"]["labels"], **labels},
            ownerReferences=[] if orphan else [reference],
            spec=pod,
        )
        state: Object = {"waiting": waiting} if waiting else {"terminated": {"exitCode": exit_code, "reason": "Error"}}
        statuses = [{"name": container, "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}]
        phase = "Pending" if waiting else "Failed"
        await self.set_status(builtin.Pod, name, {"phase": phase, "containerStatuses": statuses})
        return name

    def _object(self, kind: Kind, name: str, namespace: str | None, body: dict[str, Any]) -> Object:
        place: Object = {"name": name}
        if kind.namespaced:
            place["namespace"] = namespace or self.namespace
        for field in ("labels", "annotations", "ownerReferences", "finalizers"):
            if field in body:
                place[field] = body.pop(field)
        return copy.deepcopy({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": place, **body})

    def _key(self, kind: Kind, name: str, namespace: str | None) -> Key:
        return Key((namespace or self.namespace) if kind.namespaced else "", name)


class MemoryGround(Ground):
    """Passes of the engine over a cluster in memory. Nothing is validated."""

    fills_in = False

    def __init__(
        self, definitions: Sequence[Definition], namespace: str = "opendatahub", *, collects: bool = False
    ) -> None:
        """`collects`: a garbage collector runs, also where it is not the test that deletes."""
        self.namespace = namespace
        self._collects = collects
        self._definitions = {definition.kind: definition for definition in definitions}
        self._served: set[Kind] = set()
        self._controllers: list[tuple[Controller, Memory]] = []
        self.cluster = MemoryCluster(kinds=self._definitions)

    async def start(self, controllers: Sequence[Controller]) -> None:
        for controller in controllers:
            rows: tuple[Owns | Watch, ...] = (*controller.owns, *controller.watches)
            for row in rows:
                if row.optional and row.kind not in self._served | self._definitions.keys():
                    self.cluster.serve(row.kind, False)
            self._controllers.append((controller, Memory()))

    async def halt(self) -> None:
        self._controllers.clear()

    async def serve(self, kind: Kind) -> None:
        self._served.add(kind)
        self.cluster.serve(kind)

    async def create(self, kind: Kind, name: str, *, namespace: str | None = None, **body: Any) -> Object:
        obj = self._object(kind, name, namespace, body)
        if kind in self._definitions:
            defaults = self._definitions[kind].type.parse(obj).to_dict()
            obj["spec"] = merged(defaults.get("spec") or {}, obj.get("spec") or {})
        return self.cluster.put(obj)

    async def edit(
        self, kind: Kind, name: str, change: Callable[[Object], Any], *, namespace: str | None = None
    ) -> Object:
        obj = self.cluster.get(kind, self._key(kind, name, namespace))
        assert obj is not None, f"there is no {kind.kind} {name}"
        change(obj)
        return self.cluster.put(obj)

    async def set_status(self, kind: Kind, name: str, status: Object, *, namespace: str | None = None) -> None:
        await self.edit(kind, name, lambda obj: obj.update(status=status), namespace=namespace)

    async def delete(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        await self.cluster.delete(kind, self._key(kind, name, namespace), uid="")
        self._collect()

    def _collect(self) -> None:
        """What the garbage collector does: what had owners and has none left goes too."""
        uids = {metadata_of(obj)["uid"] for obj in self.cluster.objects.values()}
        for (kind, key), obj in list(self.cluster.objects.items()):
            owners = owners_of(obj)
            if owners and not any(owner["uid"] in uids for owner in owners):
                self.cluster.remove(kind, *key)
                self._collect()

    async def find(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object | None:
        return self.cluster.get(kind, self._key(kind, name, namespace))

    async def names(self, kind: Kind) -> list[str]:
        namespace = self.namespace if kind.namespaced else None
        return sorted(key_of(obj).name for obj in self.cluster.list(kind, namespace, None))

    async def quiet(self) -> None:
        for _ in range(50):
            before = len(self.cluster.writes)
            for controller, memory in self._controllers:
                for key in self._keys(controller):
                    await self._pass(controller, memory, key)
            if self._collects:
                self._collect()
            if len(self.cluster.writes) == before:
                return
        raise AssertionError(f"the controllers do not settle: {self.cluster.writes[-20:]}")

    async def pass_time(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    async def told(self, kind: Kind, name: str, said: str) -> None:
        await self.quiet()
        notes = [f"{note.reason}: {note.message}" for note in self.cluster.events]
        assert any(said in note for note in notes), notes

    def _keys(self, controller: Controller) -> list[Key]:
        if isinstance(controller.for_, Fixed):
            return list(controller.for_.keys)
        assert controller.kind is not None
        return [key_of(obj) for obj in self.cluster.list(controller.kind, None, None)]

    async def _pass(self, controller: Controller, memory: Memory, key: Key) -> None:
        one = Pass(controller, self.cluster, memory.of(key), key)
        try:
            await one.run()
        except Exception as error:
            await one.fail("ReconcileFailed", str(error))

    async def until(
        self, kind: Kind, name: str, check: Check = lambda obj: True, *, namespace: str | None = None
    ) -> Object:
        obj = await self.get(kind, name, namespace=namespace)
        assert check(obj), f"{kind.kind} {name} is not as awaited: {obj}"
        return obj

    async def gone(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        await self.absent(kind, name, namespace=namespace)


class ApiGround(Ground):
    """Controllers in a manager, on an API server.

    With a `login` for tokens they act as a service account that has the generated role, and no request may be forbidden."""

    fills_in = True

    def __init__(self, client: Client, namespace: str, login: Callable[[str], Client] | None = None) -> None:
        self.client = client
        self.namespace = namespace
        self._login = login
        self.webhooks: Sequence[Webhook] = ()
        """What will be served: set before the start, so that the role allows what they need."""
        self._account: Account | None = None
        self.manager: Manager | None = None
        self._made: list[tuple[Kind, Key]] = []
        self._webhooks: WebhookServer | None = None

    async def install(self, definitions: Sequence[Definition]) -> None:
        """The definitions are served when this returns."""
        for definition in definitions:
            await self._install(definition_of(definition), definition.kind)

    async def serve(self, kind: Kind) -> None:
        await self._install(_loose_definition(kind), kind)
        self._made.append((builtin.CustomResourceDefinition, Key("", f"{kind.plural}.{kind.group}")))
        if self.manager is not None:
            await self._wait(lambda: self._is_followed(kind), f"{kind.resource} is followed")

    async def _is_followed(self, kind: Kind) -> bool:
        return self.manager is not None and self.manager.served.serves(kind)

    async def _install(self, crd: Object, kind: Kind) -> None:
        with suppress(AlreadyExists):
            await self.client.create(builtin.CustomResourceDefinition, crd)

        async def served() -> bool:
            try:
                await self.client.list(kind)
            except NotFound:
                return False
            return True

        await self._wait(served, f"{kind.resource} is served")

    async def start(self, controllers: Sequence[Controller]) -> None:
        assert self.manager is None, "the controllers run already"
        if self._login is not None:
            self._account = await service_account(self.client, self._login, self.namespace, controllers, self.webhooks)
        self.manager = Manager(self._account.client if self._account else self.client, controllers)
        self.manager.start()
        await self.manager.idle(quiet=0.02)

    async def serve_webhooks(self, operator: Operator) -> None:
        """Answers the API's questions to the operator's webhooks, on a socket of this process. The controllers must run."""
        assert self.manager is not None, "webhooks read the caches of a running manager"
        ca = make_ca(utc_now())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load(context, issue(ca, ["127.0.0.1"], utc_now()))
        hooks = Webhooks(
            operator.webhooks,
            operator.conversions,
            reader=self.manager.reader,
            access=ApiAccessReviews(self.manager.client),
        )
        self._webhooks = WebhookServer(hooks, context, host="127.0.0.1", port=0)
        address = ServiceAddress(url=f"https://127.0.0.1:{await self._webhooks.start()}")
        for config in webhook_configurations(operator.webhooks, address, ca_bundle=ca.certificate):
            kind = _CONFIGURATIONS[config["kind"]]
            self._made.append((kind, Key("", config["metadata"]["name"])))
            await self.client.apply(kind, config, field_manager="tests", force=True)
        for conversion in operator.conversions:
            definition = conversion.definition
            name = f"{definition.plural}.{definition.group}"
            stanza = conversion_stanza(conversion, address, ca_bundle=ca.certificate)
            stanza["webhook"]["clientConfig"]["service"] = None
            await self.client.patch(builtin.CustomResourceDefinition, "", name, {"spec": {"conversion": stanza}})

    async def user(self, name: str, *rules: Object) -> Client:
        """Someone with these rights in the ground's namespace, and no others."""
        assert self._login is not None, "this ground knows no tokens"
        await self.create(builtin.ServiceAccount, name)
        await self.create(builtin.Role, name, rules=list(rules))
        role = {"apiGroup": builtin.Role.group, "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        await self.create(builtin.RoleBinding, name, roleRef=role, subjects=[subject])
        return self._login(await token_of(self.client, self.namespace, name))

    async def halt(self) -> None:
        if self.manager is not None:
            await self.manager.stop(grace=0.0)
            self.manager = None
        if self._account is not None:
            account, self._account = self._account, None
            await account.remove()
            assert not account.forbidden, f"the generated role lacks something: {sorted(set(account.forbidden))}"

    async def stop(self) -> None:
        """Removes what the test made, in the reverse order, while the controllers can still take off their finalizers."""
        for kind, key in reversed(self._made):
            with suppress(ApiError):
                await self.client.delete(kind, key.namespace, key.name, propagation="Background", grace=0)
        for kind, key in self._made:
            if not kind.namespaced:
                await self.gone(kind, key.name)
        await self.halt()
        if self._webhooks is not None:
            await self._webhooks.stop()
        # The next test on this server uses the same names, and the garbage collector takes its time.
        for kind in (builtin.ClusterRole, builtin.ClusterRoleBinding):
            for obj in (await self.client.list(kind)).items:
                if owners_of(obj):
                    with suppress(NotFound):
                        await self.client.delete(kind, "", key_of(obj).name)

    async def create(self, kind: Kind, name: str, *, namespace: str | None = None, **body: Any) -> Object:
        self._made.append((kind, self._key(kind, name, namespace)))
        obj = self._object(kind, name, namespace, body)
        status = obj.pop("status", None)
        made = await self._created(kind, obj)
        await self._noticed(kind, made)
        if status is not None:
            await self.set_status(kind, name, status, namespace=namespace)
        return made

    async def _created(self, kind: Kind, obj: Object) -> Object:
        """A definition's new conversion webhook is in force a moment after it was written; until then the old one is asked."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                return await self.client.create(kind, obj)
            except ServerError as error:
                if "conversion webhook" not in str(error) or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)

    async def _noticed(self, kind: Kind, obj: Object, *, gone: bool = False) -> None:
        """Until the controllers know what was written: only then does their rest mean anything."""
        metadata, key = metadata_of(obj), key_of(obj)
        for cache in self.manager.caches if self.manager else ():
            chosen = cache.selection
            if chosen.kind != kind or not cache.started or chosen.fields not in ("", f"metadata.name={key.name}"):
                continue
            if chosen.namespace in ("", key.namespace) and parse_labels(chosen.labels).matches(metadata.get("labels")):
                if gone:
                    await cache.wait_lost(key, metadata["uid"], PATIENCE)
                else:
                    await cache.wait_seen(key, metadata["resourceVersion"], PATIENCE)

    async def edit(
        self, kind: Kind, name: str, change: Callable[[Object], Any], *, namespace: str | None = None
    ) -> Object:
        while True:
            obj = await self.client.get(kind, *self._key(kind, name, namespace))
            change(obj)
            try:
                made = await self.client.update(kind, obj)
            except Conflict:
                continue
            await self._noticed(kind, made)
            return made

    async def set_status(self, kind: Kind, name: str, status: Object, *, namespace: str | None = None) -> None:
        while True:
            obj = await self.client.get(kind, *self._key(kind, name, namespace))
            try:
                made = await self.client.update(kind, obj | {"status": status}, subresource="status")
            except Conflict:
                continue
            await self._noticed(kind, made)
            return

    async def delete(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        key = self._key(kind, name, namespace)
        there = await self.client.get(kind, *key)
        await self.client.delete(kind, *key, propagation="Background", grace=0)
        held = await self.client.find(kind, *key)
        if held is not None and metadata_of(held)["uid"] == metadata_of(there)["uid"]:
            await self._noticed(kind, held)
        else:
            await self._noticed(kind, there, gone=True)

    async def find(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object | None:
        return await self.client.find(kind, *self._key(kind, name, namespace))

    async def names(self, kind: Kind) -> list[str]:
        found = await self.client.list(kind, self.namespace if kind.namespaced else "")
        return sorted(name for obj in found.items if not (name := key_of(obj).name).startswith(ACCOUNT))

    async def pass_time(self, seconds: float) -> None:
        """A server's clock goes by itself: whoever waits for something sees it."""

    async def told(self, kind: Kind, name: str, said: str) -> None:
        uid = metadata_of(await self.client.get(kind, *self._key(kind, name, None)))["uid"]
        notes: list[str] = []

        async def is_said() -> bool:
            events = (await self.client.list(builtin.Event, self.namespace if kind.namespaced else "default")).items
            notes[:] = [f"{e['reason']}: {e['message']}" for e in events if e["involvedObject"].get("uid") == uid]
            return any(said in note for note in notes)

        await self._wait(is_said, lambda: f"an Event says {said!r}; there are {notes}")

    async def quiet(self) -> None:
        if self.manager is not None:
            await self.manager.idle(quiet=0.05, timeout=PATIENCE)

    async def until(
        self, kind: Kind, name: str, check: Check = lambda obj: True, *, namespace: str | None = None
    ) -> Object:
        last: list[Object | None] = [None]

        async def holds() -> bool:
            last[0] = await self.find(kind, name, namespace=namespace)
            return last[0] is not None and bool(check(last[0]))

        await self._wait(holds, lambda: f"{kind.kind} {name} is as awaited; it is {last[0]}")
        assert last[0] is not None
        return last[0]

    async def gone(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        async def absent() -> bool:
            return await self.find(kind, name, namespace=namespace) is None

        await self._wait(absent, f"{kind.kind} {name} is gone")

    async def _wait(self, holds: Callable[[], Awaitable[bool]], what: str | Callable[[], str]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    if await holds():
                        return
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"waited {PATIENCE:g} s until {what if isinstance(what, str) else what()}") from None


def _loose_definition(kind: Kind) -> Object:
    """A definition that takes any fields, for kinds that others define."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    metadata: Object = {"name": f"{kind.plural}.{kind.group}"}
    if kind.group.endswith(".k8s.io"):
        # The API guards its own group names: a definition in them must say who approved it.
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, for tests"}
    spec = {
        "group": kind.group,
        "names": names,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "versions": [version],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }
