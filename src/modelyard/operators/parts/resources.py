"""Container resources: a user's merged over an operator's defaults, never into something that the API refuses."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.kube import quantities
from modelyard.kube.kinds import Object


def merged(defaults: Mapping[str, Mapping[str, str]], own: Object | None) -> Object:
    """`own` over `defaults`, field by field. Where a request that one side gives exceeds a limit that the other gives,
    the default yields: the author's number stands."""
    if not own:
        return {name: dict(values) for name, values in defaults.items()}
    requests = {**defaults.get("requests", {}), **(own.get("requests") or {})}
    limits = {**defaults.get("limits", {}), **(own.get("limits") or {})}
    for name in requests.keys() & limits.keys():
        if quantities.compare(requests[name], limits[name]) <= 0:
            continue
        if name not in (own.get("limits") or {}):
            limits[name] = requests[name]
        elif name not in (own.get("requests") or {}):
            requests[name] = limits[name]
    rest = {name: value for name, value in own.items() if name not in ("requests", "limits")}
    return rest | {"requests": requests, "limits": limits}
