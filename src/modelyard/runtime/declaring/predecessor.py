"""The operator that did our work before: nothing is done while it is still at work, and what it made is taken over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from modelyard.kube.fieldsets import FieldSet
from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of, labels_of, name_of, spec_of
from modelyard.kube.times import parse_time

LOOK_AGAIN = 15.0
"""Seconds after which a Lease that seems held is looked at again: nobody tells us that it has run out."""

LONGEST_LEASE = 300.0
"""Seconds for which a Lease counts after it was renewed, whatever it says of itself. Leaders renew several times a minute."""
SETTING = "PREDECESSOR_NAMESPACES"
"""The setting with which an admin names further namespaces."""


@dataclass(frozen=True)
class Predecessor:
    """Another operator for the same resources, which may have run here before or may still run."""

    name: str
    lease: str
    """The Lease that its leader holds."""
    namespaces: tuple[str, ...]
    """Where it may run. A Lease of that name elsewhere does not count: anyone can make one in a namespace of their own."""
    managers: tuple[str, ...]
    """The field managers under which it writes."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What its objects carry: one without an owner is taken over only with all of these."""
    stop: str = ""
    """The command that stops it, for people; `{namespace}` is that of its Lease."""

    def also_in(self, *namespaces: str) -> Predecessor:
        """The same, where it may run in these namespaces as well; empty names are left out."""
        return replace(self, namespaces=tuple(dict.fromkeys(filter(None, (*self.namespaces, *namespaces)))))

    def at_work(self, leases: Iterable[Object], now: datetime) -> str | None:
        """Why nothing may be done now, and what to do about it; None if it does not run."""
        for lease in self._held(leases, now):
            namespace = key_of(lease).namespace
            if namespace in self.namespaces:
                how = f": {self.stop.format(namespace=namespace)}" if self.stop else ""
                return (
                    f"{self.name} is at work here: {spec_of(lease)['holderIdentity']} holds its Lease {key_of(lease)}. "
                    f"Nothing is changed as long as it does. Stop it{how}; when its Lease has run out, its objects are taken over"
                )
        return None

    def ignored(self, leases: Iterable[Object], now: datetime) -> str | None:
        """What to know about a held Lease of its name where it is not known to run; None if there is none."""
        elsewhere = sorted(
            key_of(lease).namespace
            for lease in self._held(leases, now)
            if key_of(lease).namespace not in self.namespaces
        )
        if not elsewhere:
            return None
        return (
            f"the Lease {self.lease} in namespace {elsewhere[0]} is ignored: {self.name} is expected in "
            f"{', '.join(self.namespaces)} only. If it runs in {elsewhere[0]}, stop it, or add that namespace to the setting "
            f"{SETTING}: two operators would undo each other's work"
        )

    def _held(self, leases: Iterable[Object], now: datetime) -> Iterator[Object]:
        return (lease for lease in leases if name_of(lease) == self.lease and _is_held(lease, now))

    def made(self, obj: Object) -> bool:
        """Is an object that names no owner one of its own? `obj` has its managedFields."""
        marked = self.labels.items() <= labels_of(obj).items()
        return marked and any(self._is_its(entry) for entry in obj["metadata"].get("managedFields") or ())

    def inherited(self, entries: Sequence[Object], manager: str) -> list[Object] | None:
        """The managedFields with all that it held in the hands of our manager; None if it held nothing.

        So fields that we do not want go with our next apply, where otherwise they would stay for ever.
        """
        its = [entry for entry in entries if self._is_its(entry)]
        if not its:
            return None
        ours = [entry for entry in entries if _is_applied_by(entry, manager)]
        fields = FieldSet()
        for entry in (*ours, *its):
            fields |= FieldSet.parse(entry.get("fieldsV1"))
        heir = {**(ours or its)[0], "manager": manager, "operation": "Apply", "fieldsV1": fields.to_dict()}
        return [heir, *(entry for entry in entries if entry not in its and entry not in ours)]

    def _is_its(self, entry: Object) -> bool:
        return entry.get("manager") in self.managers and not entry.get("subresource")


def _is_applied_by(entry: Object, manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, "Apply", "")


def _is_held(lease: Object, now: datetime) -> bool:
    """Neither a long duration nor a time in the future makes a Lease last: a leader that lives renews it."""
    spec = spec_of(lease)
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    seconds = min(float(spec.get("leaseDurationSeconds") or 60), LONGEST_LEASE)
    return abs((now - parse_time(spec["renewTime"])).total_seconds()) < seconds
