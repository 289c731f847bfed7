"""Who issues serving certificates, and where our own CA is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from modelyard.kube import names
from modelyard.runtime.declaring.settings import Form, SettingError, read_settings, setting, words

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
class IssuerReference:
    """One of cert-manager's issuers."""

    name: str = ""
    kind: str = "ClusterIssuer"


def _reference(text: str) -> IssuerReference:
    kind, _, name = text.rpartition("/")
    if kind not in ("", "Issuer", "ClusterIssuer"):
        raise ValueError(text)
    return IssuerReference(name, kind or "ClusterIssuer")


def _namespaces(text: str) -> tuple[str, ...]:
    found = words(text)
    if any(names.dns_label(each) for each in found):
        raise ValueError(text)
    return found


@dataclass(frozen=True)
class CertificateSettings:
    """The settings of the issuer."""

    namespace: str = setting("POD_NAMESPACE", DEFAULT_NAMESPACE, "Where the Secret of our own CA is kept")
    issuer: Issuer = setting(
        "SERVING_CERTIFICATES",
        Issuer.AUTO,
        "Who issues: own, cert-manager, openshift or none; auto is openshift where that is, else own",
    )
    reference: IssuerReference = setting(
        "SERVING_CERTIFICATES_ISSUER",
        IssuerReference(),
        "With cert-manager: its issuer, as Issuer/NAME or ClusterIssuer/NAME",
        form=Form(_reference, "write it as Issuer/NAME or ClusterIssuer/NAME", lambda reference: reference.name),
    )
    namespaces: tuple[str, ...] = setting(
        "SERVING_CERTIFICATES_NAMESPACES",
        (),
        "More namespaces, comma-separated, where any Service may ask for a certificate and any ConfigMap for the CA",
        form=Form(_namespaces, "name namespaces with commas between, such as team-a,team-b", ",".join),
    )
    """Served like those of the operators."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> CertificateSettings:
        read = read_settings(cls, environ)
        if read.issuer is Issuer.CERT_MANAGER and not read.reference.name:
            raise SettingError(
                "SERVING_CERTIFICATES_ISSUER",
                environ.get("SERVING_CERTIFICATES_ISSUER", ""),
                "name cert-manager's issuer, such as ClusterIssuer/my-issuer",
            )
        return read
