"""Between v1alpha1 and v1beta1. What v1alpha1 cannot say travels in an annotation, so that a round trip loses nothing. Pure."""

from __future__ import annotations

import copy
import json
from typing import Any

from modelyard.kube.kinds import Object
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
        annotations = obj.setdefault("metadata", {}).get("annotations") or {}
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        obj["metadata"]["annotations"] = {**annotations, KEPT: text}
    obj["apiVersion"] = ALPHA
    return obj


def _to_beta(obj: Object) -> Object:
    kept = _take_kept(obj)
    spec = obj.get("spec")
    if spec is not None:
        _checked(spec, obj, "v1alpha1", "v1beta1")
        if isinstance(istio := spec.pop("istio", None), dict):
            spec["oauthProxy"] = oauth_of(istio)
        if "kubeRBACProxy" in kept and "oauthProxy" not in spec:
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
    """What an earlier conversion kept; the annotation goes. One that someone broke is as good as none."""
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if KEPT not in annotations:
        return {}
    text = annotations.pop(KEPT)
    if not annotations:
        metadata.pop("annotations", None)
    try:
        kept = json.loads(text)
    except ValueError:
        return {}
    return kept if isinstance(kept, dict) and isinstance(kept.get("postgres", {}), dict) else {}


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
            f"failed to convert model registry {name} {source} spec to {target}: spec is no object but {spec!r}"
        )
