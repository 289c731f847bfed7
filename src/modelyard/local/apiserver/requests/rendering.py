"""Stored objects as clients see them: in the served version, whole, as metadata only, or as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.bodies import YAML
from modelyard.local.apiserver.requests.hooks import Hooks
from modelyard.local.apiserver.requests.messages import Reply, Request
from modelyard.local.apiserver.requests.negotiation import Format
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.storage.store import WELL_KNOWN, Stored, decode, encode
from modelyard.local.apiserver.verbs.metadata import ordered


class _Partial(msgspec.Struct):
    metadata: msgspec.Raw


class _Head(msgspec.Struct):
    metadata: dict[str, Any]


_partials = msgspec.json.Decoder(_Partial)
_heads = msgspec.json.Decoder(_Head)


def ready(stored: Stored, resource: ServedResource) -> bytes | None:
    """The object's bytes in the served version, where nothing has to be waited for."""
    if resource.stored_as_served:
        if stored.rules is not resource.strategy:
            _refresh(stored, resource)
        return stored.raw
    return stored.views.get(resource) if stored.views else None


def _refresh(stored: Stored, resource: ServedResource) -> None:
    """Applies the defaults of today's rules to an object written under other ones; the stored version stays the same."""
    if stored.rules is WELL_KNOWN and not resource.custom:
        stored.rules = resource.strategy
        return
    obj = stored.decode()
    try:
        resource.strategy.default(obj)
    except Problem:
        # What was once stored must stay readable, however the rules changed.
        obj = stored.decode()
    stored.kept = encode(ordered(obj, resource))
    stored.rules = resource.strategy


async def view(stored: Stored, resource: ServedResource) -> bytes:
    """The object's bytes in the served version."""
    raw = ready(stored, resource)
    return raw if raw is not None else (await views([stored], resource))[0]


async def views(items: Sequence[Stored], resource: ServedResource) -> list[bytes]:
    """The same for many; those that need conversion go through it together."""
    if resource.stored_as_served:
        strategy = resource.strategy
        for stored in items:
            if stored.rules is not strategy:
                _refresh(stored, resource)
        return [stored.raw for stored in items]
    missing = [stored for stored in items if not stored.views or resource not in stored.views]
    if missing:
        for stored, obj in zip(missing, await served([s.decode() for s in missing], resource), strict=True):
            stored.views = {**(stored.views or {}), resource: encode(ordered(obj, resource))}
    return [stored.views[resource] for stored in items if stored.views]


async def served(objects: Sequence[Object], resource: ServedResource) -> list[Object]:
    """Objects of the storage version, converted to the served one."""
    if resource.convert is None:
        raise problems.internal_error(f"{resource.kind} cannot be converted from {resource.storage_version}")
    converted = await resource.convert(objects, resource.kind.api_version)
    if not resource.custom:
        # A custom resource has the defaults of its stored version only; its conversion sees to that.
        for obj in converted:
            resource.strategy.default(obj)
    return converted


async def to_storage(obj: Object, resource: ServedResource) -> Object:
    """An object of the served version as it is stored."""
    if resource.stored_as_served:
        return obj
    if resource.convert is None:
        raise problems.internal_error(f"{resource.kind} cannot be converted to {resource.storage_version}")
    return (await resource.convert([obj], resource.storage_version))[0]


def item_prefix(resource: ServedResource) -> bytes:
    """What a built-in object's bytes start with and its list items leave out; empty for custom resources."""
    if resource.custom:
        return b""
    return f'{{"kind":"{resource.kind.kind}","apiVersion":"{resource.kind.api_version}",'.encode()


def partial(raw: bytes, version: str = "v1") -> bytes:
    """An object's bytes cut down to PartialObjectMetadata."""
    metadata = bytes(_partials.decode(raw).metadata)
    if raw.startswith(b'{"kind":"DaemonSet",'):
        metadata = _without_template_generation(metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":%s}' % (
        version.encode(),
        metadata,
    )


def _without_template_generation(raw: bytes) -> bytes:
    """The annotation comes with the whole object only: it stands for a field that other versions have in the spec."""
    metadata = decode(raw)
    notes = metadata.get("annotations") or {}
    notes.pop("deprecated.daemonset.template.generation", None)
    if not notes:
        metadata.pop("annotations", None)
    return encode(metadata)


_PLAIN_TABLES = frozenset(
    (
        "limitranges",
        "roles.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "csistoragecapacities.storage.k8s.io",
    )
)
"""Kinds without columns of their own, whose empty tables have null for rows."""


class TableMaker:
    """Builds Table answers for one request."""

    def __init__(self, hooks: Hooks, resource: ServedResource, request: Request, version: str) -> None:
        self._tables = hooks.tables
        self._resource = resource
        self._version = version
        self._include = request.param("includeObject") or "Metadata"
        if self._include not in ("Metadata", "Object", "None"):
            raise problems.bad_request(
                f"Unable to convert to Table as requested: includeObject: Invalid value: "
                f"{problems.go_quote(self._include)}: must be 'Metadata', 'Object', 'None', or empty"
            )

    def table(
        self, raws: Sequence[bytes], list_metadata: Object, *, headers: bool = True, listed: bool = False
    ) -> bytes:
        columns = self._tables.columns(self._resource) if headers else None
        objects = [decode(raw) for raw in raws]
        cells = [self._tables.cells(self._resource, obj) for obj in objects]
        if listed:
            self._tables.mark_default(self._resource, objects, cells)
        rows = b"[%s]" % b",".join(self._row(*parts) for parts in zip(cells, objects, raws, strict=True))
        if not raws and self._resource.storage in _PLAIN_TABLES:
            rows = b"null"
        return b'{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":%s,"rows":%s}' % (
            self._version.encode(), encode(list_metadata), encode(columns), rows,
        )  # fmt: skip

    def _row(self, cells: list[Any], obj: Object, raw: bytes) -> bytes:
        conditions = self._tables.conditions(self._resource, obj)
        shown = b""
        if self._include != "None":
            shown = raw if self._include == "Object" else partial(raw, self._version)
        return b'{"cells":%s%s,"object":%s}' % (
            encode(cells), b',"conditions":' + encode(conditions) if conditions else b"", shown or b"null",
        )  # fmt: skip


def metadata_of(raw: bytes) -> Object:
    return _heads.decode(raw).metadata


def reply(body: bytes, format: Format, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """A reply with a JSON body, rewritten where the client wants YAML or line breaks."""
    if format.media == YAML:
        import yaml

        text = yaml.dump(decode(body), Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)
        return Reply(status, text.encode(), YAML, list(headers))
    if format.pretty:
        body = msgspec.json.format(body, indent=2) + b"\n"
    return Reply(status, body, format.media, list(headers))


_MOST_WARNED = 4096
_LONGEST_OF_MANY = 256


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """The texts as Warning headers, each once. Of many, long ones are cut and the last are left out, as Kubernetes does."""
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _MOST_WARNED:
        texts = _shortened(texts)
    headers: list[tuple[str, str]] = []
    for text in texts:
        # A header is one line of printable ASCII or UTF-8; everything else would end it early.
        clean = "".join(char if char.isprintable() else " " for char in text)
        escaped = clean.replace("\\", "\\\\").replace('"', '\\"')
        headers.append(("Warning", f'299 - "{escaped}"'))
    return headers


def _shortened(texts: Sequence[str]) -> list[str]:
    kept: list[str] = []
    written = 0
    for text in texts:
        if written >= _MOST_WARNED:
            break
        kept.append(text[:_LONGEST_OF_MANY])
        written += len(kept[-1])
    return kept
