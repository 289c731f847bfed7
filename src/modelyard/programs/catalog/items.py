"""What a catalog lists: entries of its files become items with a finished JSON answer and the values that filters see. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from modelyard.programs.catalog.config import Asset
from modelyard.programs.filter_query import Scalar, Stored
from modelyard.programs.registry.values import checked
from modelyard.programs.web import ApiError

Json = dict[str, Any]
URI_SCHEMES = ("oci", "http", "https", "s3", "gs", "az", "file", "hf")
MODEL_ARTIFACT, METRICS_ARTIFACT, TEMPLATE_ARTIFACT = "model-artifact", "metrics-artifact", "template-artifact"
PERFORMANCE, ACCURACY, SECURITY = "performance-metrics", "accuracy-metrics", "security-metrics"
_TEXTS = ("description", "readme", "maturity", "provider", "logo", "license", "licenseLink", "libraryName")
_LISTS = ("language", "tasks", "validatedTasks")
_TIMES = ("createTimeSinceEpoch", "lastUpdateTimeSinceEpoch")
_MODEL_KEYS = {"name", "externalId", "servingConfig", "customProperties", "artifacts", *_TEXTS, *_LISTS, *_TIMES}
_ARTIFACT_KEYS = {
    "artifactType",
    "name",
    "externalId",
    "description",
    "uri",
    "metricsType",
    "customProperties",
    *_TIMES,
}
_FIELD_NAMES = {
    "licenseLink": "license_link",
    "libraryName": "library_name",
    "validatedTasks": "validated_tasks",
    "servingConfig": "serving_config",
}
_LICENSES = {
    "apache-2.0": "Apache 2.0",
    "mit": "MIT",
    "gpl-2.0": "GPL 2.0",
    "gpl-3.0": "GPL 3.0",
    "lgpl-2.1": "LGPL 2.1",
    "lgpl-3.0": "LGPL 3.0",
    "agpl-3.0": "AGPL 3.0",
    "bsd-2-clause": "BSD 2-Clause",
    "bsd-3-clause": "BSD 3-Clause",
    "mpl-2.0": "Mozilla Public License 2.0",
    "cc0-1.0": "Creative Commons Zero v1.0 Universal",
    "cc-by-4.0": "Creative Commons Attribution 4.0 International",
    "cc-by-sa-4.0": "Creative Commons Attribution Share Alike 4.0 International",
    "cc-by-nc-4.0": "Creative Commons Attribution Non Commercial 4.0 International",
    "isc": "ISC License",
    "unlicense": "The Unlicense",
    "gemma": "Gemma License",
    "llama2": "Llama 2 Community License",
    "llama3": "Llama 3 Community License",
    "llama3.1": "Llama 3.1 Community License",
    "llama3.2": "Llama 3.2 Community License",
    "llama3.3": "Llama 3.3 Community License",
}


class BadEntry(Exception):
    """One entry of a catalog cannot be listed; the message names it."""


class UnknownKey(Exception):
    """A key that no entry has: the whole file is refused, because it may mean anything."""


@dataclass(frozen=True)
class Artifact:
    doc: Json
    fields: Mapping[str, Stored]
    custom: Mapping[str, Stored]

    @property
    def id(self) -> int:
        return int(self.doc["id"])

    @property
    def metrics_type(self) -> str | None:
        return self.doc.get("metricsType")


@dataclass(frozen=True)
class Item:
    id: int
    asset: Asset
    source: str
    name: str
    doc: Json
    fields: Mapping[str, Stored]
    custom: Mapping[str, Stored]
    artifacts: tuple[Artifact, ...] = ()
    searched: str = ""
    """Everything that `q` looks at, in lower case."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What has an address of its own below the item: an MCP server's tools."""


def stable_id(*parts: object) -> int:
    """The same number for the same thing on every start and in every replica; JavaScript can hold it exactly."""
    number = int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")
    return 10**14 + number % (9 * 10**14)


def license_name(identity: str) -> str:
    return _LICENSES.get(identity.lower(), identity)


def model(entry: Any, source: str) -> Item:
    """A model of a YAML catalog."""
    mapping = _entry(entry, _MODEL_KEYS, "model")
    name = _name(mapping, "model")
    where = f"model {name!r}"
    doc: Json = {"id": str(stable_id("model", source, name)), "source_id": source, "name": name}
    for key in ("externalId", *_TEXTS, *_TIMES):
        _copy_text(mapping, doc, key, where)
    for key in _LISTS:
        _copy_list(mapping, doc, key, where)
    if "license" in doc:
        doc["license"] = license_name(doc["license"])
    if mapping.get("servingConfig") is not None:
        doc["servingConfig"] = mapping["servingConfig"]
    doc["customProperties"] = properties(mapping.get("customProperties"), where)
    raw = mapping.get("artifacts") or []
    if not isinstance(raw, list):
        raise BadEntry(f"{where}: artifacts: expected a list")
    artifacts = tuple(_artifact(each, where, (source, name, number)) for number, each in enumerate(raw))
    return model_item(doc, artifacts)


def model_item(doc: Json, artifacts: tuple[Artifact, ...]) -> Item:
    fields = _fields(doc, ("source_id", "servingConfig", *_TEXTS, *_LISTS))
    searched = [doc["name"], *(str(doc.get(key, "")) for key in ("description", "provider", "libraryName"))]
    searched += [*doc.get("tasks", []), *doc.get("validatedTasks", [])]
    return Item(
        int(doc["id"]),
        Asset.MODELS,
        doc["source_id"],
        doc["name"],
        doc,
        fields,
        custom_values(doc["customProperties"]),
        artifacts,
        "\n".join(searched).lower(),
    )


def with_properties(item: Item, added: Json, artifacts: tuple[Artifact, ...]) -> Item:
    """The model with what performance data say about it."""
    doc = item.doc | {"customProperties": added | item.doc["customProperties"]}
    return replace(
        item, doc=doc, custom=custom_values(doc["customProperties"]), artifacts=(*item.artifacts, *artifacts)
    )


def _artifact(entry: Any, where: str, key: tuple[object, ...]) -> Artifact:
    mapping = _entry(entry, _ARTIFACT_KEYS, f"{where}: artifact")
    kind = mapping.get("artifactType", MODEL_ARTIFACT)
    if kind not in (MODEL_ARTIFACT, METRICS_ARTIFACT):
        raise BadEntry(f"{where}: unknown artifactType {kind!r}")
    doc: Json = {"id": str(stable_id("artifact", *key)), "artifactType": kind}
    for name in ("name", "externalId", "description", "uri", "metricsType", *_TIMES):
        _copy_text(mapping, doc, name, f"{where}: artifact")
    if kind == MODEL_ARTIFACT:
        uri = doc.get("uri", "")
        scheme = urlsplit(uri).scheme
        if scheme not in URI_SCHEMES:
            said = f"the uri {uri!r} has the scheme {scheme!r}" if uri else "an artifact has no uri"
            raise BadEntry(f"{where}: {said}; expected one of {', '.join(URI_SCHEMES)}")
    elif doc.get("metricsType") not in (PERFORMANCE, ACCURACY, SECURITY):
        raise BadEntry(f"{where}: unknown metricsType {doc.get('metricsType')!r}")
    doc["customProperties"] = properties(mapping.get("customProperties"), where)
    return made_artifact(doc)


def made_artifact(doc: Json) -> Artifact:
    names = ("artifactType", "name", "description", "uri", "metricsType")
    return Artifact(doc, _fields(doc, names), custom_values(doc["customProperties"]))


_SERVER_TEXTS = (
    "displayName", "version", "provider", "description", "license", "license_link", "readme", "logo", "deploymentMode",
    "documentationUrl", "repositoryUrl", "sourceCode", "publishedDate", "lastUpdated", *_TIMES,
)  # fmt: skip
_INDICATORS = ("verifiedSource", "secureEndpoint", "sast", "readOnlyTools")


def mcp_server(entry: Any, source: str) -> Item:
    mapping = _entry(entry, None, "MCP server")
    name = _name(mapping, "MCP server")
    where = f"MCP server {name!r}"
    identity = stable_id("mcp", source, name, mapping.get("version"))
    doc: Json = {"id": str(identity), "source_id": source, "name": name}
    for key in _SERVER_TEXTS:
        _copy_text(mapping, doc, key, where)
    if "license" in doc:
        doc["license"] = license_name(doc["license"])
    if "deploymentMode" in doc and doc["deploymentMode"] not in ("local", "remote"):
        raise BadEntry(f"{where}: deploymentMode: expected local or remote")
    for key in ("tags", "transports"):
        _copy_list(mapping, doc, key, where)
    _copy_endpoints(mapping, doc, where)
    indicators = mapping.get("securityIndicators") or {}
    if not isinstance(indicators, dict):
        raise BadEntry(f"{where}: securityIndicators: expected a map")
    if indicators:
        doc["securityIndicators"] = {key: bool(indicators[key]) for key in _INDICATORS if key in indicators}
    for key in ("artifacts", "runtimeMetadata", "server_json"):
        if mapping.get(key) is not None:
            doc[key] = mapping[key]
    given = properties(mapping.get("customProperties"), where)
    flags = {
        key: {"metadataType": "MetadataBoolValue", "bool_value": value}
        for key, value in doc.get("securityIndicators", {}).items()
    }
    doc["customProperties"] = flags | given
    tools = _tools(mapping.get("tools"), where)
    doc["toolCount"] = len(tools)
    fields = _fields(doc, ("source_id", "tags", "transports", *(key for key in _SERVER_TEXTS if key not in _TIMES))) | {
        "base_name": name
    }
    searched = [name, *(str(doc.get(key, "")) for key in ("displayName", "description", "provider"))]
    searched += doc.get("tags", [])
    custom = custom_values(doc["customProperties"])
    return Item(
        identity,
        Asset.MCP_SERVERS,
        source,
        name,
        doc,
        fields,
        custom,
        (),
        "\n".join(searched).lower(),
        {"tools": tools},
    )


def _copy_endpoints(mapping: Json, doc: Json, where: str) -> None:
    endpoints = mapping.get("endpoints")
    if endpoints is None:
        return
    if not isinstance(endpoints, dict):
        raise BadEntry(f"{where}: endpoints: expected a map")
    for key, address in endpoints.items():
        schemes = ("http", "https", "ws", "wss") if key == "websocket" else ("http", "https")
        if not isinstance(address, str) or urlsplit(address).scheme not in schemes or not urlsplit(address).netloc:
            raise BadEntry(f"{where}: endpoints.{key}: expected a URL with {' or '.join(schemes)}")
    doc["endpoints"] = endpoints


def _tools(value: Any, where: str) -> dict[str, Json]:
    if value is None:
        return {}
    if not isinstance(value, list):
        raise BadEntry(f"{where}: tools: expected a list")
    found: dict[str, Json] = {}
    for entry in value:
        mapping = _entry(entry, None, f"{where}: tool")
        name = _name(mapping, f"{where}: tool")
        if name in found:
            raise BadEntry(f"{where}: the tool {name!r} stands twice")
        tool: Json = {"name": name, "accessType": mapping.get("accessType") or "read_only"}
        _copy_text(mapping, tool, "description", f"{where}: tool {name!r}")
        if isinstance(mapping.get("parameters"), list):
            tool["parameters"] = mapping["parameters"]
        found[name] = tool
    return found


_AGENT_TEXTS = ("displayName", "description", "readme", "framework", "logo", "repositoryUrl", *_TIMES)


def agent(entry: Any, source: str) -> Item:
    mapping = _entry(entry, None, "agent")
    name = _name(mapping, "agent")
    where = f"agent {name!r}"
    identity = stable_id("agent", source, name)
    doc: Json = {"id": str(identity), "source_id": source, "name": name}
    for key in _AGENT_TEXTS:
        _copy_text(mapping, doc, key, where)
    _copy_list(mapping, doc, "labels", where)
    for key in ("env", "artifacts"):
        if mapping.get(key) is not None:
            doc[key] = mapping[key]
    doc["customProperties"] = properties(mapping.get("customProperties"), where)
    templates = mapping.get("templates") or []
    if not isinstance(templates, list):
        raise BadEntry(f"{where}: templates: expected a list")
    artifacts = tuple(_template(each, where, (source, name, number)) for number, each in enumerate(templates))
    fields = _fields(doc, ("source_id", "labels", *(key for key in _AGENT_TEXTS if key not in _TIMES)))
    searched = [name, *(str(doc.get(key, "")) for key in ("displayName", "description", "framework"))]
    searched += doc.get("labels", [])
    custom = custom_values(doc["customProperties"])
    return Item(identity, Asset.AGENTS, source, name, doc, fields, custom, artifacts, "\n".join(searched).lower())


def _template(entry: Any, where: str, key: tuple[object, ...]) -> Artifact:
    mapping = _entry(entry, None, f"{where}: template")
    doc: Json = {"id": str(stable_id("template", *key)), "artifactType": TEMPLATE_ARTIFACT}
    doc["name"] = _name(mapping, f"{where}: template")
    _copy_text(mapping, doc, "content", f"{where}: template")
    doc["customProperties"] = {}
    return made_artifact(doc)


def properties(value: Any, where: str) -> Json:
    """Custom properties as the registry takes them; a whole number without quotes is one too."""
    if value is None:
        return {}
    if isinstance(value, dict):
        value = {key: _quoted(given) for key, given in value.items()}
        if not all(isinstance(key, str) for key in value):
            raise BadEntry(f"{where}: customProperties: a name is not text")
    try:
        return checked(value)
    except ApiError as error:
        raise BadEntry(f"{where}: {error.message}") from None


def _quoted(given: Any) -> Any:
    if isinstance(given, dict) and type(given.get("int_value")) is int:
        return given | {"int_value": str(given["int_value"])}
    return given


def property_value(value: Scalar) -> Json:
    """A plain value as a custom property; what is too long for the clients' integers becomes a number."""
    if isinstance(value, bool):
        return {"metadataType": "MetadataBoolValue", "bool_value": value}
    if isinstance(value, int) and abs(value) < 10**9:
        return {"metadataType": "MetadataIntValue", "int_value": str(value)}
    if isinstance(value, int | float):
        return {"metadataType": "MetadataDoubleValue", "double_value": float(value)}
    return {"metadataType": "MetadataStringValue", "string_value": value}


def custom_values(given: Json) -> dict[str, Stored]:
    """What filters compare. A text that is a JSON list is a list."""
    found: dict[str, Stored] = {}
    for key, value in given.items():
        match value["metadataType"]:
            case "MetadataStringValue":
                found[key] = _listed(value["string_value"])
            case "MetadataIntValue":
                found[key] = int(value["int_value"])
            case "MetadataDoubleValue":
                found[key] = float(value["double_value"])
            case "MetadataBoolValue":
                found[key] = value["bool_value"]
    return found


def _listed(text: str) -> Stored:
    if not text.startswith("["):
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(inner, list) and all(isinstance(item, str | int | float) for item in inner):
        return tuple(inner)
    return text


def _fields(doc: Json, names: tuple[str, ...]) -> dict[str, Stored]:
    found: dict[str, Stored] = {"id": int(doc["id"])}
    for name in ("name", "externalId"):
        if name in doc:
            found[name] = doc[name]
    for name in _TIMES:
        if name in doc and str(doc[name]).isdigit():
            found[name] = int(doc[name])
    for name in names:
        if name in doc:
            value = doc[name]
            stored = tuple(value) if isinstance(value, list) else value
            found[_FIELD_NAMES.get(name, name)] = json.dumps(stored) if isinstance(stored, dict) else stored
    return found


def _entry(value: Any, known: set[str] | None, where: str) -> Json:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise BadEntry(f"{where}: expected a map")
    if known is not None:
        for key in value:
            if key not in known:
                raise UnknownKey(f"{where} {value.get('name', '')!r}: unknown key {key!r}")
    return value


def _name(mapping: Json, where: str) -> str:
    name = mapping.get("name")
    if not isinstance(name, str) or not name:
        raise BadEntry(f"{where}: name is missing or not text: {name!r}")
    return name


def _copy_text(mapping: Json, doc: Json, key: str, where: str) -> None:
    value = mapping.get(key)
    if value is None:
        return
    if isinstance(value, int) and not isinstance(value, bool) and key in _TIMES:
        value = str(value)
    if not isinstance(value, str):
        raise BadEntry(f"{where}: {key}: expected text, found {value!r}")
    doc[key] = value


def _copy_list(mapping: Json, doc: Json, key: str, where: str) -> None:
    value = mapping.get(key)
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadEntry(f"{where}: {key}: expected a list of texts")
    doc[key] = value
