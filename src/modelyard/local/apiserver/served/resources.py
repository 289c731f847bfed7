"""What the API server serves: resources with their rules (strategies), and the registry that finds them by path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from modelyard.kube import names
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests.messages import Reply, Request, UserInfo
from modelyard.local.apiserver.requests.problems import Cause

if TYPE_CHECKING:
    from modelyard.kube.schema import Schema
    from modelyard.local.apiserver.server import ApiServer

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Strategy(Protocol):
    """The rules of one resource in one version. Pure: sees objects, touches nothing else.

    Objects come in the version the strategy is for. `subresource` is empty for the main resource."""

    counts_generation: bool
    """Whether objects have `metadata.generation` (a ConfigMap has none)."""

    prefix_always: bool
    """Whether `metadata.generateName` is looked at by updates too, which do nothing with it."""

    qualified_finalizers: bool
    """Whether finalizers must be of a domain, but for the standard ones."""

    metadata_last: bool
    """Whether the metadata of a new object is only looked at when all else about it is right."""

    def default(self, obj: Object) -> None:
        """Fills in defaults, in place. Called on every write, and on reads of objects stored under another strategy."""

    def set_aside(self, obj: Object) -> Object:
        """Takes empty values off the object that are stored and owned as if absent, but that validation tells from absent."""

    def prepare_create(self, obj: Object) -> None:
        """Drops what a creator may not set (status) and what the server decides, in place. The core sets generation 1."""

    def prepare_create_by_status(self, obj: Object) -> None:
        """As `prepare_create`, where a write to the status of what is not there creates it."""

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Keeps what this write may not change: the old status on main writes; all but status on status writes; in place."""

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Whether a main write changed what `metadata.generation` counts. Called after `prepare_update`."""

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        """What is wrong with the object beside metadata, which the core checks. `old` is None on create."""

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Texts for Warning headers of a write that succeeds."""

    def start_deletion(self, obj: Object) -> None:
        """Changes an object that gets its deletionTimestamp now (a namespace's phase), in place."""

    def holds_deletion(self, obj: Object) -> bool:
        """Whether the object must stay although no finalizer is left in its metadata (a namespace's `spec.finalizers`)."""

    def canonical_name(self, obj: Object) -> str | None:
        """What is wrong with `metadata.name` (with `generateName` where the name is empty); None when it is fine."""

    def reset_fields(self, subresource: str) -> Sequence[Sequence[str]]:
        """The paths that a write through this (sub)resource never owns, for managedFields: `[["status"]]` for main writes."""


class PlainStrategy:
    """The rules that most resources share; others override parts of it."""

    counts_generation = True
    metadata_last = False
    qualified_finalizers = False
    prefix_always = False

    def __init__(self, *, has_status: bool = False) -> None:
        self.has_status = has_status

    def default(self, obj: Object) -> None:
        """Nothing to fill in."""

    def set_aside(self, obj: Object) -> Object:
        return {}

    def prepare_create(self, obj: Object) -> None:
        if self.has_status:
            obj.pop("status", None)

    def prepare_create_by_status(self, obj: Object) -> None:
        self.prepare_create(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "status":
            status = new.get("status")
            metadata = new["metadata"]
            new.clear()
            new.update(old)
            # A status write may still touch managedFields; the core puts its own there.
            new["metadata"] = dict(old["metadata"]) | {"managedFields": metadata.get("managedFields")}
            if new["metadata"]["managedFields"] is None:
                del new["metadata"]["managedFields"]
            if status is None:
                new.pop("status", None)
            else:
                new["status"] = status
        elif self.has_status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        return self.counts_generation and new.get("spec") != old.get("spec")

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        return []

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return []

    def start_deletion(self, obj: Object) -> None:
        """Nothing beside the metadata."""

    def holds_deletion(self, obj: Object) -> bool:
        return False

    def canonical_name(self, obj: Object) -> str | None:
        metadata = obj["metadata"]
        wrong = names.dns_subdomain(
            metadata.get("name") or names.mask_trailing_dash(metadata.get("generateName") or "")
        )
        return "; ".join(wrong) if wrong else None

    def reset_fields(self, subresource: str) -> Sequence[Sequence[str]]:
        if subresource == "status":
            return (("spec",), ("metadata",))
        return (("status",),) if self.has_status else ()


@dataclass(slots=True)
class Call:
    """A request to a resource or subresource with a handler of its own."""

    server: ApiServer
    request: Request
    user: UserInfo
    resource: ServedResource
    verb: str
    namespace: str
    name: str
    subresource: str
    rest: str = ""
    """What follows the subresource in the path (proxy)."""
    body: Object | None = None
    """The decoded body, where the method has one."""
    warnings: list[str] = field(default_factory=list)


Handler = Callable[[Call], Awaitable[Reply | Object]]
"""Answers a call; a plain object is sent as JSON with 200, or 201 for create."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """One subresource as discovery shows it. Without handler the core serves it (status, scale, finalize, ...)."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    """Group and version of `kind` when it is not the resource's own."""
    handler: Handler | None = None
    scale_paths: tuple[str, str, str] | None = None
    """For `scale`: dotted paths of spec replicas, status replicas and label selector (or empty)."""


Convert = Callable[[Sequence[Object], str], Awaitable[list[Object]]]
"""Converts objects to an apiVersion (`group/version`); in order, fresh objects."""


@dataclass(frozen=True, eq=False)
class ServedResource:
    """One resource in one served version."""

    kind: Kind
    strategy: Strategy
    storage: str = ""
    """Names the collection in the store, shared by all versions; empty: `kind.resource`."""
    storage_version: str = ""
    """The apiVersion that objects are stored in; empty: this one."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    schema: Schema | None = None
    """For field ownership, pruning and strategic merge; None: loaded on demand by kind for built-ins."""
    custom: bool = False
    columns: Sequence[Object] = ()
    """`additionalPrinterColumns` of a custom resource."""
    convert: Convert | None = None
    """Needed where `storage_version` differs from the served one."""
    field_labels: frozenset[str] = frozenset()
    """Fields beside metadata.name and metadata.namespace that a field selector may name."""
    create_on_update: bool = False
    unconditional_update: bool = True
    """Whether an update may come without a resourceVersion."""
    returns_deleted: bool = False
    """Whether a delete answers with the object instead of a Status."""
    graceful: bool = False
    """Whether deletion waits for a grace period (pods)."""
    deprecation: str = ""
    """A Warning text for every request to this version."""
    handler: Handler | None = None
    """For resources that are not stored (reviews)."""
    list_kind: str = ""

    def __post_init__(self) -> None:
        fill = object.__setattr__
        if not self.storage:
            fill(self, "storage", self.kind.resource)
        if not self.storage_version:
            fill(self, "storage_version", self.kind.api_version)
        if not self.singular:
            fill(self, "singular", self.kind.kind.lower())
        if not self.list_kind:
            fill(self, "list_kind", self.kind.kind + "List")

    @property
    def stored_as_served(self) -> bool:
        return self.storage_version == self.kind.api_version


class Registry:
    """All served resources. Custom ones come and go; listeners hear of it after each change."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], ServedResource] = {}
        self._listeners: list[Callable[[], None]] = []

    def lookup(self, group: str, version: str, plural: str) -> ServedResource | None:
        return self._resources.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> ServedResource | None:
        for resource in self._resources.values():
            if resource.kind.kind == kind and resource.kind.group == group and resource.kind.version == version:
                return resource
        return None

    def by_storage(self, storage: str) -> ServedResource | None:
        """A resource through which a collection's objects can be written as they are stored."""
        other = None
        for resource in self._resources.values():
            if resource.storage == storage and resource.handler is None:
                if resource.stored_as_served:
                    return resource
                other = resource
        return other

    def is_builtin(self, group: str) -> bool:
        return any(g == group and not resource.custom for (g, _, _), resource in self._resources.items())

    def versions_of(self, group: str, plural: str) -> list[ServedResource]:
        return [r for (g, _, p), r in self._resources.items() if g == group and p == plural]

    def all(self) -> Iterator[ServedResource]:
        return iter(list(self._resources.values()))

    def add(self, *resources: ServedResource) -> None:
        """Adds or replaces."""
        for resource in resources:
            self._resources[resource.kind.group, resource.kind.version, resource.kind.plural] = resource
        self._tell()

    def remove(self, group: str, plural: str, *, keep_versions: Sequence[str] = ()) -> None:
        """Stops serving a resource in all versions but the ones to keep."""
        for key in [k for k in self._resources if k[0] == group and k[2] == plural and k[1] not in keep_versions]:
            del self._resources[key]
        self._tell()

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
