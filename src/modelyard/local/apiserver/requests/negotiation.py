"""What a client accepts: JSON or YAML, and whole objects, metadata only or tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.bodies import YAML
from modelyard.local.apiserver.requests.messages import JSON, Request

Shape = Literal["object", "metadata", "table"]
OFFERED = (JSON, YAML)


@dataclass(frozen=True, slots=True)
class Format:
    """How an answer is written."""

    media: str = JSON
    shape: Shape = "object"
    shape_version: str = "v1"
    pretty: bool = False

    @property
    def plain(self) -> bool:
        """Stored bytes can be sent as they are."""
        return self.shape == "object" and self.media == JSON and not self.pretty


PLAIN = Format()
_PRETTY = Format(pretty=True)


def negotiate(request: Request, *, shapes: bool = True) -> Format:
    """The first acceptable of what the client lists, by its weights. Raises 406."""
    accept = request.headers.get("accept", "")
    pretty = _wants_pretty(request)
    if not accept or accept in ("*/*", JSON):
        return _PRETTY if pretty else PLAIN
    clauses = []
    for position, clause in enumerate(accept.split(",")):
        media, _, rest = clause.partition(";")
        parameters = {}
        for parameter in rest.split(";"):
            name, _, value = parameter.partition("=")
            parameters[name.strip().lower()] = value.strip()
        try:
            weight = float(parameters.pop("q", "1") or "1")
        except ValueError:
            weight = 1.0
        clauses.append((-weight, position, media.strip().lower(), parameters))
    for _, _, media, parameters in sorted(clauses, key=lambda clause: clause[:2]):
        offered = _offered(media)
        if offered is None:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return Format(offered, pretty=pretty)
        if not shapes or parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
            continue
        version = parameters["v"]
        if wanted == "Table":
            return Format(offered, "table", version, pretty)
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Format(offered, "metadata", version, pretty)
    if any("as" in parameters for *_, parameters in clauses):
        # The media type is fine, the form in which objects are asked for is not.
        raise problems.not_acceptable(OFFERED)
    message = "406: Not Acceptable\n\nAvailable representations: " + ", ".join(OFFERED)
    raise problems.custom(406, "NotAcceptable", message, {})


def _offered(media: str) -> str | None:
    if media in ("*/*", "application/*", JSON):
        return JSON
    return YAML if media in (YAML, "application/x-yaml") else None


def _wants_pretty(request: Request) -> bool:
    value = request.param("pretty", "unset")
    if value != "unset":
        return value.lower() not in ("false", "0")
    agent = request.headers.get("user-agent", "")
    return agent.startswith(("curl", "Wget", "Mozilla/5.0"))
