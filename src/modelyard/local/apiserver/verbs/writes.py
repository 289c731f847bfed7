"""Create, update, patch and apply: from a decoded body to a stored object, in the order in which Kubernetes does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests import problems, rendering
from modelyard.local.apiserver.requests.hooks import Admission, Attributes, Hooks, Operation
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.options import WriteOptions, version_problem
from modelyard.local.apiserver.requests.problems import Cause, Problem
from modelyard.local.apiserver.requests.turns import LongWork
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.storage.store import Stale, Store, Stored, TooLarge, WriteFailed, decode, encode
from modelyard.local.apiserver.verbs import metadata as meta
from modelyard.local.apiserver.verbs.ownership import Ownership

_NAME_ATTEMPTS = 8
_CONFLICT_ATTEMPTS = 5


@dataclass(slots=True)
class Write:
    """One write request, as far as it is not the object itself."""

    resource: ServedResource
    namespace: str
    name: str
    user: UserInfo
    options: WriteOptions = field(default_factory=WriteOptions)
    subresource: str = ""
    manager: str = "unknown"
    warnings: list[str] = field(default_factory=list)
    large: bool = False
    """Its body is large: what takes long is done beside the event loop."""

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run

    def admission(self, operation: Operation, options_kind: str) -> Admission:
        return Admission(
            operation, self.resource, self.user, self.namespace, self.name, self.subresource, self.dry_run,
            self.options.to_object(options_kind), warnings=self.warnings,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome: the object's bytes in the served version."""

    raw: bytes
    created: bool = False
    stored: Stored | None = None

    @property
    def status(self) -> int:
        return 201 if self.created else 200


_Answer = TypeVar("_Answer")
Transform = Callable[[bytes | None], Awaitable[Object]]
"""Makes the new object, its own, from the live one's bytes (None: there is none)."""


class Writes:
    def __init__(
        self,
        store: Store,
        hooks: Hooks,
        ownership: Ownership,
        clock: Callable[[], datetime],
        long_work: LongWork,
    ) -> None:
        self._long_work = long_work
        self._store = store
        self._hooks = hooks
        self._ownership = ownership
        self._clock = clock

    async def aside(self, write: Write, work: Callable[[], _Answer]) -> _Answer:
        """What takes long for a large body, so that others get their answers meanwhile. It may not change the server's state."""
        return await self._long_work.do(write.user.name, work) if write.large else work()

    # Reading what a client sent.

    def accept(self, write: Write, obj: Object, duplicates: list[str], *, applied: bool = False) -> Object:
        """A body as an object of the resource: fields checked, defaults filled in, in the right namespace.
        `applied`: the object came of a server-side apply; a custom resource was read from no body then."""
        resource = write.resource
        check_type(resource, obj)
        if not isinstance(obj.get("metadata"), dict):
            if obj.get("metadata") is not None:
                raise problems.bad_request(
                    f'{resource.kind.kind} in version "{resource.kind.version}" cannot be handled as a {resource.kind.kind}: '
                    f"json: cannot unmarshal {_json_type(obj['metadata'])} into Go struct field "
                    f"{resource.kind.kind}.metadata of type v1.ObjectMeta"
                )
            obj["metadata"] = {}
        # An empty list takes every field from everyone, unlike none.
        unmanaged = obj["metadata"].get("managedFields") == [] and not resource.custom
        try:
            mode, as_applied = write.options.field_validation, applied and resource.custom and resource.stored_as_served
            texts = self._hooks.fields.check(resource, obj, duplicates, mode, applied=as_applied)
        except Problem:
            # What cannot be read at all is refused for that.
            resource.strategy.default(obj)
            raise
        if not as_applied:
            resource.strategy.default(obj)
        if unmanaged:
            obj["metadata"]["managedFields"] = []
        write.warnings += texts
        self._check_namespace(write, obj)
        return obj

    @staticmethod
    def _check_namespace(write: Write, obj: Object) -> None:
        metadata = obj.setdefault("metadata", {})
        given = metadata.get("namespace") or ""
        if given == write.namespace:
            return
        if not given:
            metadata["namespace"] = write.namespace
        elif not write.namespace:
            del metadata["namespace"]
        else:
            raise problems.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    @staticmethod
    def check_name(write: Write, obj: Object) -> None:
        """An update's object must be the one that the URL names."""
        given = obj["metadata"].get("name")
        if not given:
            raise problems.bad_request(
                f"the name of the object ({write.name} based on URL) was undeterminable: name must be provided"
            )
        if given != write.name:
            raise problems.bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({write.name})"
            )

    # Create.

    async def create(self, write: Write, obj: Object) -> Written:
        write.warnings += meta.dedupe_owners(obj)
        write.resource.strategy.set_aside(obj)
        obj = self._ownership.update(write.resource, None, obj, write.manager, write.subresource, self._clock())
        return await self._create(write, obj, write.admission("CREATE", "CreateOptions"))

    async def _create(self, write: Write, obj: Object, admission: Admission) -> Written:
        admission.name = admission.name or obj["metadata"].get("name", "")
        admits = self._hooks.admitter.concerns(admission)
        if admits:
            obj = await self._hooks.admitter.mutate(admission, obj, None) or obj
        generating = bool(obj["metadata"].get("generateName")) and not obj["metadata"].get("name")
        pristine = encode(obj) if generating else b""
        for attempt in range(_NAME_ATTEMPTS):
            if generating:
                # A copy each, which shares nothing: a Job's labels are those of its template otherwise.
                obj = decode(pristine)
            try:
                return await self._create_once(write, obj, admission, admits=admits)
            except Problem as problem:
                if not generating or problem.reason != "AlreadyExists" or attempt == _NAME_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _create_once(self, write: Write, obj: Object, admission: Admission, *, admits: bool) -> Written:
        resource, strategy = write.resource, write.resource.strategy
        metadata = obj["metadata"]
        prefix = metadata.get("generateName")
        meta.fill_system_fields(metadata, self._clock())
        if prefix and not metadata.get("name"):
            metadata["name"] = meta.generated_name(prefix)
        self._check_namespace(write, obj)
        if write.subresource == "status":
            strategy.prepare_create_by_status(obj)
        else:
            strategy.prepare_create(obj)
        if strategy.counts_generation:
            metadata["generation"] = 1

        # What is of another kind is not looked at any closer.
        def check() -> list[Cause]:
            early = _is_kind(resource, obj) and not strategy.metadata_last
            causes = meta.check(resource, obj) if early else []
            causes += strategy.validate(obj, None, write.subresource)
            return causes or (meta.check(resource, obj) if strategy.metadata_last else [])

        if causes := await self.aside(write, check) if write.large else check():
            raise problems.invalid(_kind_of(resource, obj), metadata.get("name", ""), _unique(causes))
        write.warnings += strategy.warnings(obj, None)
        name = metadata["name"]
        if admits:
            admission.name = admission.name or name
            await self._hooks.admitter.validate(admission, obj, None)
        obj["metadata"] = meta.tidy_metadata(metadata)
        obj = meta.ordered(obj, resource)
        existing = self._store.latest(resource.storage, metadata.get("namespace", ""), name)
        if write.dry_run:
            if existing is not None:
                raise self._exists(resource, name, existing, generated=bool(prefix))
            return Written(await self._as_stored(resource, obj), created=True)
        version = metadata.get("resourceVersion") or ""
        if version.strip("0") and not version_problem(version):
            # Any other version cannot be read, and so is as good as none.
            raise problems.custom(500, "", "resourceVersion should not be set on objects to be created")
        if existing is not None:
            raise self._exists(resource, name, existing, generated=bool(prefix))
        try:
            return await self._put(write, obj, None, created=True)
        except Stale as stale:
            if stale.latest is None:
                raise problems.conflict(resource.kind, name) from None
            raise self._exists(resource, name, stale.latest, generated=bool(prefix)) from None

    @staticmethod
    def _exists(resource: ServedResource, name: str, existing: Stored, *, generated: bool) -> Problem:
        if generated:
            problem = problems.generate_name_conflict(resource.kind, name)
        else:
            problem = problems.already_exists(resource.kind, name)
        if existing.deleting:
            problem.status["message"] = f"object is being deleted: {problem.status['message']}"
        return problem

    # Update, and what ends as one.

    async def update(self, write: Write, obj: Object) -> Written:
        """Replaces an object by what a client sent."""
        write.warnings += meta.dedupe_owners(obj)
        pristine = encode(obj)
        uid = obj["metadata"].get("uid")

        async def replaced(raw: bytes | None) -> Object:
            found = rendering.metadata_of(raw).get("uid", "") if raw and uid else ""
            if uid and uid != found:
                raise problems.conflict(
                    write.resource.kind, write.name,
                    f"StorageError: invalid object, Code: 4, Key: {_registry_key(write)}, ResourceVersion: 0, "
                    f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {found}",
                )  # fmt: skip
            return decode(pristine)

        return await self.change(write, replaced, options_kind="UpdateOptions")

    async def change(
        self, write: Write, transform: Transform, *, options_kind: str, applying: bool = False, unchecked: bool = False
    ) -> Written:
        """Reads, transforms and writes an object until no other write comes between. `applying`: the transform keeps
        managedFields itself, and may create. `unchecked`: the server's own change, which skips admission and validation."""
        resource, store = write.resource, self._store
        for attempt in range(_CONFLICT_ATTEMPTS):
            current = store.latest(resource.storage, write.namespace, write.name)
            if current is None:
                if not (
                    applying
                    or (
                        resource.create_on_update
                        and options_kind == "UpdateOptions"
                        and write.subresource in ("", "status")
                    )
                ):
                    raise problems.not_found(resource.kind, write.name)
                return await self._create_by_update(write, transform, options_kind, applying=applying)
            raw = await rendering.view(current, resource)
            new = await transform(raw)
            wanted = new["metadata"].get("resourceVersion")
            self._check_version(write, wanted, current)
            try:
                return await self._change_once(
                    write, current, decode(raw), new, options_kind, applying=applying, unchecked=unchecked
                )
            except Stale:
                # A request that named the version it is based on has lost; any other starts over.
                named = options_kind == "UpdateOptions" and wanted
                if named or attempt == _CONFLICT_ATTEMPTS - 1:
                    raise problems.conflict(resource.kind, write.name) from None
        raise AssertionError("the last attempt returns or raises")

    @staticmethod
    def _check_version(write: Write, wanted: str | None, current: Stored) -> None:
        resource = write.resource
        if not wanted or wanted == "0":
            if not resource.unconditional_update:
                cause = problems.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
                kind = Kind(resource.kind.group, resource.kind.version, resource.kind.plural, resource.kind.plural)
                raise problems.invalid(kind, write.name, [cause])
        elif version_problem(wanted):
            raise _unreadable_version(wanted)
        elif int(wanted) != current.version:
            raise problems.conflict(resource.kind, write.name)

    async def _create_by_update(
        self, write: Write, transform: Transform, options_kind: str, *, applying: bool
    ) -> Written:
        resource = write.resource
        if write.subresource and not (resource.create_on_update and write.subresource == "status"):
            raise problems.not_found(resource.kind, write.name)
        attributes = Attributes(
            write.user, "create", resource.kind.path(write.namespace, write.name), True,
            resource.kind.group, resource.kind.version, resource.kind.plural, "", write.namespace, write.name,
        )  # fmt: skip
        decision = await self._hooks.authorizer.authorize(attributes)
        if not decision.allowed:
            raise problems.forbidden(resource.kind, write.name, decision.reason)
        obj = await transform(None)
        uid = obj["metadata"].get("uid")
        if applying and uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise problems.conflict(resource.kind, write.name, why)
        version = obj["metadata"].get("resourceVersion")
        if version and version_problem(version):
            raise _unreadable_version(version)
        resource.strategy.set_aside(obj)
        if not applying:
            obj = self._ownership.update(resource, None, obj, write.manager, write.subresource, self._clock())
        if not write.dry_run:
            obj["metadata"].pop("resourceVersion", None)
        return await self._create(write, obj, write.admission("CREATE", "CreateOptions"))

    async def _change_once(
        self,
        write: Write,
        current: Stored,
        live: Object,
        new: Object,
        options_kind: str,
        *,
        applying: bool,
        unchecked: bool,
    ) -> Written:
        resource, strategy, subresource = write.resource, write.resource.strategy, write.subresource
        aside = strategy.set_aside(new)
        if not applying:
            meta.drop_empty(new["metadata"])
            new = self._ownership.update(resource, live, new, write.manager, subresource, self._clock())
        admission = write.admission("UPDATE", options_kind)
        admits = not unchecked and self._hooks.admitter.concerns(admission)
        if admits:
            new = await self._hooks.admitter.mutate(admission, new, live) or new
            meta.dedupe_owners(new)
        old_metadata = live["metadata"]
        self._check_namespace(write, new)
        meta.carry_over(new["metadata"], old_metadata)
        strategy.prepare_update(new, live, subresource)
        metadata = new["metadata"]
        if subresource != "status" and strategy.bumps_generation(new, live):
            metadata["generation"] = old_metadata.get("generation", 0) + 1

        def check() -> list[Cause]:
            causes = meta.check(resource, new, update=True) + meta.check_update(metadata, old_metadata)
            if resource.custom:
                # Kubernetes looks twice, and tells what it finds each time.
                return causes + meta.check_contents(metadata) + strategy.validate(new, live, subresource)
            return _unique(causes + strategy.validate({**new, **aside} if aside else new, live, subresource))

        if not unchecked and (causes := await self.aside(write, check) if write.large else check()):
            raise problems.invalid(_kind_of(resource, new), write.name, causes)
        if not unchecked and subresource != "status":
            write.warnings += strategy.warnings(new, live)
        if admits:
            await self._hooks.admitter.validate(admission, new, live)
        metadata["resourceVersion"] = old_metadata.get("resourceVersion")
        new["metadata"] = metadata = meta.tidy_metadata(metadata)
        new = meta.ordered(new, resource)
        if new == live:
            return Written(await rendering.view(current, resource), stored=current)
        if _finishes_deletion(metadata, old_metadata) and not strategy.holds_deletion(new):
            if not write.dry_run:
                await self._store.remove(current)
            return Written(encode(new))
        if write.dry_run:
            return Written(await self._as_stored(resource, new))
        return await self._put(write, new, current)

    @staticmethod
    async def _as_stored(resource: ServedResource, obj: Object) -> bytes:
        """What a read would give back: a version that does not have all of an object's fields loses them."""
        if resource.stored_as_served or resource.convert is None:
            return encode(obj)
        kept = await rendering.to_storage(obj, resource)
        return encode((await resource.convert([kept], resource.kind.api_version))[0])

    async def _put(self, write: Write, obj: Object, expected: Stored | None, *, created: bool = False) -> Written:
        resource = write.resource
        own = resource.stored_as_served
        kept = obj if own else await rendering.to_storage(obj, resource)
        try:
            stored = await self._store.put(resource.storage, kept, expected, resource.strategy if own else None)
        except TooLarge:
            raise problems.custom(500, "", "etcdserver: request is too large") from None
        except WriteFailed as error:
            raise problems.internal_error(f"the write could not be kept: {error}") from None
        return Written(stored.raw if own else await rendering.view(stored, resource), created, stored)


def check_type(resource: ServedResource, obj: Object) -> None:
    """The body's kind and apiVersion must be the resource's. Built-in kinds may leave them out; a custom resource of another
    kind is found out when it is validated."""
    kind = resource.kind
    given_kind, given_version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if not resource.custom:
        given_kind, given_version = given_kind or kind.kind, given_version or kind.api_version
    if not given_kind:
        body = encode(obj).decode()
        shown = f"{body[:30]} ..." if len(body) > 30 else body
        raise problems.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing in '{body}' ({shown})"
        )
    if given_version == kind.api_version and (given_kind == kind.kind or resource.custom):
        obj["kind"], obj["apiVersion"] = given_kind, given_version
        return
    group, _, version = str(given_version).rpartition("/")
    if resource.custom or (given_kind == kind.kind and group == kind.group and resource.convert is not None):
        raise problems.bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version ({kind.api_version})"
        )
    raise problems.bad_request(
        f'{given_kind} in version "{version}" cannot be handled as a {kind.kind}: no kind "{given_kind}" is registered for '
        f'version "{given_version}" in scheme "pkg/runtime/scheme.go:111"'
    )


def _is_kind(resource: ServedResource, obj: Object) -> bool:
    return bool(obj.get("kind", resource.kind.kind) == resource.kind.kind)


def _kind_of(resource: ServedResource, obj: Object) -> Kind:
    """The kind that a refusal names: the one that the object says it is of."""
    kind = resource.kind
    return kind if _is_kind(resource, obj) else Kind(kind.group, kind.version, str(obj["kind"]), kind.plural)


def _finishes_deletion(new: Object, old: Object) -> bool:
    """An update that takes the last finalizer off an object that is being deleted deletes it."""
    return "deletionTimestamp" in old and not new.get("finalizers") and not old.get("deletionGracePeriodSeconds")


def _unreadable_version(text: str) -> Problem:
    return problems.custom(500, "", version_problem(text).partition(": ")[2].partition(": ")[2].partition(": ")[2])


def _unique(causes: list[Cause]) -> list[Cause]:
    return list(dict.fromkeys(causes))


_REGISTRY_NAMES = {
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "ingresses.networking.k8s.io": "ingress",
    "replicationcontrollers": "controllers",
}


def _registry_key(write: Write) -> str:
    """Where kube-apiserver keeps the object: only custom resources under their group."""
    kind = write.resource.kind
    place = _REGISTRY_NAMES.get(kind.resource) or (
        f"{kind.group}/{kind.plural}" if write.resource.custom else kind.plural
    )
    return f"/registry/{place}/" + (f"{write.namespace}/{write.name}" if write.namespace else write.name)


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return {str: "string", list: "array", int: "number", float: "number"}.get(type(value), "object")
