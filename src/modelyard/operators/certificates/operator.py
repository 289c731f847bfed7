"""Serving certificates as an operator that runs with all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from modelyard.operators.certificates.config import CertificateSettings
from modelyard.operators.certificates.controller import ca_controller, certificate_controller
from modelyard.operators.certificates.injection import injection_controller
from modelyard.operators.certificates.reach import Reach, makers_of, reach_of
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.settings import settings_of


def operator(environ: Mapping[str, str], chosen: Sequence[Operator]) -> Operator:
    """The issuer for the operators that were chosen, in their namespaces."""
    settings = CertificateSettings.from_environ(environ)
    reach, makers = reach_of(chosen, settings.namespaces), makers_of(chosen)
    return Operator(
        name="serving-certificates",
        title="Serving certificates",
        upstream="none",
        controllers=_controllers(settings, reach, makers),
        settings=settings_of(CertificateSettings),
    )


def _controllers(settings: CertificateSettings, reach: Reach, makers: Set[str]) -> list[Controller]:
    if not reach.places:
        return []
    made = [ca_controller(settings), certificate_controller(settings, makers, reach)]
    # Without a namespace of its own the platform would have to read every ConfigMap of the cluster for this.
    return [*made, injection_controller(settings, reach.namespaces)] if reach.namespaces else made
