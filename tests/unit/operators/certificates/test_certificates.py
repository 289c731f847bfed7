"""Serving certificates: who gets one, from whom, and when it is renewed."""

from __future__ import annotations

import base64
import ssl
from datetime import datetime, timedelta

import pytest
from cryptography import x509

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.openshift import SERVING_CERTIFICATE
from modelyard.operators.certificates.config import CertificateSettings, Issuer, IssuerReference
from modelyard.operators.certificates.controller import (
    CA_SECRET,
    ca_controller,
    certificate_controller,
    names_of,
)
from modelyard.operators.certificates.reach import Reach
from modelyard.runtime.declaring.controller import Fixed
from modelyard.runtime.declaring.settings import SettingError
from modelyard.runtime.testing import Bench, bench
from modelyard.runtime.testing.inmemory import NOW

GROUPS = frozenset({"mlflow.opendatahub.io"})
HOME = "modelyard"


def service(*, group: str = "mlflow.opendatahub.io", annotation: str = "mlflow-tls", namespace: str = "ml") -> Object:
    owner = {"apiVersion": f"{group}/v1", "kind": "MLflow", "name": "mlflow", "uid": "u", "controller": True}
    metadata = {
        "name": "mlflow",
        "namespace": namespace,
        "annotations": {SERVING_CERTIFICATE: annotation} if annotation else {},
        "ownerReferences": [owner] if group else [],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 8443}]}}


def authority(now: datetime = NOW, known: Object | None = None) -> Object:
    """The Secret of the CA, as its controller keeps it."""
    controller = ca_controller(CertificateSettings(HOME))
    assert isinstance(controller.for_, Fixed)
    (key,) = controller.for_.keys
    made = bench(controller, key, [known] if known else [], now=now)
    made.run()
    found = made.cluster.get(builtin.Secret, key)
    assert found is not None
    return found


def stage(
    resource: Object,
    *objects: Object,
    served: tuple[Kind, ...] = (),
    settings: CertificateSettings = CertificateSettings(HOME),
    reach: Reach = Reach(),
) -> Bench:
    return bench(certificate_controller(settings, GROUPS, reach), resource, objects, served=served)


def secret(made: Bench, name: str = "mlflow-tls") -> Object | None:
    return next((obj for obj in made.cluster.list(builtin.Secret, "ml", None) if obj["metadata"]["name"] == name), None)


def decoded(found: Object | None, name: str) -> bytes:
    assert found is not None
    return base64.b64decode(found["data"][name])


def test_a_service_gets_a_certificate_for_all_its_names() -> None:
    made = stage(service(), authority())
    made.settle()
    found = secret(made)
    assert found is not None
    assert found["type"] == "kubernetes.io/tls"
    assert "ca.key" not in found["data"]
    leaf = x509.load_pem_x509_certificate(decoded(found, "tls.crt"))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert set(names) == {"mlflow", "mlflow.ml", "mlflow.ml.svc", "mlflow.ml.svc.cluster.local", "localhost"}
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(decoded(found, "ca.crt")))
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"


def test_a_settled_certificate_is_not_written_again() -> None:
    made = stage(service(), authority())
    made.settle()
    assert made.run().writes == ()


def test_it_waits_for_the_ca() -> None:
    outcome = stage(service()).run()
    assert outcome.hold is not None
    assert CA_SECRET in outcome.hold.message


@pytest.mark.parametrize(
    "other",
    [service(group="example.com"), service(annotation=""), service(group="", namespace="theirs")],
    ids=["another controller's", "does not ask", "not in our namespaces"],
)
def test_other_services_are_left_alone(other: Object) -> None:
    made = stage(other, authority(), reach=Reach(frozenset({"ml"})))
    assert made.run().writes == ()


def test_in_the_platforms_namespaces_a_service_that_a_person_made_may_ask() -> None:
    made = stage(service(group=""), authority(), reach=Reach(frozenset({"ml"}), everywhere=False))
    made.settle()
    assert b"BEGIN CERTIFICATE" in decoded(secret(made), "tls.crt")


def test_a_certificate_that_someone_put_there_is_left_alone() -> None:
    own = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mlflow-tls", "namespace": "ml"},
        "data": {"tls.crt": "eA==", "tls.key": "eA=="},
    }
    made = stage(service(), authority(), own)
    assert made.run().writes == ()


def test_a_certificate_is_renewed_in_time_and_the_old_ca_stays_trusted() -> None:
    ca = authority()
    made = stage(service(), ca)
    made.settle()
    first = decoded(secret(made), "tls.crt")
    made.cluster.advance(timedelta(days=200).total_seconds())
    made.settle()
    assert decoded(secret(made), "tls.crt") == first
    made.cluster.advance(timedelta(days=60).total_seconds())
    made.settle()
    second = decoded(secret(made), "tls.crt")
    assert second != first
    later = NOW + timedelta(days=2500)
    renewed = authority(later, ca)
    assert decoded(renewed, "tls.crt") != decoded(ca, "tls.crt")
    bundle = decoded(renewed, "ca.crt")
    assert decoded(ca, "tls.crt").strip() in bundle
    context = ssl.create_default_context(cadata=bundle.decode())
    assert len(context.get_ca_certs()) == 2


def test_a_lost_ca_means_new_certificates() -> None:
    made = stage(service(), authority())
    made.settle()
    first = decoded(secret(made), "tls.crt")
    made.cluster.put(authority())
    made.settle()
    assert decoded(secret(made), "tls.crt") != first


@pytest.mark.parametrize("kind", [builtin.ConsoleLink, builtin.Route], ids=lambda kind: kind.kind)
def test_on_openshift_its_service_ca_issues(kind: Kind) -> None:
    made = stage(service(), authority(), served=(kind,))
    assert made.run().writes == ()


def test_cert_manager_issues_where_it_is_chosen() -> None:
    made = stage(
        service(),
        authority(),
        served=(builtin.Certificate,),
        settings=CertificateSettings(HOME, Issuer.CERT_MANAGER, reference=IssuerReference("my-issuer")),
    )
    outcome = made.settle()
    spec = outcome.children[builtin.Certificate, "mlflow-tls"]["spec"]
    assert spec["secretName"] == "mlflow-tls"
    assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "my-issuer"}
    assert spec["dnsNames"] == names_of(service())
    assert secret(made) is None, "one issuer at a time writes the Secret"


def test_cert_manager_that_is_chosen_but_not_installed_is_said_and_nothing_is_taken_away() -> None:
    made = stage(service(), authority())
    made.settle()
    settings = CertificateSettings(HOME, Issuer.CERT_MANAGER, reference=IssuerReference("x"))
    made = stage(service(), *made.cluster.list(builtin.Secret, None, None), settings=settings)
    outcome = made.run()
    assert secret(made) is not None
    (note,) = outcome.events
    assert note.reason == "CertManagerMissing"
    assert "Install cert-manager, or choose another issuer" in note.message


def test_what_cert_manager_wrote_is_replaced_when_our_own_issues_again() -> None:
    settings = CertificateSettings(HOME, Issuer.CERT_MANAGER, reference=IssuerReference("x"))
    made = stage(service(), authority(), served=(builtin.Certificate,), settings=settings)
    made.settle()
    (certificate,) = made.cluster.list(builtin.Certificate, "ml", None)
    labels = certificate["spec"]["secretTemplate"]["labels"]
    metadata = {"name": "mlflow-tls", "namespace": "ml", "labels": labels}
    metadata["annotations"] = {"cert-manager.io/certificate-name": "mlflow-tls"}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"tls.crt": "eA=="}}
    made = stage(service(), authority(), certificate, theirs, served=(builtin.Certificate,))
    made.settle()
    assert made.cluster.list(builtin.Certificate, "ml", None) == []
    assert b"BEGIN CERTIFICATE" in decoded(secret(made), "tls.crt")


def test_our_own_certificate_goes_when_another_issuer_is_chosen() -> None:
    made = stage(service(), authority())
    made.settle()
    assert secret(made) is not None
    made.cluster.serve(builtin.ConsoleLink)
    made.settle()
    assert secret(made) is None


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"SERVING_CERTIFICATES": "magic"}, "use one of auto, own, cert-manager, openshift, none"),
        ({"SERVING_CERTIFICATES": "cert-manager"}, "name cert-manager's issuer"),
        ({"SERVING_CERTIFICATES_ISSUER": "Pod/x"}, "write it as Issuer/NAME or ClusterIssuer/NAME"),
        ({"SERVING_CERTIFICATES_NAMESPACES": "a b"}, "name namespaces with commas between"),
    ],
)
def test_bad_settings_are_named(environ: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        CertificateSettings.from_environ(environ)
