"""The operator that did our work before: nothing is done while it is still at work, and what it made is taken over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from modelyard.kube.fieldsets import FieldSet
from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of, labels_of, name_of, spec_of
from modelyard.kube.times import parse_time

LOOK_AGAIN = 15.0
"""Seconds after which a Lease that seems held is looked at again: nobody tells us that it has run out."""


@dataclass(frozen=True)
class Predecessor:
    """Another operator for the same resources, which may have run here before or may still run."""

    name: str
    lease: str
    """The Lease that its leader holds, in whatever namespace."""
    managers: tuple[str, ...]
    """The field managers under which it writes."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What its objects carry: one without an owner is taken over only with all of these."""
    stop: str = ""
    """The command that stops it, for people; `{namespace}` is that of its Lease."""

    def at_work(self, leases: Iterable[Object], now: datetime) -> str | None:
        """Why nothing may be done now, and what to do about it; None if it does not run."""
        for lease in leases:
            if name_of(lease) == self.lease and _is_held(lease, now):
                namespace = key_of(lease).namespace
                how = f": {self.stop.format(namespace=namespace)}" if self.stop else ""
                return (
                    f"{self.name} is at work here: {spec_of(lease)['holderIdentity']} holds its Lease {key_of(lease)}. "
                    f"Nothing is changed as long as it does. Stop it{how}; when its Lease has run out, its objects are taken over"
                )
        return None

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
    spec = spec_of(lease)
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    return parse_time(spec["renewTime"]) + timedelta(seconds=int(spec.get("leaseDurationSeconds") or 60)) > now
