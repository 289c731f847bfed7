"""The places where authentication, authorization, admission, field checks, tables and documents plug into the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests.messages import ANONYMOUS, LOOPBACK, Reply, Request, UserInfo
from modelyard.local.apiserver.served.resources import ServedResource


@dataclass(frozen=True, slots=True)
class Attributes:
    """What authorization decides on. For a path that is not a resource only user, verb (the method in lower case) and path are set."""

    user: UserInfo
    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Admission:
    """What admission is asked about. `resource` is the version the request was made in; `options` is the request's options object."""

    operation: Operation
    resource: ServedResource
    user: UserInfo
    namespace: str
    name: str
    subresource: str = ""
    dry_run: bool = False
    options: Object = field(default_factory=dict)
    kind: Kind | None = None
    """The kind of the object handed over where it is not the resource's own (Scale, TokenRequest)."""
    warnings: list[str] = field(default_factory=list)
    """Texts for Warning headers; hooks append."""

    @property
    def object_kind(self) -> Kind:
        return self.kind or self.resource.kind


class Authenticator(Protocol):
    async def authenticate(self, request: Request) -> UserInfo:
        """Who asks, impersonation included (which needs the authorizer). Raises `problems.unauthorized()` for bad credentials."""


class Authorizer(Protocol):
    async def authorize(self, attributes: Attributes) -> Decision: ...


class Admitter(Protocol):
    def concerns(self, admission: Admission) -> bool:
        """Whether anything would look at such a request. False lets the core skip making objects for it."""

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> Object | None:
        """The object to go on with, changed in place or fresh. `obj` is None on DELETE. Raises a Problem to refuse."""

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        """Looks at the final object, changes nothing. Raises a Problem to refuse."""


FieldValidation = Literal["Strict", "Warn", "Ignore"]


class FieldChecker(Protocol):
    def check(
        self,
        resource: ServedResource,
        obj: Object,
        duplicates: Sequence[str],
        mode: FieldValidation,
        *,
        applied: bool = False,
    ) -> list[str]:
        """Decodes as Kubernetes would, in place: drops unknown fields, refuses wrong types (400). `duplicates` are the paths of
        keys that the body gave twice. Strict: unknown or duplicate fields raise a Problem; Warn: the texts are returned.
        `applied`: the object came of a server-side apply, whose nulls are kept."""


class Tables(Protocol):
    def columns(self, resource: ServedResource) -> list[Object]:
        """The `columnDefinitions`."""

    def cells(self, resource: ServedResource, obj: Object) -> list[Any]: ...

    def conditions(self, resource: ServedResource, obj: Object) -> list[Object]:
        """What a client may do with the row as a whole: hide a pod that is over."""

    def mark_default(self, resource: ServedResource, objects: Sequence[Object], rows: Sequence[list[Any]]) -> None:
        """Names, in the rows of a list, the object that stands in where none is given."""


class Documents(Protocol):
    async def reply(self, request: Request) -> Reply | None:
        """Discovery, OpenAPI and version; None for any other path."""


class EveryoneIsAdmin:
    """Authentication and authorization that let everything pass: a bench without access control."""

    async def authenticate(self, request: Request) -> UserInfo:
        return request.user or LOOPBACK

    async def authorize(self, attributes: Attributes) -> Decision:
        return Decision(attributes.user is not ANONYMOUS)


class NoAdmission:
    def concerns(self, admission: Admission) -> bool:
        return False

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> Object | None:
        return obj

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        return None


class NoFieldChecks:
    def check(
        self,
        resource: ServedResource,
        obj: Object,
        duplicates: Sequence[str],
        mode: FieldValidation,
        *,
        applied: bool = False,
    ) -> list[str]:
        return []


class PlainTables:
    """Name and age, for every kind."""

    def columns(self, resource: ServedResource) -> list[Object]:
        return [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ]

    def cells(self, resource: ServedResource, obj: Object) -> list[Any]:
        metadata = obj.get("metadata") or {}
        return [metadata.get("name", ""), metadata.get("creationTimestamp")]

    def conditions(self, resource: ServedResource, obj: Object) -> list[Object]:
        return []

    def mark_default(self, resource: ServedResource, objects: Sequence[Object], rows: Sequence[list[Any]]) -> None:
        """No kind has one."""


class NoDocuments:
    async def reply(self, request: Request) -> Reply | None:
        return None


@dataclass(slots=True)
class Hooks:
    """One of each; the server's pipeline calls them in this order."""

    authenticator: Authenticator = field(default_factory=EveryoneIsAdmin)
    authorizer: Authorizer = field(default_factory=EveryoneIsAdmin)
    fields: FieldChecker = field(default_factory=NoFieldChecks)
    admitter: Admitter = field(default_factory=NoAdmission)
    tables: Tables = field(default_factory=PlainTables)
    documents: Documents = field(default_factory=NoDocuments)
