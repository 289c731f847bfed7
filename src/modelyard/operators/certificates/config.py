"""Who issues serving certificates, and where our own CA is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from modelyard.kube import names
from modelyard.operators.parts.settings import Environ, SettingError

DEFAULT_NAMESPACE = "modelyard"


class Issuer(Enum):
    """Who writes the Secrets that Services ask for."""

    AUTO = "auto"
    """OpenShift's service CA where OpenShift is, else our own."""
    OWN = "own"
    CERT_MANAGER = "cert-manager"
    OPENSHIFT = "openshift"
    NONE = "none"
    """Someone puts them there by hand."""


@dataclass(frozen=True)
class CertificateSettings:
    """The settings of the issuer."""

    namespace: str = DEFAULT_NAMESPACE
    """Where the Secret of our own CA is."""
    issuer: Issuer = Issuer.AUTO
    issuer_kind: str = "ClusterIssuer"
    issuer_name: str = ""
    """Of cert-manager."""
    namespaces: tuple[str, ...] = ()
    """Served like those of the operators."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> CertificateSettings:
        env = Environ(environ)
        issuer = env.choice("SERVING_CERTIFICATES", Issuer, Issuer.AUTO)
        reference = env.text("SERVING_CERTIFICATES_ISSUER")
        kind, _, name = reference.rpartition("/")
        if issuer is Issuer.CERT_MANAGER and not name:
            raise SettingError(
                "SERVING_CERTIFICATES_ISSUER", reference, "name cert-manager's issuer, such as ClusterIssuer/my-issuer"
            )
        if kind not in ("", "Issuer", "ClusterIssuer"):
            raise SettingError(
                "SERVING_CERTIFICATES_ISSUER", reference, "write it as Issuer/NAME or ClusterIssuer/NAME"
            )
        namespace = env.text("POD_NAMESPACE", DEFAULT_NAMESPACE)
        more = env.words("SERVING_CERTIFICATES_NAMESPACES")
        for each in more:
            if names.dns_label(each):
                raise SettingError(
                    "SERVING_CERTIFICATES_NAMESPACES",
                    each,
                    "name namespaces with commas between, such as team-a,team-b",
                )
        return cls(namespace, issuer, kind or "ClusterIssuer", name, more)
