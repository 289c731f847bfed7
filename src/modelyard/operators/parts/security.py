"""What pods and containers of all operators may do: as little as the restricted Pod Security Standard asks for. Pure."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.operators.parts import build

POD: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SERVER_GROUP = 65532
"""Where no platform assigns groups, certificates of mode 0600 are readable for this one."""
POSTGRES_GROUP = 26
"""Of the database's user in its image: where no platform assigns groups, the volume is handed to it."""


def pod(group: int | None = None) -> Object:
    """A pod's security context; `group` gets its volumes."""
    return build.present(**POD, fsGroup=group)
