"""Validation of `MLflow` that rules in its definition cannot do: whether the author may use what the resource names."""

from __future__ import annotations

import msgspec

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import is_deleting
from modelyard.operators.mlflow.api import MLFLOW, MLflow, MLflowSpec
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.facts import DEFAULT_ACCOUNT
from modelyard.operators.mlflow.observe import authors_needs
from modelyard.operators.parts.author_rights import Uses, refusal
from modelyard.runtime.webhooks import AdmissionRequest, Answer, FieldError, Webhook, invalid

_STORES = ("backendStoreUriFrom", "readReplicaBackendStoreUriFrom", "registryStoreUriFrom")
NAMES_SOMETHING = {
    "name": "names-what-may-be-somebodys",
    "expression": " || ".join(
        (
            *(f"has(object.spec.{store})" for store in _STORES),
            "has(object.spec.envFrom)",
            "has(object.spec.env) && object.spec.env.exists(variable, has(variable.valueFrom))",
            f"has(object.spec.serviceAccountName) && object.spec.serviceAccountName != '{DEFAULT_ACCOUNT}'",
        )
    ),
}
"""An MLflow that names no Secret and no account is anybody's to write, also while no plane runs that could be asked."""


def webhooks(settings: Settings) -> list[Webhook]:
    """Upstream has none for this kind; the names are ours, in upstream's form."""
    return [
        Webhook(
            "vmlflow.opendatahub.io",
            "validating",
            "/validate-mlflow-opendatahub-io-v1-mlflow",
            lambda request: validate(request, settings),
            kinds=(MLFLOW.kind,),
            configuration="mlflow-operator-validating-webhook-configuration",
            match_conditions=(NAMES_SOMETHING,),
            reviews_access=True,
        )
    ]


async def validate(request: AdmissionRequest, settings: Settings) -> Answer:
    """Nobody makes the server read a Secret that they may not read, or run as an account that they may not use."""
    if request.object is None or is_deleting(request.object):
        return None
    try:
        spec = MLflow.parse(request.object).spec
    except msgspec.ValidationError as error:
        return invalid(MLFLOW.kind, request.name, [FieldError("spec", f"Invalid value: {error}")])
    before = _before(request.old)
    if before is not None and _but_for_its_size(spec) == _but_for_its_size(before):
        return None
    named = frozenset(need.name for need in authors_needs(spec) if need.kind == builtin.Secret)
    account = spec.service_account_name if spec.service_account_name != DEFAULT_ACCOUNT else ""
    return await refusal(request, Uses(settings.target_namespace, named, account))


def _before(old: Object | None) -> MLflowSpec | None:
    try:
        return MLflow.parse(old).spec if old is not None else None
    except msgspec.ValidationError:
        return None


def _but_for_its_size(spec: MLflowSpec) -> MLflowSpec:
    """Without what anybody who may write the resource may change: it gives nobody anything."""
    return msgspec.structs.replace(spec, replicas=1, workers=1, resources=None, temporary_storage=None)
