"""Which objects of a collection a list or watch is about: namespace, label selector, field selector."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.kube.selectors import FieldRequirement, LabelSelector, field_value
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.options import ListOptions
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.storage.store import Stored

_ALIASES = {"spec.host": "spec.nodeName", "reportingController": "reportingComponent"}
_NEW_EVENTS, _OLD_EVENTS = "regarding.", "involvedObject."
_FALSE_WHEN_ABSENT = frozenset(("spec.unschedulable", "spec.hostNetwork"))
_ZERO_WHEN_ABSENT = frozenset(("status.replicas", "status.successful"))


class Selection:
    """Answers `matches(stored)`, as cheaply as the selectors allow."""

    __slots__ = ("_fields", "_labels", "_name", "everything", "namespace", "selective")

    def __init__(self, resource: ServedResource, namespace: str, options: ListOptions, name: str = "") -> None:
        self.namespace = namespace
        self._name = name
        self._labels: LabelSelector | None = None if options.labels.empty else options.labels
        self._fields: list[FieldRequirement] = []
        for requirement in options.fields.requirements:
            self._add(resource, requirement)
        self.selective = self._labels is not None or bool(self._fields) or bool(self._name)
        """Whether more than the namespace is asked for."""
        self.everything = not self.selective and not namespace

    def _add(self, resource: ServedResource, requirement: FieldRequirement) -> None:
        path = requirement.field
        if path == "metadata.name" and requirement.equal:
            if self._name and self._name != requirement.value:
                raise problems.bad_request("fieldSelector metadata.name doesn't match requested name")
            self._name = requirement.value
            return
        allowed = path == "metadata.name" or (path == "metadata.namespace" and resource.kind.namespaced)
        if path == "metadata.namespace" and requirement.equal and resource.kind.namespaced and not self.namespace:
            self.namespace = requirement.value
            return
        if not allowed and path not in resource.field_labels:
            if resource.kind.group == "batch" and resource.field_labels:
                raise problems.bad_request(f'field label "{path}" not supported for Job')
            if resource.field_labels or resource.custom:
                raise problems.bad_request(f"field label not supported: {path}")
            raise problems.bad_request(
                f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
        path = _ALIASES.get(path, path)
        if path.startswith(_NEW_EVENTS):
            # Events are stored under the names of their old version.
            path = _OLD_EVENTS + path.removeprefix(_NEW_EVENTS)
        self._fields.append(FieldRequirement(path, requirement.value, requirement.equal))

    @property
    def name(self) -> str:
        """The one name asked for, or empty."""
        return self._name

    def matches(self, stored: Stored) -> bool:
        if self.namespace and stored.namespace != self.namespace:
            return False
        if not self.selective:
            return True
        if self._name and stored.name != self._name:
            return False
        if self._labels is not None and not self._labels.matches(stored.labels):
            return False
        return not self._fields or self._matches_fields(stored)

    def _matches_fields(self, stored: Stored) -> bool:
        obj: Object | None = None
        for requirement in self._fields:
            path = requirement.field
            if path == "metadata.name":
                value = stored.name
            elif path == "metadata.namespace":
                value = stored.namespace
            else:
                obj = stored.decode() if obj is None else obj
                value = _field(obj, path)
            if (value == requirement.value) is not requirement.equal:
                return False
        return True


def _field(obj: Object, path: str) -> str:
    match path:
        case "source":
            return field_value(obj, "source.component") or field_value(obj, "reportingComponent")
        case "status.successful":
            path = "status.succeeded"
    value = field_value(obj, path)
    if not value and path in _FALSE_WHEN_ABSENT:
        return "false"
    if not value and (path in _ZERO_WHEN_ABSENT or path == "status.succeeded"):
        return "0"
    return value
