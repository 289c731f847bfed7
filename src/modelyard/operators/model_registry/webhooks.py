"""Defaults and validation of `ModelRegistry`, in both versions, and its conversion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from modelyard.kube.builtin import Route
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of, name_of, namespace_of, spec_of, status_of
from modelyard.operators.model_registry.api import (
    GROUP,
    MODEL_REGISTRY,
    ModelRegistry,
    ModelRegistrySpec,
    OldModelRegistry,
)
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.conversion import convert, oauth_of
from modelyard.operators.model_registry.facts import PLAIN_HTTP
from modelyard.operators.model_registry.observe import ignored_fields
from modelyard.operators.model_registry.rules import AnySpec, collisions, name_errors, spec_errors
from modelyard.runtime.webhooks import (
    AdmissionRequest,
    Allowed,
    Answer,
    Conversion,
    Denied,
    FieldError,
    Webhook,
    invalid,
)

_OLD = "v1alpha1"
KINDS = tuple(
    Kind(GROUP, version.name, MODEL_REGISTRY.kind_name, MODEL_REGISTRY.plural) for version in MODEL_REGISTRY.versions
)


def webhooks(settings: Settings) -> list[Webhook]:
    """At upstream's paths, under upstream's names."""
    path = "modelregistry-opendatahub-io-modelregistry"
    return [
        Webhook(
            "mmodelregistry.opendatahub.io",
            "mutating",
            f"/mutate-{path}",
            lambda request: fill_in(request, settings),
            kinds=KINDS,
            configuration="model-registry-operator-mutating-webhook-configuration",
        ),
        Webhook(
            "vmodelregistry.opendatahub.io",
            "validating",
            f"/validate-{path}",
            lambda request: check(request, settings),
            kinds=KINDS,
            configuration="model-registry-operator-validating-webhook-configuration",
            reads=[MODEL_REGISTRY.kind],
        ),
    ]


CONVERSIONS = (Conversion(MODEL_REGISTRY.conversion_path, MODEL_REGISTRY, convert),)


def _unsupported(request: AdmissionRequest) -> Denied | None:
    kind = request.kind
    if kind.group != GROUP or kind.kind != MODEL_REGISTRY.kind_name or kind.version not in {k.version for k in KINDS}:
        said = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        text = f"unsupported resource {request.name} in namespace {request.namespace} of type {said}"
        return Denied(text, code=400, reason="BadRequest")
    if request.operation not in ("CREATE", "UPDATE"):
        return Denied(f'unknown operation "{request.operation}"', code=400, reason="BadRequest")
    return None


# Defaults


def fill_in(request: AdmissionRequest, settings: Settings) -> Answer:
    """The object as it should be stored. Where webhooks are off, the controller does the same before it makes anything."""
    if (refusal := _unsupported(request)) is not None:
        return refusal
    obj = request.object
    spec = obj.get("spec") if obj else None
    if obj is None or not isinstance(spec, dict):
        return None
    rest = spec.setdefault("rest", {})
    if isinstance(rest, dict) and not rest.get("serviceRoute"):
        rest["serviceRoute"] = "disabled"
    _drop_empty_databases(spec, old=request.kind.version == _OLD)
    if request.kind.version == _OLD:
        if isinstance(istio := spec.pop("istio", None), dict):
            spec["oauthProxy"] = oauth_of(istio)
        place = "oauthProxy"
    else:
        if isinstance(oauth := spec.pop("oauthProxy", None), dict):
            spec.setdefault("kubeRBACProxy", {name: value for name, value in oauth.items() if name != "image"})
        place = "kubeRBACProxy"
    if request.reader.serves(Route) and spec.get(place) is None and annotations_of(obj).get(PLAIN_HTTP) != "true":
        spec[place] = {}
    proxy = spec.get(place)
    if isinstance(proxy, dict) and not proxy.get("serviceRoute"):
        proxy["serviceRoute"] = "enabled"
    _drop_default_image(request, rest, settings)
    return obj


def _drop_empty_databases(spec: Object, *, old: bool) -> None:
    postgres, mysql = spec.get("postgres"), spec.get("mysql")
    places = ("host", "hostAddress") if old else ("host", "hostAddress", "generateDeployment")
    if isinstance(postgres, dict) and not any(postgres.get(place) for place in places):
        del spec["postgres"]
    if isinstance(mysql, dict) and not mysql.get("host"):
        del spec["mysql"]


def _drop_default_image(request: AdmissionRequest, rest: Object, settings: Settings) -> None:
    """An image that is the operator's own anyway is not pinned: it follows the operator. Only the very same counts."""
    recorded = status_of(request.old or {}).get("specDefaults") or "{}"
    if recorded == "{}" and isinstance(rest, dict) and rest.get("image") == settings.rest_image:
        del rest["image"]


# Validation


def check(request: AdmissionRequest, settings: Settings) -> Answer:
    """Yes, with warnings; or no, with every reason."""
    if (refusal := _unsupported(request)) is not None:
        return refusal
    obj = request.object
    if obj is None or (obj.get("metadata") or {}).get("deletionTimestamp"):
        return None  # Whatever is wrong with it must not keep it from going.
    name, namespace = request.name or name_of(obj), request.namespace or namespace_of(obj)
    try:
        spec = _typed(obj, request.kind.version)
    except msgspec.ValidationError as error:
        return _denied(name, [FieldError("spec", f"Invalid value: {error}")])
    if request.operation == "CREATE":
        if (twin := _twin(request, name, namespace)) is not None:
            text = f'Duplicate value: "registry named {name} already exists in namespace {twin}"'
            return _denied(name, [FieldError("metadata.name", text, "FieldValueDuplicate")])
        errors = [*_place_errors(namespace, settings), *spec_errors(spec), *name_errors(name, spec)]
    else:
        errors = [*spec_errors(spec)]
    errors += collisions(name, spec, _others(request, name, namespace))
    if errors:
        return _denied(name, errors)
    return Allowed(warnings=list(ignored_fields(spec)) if isinstance(spec, ModelRegistrySpec) else [])


def _typed(obj: Object, version: str) -> AnySpec:
    return OldModelRegistry.parse(obj).spec if version == _OLD else ModelRegistry.parse(obj).spec


def _denied(name: str, errors: list[FieldError]) -> Denied:
    return replace(invalid(MODEL_REGISTRY.kind, name, errors), code=403, reason="Forbidden")


def _place_errors(namespace: str, settings: Settings) -> Iterator[FieldError]:
    if settings.namespace and namespace != settings.namespace:
        text = f'Invalid value: "{namespace}": namespace must be {settings.namespace}'
        yield FieldError("metadata.namespace", text)


def _twin(request: AdmissionRequest, name: str, namespace: str) -> str | None:
    """The other namespace in which a registry has this name: their cluster-scoped objects would be the same."""
    found = (namespace_of(other) for other in request.reader.list(MODEL_REGISTRY.kind) if name_of(other) == name)
    return next((other for other in found if other != namespace), None)


def _others(request: AdmissionRequest, name: str, namespace: str) -> Iterator[tuple[str, bool]]:
    for other in request.reader.list(MODEL_REGISTRY.kind, namespace):
        if name_of(other) != name:
            yield name_of(other), bool((spec_of(other).get("postgres") or {}).get("generateDeployment"))
