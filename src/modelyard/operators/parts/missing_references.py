"""Secrets and ConfigMaps that a server needs and that are not there: said in words, and no reason to end a server that runs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of, lookup
from modelyard.operators.parts.references import CONFIG_DIGEST, Getter, Reference

READ = "modelyard.dev/config-read"
"""Annotation on a Deployment: the Secrets and ConfigMaps that were there when it was last written."""


@dataclass(frozen=True)
class Need:
    """One Secret or ConfigMap that a server reads at start."""

    kind: Kind
    name: str
    key: str
    """Empty: all of it."""
    field: str = ""
    """What asks for it, for people: `spec.backendStoreUriFrom`."""
    optional: bool = False

    @property
    def object(self) -> str:
        """`Secret db`, for people."""
        return f"{self.kind.kind} {self.name}"

    @property
    def place(self) -> str:
        return "/".join(filter(None, (self.kind.kind, self.name, self.key)))

    @property
    def reference(self) -> Reference:
        return self.kind, self.name, self.key


@dataclass(frozen=True)
class Missing:
    """A need that is not met: the object does not exist, or has no such key."""

    need: Need
    namespace: str
    has_object: bool
    lost: bool
    """It was there when the server was last rolled out."""

    @property
    def what(self) -> str:
        """What is missing and where, for readers who may look in another namespace."""
        if self.has_object:
            return f"{self.need.object} in namespace {self.namespace} has no key {self.need.key}"
        return f"{self.need.object} does not exist in namespace {self.namespace}"

    @property
    def remedy(self) -> str:
        """What is missing and what to do, for readers of an object in the same namespace."""
        named, key = self.need.object, self.need.key
        if self.has_object:
            return f"{named} has no key {key}: add it"
        return f"{named} does not exist: create it" + (f" with the key {key}" if key else "")

    def message(self, *, running: bool) -> str:
        """What is missing, what follows from it, and what to do."""
        effect = (
            "the running server keeps the values that it has read, but cannot start again without it"
            if running
            else "the server cannot start without it"
        )
        return f"{self.what}, and {self.need.field} reads it: {effect}. Restore it or change {self.need.field}"


def missing(
    getter: Getter, namespace: str, needs: Iterable[Need], deployment: Object | None = None
) -> tuple[Missing, ...]:
    """The needs that are not met, each once, optional ones aside. The server's live Deployment tells which of them were
    met before."""
    before = annotations_of(deployment or {}).get(READ, "").split(",")
    found = []
    for need in dict.fromkeys(needs):
        if need.optional:
            continue
        obj = getter.get(need.kind, namespace, need.name)
        if obj is None or (need.key and need.key not in {**(obj.get("data") or {}), **(obj.get("binaryData") or {})}):
            found.append(Missing(need, namespace, has_object=obj is not None, lost=need.place in before))
    return tuple(found)


def remedies(lacking: Iterable[Missing]) -> str:
    """What to do about all of them, in one line; empty where nothing is missing."""
    return "; ".join(one.remedy for one in lacking)


def read_annotation(needs: Iterable[Need], lacking: Iterable[Missing]) -> dict[str, str]:
    """For the Deployment, not for its pods: what they have read, so that a later pass knows what was lost."""
    never_there = {one.need for one in lacking if not one.lost}
    read = sorted({need.place for need in needs if not need.optional and need not in never_there})
    return {READ: ",".join(read)} if read else {}


def lasting_digest(now: str, deployment: Object | None, lacking: Collection[Missing]) -> str:
    """The digest for a server's pods. While something is lacking, the one that they carry stays: a changed one would end
    pods whose successors cannot start."""
    known = lookup(deployment or {}, "spec", "template", "metadata", "annotations", CONFIG_DIGEST)
    return str(known) if known and lacking else now
