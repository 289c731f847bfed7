"""Admission of what is created through a subresource and kept nowhere: token requests, bindings, evictions, exec."""

from __future__ import annotations

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.requests.hooks import Admission, Operation
from modelyard.local.apiserver.served.resources import Call


async def admit(call: Call, operation: Operation, kind: Kind, obj: Object) -> Object:
    """The object as admission leaves it. Raises a Problem where it is refused."""
    dry_run = call.request.param("dryRun") == "All"
    options: Object = {"dryRun": ["All"]} if dry_run else {}
    admission = Admission(
        operation,
        call.resource,
        call.user,
        call.namespace,
        call.name,
        call.subresource,
        dry_run,
        options,
        kind,
        call.warnings,
    )
    admitter = call.server.hooks.admitter
    if not admitter.concerns(admission):
        return obj
    changed = await admitter.mutate(admission, obj, None) or obj
    await admitter.validate(admission, changed, None)
    return changed
