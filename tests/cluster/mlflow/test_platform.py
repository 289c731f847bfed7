"""What the platform brings while the operator runs: kinds that come and go, and who issues the serving certificate."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.certificates.config import CertificateSettings, Issuer
from modelyard.operators.certificates.controller import CERTIFICATE_NAME, ca_controller, certificate_controller
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from tests.cluster.mlflow.scenarios.story import Server, Story
from tests.yard import ApiYard

URL: dict[str, Any] = {"url": "https://gw.example.com", "url_configured": True}
OURS = {
    builtin.HTTPRoute: "mlflow",
    builtin.ConsoleLink: "mlflow",
    builtin.ServiceMonitor: "mlflow-metrics-monitor",
}


def yard_of(story: Story) -> ApiYard:
    assert isinstance(story.yard, ApiYard)
    return story.yard


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.kind)
async def test_a_kind_that_is_installed_while_we_run_is_used_and_missed_when_it_goes(story: Story, kind: Kind) -> None:
    yard = yard_of(story)
    await story.start(**URL)
    await story.settled()
    await yard.serve(kind)
    await yard.until(kind, OURS[kind])
    # Drift on the newcomer is repaired too: its watch is there.
    await yard.edit(kind, OURS[kind], lambda obj: obj["metadata"]["labels"].update(app="stomped"))
    await yard.until(kind, OURS[kind], lambda obj: obj["metadata"]["labels"]["app"] == "mlflow")
    await yard.deployment_ready("mlflow")
    await story.condition("Available", status="True")
    if kind == builtin.HTTPRoute:
        assert (await story.status())["url"] == "https://gw.example.com/mlflow"
    await yard.client.delete(builtin.CustomResourceDefinition, "", kind.resource)
    if kind == builtin.HTTPRoute:
        await yard.until(MLFLOW.kind, "mlflow", lambda mlflow: not mlflow["status"].get("url"))
    if kind == builtin.ServiceMonitor:
        await yard.until(builtin.Deployment, "mlflow", lambda d: "metrics" not in Server(d).volumes)
    if kind == builtin.ConsoleLink:
        await yard.until(builtin.Deployment, "mlflow", lambda d: "UVICORN_SSL_CIPHERS" not in Server(d).env)
    await yard.deployment_ready("mlflow")
    await story.condition("Available", status="True")


async def issued_by(story: Story, issuer: Issuer) -> None:
    """The operator and the certificates' part of the plane, with this issuer."""
    await yard_of(story).halt()
    story.settings = Settings(namespace=story.namespace)
    settings = CertificateSettings(story.namespace, issuer, issuer_name="my-issuer")
    groups = frozenset({MLFLOW.group})
    await yard_of(story).start(
        [mlflow_controller(story.settings), ca_controller(settings), certificate_controller(settings, groups)]
    )


def writers(secret: Object) -> set[str]:
    return {entry["manager"] for entry in secret["metadata"]["managedFields"]}


def is_ours(secret: Object) -> bool:
    return b"BEGIN CERTIFICATE" in base64.b64decode(secret["data"]["tls.crt"])


async def test_our_own_ca_issues_on_plain_kubernetes(story: Story) -> None:
    await issued_by(story, Issuer.AUTO)
    await story.create()
    secret = await yard_of(story).until(builtin.Secret, "mlflow-tls")
    assert is_ours(secret)
    assert writers(secret) == {"modelyard-serving-certificates"}


async def test_openshifts_service_ca_takes_over_where_openshift_comes(story: Story) -> None:
    yard = yard_of(story)
    await issued_by(story, Issuer.AUTO)
    await story.create()
    await yard.until(builtin.Secret, "mlflow-tls")
    await yard.serve(builtin.ConsoleLink)
    # Ours goes, and what the service CA writes in its place is not touched.
    await yard.gone(builtin.Secret, "mlflow-tls")
    service = await yard.get(builtin.Service, "mlflow")
    assert service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"] == "mlflow-tls"
    await yard.create(builtin.Secret, "mlflow-tls", type="kubernetes.io/tls", data={"tls.crt": "eA==", "tls.key": ""})
    before = await yard.get(builtin.Secret, "mlflow-tls")
    await yard.quiet()
    assert await yard.get(builtin.Secret, "mlflow-tls") == before


async def test_cert_manager_issues_where_it_is_installed_and_chosen_and_our_own_again_when_not(story: Story) -> None:
    yard = yard_of(story)
    await yard.serve(builtin.Certificate)
    await issued_by(story, Issuer.CERT_MANAGER)
    await story.create()
    certificate = await yard.until(builtin.Certificate, "mlflow-tls")
    assert certificate["spec"]["secretName"] == "mlflow-tls"
    await yard.absent(builtin.Secret, "mlflow-tls")
    template = certificate["spec"]["secretTemplate"]
    annotations = {CERTIFICATE_NAME: "mlflow-tls"}
    data = {"tls.crt": "eA==", "tls.key": "eA=="}
    await yard.create(builtin.Secret, "mlflow-tls", labels=template["labels"], annotations=annotations, data=data)
    before = await yard.get(builtin.Secret, "mlflow-tls")
    await yard.quiet()
    assert await yard.get(builtin.Secret, "mlflow-tls") == before
    await issued_by(story, Issuer.OWN)
    await yard.gone(builtin.Certificate, "mlflow-tls")
    secret = await yard.until(builtin.Secret, "mlflow-tls", is_ours)
    assert writers(secret) == {"modelyard-serving-certificates"}


async def test_a_certificate_of_the_admins_own_is_never_touched(story: Story) -> None:
    yard = yard_of(story)
    await yard.create(builtin.Secret, "mlflow-tls", type="kubernetes.io/tls", data={"tls.crt": "eA==", "tls.key": ""})
    before = await yard.get(builtin.Secret, "mlflow-tls")
    await issued_by(story, Issuer.OWN)
    await story.create()
    await yard.until(builtin.Deployment, "mlflow")
    await yard.quiet()
    assert await yard.get(builtin.Secret, "mlflow-tls") == before


async def test_a_volume_grows_when_its_class_comes_to_allow_it(story: Story) -> None:
    yard = yard_of(story)
    name = f"slow-{story.namespace}"
    await yard.create(builtin.StorageClass, name, provisioner="example.com/none")
    await story.start()
    await story.create(storage={"resources": {"requests": {"storage": "5Gi"}}, "storageClassName": name})
    await yard.until(builtin.PersistentVolumeClaim, "mlflow-pvc")
    bound = {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"]}
    await yard.edit(builtin.PersistentVolumeClaim, "mlflow-pvc", lambda claim: claim["spec"].update(volumeName="v"))
    await yard.set_status(builtin.PersistentVolumeClaim, "mlflow-pvc", bound)
    await story.edit(storage={"resources": {"requests": {"storage": "9Gi"}}, "storageClassName": name})
    condition = await story.condition("Degraded", status="True", reason="StorageNotUpdated")
    assert "its storage class does not let it grow" in condition["message"]
    await yard.edit(builtin.StorageClass, name, lambda obj: obj.update(allowVolumeExpansion=True))
    await yard.until(
        builtin.PersistentVolumeClaim,
        "mlflow-pvc",
        lambda claim: claim["spec"]["resources"]["requests"]["storage"] == "9Gi",
    )
