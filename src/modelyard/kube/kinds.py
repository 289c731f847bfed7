"""What a Kubernetes kind is to a client: its group, version, name and path. The built-in ones are listed in `builtin`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain data, shaped like its YAML."""


class Key(NamedTuple):
    """Names one object of a kind; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class TypedKey(Key):
    """A key that also says of which kind it is: resources of two kinds may have one name. It unpacks like any key."""

    kind: Kind

    def __new__(cls, kind: Kind, namespace: str, name: str) -> Self:
        made = super().__new__(cls, namespace, name)
        made.kind = kind
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedKey) and self.kind == other.kind and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.kind, self.namespace, self.name))

    def __str__(self) -> str:
        return f"{self.kind.kind} {super().__str__()}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version, with what is needed to build its paths."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    api_version: str = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)
    """Kept, because nearly everything is looked up by its kind."""

    def __post_init__(self) -> None:
        fields = (self.group, self.version, self.kind, self.plural, self.namespaced)
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        object.__setattr__(self, "_hash", hash(fields))

    def __hash__(self) -> int:
        return self._hash

    @property
    def resource(self) -> str:
        """The resource's full name, as in `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection (no name) or of one object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def at(self, version: str) -> Kind:
        """The same kind in another version."""
        return Kind(self.group, version, self.kind, self.plural, self.namespaced)

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"
