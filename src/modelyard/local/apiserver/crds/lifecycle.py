"""From a definition to a served resource and back: names, conditions, registration, and the end with all its objects."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.schema import crd_schema
from modelyard.kube.times import format_time
from modelyard.local.apiserver.controllers.background import Worker
from modelyard.local.apiserver.crds.conversion import CallWebhook, WebhookConverter, rename
from modelyard.local.apiserver.crds.definitions import CLEANUP
from modelyard.local.apiserver.crds.strategy import CustomStrategy
from modelyard.local.apiserver.requests.problems import go_quote
from modelyard.local.apiserver.served.resources import Convert, Registry, ServedResource, Subresource
from modelyard.local.apiserver.storage.store import Change, Stale, Store, Stored
from modelyard.local.apiserver.verbs.metadata import ordered
from modelyard.local.apiserver.verbs.ownership import Ownership

_STORAGE = CustomResourceDefinition.resource
_STATUS_VERBS = ("get", "patch", "update")

DeleteAll = Callable[[Kind], Awaitable[None]]
"""Deletes all objects of a kind through the API, so that admission and finalizers have their say."""


class CustomResources:
    """Serves what the stored definitions define. One task does the writes; `busy` while it has any to do."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        ownership: Ownership,
        clock: Callable[[], datetime],
        call_webhook: CallWebhook,
        delete_all: DeleteAll,
    ) -> None:
        self._store = store
        self._registry = registry
        self._ownership = ownership
        self._clock = clock
        self._call_webhook = call_webhook
        self._delete_all = delete_all
        self._served: dict[str, tuple[object, ...]] = {}
        """What each definition is served from, so that only real changes are registered again."""
        self._worker = Worker("custom resources", self._sync)
        self._stop_listening: list[Callable[[], None]] = []

    @property
    def busy(self) -> bool:
        return self._worker.busy

    def start(self) -> None:
        """Serves the definitions that the store holds, then follows their changes."""
        for stored in self._store.items(_STORAGE):
            self._serve(stored.decode())
            self._worker.add(stored.name)
        self._stop_listening = [
            self._store.listen(self._on_definition, _STORAGE),
            self._store.listen(self._on_anything),
        ]
        self._worker.start()

    async def stop(self) -> None:
        for stop in self._stop_listening:
            stop()
        await self._worker.stop()

    def _on_definition(self, change: Change) -> None:
        if change.new is None:
            if change.old is not None:
                self._withdraw(change.old.decode())
                for stored in self._store.items(_STORAGE):
                    self._worker.add(stored.name)
            return
        obj = change.new.decode()
        self._serve(obj)
        self._worker.add(change.new.name)

    def _on_anything(self, change: Change) -> None:
        """The last object of a resource that is going away lets its definition go."""
        if change.new is None and change.subject.storage in self._served:
            self._worker.add(change.subject.storage)

    async def _sync(self, name: str) -> None:
        stored = self._store.get(_STORAGE, "", name)
        if stored is None:
            return
        obj = stored.decode()
        try:
            if "deletionTimestamp" in obj["metadata"]:
                await self._finish(stored, obj)
            elif self._settle_names(obj):
                await self._write(stored, obj)
        except Stale:
            self._worker.add(name)

    async def _write(self, stored: Stored, obj: Object) -> Stored:
        resource = self._registry.lookup("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        if resource is None:
            return stored
        obj = self._ownership.update(resource, stored.decode(), obj, "kube-apiserver", "status", self._clock())
        return await self._store.put(_STORAGE, ordered(obj, resource), stored, resource.strategy)

    # Names.

    def _settle_names(self, obj: Object) -> bool:
        """Accepts the names that are free and sets the conditions; false when nothing changed."""
        status = obj.setdefault("status", {})
        before = (status.get("acceptedNames"), [dict(c) for c in status.get("conditions") or ()])
        wanted = (obj.get("spec") or {}).get("names") or {}
        accepted, problem = accept_names(wanted, status.get("acceptedNames") or {}, self._claimed(obj))
        status["acceptedNames"] = accepted
        if problem is None:
            self._set(obj, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
            self._set(obj, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
        else:
            self._set(obj, "NamesAccepted", "False", *problem)
            if not is_established(obj):
                self._set(obj, "Established", "False", "NotAccepted", "not all names are accepted")
        return before != (status["acceptedNames"], status["conditions"])

    def _claimed(self, obj: Object) -> tuple[set[str], set[str]]:
        """The resource names and kinds that other definitions of the group hold."""
        group, name = obj["spec"].get("group"), obj["metadata"]["name"]
        resources, kinds = set[str](), set[str]()
        for stored in self._store.items(_STORAGE):
            if stored.name == name:
                continue
            other = stored.decode()
            if other["spec"].get("group") == group:
                names = (other.get("status") or {}).get("acceptedNames") or {}
                resources |= {names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ())}
                kinds |= {names.get("kind") or "", names.get("listKind") or ""}
        return resources - {""}, kinds - {""}

    def _set(self, obj: Object, kind: str, status: str, reason: str, message: str) -> None:
        conditions = obj["status"]["conditions"] = list(obj["status"].get("conditions") or ())
        now = format_time(self._clock())
        new = {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
        for index, condition in enumerate(conditions):
            if condition.get("type") == kind:
                if condition.get("status") == status:
                    new["lastTransitionTime"] = condition.get("lastTransitionTime", now)
                    if condition.get("reason") == reason and condition.get("message") == message:
                        return
                conditions[index] = new
                return
        conditions.append(new)

    # Serving.

    def _serve(self, obj: Object) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        if name not in self._served and not is_established(obj) and not self._free(obj):
            return
        accepted = (obj.get("status") or {}).get("acceptedNames") or {}
        names = accepted if accepted.get("plural") else spec["names"]
        basis = (spec, names, "deletionTimestamp" in obj["metadata"])
        if self._served.get(name) == basis:
            return
        resources = self._resources(obj, names)
        plural, group = spec["names"]["plural"], spec["group"]
        self._served[name] = basis
        self._registry.remove(group, plural, keep_versions=[resource.kind.version for resource in resources])
        if resources:
            self._registry.add(*resources)

    def _free(self, obj: Object) -> bool:
        return accept_names(obj["spec"].get("names") or {}, {}, self._claimed(obj))[1] is None

    def _withdraw(self, obj: Object) -> None:
        if self._served.pop(obj["metadata"]["name"], None) is not None:
            self._registry.remove(obj["spec"]["group"], obj["spec"]["names"]["plural"])

    def _resources(self, obj: Object, names: Object) -> list[ServedResource]:
        spec = obj["spec"]
        group, namespaced = spec["group"], spec["scope"] == "Namespaced"
        strategies = {}
        for version in spec["versions"]:
            kind = Kind(group, version["name"], names["kind"], names["plural"], namespaced)
            strategies[kind.api_version] = _strategy(kind, version, bool(spec.get("preserveUnknownFields")))
        stored_as = next(f"{group}/{version['name']}" for version in spec["versions"] if version.get("storage"))
        convert = self._conversion(spec, strategies, stored_as)
        terminating = "deletionTimestamp" in obj["metadata"]
        return [
            _resource(spec, names, version, strategies[f"{group}/{version['name']}"], stored_as, convert, terminating)
            for version in spec["versions"]
            if version.get("served")
        ]

    def _conversion(self, spec: Object, strategies: Mapping[str, CustomStrategy], stored_as: str) -> Convert:
        """Converts as the definition says; the stored version's defaults come before, pruning after."""
        conversion = spec.get("conversion") or {}
        webhook = conversion.get("webhook")
        plain: Convert = rename
        if conversion.get("strategy") == "Webhook" and webhook:
            plain = WebhookConverter(strategies[stored_as].kind, webhook, self._call_webhook)

        async def convert(objects: Sequence[Object], api_version: str) -> list[Object]:
            if api_version != stored_as:
                for obj in objects:
                    strategies[stored_as].default(obj)
            converted = await plain(objects, api_version)
            for obj in converted:
                strategies[api_version].prune(obj)
            return converted

        return convert

    # The end.

    async def _finish(self, stored: Stored, obj: Object) -> None:
        """Deletes the objects of a definition that is being deleted; when none is left, lets the definition go."""
        if CLEANUP not in (obj["metadata"].get("finalizers") or ()):
            return
        spec = obj["spec"]
        if is_established(obj):
            storage = f"{spec['names']['plural']}.{spec['group']}"
            if self._store.count(storage):
                self._set(
                    obj, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
                )
                if obj["status"] != stored.decode()["status"]:
                    await self._write(stored, obj)
                    await self._delete_all(self._kind(spec))
                    self._worker.add(stored.name)
                return
            self._set(obj, "Terminating", "False", "InstanceDeletionCompleted", "removed all instances")
        else:
            self._set(obj, "Terminating", "False", "NeverEstablished", "resource was never established")
        obj["metadata"]["finalizers"] = [f for f in obj["metadata"]["finalizers"] if f != CLEANUP]
        if obj["metadata"]["finalizers"]:
            await self._write(stored, obj)
        else:
            await self._store.remove(stored)

    @staticmethod
    def _kind(spec: Object) -> Kind:
        version = next((v["name"] for v in spec["versions"] if v.get("served")), spec["versions"][0]["name"])
        names = spec["names"]
        return Kind(spec["group"], version, names["kind"], names["plural"], spec["scope"] == "Namespaced")


def is_established(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def accept_names(
    wanted: Object, accepted: Object, claimed: tuple[set[str], set[str]]
) -> tuple[Object, tuple[str, str] | None]:
    """The names to accept, and reason and message of the last conflict, if there is any."""
    result = {name: value for name, value in accepted.items() if value}
    problem: tuple[str, str] | None = None
    for name, used in (("plural", claimed[0]), ("singular", claimed[0])):
        problem = _accept(name, wanted, accepted, used, result) or problem
    short = list(wanted.get("shortNames") or ())
    taken = [s for s in short if s in claimed[0] and s not in (accepted.get("shortNames") or ())]
    if taken:
        texts = [f"{go_quote(s)} is already in use" for s in taken]
        problem = ("ShortNamesConflict", texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]")
    elif short:
        result["shortNames"] = short
    else:
        result.pop("shortNames", None)
    for name in ("kind", "listKind"):
        problem = _accept(name, wanted, accepted, claimed[1], result) or problem
    if wanted.get("categories"):
        result["categories"] = list(wanted["categories"])
    else:
        result.pop("categories", None)
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {"plural": "", "kind": ""} | {name: result[name] for name in order if name in result}, problem


def _accept(name: str, wanted: Object, accepted: Object, used: set[str], result: Object) -> tuple[str, str] | None:
    value = wanted.get(name) or ""
    if value != (accepted.get(name) or "") and value in used:
        return f"{name[0].upper()}{name[1:]}Conflict", f"{go_quote(value)} is already in use"
    if value:
        result[name] = value
    return None


def _strategy(kind: Kind, version: Object, preserve_unknown: bool) -> CustomStrategy:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    subresources = version.get("subresources") or {}
    return CustomStrategy(
        kind, schema, has_status=subresources.get("status") is not None, scale=subresources.get("scale"),
        preserve_unknown=preserve_unknown,
    )  # fmt: skip


def _resource(
    spec: Object,
    names: Object,
    version: Object,
    strategy: CustomStrategy,
    stored_as: str,
    convert: Convert,
    terminating: bool,
) -> ServedResource:
    verbs = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
    return ServedResource(
        strategy.kind,
        strategy,
        storage=f"{names['plural']}.{spec['group']}",
        storage_version=stored_as,
        singular=names.get("singular") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=tuple(verb for verb in verbs if verb != "create") if terminating else verbs,
        subresources=_subresources(strategy.kind, version.get("subresources") or {}),
        schema=crd_schema(strategy.schema),
        custom=True,
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        convert=convert,
        unconditional_update=False,
        deprecation=deprecation_warning(version, spec) if version.get("deprecated") else "",
        list_kind=names.get("listKind") or "",
    )


def _subresources(kind: Kind, declared: Object) -> dict[str, Subresource]:
    found = {}
    if declared.get("status") is not None:
        found["status"] = Subresource("status", kind.kind, _STATUS_VERBS)
    scale = declared.get("scale")
    if scale is not None:
        paths = tuple(
            (scale.get(f"{n}Path") or "").removeprefix(".") for n in ("specReplicas", "statusReplicas", "labelSelector")
        )
        found["scale"] = Subresource(
            "scale",
            "Scale",
            _STATUS_VERBS,
            group="autoscaling",
            version="v1",
            scale_paths=(paths[0], paths[1], paths[2]),
        )
    return found


def deprecation_warning(version: Object, spec: Object) -> str:
    """The warning for every request to a deprecated version."""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    kind, group = spec["names"]["kind"], spec["group"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    newer = [
        v["name"]
        for v in spec["versions"]
        if v.get("served") and not v.get("deprecated") and version_rank(v["name"]) > version_rank(version["name"])
    ]
    return f"{text}; use {group}/{max(newer, key=version_rank)} {kind}" if newer else text


def version_rank(name: str) -> tuple[int, int, int, Sequence[int]]:
    """Orders versions as Kubernetes does: v2 > v1 > v1beta1 > v1alpha1 > anything else, by name backwards."""
    match = re.fullmatch(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?", name)
    if match is None:
        return 0, 0, 0, [*(-ord(char) for char in name), 1]
    stage = {"alpha": 1, "beta": 2, None: 3}[match[2]]
    return stage, int(match[1]), int(match[3] or 0), ()
