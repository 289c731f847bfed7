"""The settings of CodeFlare: the document in ConfigMap `codeflare-operator-config`, checked, then passed around as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of
from modelyard.runtime.declaring.settings import SettingError

CONFIG_MAP = "codeflare-operator-config"
CONFIG_KEY = "config.yaml"


@dataclass(frozen=True)
class KubeRaySettings:
    """The part of the document that is about RayClusters."""

    oauth: bool = True
    """The dashboard is behind a proxy that asks who is there."""
    mtls: bool = True
    ingress_domain: str = ""
    """Empty: the cluster's own, where it has one."""

    @classmethod
    def of(cls, config_map: Object | None) -> KubeRaySettings:
        """From the ConfigMap; without one, the defaults. A bad value is a `SettingError` that names it."""
        if config_map is None:
            return cls()
        place = f"ConfigMap {key_of(config_map)}"
        part = _section(_document(config_map, place), "kuberay", place)
        return cls(
            oauth=_flag(part, "rayDashboardOAuthEnabled", place),
            mtls=_flag(part, "mTLSEnabled", place),
            ingress_domain=_text(part, "ingressDomain", place),
        )


def _document(config_map: Object, place: str) -> Mapping[str, Any]:
    data: Mapping[str, str] = config_map.get("data") or {}
    if len(data) != 1:
        raise SettingError(place, ", ".join(sorted(data)), f"keep exactly one key in it, such as {CONFIG_KEY}")
    ((name, text),) = data.items()
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        raise SettingError(f"{name} of {place}", text, "write it as YAML") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingError(f"{name} of {place}", text, "write it as a YAML mapping")
    return found


def _section(document: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    found = document.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingError(f"{name} of {place}", str(found), "write it as a YAML mapping")
    return found


def _flag(part: Mapping[str, Any], name: str, place: str) -> bool:
    """True where nothing is said: every switch of this part is on by default."""
    found = part.get(name)
    if found is None:
        return True
    if not isinstance(found, bool):
        raise SettingError(f"kuberay.{name} of {place}", str(found), "use true or false")
    return found


def _text(part: Mapping[str, Any], name: str, place: str) -> str:
    found = part.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise SettingError(f"kuberay.{name} of {place}", str(found), "use a text")
    return found
