"""Serving certificates as an operator that runs with all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelyard.operators.certificates.config import DEFAULT_NAMESPACE, CertificateSettings
from modelyard.operators.certificates.controller import ca_controller, certificate_controller
from modelyard.operators.certificates.injection import injection_controller
from modelyard.operators.certificates.reach import Reach, reach_of
from modelyard.runtime.controller import Controller
from modelyard.runtime.operator import Operator, Setting

GROUPS = frozenset(
    {
        "mlflow.opendatahub.io",
        "modelregistry.opendatahub.io",
        "trustyai.opendatahub.io",
        "modelcatalog",
    }
)
"""The API groups whose resources own Services that ask for certificates; and controllers without a resource that make some."""


def operator(environ: Mapping[str, str], chosen: Sequence[Operator]) -> Operator:
    """The issuer for the operators that were chosen, in their namespaces."""
    settings = CertificateSettings.from_environ(environ)
    reach = reach_of(chosen, GROUPS, settings.namespaces)
    return Operator(
        name="serving-certificates",
        title="Serving certificates",
        upstream="none",
        controllers=_controllers(settings, reach),
        settings=SETTINGS,
    )


def _controllers(settings: CertificateSettings, reach: Reach) -> list[Controller]:
    if not reach.places:
        return []
    made = [ca_controller(settings), certificate_controller(settings, GROUPS, reach)]
    # Without a namespace of its own the platform would have to read every ConfigMap of the cluster for this.
    return [*made, injection_controller(settings, reach.namespaces)] if reach.namespaces else made


SETTINGS = (
    Setting(
        "SERVING_CERTIFICATES",
        "auto",
        "Who issues: own, cert-manager, openshift or none; auto is openshift where that is, else own",
    ),
    Setting("SERVING_CERTIFICATES_ISSUER", "", "With cert-manager: its issuer, as Issuer/NAME or ClusterIssuer/NAME"),
    Setting(
        "SERVING_CERTIFICATES_NAMESPACES",
        "",
        "More namespaces, comma-separated, where any Service may ask for a certificate and any ConfigMap for the CA",
    ),
    Setting("POD_NAMESPACE", DEFAULT_NAMESPACE, "Where the Secret of our own CA is kept"),
)
