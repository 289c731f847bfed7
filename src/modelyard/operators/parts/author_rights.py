"""What the author of a resource must be allowed before a server acts for them: nobody gets at a Secret or an account by naming it."""

from __future__ import annotations

from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.runtime.webhooks import AdmissionRequest, Denied


@dataclass(frozen=True)
class Uses:
    """What a server is given because the resource names it."""

    namespace: str
    """Where the server runs."""
    secrets: frozenset[str] = frozenset()
    account: str = ""
    """The ServiceAccount that it runs as, where the author chose one that may be somebody's."""


async def refusal(request: AdmissionRequest, uses: Uses) -> Denied | None:
    """The first thing that whoever sent the request may not use themselves.

    Ask it whenever the author's part of a resource changes, also where the names stay the same: a changed image or host gets what
    they stand for.
    """
    kind = request.kind.kind
    for name in sorted(uses.secrets):
        if not await request.access.may(request.sender, "get", builtin.Secret, uses.namespace, name):
            return Denied(
                f"{request.user} may not read the Secret {name} in namespace {uses.namespace}, so neither may a {kind} that they "
                f'write: name another Secret, or have "get" on it granted'
            )
    if uses.account and not await request.access.may(request.sender, "create", builtin.Pod, uses.namespace):
        return Denied(
            f"{request.user} may not run pods in namespace {uses.namespace}, so a {kind} that they write may not run as the "
            f'ServiceAccount {uses.account}: leave its name out, or have "create" on pods granted'
        )
    return None
