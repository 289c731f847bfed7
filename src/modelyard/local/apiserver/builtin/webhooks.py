"""Rules of webhook configurations: what a webhook must say about itself."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import Cause, duplicate, invalid_value, not_supported, required

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_URL_FORM = "; desired format: https://host[/path]"


def _configuration(obj: Object, *, mutating: bool) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        field = f"webhooks[{index}]"
        found += _webhook(webhook, field, mutating)
        found += _review_versions(webhook.get("admissionReviewVersions") or (), f"{field}.admissionReviewVersions")
        name = webhook.get("name", "")
        if name and name in seen:
            found.append(duplicate(f"{field}.name", name))
        seen.add(name)
    return found


def _webhook(webhook: Object, field: str, mutating: bool) -> list[Cause]:
    found = _qualified(webhook.get("name", ""), f"{field}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        found += _rule(rule, f"{field}.rules[{index}]")
    found += checks.one_of(webhook.get("failurePolicy", ""), f"{field}.failurePolicy", ("Fail", "Ignore"))
    found += checks.one_of(webhook.get("matchPolicy", ""), f"{field}.matchPolicy", ("Equivalent", "Exact"))
    effects = webhook.get("sideEffects")
    if effects is None:
        found.append(required(f"{field}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}"))
    elif effects not in _NO_SIDE_EFFECTS:
        found.append(not_supported(f"{field}.sideEffects", effects, _NO_SIDE_EFFECTS))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        found.append(invalid_value(f"{field}.timeoutSeconds", seconds, detail))
    for name in ("namespaceSelector", "objectSelector"):
        found += checks.label_selector(webhook.get(name), f"{field}.{name}")
    if mutating:
        policies = ("IfNeeded", "Never")
        found += checks.one_of(webhook.get("reinvocationPolicy", ""), f"{field}.reinvocationPolicy", policies)
    found += _client(webhook.get("clientConfig") or {}, f"{field}.clientConfig")
    return found + _conditions(webhook.get("matchConditions") or (), f"{field}.matchConditions")


def _qualified(name: str, field: str) -> list[Cause]:
    if not name:
        return [required(field)]
    wrong = names.dns_subdomain(name)
    if wrong:
        return checks.told(field, name, wrong)
    if name.count(".") < 2:
        return [invalid_value(field, name, "should be a domain with at least three segments separated by dots")]
    return []


def _rule(rule: Object, field: str) -> list[Cause]:
    operations = rule.get("operations") or []
    found = [] if operations else [required(f"{field}.operations")]
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        found.append(invalid_value(f"{field}.operations", operations, detail))
    for index, operation in enumerate(operations):
        found += checks.one_of(operation, f"{field}.operations[{index}]", _OPERATIONS)
    for name, noun in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or []
        if not values:
            found.append(required(f"{field}.{name}"))
        if len(values) > 1 and "*" in values:
            found.append(invalid_value(f"{field}.{name}", values, f"if '*' is present, must not specify other {noun}"))
    found += [
        required(f"{field}.apiVersions[{index}]")
        for index, version in enumerate(rule.get("apiVersions") or ())
        if not version
    ]
    found += _resources(rule.get("resources") or [], f"{field}.resources")
    scope = rule.get("scope")
    if scope is not None:
        found += checks.one_of(scope, f"{field}.scope", _SCOPES)
    return found


def _resources(resources: list[str], field: str) -> list[Cause]:
    found = [] if resources else [required(field)]
    whole, anywhere = set[str](), set[str]()
    for index, text in enumerate(resources):
        if not text:
            found.append(required(f"{field}[{index}]"))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {text}"
            found.append(invalid_value(f"{field}[{index}]", text, detail))
        if sub in anywhere:
            found.append(invalid_value(f"{field}[{index}]", text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        found.append(invalid_value(field, resources, "if '*/*' is present, must not specify other resources"))
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        found.append(invalid_value(field, resources, detail))
    return found


def _client(config: Object, field: str) -> list[Cause]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is not None:
        return _url(url, f"{field}.url")
    return service_reference(service or {}, f"{field}.service")


def _url(url: str, field: str) -> list[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(field, f"url must be a valid URL: {error}{_URL_FORM}")]
    found: list[Cause] = []
    if parts.scheme != "https":
        found.append(invalid_value(field, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not parts.netloc:
        found.append(invalid_value(field, "", f"host must be specified{_URL_FORM}"))
    if "@" in parts.netloc:
        user = parts.netloc.rsplit("@", 1)[0]
        found.append(invalid_value(field, user, "user information is not permitted in the URL"))
    if parts.fragment:
        found.append(invalid_value(field, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        found.append(invalid_value(field, parts.query, "query parameters are not permitted in the URL"))
    return found


def service_reference(service: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    # Kubernetes hands over name and namespace in the wrong order; clients see the swapped field.
    if not service.get("namespace"):
        found.append(required(f"{field}.name"))
    if not service.get("name"):
        found.append(required(f"{field}.namespace"))
    port = service.get("port", 443)
    if wrong := names.port_number(port):
        found.append(invalid_value(f"{field}.port", port, f"port is not valid: {', '.join(wrong)}"))
    path = service.get("path")
    if path in (None, "", "/"):
        return found
    if path == "//":
        return [*found, invalid_value(f"{field}.path", path, "segment[0] may not be empty")]
    if not path.startswith("/"):
        found.append(invalid_value(f"{field}.path", path, "must start with a '/'"))
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            found.append(invalid_value(f"{field}.path", path, f"segment[{index}] may not be empty"))
            continue
        for wrong_step in names.dns_subdomain(step):
            found.append(invalid_value(f"{field}.path", path, f"segment[{index}]: {wrong_step}"))
    return found


def _review_versions(versions: Sequence[str], field: str) -> list[Cause]:
    if not versions:
        return [required(field, "must specify one of v1, v1beta1")]
    found: list[Cause] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            found.append(invalid_value(f"{field}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        found += checks.told(f"{field}[{index}]", version, names.dns_1035_label(version))
    if not seen & {"v1", "v1beta1"}:
        found.append(invalid_value(field, list(versions), "must include at least one of v1, v1beta1"))
    return found


def _conditions(conditions: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    if len(conditions) > 64:
        detail = "must have at most 64 items"
        found.append(Cause(field, "FieldValueTooMany", f"Too many: {len(conditions)}: {detail}"))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path, name = f"{field}[{index}]", condition.get("name", "")
        if not (condition.get("expression") or "").strip():
            found.append(required(f"{path}.expression"))
        if not name:
            found.append(required(f"{path}.name"))
        else:
            found += checks.qualified_name(name, f"{path}.name")
            if name in seen:
                found.append(duplicate(f"{path}.name", name))
            seen.add(name)
    return found


def validating(obj: Object) -> list[Cause]:
    return _configuration(obj, mutating=False)


def mutating(obj: Object) -> list[Cause]:
    return _configuration(obj, mutating=True)


RULES = (
    Rules(builtin.ValidatingWebhookConfiguration, validating, generation="content"),
    Rules(builtin.MutatingWebhookConfiguration, mutating, generation="content"),
)
