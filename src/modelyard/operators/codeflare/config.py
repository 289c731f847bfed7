"""The settings of CodeFlare: the environment, and the document in ConfigMap `codeflare-operator-config`; checked, then passed around as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of
from modelyard.operators.parts.settings import beside_us, predecessor_setting
from modelyard.pins import pins
from modelyard.runtime.declaring.controller import Watch
from modelyard.runtime.declaring.settings import Gets, SettingError, matching, read_settings, setting

CONFIG_MAP = "codeflare-operator-config"
CONFIG_KEY = "config.yaml"
OAUTH_PROXY_IMAGE = "registry.redhat.io/openshift4/ose-oauth-proxy@sha256:1ea6a01bf3e63cdcf125c6064cbd4a4a270deaf0f157b3eabb78f60556840366"
_NAME = matching(lambda text: not names.dns_subdomain(text), "use the name of a ConfigMap")


@dataclass(frozen=True)
class Settings:
    """Everything that an admin may set in the environment."""

    namespace: str = setting("POD_NAMESPACE", "modelyard", "Where the ConfigMap is", also=["NAMESPACE"])
    config_map: str = setting(
        "CODEFLARE_CONFIG",
        CONFIG_MAP,
        "The ConfigMap with the rest of the settings, made if it does not exist",
        form=_NAME,
    )
    oauth_proxy_image: str = setting("OAUTH_PROXY_IMAGE", OAUTH_PROXY_IMAGE, "On OpenShift: what guards a dashboard")
    access_proxy_image: str = setting(
        "RELATED_IMAGE_ODH_KUBE_RBAC_PROXY_IMAGE",
        pins()["kube-rbac-proxy"].reference,
        "Elsewhere: what guards a dashboard",
        also=["KUBE_RBAC_PROXY_IMAGE"],
    )
    certificate_image: str = setting(
        "CERT_GENERATOR_IMAGE",
        "",
        "What puts the certificates of a Ray pod in place; it needs sh, grep and cp",
        otherwise="the image that runs Ray in that pod",
    )
    ingress_domain: str = setting(
        "RAY_INGRESS_DOMAIN", "", "Below which the hosts of Ingresses are, where the ConfigMap says nothing"
    )
    gateway_domain: str = setting(
        "GATEWAY_DOMAIN", "", "The Gateway's domain; set, dashboards are below it instead of having an Ingress"
    )
    gateway_name: str = setting("GATEWAY_NAME", "data-science-gateway", "The Gateway that HTTPRoutes attach to")
    gateway_namespace: str = setting("GATEWAY_NAMESPACE", "openshift-ingress", "The namespace of that Gateway")
    monitoring_namespaces: tuple[str, ...] = setting(
        "RAY_MONITORING_NAMESPACES",
        (),
        "Namespaces, comma-separated, from which the metrics of a head are read",
        otherwise="openshift-monitoring on OpenShift, else monitoring",
    )
    ingress_namespaces: tuple[str, ...] = setting(
        "RAY_INGRESS_NAMESPACES",
        ("ingress-nginx",),
        "Namespaces, comma-separated, whose pods reach a dashboard that is not guarded, where an Ingress leads to it",
    )
    appwrappers: bool = setting(
        "APPWRAPPER_ENABLED", False, "Whether AppWrappers are worked on, where the ConfigMap says nothing"
    )
    cluster_domain: str = setting("CLUSTER_DOMAIN", "cluster.local", "The domain of Services, for certificates")
    predecessor_lease: str = setting(
        "CODEFLARE_PREDECESSOR_LEASE",
        "codeflare-operator",
        "The Lease that the public operator holds: `leaderElection.resourceName` of its settings, which has no default",
    )
    predecessor_namespaces: tuple[str, ...] = predecessor_setting()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Read the operator's environment variables; a bad value is a `SettingError` that names it."""
        read = read_settings(cls, environ)
        return replace(read, predecessor_namespaces=beside_us(environ, read.predecessor_namespaces))

    @property
    def followed(self) -> Watch:
        """The ConfigMap, for a webhook's `reads`."""
        return Watch(builtin.ConfigMap, name=self.config_map, namespace=self.namespace)

    def document(self, objects: Gets) -> Object | None:
        """The ConfigMap as it is now."""
        return objects.get(builtin.ConfigMap, self.namespace, self.config_map)


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
        part = Section.of(config_map, "kuberay")
        return cls(
            oauth=part.flag("rayDashboardOAuthEnabled", default=True),
            mtls=part.flag("mTLSEnabled", default=True),
            ingress_domain=part.text("ingressDomain"),
        )


DEFAULTS: Mapping[str, Object] = {
    "kuberay": {"rayDashboardOAuthEnabled": True, "ingressDomain": "", "mTLSEnabled": True},
}
"""What is written into a ConfigMap that does not exist yet, beside the section of AppWrappers."""


@dataclass(frozen=True)
class Section:
    """One mapping of the document, and where it stands, for people."""

    values: Mapping[str, Any]
    path: str
    place: str

    @classmethod
    def of(cls, config_map: Object | None, name: str) -> Section:
        """A section of the ConfigMap's document; empty where there is none."""
        if config_map is None:
            return cls({}, name, "")
        place = f"ConfigMap {key_of(config_map)}"
        return cls(_document(config_map, place), "", place).section(name)

    def section(self, name: str) -> Section:
        path = f"{self.path}.{name}" if self.path else name
        found = self.values.get(name)
        if found is None:
            return Section({}, path, self.place)
        if not isinstance(found, dict):
            raise SettingError(f"{path} of {self.place}", str(found), "write it as a YAML mapping")
        return Section(found, path, self.place)

    def flag(self, name: str, *, default: bool) -> bool:
        found = self.values.get(name)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise self.wrong(name, "use true or false")
        return found

    def text(self, name: str) -> str:
        found = self.values.get(name)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise self.wrong(name, "use a text")
        return found

    def wrong(self, name: str, remedy: str) -> SettingError:
        return SettingError(f"{self.path}.{name} of {self.place}", str(self.values.get(name)), remedy)


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
