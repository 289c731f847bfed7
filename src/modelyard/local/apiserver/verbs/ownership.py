"""Who owns which field: how writes keep `managedFields`, and how server-side apply merges."""

from __future__ import annotations

from datetime import datetime

from modelyard.kube import fieldsets
from modelyard.kube.kinds import Object
from modelyard.kube.schema import DEDUCED, Schema, builtin_schema
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.served.resources import ServedResource


class Ownership:
    """Field ownership by the schemas of the served resources. What it returns shares parts with what it was given."""

    def __init__(self) -> None:
        self._schemas: dict[ServedResource, Schema] = {}
        self._resets: dict[tuple[ServedResource, str], fieldsets.FieldSet] = {}

    def schema(self, resource: ServedResource) -> Schema:
        schema = resource.schema or self._schemas.get(resource)
        if schema is None:
            schema = self._schemas[resource] = builtin_schema(resource.kind) or DEDUCED
        return schema

    def _write(self, resource: ServedResource, subresource: str, now: datetime) -> fieldsets.Write:
        reset = self._resets.get((resource, subresource))
        if reset is None:
            paths = (".".join(path) for path in resource.strategy.reset_fields(subresource))
            reset = self._resets[resource, subresource] = fieldsets.FieldSet.fields(*paths)
        return fieldsets.Write(self.schema(resource), resource.kind.api_version, now, subresource, reset)

    def update(
        self, resource: ServedResource, live: Object | None, new: Object, manager: str, subresource: str, now: datetime
    ) -> Object:
        """The object with its managedFields after a plain write; `live` is None on create."""
        try:
            return fieldsets.update(live, new, manager, self._write(resource, subresource, now))
        except fieldsets.ManagedFieldsError as error:
            raise problems.bad_request(f"metadata.managedFields: {error}") from None

    def apply(
        self,
        resource: ServedResource,
        live: Object | None,
        config: Object,
        manager: str,
        subresource: str,
        *,
        force: bool,
        now: datetime,
    ) -> Object:
        """The live object with the configuration applied. Raises a Problem on conflicts and on fields of wrong types."""
        try:
            return fieldsets.apply(live, config, manager, self._write(resource, subresource, now), force=force)
        except fieldsets.Conflicts as conflicts:
            problem = problems.apply_conflict(str(conflicts), ())
            problem.status["details"] = {"causes": conflicts.causes}
            raise problem from None
        except fieldsets.TypedError as error:
            raise problems.custom(500, "", str(error)) from None
