"""Validation of CustomResourceDefinition objects, in Kubernetes' words and order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from modelyard.kube import names as naming
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.problems import (
    Cause,
    field_forbidden,
    go_value,
    invalid_value,
    not_supported,
    required,
)
from modelyard.local.apiserver.structural import (
    Node,
    check_defaults,
    check_keywords,
    check_structural,
    read_schema,
    unsupported_keyword,
)
from modelyard.local.apiserver.structural.checks import nested_schemas

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_APPROVAL = "api-approved.kubernetes.io"
_ROOT_KEYWORDS = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_ROOT_JSON = {name[0].lower() + name[1:] for name in _ROOT_KEYWORDS} | {
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the definition that all versions share, or that each has, and its path."""

    value: Any
    path: str


def check_definition(obj: Object) -> list[Cause]:
    """What is wrong with a new definition, beside its metadata."""
    spec = obj.get("spec") or {}
    causes = _check_spec(spec, {})
    causes += _check_stored_versions((obj.get("status") or {}).get("storedVersions") or [], spec.get("versions") or [])
    causes += _check_approval(obj, None)
    if spec.get("preserveUnknownFields"):
        causes.append(_no_preserve())
    return causes


def check_definition_update(obj: Object, old: Object) -> list[Cause]:
    """What is wrong with a changed definition."""
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    causes = _check_spec(spec, old_spec)
    names, old_names = spec.get("names") or {}, old_spec.get("names") or {}
    conditions = (old.get("status") or {}).get("conditions") or ()
    fixed = [
        ("group", spec.get("group"), old_spec.get("group")),
        ("names.plural", names.get("plural"), old_names.get("plural")),
    ]
    if any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions):
        fixed = [
            ("scope", spec.get("scope"), old_spec.get("scope")),
            ("names.kind", names.get("kind"), old_names.get("kind")),
            *fixed,
        ]
    causes += [invalid_value(f"spec.{name}", new, "field is immutable") for name, new, was in fixed if new != was]
    causes += _check_stored_versions((obj.get("status") or {}).get("storedVersions") or [], spec.get("versions") or [])
    causes += _check_approval(obj, old)
    if spec.get("preserveUnknownFields") and not old_spec.get("preserveUnknownFields"):
        causes.append(_no_preserve())
    return causes


def _no_preserve() -> Cause:
    text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return invalid_value("spec.preserveUnknownFields", True, text)


def _check_spec(spec: Object, old: Object) -> list[Cause]:
    before = {version.get("name"): version.get("schema") for version in old.get("versions") or ()}
    causes: list[Cause] = []
    group = spec.get("group") or ""
    if not group:
        causes.append(required("spec.group"))
    elif wrong := naming.dns_subdomain(group):
        causes.append(invalid_value("spec.group", group, ",".join(wrong)))
    elif "." not in group:
        causes.append(invalid_value("spec.group", group, "should be a domain with at least one dot"))
    causes += _one_of(spec.get("scope") or "", ("Cluster", "Namespaced"), "spec.scope")
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in versions]
    if spec.get("preserveUnknownFields") and any(_has_default(schema) for schema in schemas):
        text = "must be false in order to use defaults in the schema"
        causes.append(invalid_value("spec.preserveUnknownFields", True, text))
    shared_schema = _shared(versions, "schema")
    shared_subresources = _shared(versions, "subresources")
    shared_columns = _shared(versions, "additionalPrinterColumns")
    for index, version in enumerate(versions):
        causes += _check_version(
            version, f"spec.versions[{index}]",
            schema=not shared_schema, before=before.get(version.get("name")), subresources=not shared_subresources, columns=not shared_columns,
        )  # fmt: skip
    causes += _check_version_list(versions, (shared_schema, shared_subresources, shared_columns))
    first = versions[0].get("name") if versions else ""
    if first and (wrong := naming.dns_1035_label(first)):
        causes.append(invalid_value("spec.version", first, ",".join(wrong)))
    names = spec.get("names") or {}
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            causes.append(required(f"spec.names.{name}"))
    causes += check_names(names, "spec.names")
    if versions and shared_schema:
        has_status = any(_has_status(version) for version in versions)
        former = before.get(versions[0].get("name"))
        causes += _check_schema(versions[0].get("schema"), "spec.validation", has_status, former)
    if versions and shared_subresources:
        causes += _check_subresources(versions[0].get("subresources"), "spec.subresources")
    if versions and shared_columns:
        for index, column in enumerate(versions[0].get("additionalPrinterColumns") or ()):
            causes += _check_column(column, f"spec.additionalPrinterColumns[{index}]")
    return causes + _check_conversion(spec)


def _has_default(schema: Mapping[str, Any]) -> bool:
    return schema.get("default") is not None or any(_has_default(child) for child in nested_schemas(schema))


def _shared(versions: Sequence[Object], name: str) -> bool:
    """Whether all versions have the same; Kubernetes then speaks of it as of the whole definition's."""
    return bool(versions) and all(version.get(name) == versions[0].get(name) for version in versions)


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _check_version(
    version: Object, path: str, *, schema: bool, before: Object | None, subresources: bool, columns: bool
) -> list[Cause]:
    causes: list[Cause] = []
    if wrong := naming.dns_1035_label(version.get("name") or ""):
        causes.append(invalid_value(f"{path}.name", version.get("name") or "", ",".join(wrong)))
    warning = version.get("deprecationWarning")
    problems = _deprecation_problems(bool(version.get("deprecated")), warning)
    causes += [invalid_value(f"{path}.deprecationWarning", warning, problem) for problem in problems]
    if schema:
        causes += _check_schema(version.get("schema"), f"{path}.schema", _has_status(version), before)
    if subresources:
        causes += _check_subresources(version.get("subresources"), f"{path}.subresources")
    if columns:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            causes += _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    return causes


def _deprecation_problems(deprecated: bool, warning: str | None) -> list[str]:
    if warning is None:
        return []
    if not deprecated:
        return ["can only be set for deprecated versions"]
    problems = []
    if len(warning.encode()) > 256:
        problems.append("must be <= 256 characters long")
    if not warning:
        problems.append("must not be an empty string")
    for index, char in enumerate(warning):
        if not char.isprintable():
            position = len(warning[:index].encode())
            text = f"must only contain printable UTF-8 characters; non-printable character found at index {position}"
            problems.append(text)
            break
    return problems


def _check_version_list(versions: Sequence[Object], shared: tuple[bool, bool, bool]) -> list[Cause]:
    names = [version.get("name") for version in versions]
    problems = []
    if len(set(names)) != len(names):
        problems.append("must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        problems.append("must have exactly one version marked as storage version")
    shown = "[" + ",".join(_internal_version(version, shared) for version in versions) + "]" if versions else "null"
    return [Cause("spec.versions", "FieldValueInvalid", f"Invalid value: {shown}: {problem}") for problem in problems]


def _internal_version(version: Object, shared: tuple[bool, bool, bool]) -> str:
    """A version as Kubernetes' internal type prints it: what all versions share is not part of it."""
    fields: list[tuple[str, Any]] = [
        ("Name", version.get("name") or ""),
        ("Served", bool(version.get("served"))),
        ("Storage", bool(version.get("storage"))),
        ("Deprecated", bool(version.get("deprecated"))),
        ("DeprecationWarning", version.get("deprecationWarning")),
        ("Schema", None if shared[0] else version.get("schema")),
        ("Subresources", None if shared[1] else version.get("subresources")),
        ("AdditionalPrinterColumns", None if shared[2] else version.get("additionalPrinterColumns")),
        ("SelectableFields", None),
    ]
    return "{" + ",".join(f'"{name}":{go_value(value)}' for name, value in fields) + "}"


def _check_schema(validation: Object | None, path: str, has_status: bool, before: Object | None) -> list[Cause]:
    schema: Mapping[str, Any] | None = (validation or {}).get("openAPIV3Schema")
    if schema is None:
        return []
    path = f"{path}.openAPIV3Schema"
    causes: list[Cause] = []
    if has_status:
        causes += _check_root_keywords(schema, path)
    if schema.get("nullable"):
        causes.append(field_forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unreadable = unsupported_keyword(schema)
    structural: Node | None = None
    if unreadable is None:
        found = check_structural(schema, path)
        if not found:
            root = read_schema(schema)
            found = check_defaults(root, path, _check_default)
            structural = None if found else root
        causes += found
    causes += check_keywords(schema, path, None if structural is None else _check_rules)
    if structural is not None and structural.has_rules:
        from modelyard.local.apiserver.cel import cost_check

        causes += cost_check(structural, path, changed=validation != before)
    if not causes and unreadable is not None:
        causes.append(invalid_value(path, "", unreadable))
    return causes


def _check_default(node: Node, default: Any, path: str, root: bool) -> list[Cause]:
    if not node.has_rules:
        return []
    # CEL is loaded only for definitions that use it.
    from modelyard.local.apiserver.cel import default_check

    return default_check(node, default, path, root)


def _check_rules(schema: Mapping[str, Any], path: str, uncorrelatable: str, root: bool) -> list[Cause]:
    from modelyard.local.apiserver.cel import rule_check

    return rule_check(schema, path, uncorrelatable, root)


def _check_root_keywords(schema: Mapping[str, Any], path: str) -> list[Cause]:
    if schema.get("type") and schema["type"] != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid_value(f"{path}.type", schema["type"], text)]
    if any(value and name not in _ROOT_JSON for name, value in schema.items()):
        allowed = " ".join(_ROOT_KEYWORDS)
        text = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        return [invalid_value(path, dict(schema), text)]
    return []


def _check_subresources(subresources: Object | None, path: str) -> list[Cause]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    causes: list[Cause] = []
    for name, prefix, wanted in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        ("labelSelectorPath", (".spec.", ".status."), "should be a json path under either .spec or .status"),
    ):
        value, place = scale.get(name) or "", f"{path}.scale.{name}"
        if not value:
            if name != "labelSelectorPath":
                causes.append(required(place))
        elif not value.startswith("."):
            causes.append(invalid_value(place, value, "must be a simple json path starting with ."))
        elif not value.startswith(prefix):
            causes.append(invalid_value(place, value, wanted))
    return causes


def _check_column(column: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not column.get("name"):
        causes.append(required(f"{path}.name"))
    kind, form, json_path = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    choices = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        causes.append(required(f"{path}.type", choices))
    elif kind not in _COLUMN_TYPES:
        causes.append(invalid_value(f"{path}.type", kind, choices))
    if form and form not in _COLUMN_FORMATS:
        causes.append(invalid_value(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not json_path:
        causes.append(required(f"{path}.JSONPath"))
    elif not json_path.startswith("."):
        causes.append(invalid_value(f"{path}.JSONPath", json_path, "must be a simple json path starting with ."))
    return causes


def check_names(names: Mapping[str, Any], path: str) -> list[Cause]:
    """What is wrong with the names that a definition asks for or was given."""
    causes: list[Cause] = []
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name) or ""
        wrong = naming.dns_1035_label(value.lower() if name in ("kind", "listKind") else value) if value else ()
        if wrong:
            prefix = "may have mixed case, but should otherwise match: " if name in ("kind", "listKind") else ""
            causes.append(invalid_value(f"{path}.{name}", value, prefix + ",".join(wrong)))
    for index, value in enumerate(names.get("shortNames") or ()):
        if wrong := naming.dns_1035_label(value):
            causes.append(invalid_value(f"{path}.shortNames[{index}]", value, ",".join(wrong)))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        causes.append(invalid_value(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same"))
    for index, value in enumerate(names.get("categories") or ()):
        if wrong := naming.dns_1035_label(value):
            causes.append(invalid_value(f"{path}.categories[{index}]", value, ",".join(wrong)))
    return causes


def _one_of(value: str, choices: Sequence[str], path: str) -> list[Cause]:
    if not value:
        return [required(path)]
    return [] if value in choices else [not_supported(path, value, choices)]


def _check_conversion(spec: Object) -> list[Cause]:
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    path = "spec.conversion"
    strategy = conversion.get("strategy") or ""
    causes: list[Cause] = []
    if strategy != "None" and spec.get("preserveUnknownFields"):
        text = "must be None if spec.preserveUnknownFields is true"
        causes.append(invalid_value(f"{path}.strategy", strategy, text))
    causes += _one_of(strategy, ("None", "Webhook"), f"{path}.strategy")
    webhook = conversion.get("webhook") or {}
    config, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if config is not None:
            causes.append(field_forbidden(f"{path}.webhookClientConfig", text))
        if reviews:
            causes.append(field_forbidden(f"{path}.conversionReviewVersions", text))
        return causes
    if config is None:
        causes.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
    elif (config.get("url") is None) == (config.get("service") is None):
        causes.append(required(f"{path}.webhookClientConfig", "exactly one of url or service is required"))
    elif config.get("url") is not None:
        causes += _check_url(config["url"], f"{path}.webhookClientConfig.url")
    else:
        causes += _check_service(config["service"], f"{path}.webhookClientConfig.service")
    return causes + _check_review_versions(reviews, f"{path}.conversionReviewVersions")


def _check_url(url: str, path: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    causes = []
    if parts.scheme != "https":
        causes.append(invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        causes.append(invalid_value(path, parts.netloc, f"host must be specified{form}"))
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        causes.append(invalid_value(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid_value(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid_value(path, parts.query, "query parameters are not permitted in the URL"))
    return causes


def _check_service(service: Object, path: str) -> list[Cause]:
    # Kubernetes mixes the two up: a missing name is told as a missing namespace.
    swapped = (("name", "namespace"), ("namespace", "name"))
    causes = [required(f"{path}.{told}") for told, missing in swapped if not service.get(missing)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        causes.append(invalid_value(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    return causes + _check_url_path(service.get("path"), f"{path}.path")


def _check_url_path(url_path: str | None, path: str) -> list[Cause]:
    if not url_path or url_path == "/":
        return []
    if url_path == "//":
        return [invalid_value(path, url_path, "segment[0] may not be empty")]
    causes = []
    if not url_path.startswith("/"):
        causes.append(invalid_value(path, url_path, "must start with a '/'"))
    segments = url_path[1:].removesuffix("/").split("/")
    for index, segment in enumerate(segments):
        if not segment:
            causes.append(invalid_value(path, url_path, f"segment[{index}] may not be empty"))
            continue
        causes += [
            invalid_value(path, url_path, f"segment[{index}]: {wrong}") for wrong in naming.dns_subdomain(segment)
        ]
    return causes


def _check_review_versions(versions: Sequence[str], path: str) -> list[Cause]:
    if not versions:
        return [required(path)]
    causes = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(invalid_value(f"{path}[{index}]", version, "duplicate version"))
            continue
        causes += [invalid_value(f"{path}[{index}]", version, wrong) for wrong in naming.dns_1035_label(version)]
    if not any(version in _REVIEW_VERSIONS for version in versions):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        causes.append(invalid_value(path, list(versions), text))
    return causes


def _check_stored_versions(stored: Sequence[str], versions: Sequence[Object]) -> list[Cause]:
    path = "status.storedVersions"
    if not stored:
        return [invalid_value(path, None, "must have at least one stored version")]
    names = {version.get("name") for version in versions}
    causes = [
        invalid_value(path, list(stored), f"must have the storage version {version.get('name')}")
        for version in versions
        if version.get("storage") and version.get("name") not in stored
    ]
    for index, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            causes.append(invalid_value(f"{path}[{index}]", name, text))
    return causes


def _check_approval(obj: Object, old: Object | None) -> list[Cause]:
    """Groups under k8s.io and kubernetes.io need a word from the community."""
    group = (obj.get("spec") or {}).get("group") or ""
    if not re.search(r"(^|\.)(k8s|kubernetes)\.io$", group):
        return []
    state, reason, value = _approval(obj)
    if old is not None and _approval(old)[0] == state:
        return []
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [required(path, reason)]
    return [] if state == "fine" else [invalid_value(path, value, reason)]


def _approval(obj: Object) -> tuple[str, str, str]:
    value = ((obj.get("metadata") or {}).get("annotations") or {}).get(_APPROVAL)
    if not value:
        return (
            "missing",
            'protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
            "",
        )
    if value.startswith("unapproved"):
        return "fine", "", value
    parts = urlsplit(value)
    if parts.netloc and parts.scheme:
        return "fine", "", value
    text = f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
    return "invalid", text, value
