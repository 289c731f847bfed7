"""Between v1alpha1 and v1beta1. What v1alpha1 cannot say travels in an annotation, so that a round trip loses nothing. Pure."""

from __future__ import annotations

import copy
import json
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of
from modelyard.operators.model_registry.api import GROUP
from modelyard.runtime.webhooks import ConversionFailed

BETA = f"{GROUP}/v1beta1"
ALPHA = f"{GROUP}/v1alpha1"
KEPT = f"{GROUP}/v1beta1-fields"
"""Annotation of an object in v1alpha1: the fields of its v1beta1 spec that have no place there."""
_POSTGRES_ONLY = ("generateDeployment", "image")
_EMPTY_GRPC: tuple[Object, ...] = ({}, {"port": 9090})
"""What `grpc` looks like where v1alpha1 demanded it and nobody set it, before and after defaults."""


def convert(obj: Object, wanted: str) -> Object:
    """The object in the other version."""
    made = copy.deepcopy(obj)
    if wanted == BETA:
        return _to_beta(made)
    if wanted == ALPHA:
        return _to_alpha(made)
    raise ConversionFailed(f"ModelRegistry has no version {wanted}")


def kept_of(obj: Object) -> Object:
    """What an object in v1alpha1 keeps of its v1beta1 spec. An annotation that someone broke keeps nothing."""
    text = annotations_of(obj).get(KEPT)
    try:
        kept = json.loads(text) if text else {}
    except ValueError:
        return {}
    return kept if isinstance(kept, dict) and isinstance(kept.get("postgres", {}), dict) else {}


def keeps_generated_database(obj: Object) -> bool:
    """Does an object in v1alpha1, which cannot say so itself, stand for a registry with a generated database?"""
    return bool((kept_of(obj).get("postgres") or {}).get("generateDeployment"))


def with_kept(obj: Object, old: Object | None) -> Object:
    """An object in v1alpha1 with what the stored one kept, where its author sent no annotation. `kubectl replace` with an
    old manifest names no field that v1alpha1 lacks, so it takes none of them away."""
    text = annotations_of(old or {}).get(KEPT)
    if text and KEPT not in annotations_of(obj):
        _annotate(obj, text)
    return obj


def _annotate(obj: Object, text: str) -> None:
    metadata = obj.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), KEPT: text}


def _to_alpha(obj: Object) -> Object:
    spec = obj.get("spec")
    kept: Object = {}
    if spec is not None:
        _checked(spec, obj, "v1beta1", "v1alpha1")
        if "kubeRBACProxy" in spec:
            kept["kubeRBACProxy"] = spec.pop("kubeRBACProxy")
        absent = []
        if "grpc" not in spec:
            spec["grpc"] = {}
            absent.append("grpc")
        if isinstance(postgres := spec.get("postgres"), dict):
            if moved := {name: postgres.pop(name) for name in _POSTGRES_ONLY if name in postgres}:
                kept["postgres"] = moved
                if hosts := _hosts(postgres):
                    kept["hosts"] = hosts
            if "database" not in postgres:
                postgres["database"] = ""
                absent.append("postgres.database")
        if absent:
            kept["absent"] = absent
    if kept:
        _annotate(obj, json.dumps(kept, sort_keys=True, separators=(",", ":")))
    obj["apiVersion"] = ALPHA
    return obj


def _to_beta(obj: Object) -> Object:
    kept = _take_kept(obj)
    spec = obj.get("spec")
    if spec is not None:
        _checked(spec, obj, "v1alpha1", "v1beta1")
        if isinstance(istio := spec.pop("istio", None), dict):
            spec["oauthProxy"] = oauth_of(istio)
        if "kubeRBACProxy" in kept and spec.get("oauthProxy") is None:
            spec["kubeRBACProxy"] = kept["kubeRBACProxy"]
        absent = kept.get("absent") or ()
        if "grpc" in absent and spec.get("grpc") in _EMPTY_GRPC:
            del spec["grpc"]
        if isinstance(postgres := spec.get("postgres"), dict):
            same = _hosts(postgres) in ({}, kept.get("hosts") or {})
            _restore_postgres(postgres, kept.get("postgres") or {}, same, "postgres.database" in absent)
    obj["apiVersion"] = BETA
    return obj


def _hosts(postgres: Object) -> Object:
    return {name: postgres[name] for name in ("host", "hostAddress") if postgres.get(name)}


def _restore_postgres(postgres: Object, kept: Object, same: bool, database_absent: bool) -> None:
    """Who gave the database a host since (it is not the `same`) means another one: then none is generated any more."""
    for name, value in kept.items():
        if name != "generateDeployment" or same or not value:
            postgres.setdefault(name, value)
    if database_absent and postgres.get("database") == "":
        del postgres["database"]


def _take_kept(obj: Object) -> Object:
    """What an earlier conversion kept; the annotation goes."""
    kept = kept_of(obj)
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if annotations.pop(KEPT, None) is not None and not annotations:
        metadata.pop("annotations", None)
    return kept


def oauth_of(istio: Object) -> Object:
    """The proxy that takes the place of a service mesh."""
    proxy: Object = {"port": 8443, "serviceRoute": "enabled", "routePort": 443}
    gateway = istio.get("gateway")
    if not isinstance(gateway, dict):
        return proxy | {"serviceRoute": "disabled"}
    rest = gateway.get("rest") or {}
    if rest.get("gatewayRoute") == "disabled":
        proxy["serviceRoute"] = "disabled"
    if gateway.get("domain"):
        proxy["domain"] = gateway["domain"]
    if rest.get("tls") is not None and rest.get("port") is not None:
        proxy["routePort"] = rest["port"]
    return proxy


def _checked(spec: Any, obj: Object, source: str, target: str) -> None:
    if not isinstance(spec, dict):
        name = (obj.get("metadata") or {}).get("name", "")
        raise ConversionFailed(
            f"failed to convert model registry {name} {source} spec to {target}: spec is not an object but {spec!r}"
        )
