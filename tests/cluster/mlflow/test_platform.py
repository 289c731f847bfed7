"""What the platform brings while the operator runs: kinds that come and go, and who issues the serving certificate."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.certificates.config import CertificateSettings, Issuer, IssuerReference
from modelyard.operators.certificates.controller import CERTIFICATE_NAME, ca_controller, certificate_controller
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from tests.cluster.mlflow.scenarios.scene import MLflowScene, Server
from tests.ground import ApiGround

URL: dict[str, Any] = {"url": "https://gw.example.com", "url_configured": True}
OURS = {
    builtin.HTTPRoute: "mlflow",
    builtin.ConsoleLink: "mlflow",
    builtin.ServiceMonitor: "mlflow-metrics-monitor",
}


def yard_of(scene: MLflowScene) -> ApiGround:
    assert isinstance(scene.ground, ApiGround)
    return scene.ground


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.kind)
async def test_a_kind_that_is_installed_while_we_run_is_used_and_missed_when_it_goes(
    scene: MLflowScene, kind: Kind
) -> None:
    ground = yard_of(scene)
    await scene.start(**URL)
    await scene.settled()
    await ground.serve(kind)
    await ground.until(kind, OURS[kind])
    # Drift on the newcomer is repaired too: its watch is there.
    await ground.edit(kind, OURS[kind], lambda obj: obj["metadata"]["labels"].update(app="stomped"))
    await ground.until(kind, OURS[kind], lambda obj: obj["metadata"]["labels"]["app"] == "mlflow")
    await ground.deployment_ready("mlflow")
    await scene.condition("Available", status="True")
    if kind == builtin.HTTPRoute:
        assert (await scene.status())["url"] == "https://gw.example.com/mlflow"
    await ground.client.delete(builtin.CustomResourceDefinition, "", kind.resource)
    if kind == builtin.HTTPRoute:
        await ground.until(MLFLOW.kind, "mlflow", lambda mlflow: not mlflow["status"].get("url"))
    if kind == builtin.ServiceMonitor:
        await ground.until(builtin.Deployment, "mlflow", lambda d: "metrics" not in Server(d).volumes)
    if kind == builtin.ConsoleLink:
        await ground.until(builtin.Deployment, "mlflow", lambda d: "UVICORN_SSL_CIPHERS" not in Server(d).env)
    await ground.deployment_ready("mlflow")
    await scene.condition("Available", status="True")


async def issued_by(scene: MLflowScene, issuer: Issuer) -> None:
    """The operator and the certificates' part of the plane, with this issuer."""
    await yard_of(scene).halt()
    scene.settings = Settings(namespace=scene.namespace)
    settings = CertificateSettings(scene.namespace, issuer, reference=IssuerReference("my-issuer"))
    groups = frozenset({MLFLOW.group})
    await yard_of(scene).start(
        [mlflow_controller(scene.settings), ca_controller(settings), certificate_controller(settings, groups)]
    )


def writers(secret: Object) -> set[str]:
    return {entry["manager"] for entry in secret["metadata"]["managedFields"]}


def is_ours(secret: Object) -> bool:
    return b"BEGIN CERTIFICATE" in base64.b64decode(secret["data"]["tls.crt"])


async def test_our_own_ca_issues_on_plain_kubernetes(scene: MLflowScene) -> None:
    await issued_by(scene, Issuer.AUTO)
    await scene.create()
    secret = await yard_of(scene).until(builtin.Secret, "mlflow-tls")
    assert is_ours(secret)
    assert writers(secret) == {"modelyard-serving-certificates"}


async def test_openshifts_service_ca_takes_over_where_openshift_comes(scene: MLflowScene) -> None:
    ground = yard_of(scene)
    await issued_by(scene, Issuer.AUTO)
    await scene.create()
    await ground.until(builtin.Secret, "mlflow-tls")
    await ground.serve(builtin.ConsoleLink)
    # Ours goes, and what the service CA writes in its place is not touched.
    await ground.gone(builtin.Secret, "mlflow-tls")
    service = await ground.get(builtin.Service, "mlflow")
    assert service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"] == "mlflow-tls"
    await ground.create(builtin.Secret, "mlflow-tls", type="kubernetes.io/tls", data={"tls.crt": "eA==", "tls.key": ""})
    before = await ground.get(builtin.Secret, "mlflow-tls")
    await ground.quiet()
    assert await ground.get(builtin.Secret, "mlflow-tls") == before


async def test_cert_manager_issues_where_it_is_installed_and_chosen_and_our_own_again_when_not(
    scene: MLflowScene,
) -> None:
    ground = yard_of(scene)
    await ground.serve(builtin.Certificate)
    await issued_by(scene, Issuer.CERT_MANAGER)
    await scene.create()
    certificate = await ground.until(builtin.Certificate, "mlflow-tls")
    assert certificate["spec"]["secretName"] == "mlflow-tls"
    await ground.absent(builtin.Secret, "mlflow-tls")
    template = certificate["spec"]["secretTemplate"]
    annotations = {CERTIFICATE_NAME: "mlflow-tls"}
    data = {"tls.crt": "eA==", "tls.key": "eA=="}
    await ground.create(builtin.Secret, "mlflow-tls", labels=template["labels"], annotations=annotations, data=data)
    before = await ground.get(builtin.Secret, "mlflow-tls")
    await ground.quiet()
    assert await ground.get(builtin.Secret, "mlflow-tls") == before
    await issued_by(scene, Issuer.OWN)
    await ground.gone(builtin.Certificate, "mlflow-tls")
    secret = await ground.until(builtin.Secret, "mlflow-tls", is_ours)
    assert writers(secret) == {"modelyard-serving-certificates"}


async def test_a_certificate_of_the_admins_own_is_never_touched(scene: MLflowScene) -> None:
    ground = yard_of(scene)
    await ground.create(builtin.Secret, "mlflow-tls", type="kubernetes.io/tls", data={"tls.crt": "eA==", "tls.key": ""})
    before = await ground.get(builtin.Secret, "mlflow-tls")
    await issued_by(scene, Issuer.OWN)
    await scene.create()
    await ground.until(builtin.Deployment, "mlflow")
    await ground.quiet()
    assert await ground.get(builtin.Secret, "mlflow-tls") == before


async def test_a_volume_grows_when_its_class_comes_to_allow_it(scene: MLflowScene) -> None:
    ground = yard_of(scene)
    name = f"slow-{scene.namespace}"
    await ground.create(builtin.StorageClass, name, provisioner="example.com/none")
    await scene.start()
    await scene.create(storage={"resources": {"requests": {"storage": "5Gi"}}, "storageClassName": name})
    await ground.until(builtin.PersistentVolumeClaim, "mlflow-pvc")
    bound = {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"]}
    await ground.edit(builtin.PersistentVolumeClaim, "mlflow-pvc", lambda claim: claim["spec"].update(volumeName="v"))
    await ground.set_status(builtin.PersistentVolumeClaim, "mlflow-pvc", bound)
    await scene.edit(storage={"resources": {"requests": {"storage": "9Gi"}}, "storageClassName": name})
    condition = await scene.condition("Degraded", status="True", reason="StorageNotUpdated")
    assert "its storage class does not let it grow" in condition["message"]
    await ground.edit(builtin.StorageClass, name, lambda obj: obj.update(allowVolumeExpansion=True))
    await ground.until(
        builtin.PersistentVolumeClaim,
        "mlflow-pvc",
        lambda claim: claim["spec"]["resources"]["requests"]["storage"] == "9Gi",
    )
