"""Defaults and validation of `ModelRegistry`, in both versions, and its conversion."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of, is_deleting, name_of, namespace_of, spec_of, status_of
from modelyard.kube.openshift import is_openshift
from modelyard.operators.model_registry.api import (
    GROUP,
    MODEL_REGISTRY,
    ModelRegistry,
    ModelRegistrySpec,
)
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.conversion import (
    BETA,
    convert,
    keeps_generated_database,
    kept_of,
    oauth_of,
    with_kept,
)
from modelyard.operators.model_registry.database import references
from modelyard.operators.model_registry.facts import PLAIN_HTTP
from modelyard.operators.model_registry.observe import doubtful_fields
from modelyard.operators.model_registry.rules import collisions, name_errors, spec_errors
from modelyard.operators.parts.author_rights import Uses, refusal
from modelyard.runtime.webhooks import (
    AdmissionRequest,
    Allowed,
    Answer,
    Conversion,
    ConversionFailed,
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
            lambda request: validate(request, settings),
            kinds=KINDS,
            configuration="model-registry-operator-validating-webhook-configuration",
            reads=[MODEL_REGISTRY.kind],
            reviews_access=True,
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
    old = request.kind.version == _OLD
    if old:
        with_kept(obj, request.old)
    _drop_empty_databases(spec, generated=old and keeps_generated_database(obj))
    place = _move_proxy(spec, old=old)
    proxied = spec.get(place) is not None or (old and "kubeRBACProxy" in kept_of(obj))
    if is_openshift(request.reader) and not proxied and annotations_of(obj).get(PLAIN_HTTP) != "true":
        spec[place] = {}
    proxy = spec.get(place)
    if isinstance(proxy, dict) and not proxy.get("serviceRoute"):
        proxy["serviceRoute"] = "enabled"
    _drop_default_image(request, rest, settings)
    return obj


def _move_proxy(spec: Object, *, old: bool) -> str:
    """Where the proxy stands in this version, once an older form has moved there. Where the place is taken both stay:
    the schema refuses that with a rule of its own."""
    before, place = ("istio", "oauthProxy") if old else ("oauthProxy", "kubeRBACProxy")
    found = spec.get(before)
    if isinstance(found, dict) and spec.get(place) is None:
        del spec[before]
        spec[place] = oauth_of(found) if old else {name: value for name, value in found.items() if name != "image"}
    return place


def _drop_empty_databases(spec: Object, *, generated: bool) -> None:
    """`generated`: the object asks for a generated database in a place of its own."""
    postgres, mysql = spec.get("postgres"), spec.get("mysql")
    places = ("host", "hostAddress", "generateDeployment")
    if isinstance(postgres, dict) and not generated and not any(postgres.get(place) for place in places):
        del spec["postgres"]
    if isinstance(mysql, dict) and not mysql.get("host"):
        del spec["mysql"]


def _drop_default_image(request: AdmissionRequest, rest: Object, settings: Settings) -> None:
    """An image that is the operator's own anyway is not pinned: it follows the operator. Only the very same counts."""
    recorded = status_of(request.old or {}).get("specDefaults") or "{}"
    if recorded == "{}" and isinstance(rest, dict) and rest.get("image") == settings.rest_image:
        del rest["image"]


async def validate(request: AdmissionRequest, settings: Settings) -> Answer:
    """What `check` says; and nobody makes a registry use a Secret that they may not read themselves."""
    answer = check(request, settings)
    if isinstance(answer, Denied) or request.object is None or is_deleting(request.object):
        return answer
    spec, before = _typed(request.object, request.kind.version), _before(request, settings)
    if spec is None or (before is not None and _but_for_its_size(spec) == _but_for_its_size(before)):
        return answer
    uses = Uses(request.namespace or namespace_of(request.object), frozenset(_secrets(spec)))
    return await refusal(request, uses) or answer


def _before(request: AdmissionRequest, settings: Settings) -> ModelRegistrySpec | None:
    """The spec as it was, filled in as the new one is: what only our own defaults change is not the author's doing."""
    if request.old is None:
        return None
    old = copy.deepcopy(request.old)
    fill_in(replace(request, object=old), settings)
    try:
        return _typed(old, request.kind.version)
    except (msgspec.ValidationError, ConversionFailed):
        return None


def _but_for_its_size(spec: ModelRegistrySpec) -> ModelRegistrySpec:
    """Without what anybody who may write the registry may change: it gives nobody anything."""
    return msgspec.structs.replace(spec, rest=msgspec.structs.replace(spec.rest, resources=None))


def _secrets(spec: ModelRegistrySpec) -> Iterator[str]:
    """The Secrets that the registry's server and the proxy in front of it are given because the spec names them."""
    yield from (name for kind, name, _ in references(spec) if kind == builtin.Secret)
    for proxy in (spec.kube_rbac_proxy, spec.oauth_proxy):
        if proxy is not None:
            named = (proxy.tls_certificate_secret, proxy.tls_key_secret)
            yield from (secret.name for secret in named if secret is not None)


def check(request: AdmissionRequest, settings: Settings) -> Answer:
    """Yes, with warnings; or no, with every reason."""
    if (refusal := _unsupported(request)) is not None:
        return refusal
    obj = request.object
    if obj is None or is_deleting(obj):
        return None  # Whatever is wrong with it must not keep it from going.
    name, namespace = request.name or name_of(obj), request.namespace or namespace_of(obj)
    try:
        spec = _typed(obj, request.kind.version)
    except (msgspec.ValidationError, ConversionFailed) as error:
        return _denied(name, [FieldError("spec", f"Invalid value: {error}")])
    if request.operation == "CREATE":
        if (twin := _twin(request, name, namespace)) is not None:
            text = f'Duplicate value: "registry named {name} already exists in namespace {twin}"'
            return _denied(name, [FieldError("metadata.name", text, "FieldValueDuplicate")])
        errors = [*_place_errors(namespace, settings), *spec_errors(spec), *name_errors(name)]
    else:
        errors = [*spec_errors(spec)]
    errors += collisions(name, spec, _others(request, name, namespace))
    if errors:
        return _denied(name, errors)
    return Allowed(warnings=list(doubtful_fields(spec)) if spec is not None else [])


def _typed(obj: Object, version: str) -> ModelRegistrySpec | None:
    """The spec as it will be stored: what is wrong with it is wrong in whatever version it was written."""
    return ModelRegistry.parse(convert(obj, BETA) if version == _OLD else obj).spec


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
