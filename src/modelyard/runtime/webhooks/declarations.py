"""What a webhook is: where it listens, what it is asked about, and the pure function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from modelyard.kube.crd import Definition
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.declaring.controller import Source, Watch, here
from modelyard.runtime.declaring.world import Objects
from modelyard.runtime.webhooks.access_review import AccessReviews, NobodyToAsk, User

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class HookReader(Protocol):
    """What a webhook may read: the caches, and which kinds the API serves."""

    async def wait_readable(self) -> None:
        """Waits a moment for caches that are just being filled; `NotReadable` if that takes too long."""
        ...

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None: ...

    def list(self, kind: Kind, namespace: str | None = None, labels: dict[str, str] | None = None) -> Objects: ...

    def serves(self, kind: Kind) -> bool: ...

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        """What the API serves under that name right now; None if nothing."""
        ...


class NotReadable(Exception):
    """A handler asked for objects that the process has not read yet; the API is told to try again."""


class NothingToRead:
    """The reader of a handler that reads nothing."""

    async def wait_readable(self) -> None: ...

    def serves(self, kind: Kind) -> bool:
        return False

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        return None

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return None

    def list(self, kind: Kind, namespace: str | None = None, labels: dict[str, str] | None = None) -> Objects:
        return []


@dataclass(frozen=True)
class AdmissionRequest:
    """What the API asks. `object` is None on DELETE, `old` on CREATE; both are private copies."""

    operation: Operation
    object: Object | None
    old: Object | None = None
    kind: Kind = field(default_factory=lambda: Kind("", "", "", ""))
    """The object's kind (its plural is the requested resource)."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user: str = ""
    groups: Sequence[str] = ()
    user_uid: str = ""
    user_extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dry_run: bool = False
    uid: str = ""
    reader: HookReader = field(default_factory=NothingToRead)
    """The caches of the kinds that the webhook declares in `reads`."""
    access: AccessReviews = field(default_factory=NobodyToAsk)
    """What users may do; a webhook that asks declares `reviews_access`."""

    @property
    def sender(self) -> User:
        """Who sent the request, for an access review."""
        return User(self.user, self.user_uid, tuple(self.groups), self.user_extra)


@dataclass(frozen=True)
class Allowed:
    """Yes; a mutating webhook may give the object as it should be."""

    object: Object | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Denied:
    """No, and why; the message is shown to whoever sent the request."""

    message: str
    code: int = 403
    reason: str = "Forbidden"
    causes: Sequence[Object] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class FieldError:
    """One wrong field: `spec.replicas`, `Invalid value: -1: must not be negative`, and the cause's reason."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> Denied:
    """A refusal in the words that Kubernetes itself uses for an invalid object."""
    said = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
    resource = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return Denied(
        f'{resource} "{name}" is invalid: {said}',
        code=422,
        reason="Invalid",
        causes=[{"reason": e.reason, "message": e.message, "field": e.field} for e in errors],
        details={"name": name, "group": kind.group, "kind": kind.kind},
    )


Answer: TypeAlias = Allowed | Denied | Object | None
"""None allows; a plain object allows and, from a mutating webhook, replaces."""
Handler: TypeAlias = Callable[[AdmissionRequest], Answer | Awaitable[Answer]]


@dataclass(frozen=True)
class Webhook:
    """One entry of a webhook configuration, and its handler."""

    name: str
    """Its name in the configuration, such as `vmodelregistry.opendatahub.io`."""
    type: Literal["mutating", "validating"]
    path: str
    handler: Handler
    kinds: Sequence[Kind] = ()
    """Each becomes a rule for the `operations`; several versions of a kind share one."""
    operations: Sequence[Operation] = ("CREATE", "UPDATE")
    rules: Sequence[Object] = ()
    """Instead of `kinds`, rules as the API spells them."""
    configuration: str = ""
    """The configuration object that holds it (default: by type)."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout: int = 10
    reinvocation_policy: Literal["Never", "IfNeeded"] = "Never"
    namespace_selector: Object | None = None
    object_selector: Object | None = None
    match_conditions: Sequence[Object] = ()
    review_versions: Sequence[str] = ("v1",)
    reads: Sequence[Kind | Watch] = ()
    """The kinds that the handler reads through `request.reader`; a `Watch` limits what is cached of one, such as to one name."""
    reviews_access: bool = False
    """The handler asks `request.access` what a user may do."""
    source: Source = field(default_factory=here, compare=False)

    @property
    def read_rows(self) -> list[Watch]:
        return [read if isinstance(read, Watch) else Watch(read, source=self.source) for read in self.reads]


class ConversionFailed(Exception):
    """An object cannot be converted; the message says why."""


ConvertFn: TypeAlias = Callable[[Object, str], Object]
"""`(object, wanted apiVersion) -> the object in that version`; raises `ConversionFailed`."""


@dataclass(frozen=True)
class Conversion:
    """A conversion webhook of one definition."""

    path: str
    definition: Definition
    handler: ConvertFn
    review_versions: Sequence[str] = ("v1",)
    source: Source = field(default_factory=here, compare=False)
