"""The certificates of a cluster's nodes: who signs, for whom, how long, and what a pod gets to see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelyard.kube.kinds import Object
from modelyard.kube.secrets import encoded, text_of, value_of
from modelyard.operators.codeflare.config import KubeRaySettings, Settings
from modelyard.operators.codeflare.ray_cluster.certificates import certificates, hosts, nudges
from modelyard.operators.codeflare.ray_cluster.injection import Injection, pods_of
from modelyard.operators.codeflare.ray_cluster.names import Names

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
NAMES = Names("demo", "team-a")
HOSTS = hosts(NAMES, "cluster.local", ["rayclient-demo-team-a.kind"])


def pod(ip: str, phase: str = "Pending", **metadata: Any) -> Object:
    volume = {"name": "ca-vol", "secret": {"secretName": NAMES.ca}}
    made = {"metadata": {"name": f"p-{ip}", "namespace": "team-a", "resourceVersion": "7", **metadata}}
    return {**made, "spec": {"volumes": [volume]}, "status": {"phase": phase, "podIP": ip}}


def secret(*pods: Object, known: Object | None = None, before: Object | None = None, now: datetime = NOW) -> Object:
    return certificates(NAMES, known, before, HOSTS, pods, now)


def leaf(found: Object) -> x509.Certificate:
    return x509.load_pem_x509_certificate(value_of(found, "server.crt"))


def names_of(found: Object) -> x509.SubjectAlternativeName:
    return leaf(found).extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def upstreams() -> Object:
    """A CA as the public operator makes it: RSA, good for a year."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root-ca")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return {"data": {"ca.crt": encoded(made.public_bytes(serialization.Encoding.PEM)), "ca.key": encoded(text)}}


def test_the_certificate_is_for_every_name_and_address_of_the_cluster() -> None:
    found = names_of(secret(pod("10.0.0.7"), pod("fd00::7")))
    assert {ip_address("10.0.0.7"), ip_address("fd00::7"), ip_address("127.0.0.1")} <= set(
        found.get_values_for_type(x509.IPAddress)
    )
    expected = {"demo-head-svc", "demo-head-svc.team-a.svc", "demo-head-svc.team-a.svc.cluster.local", "localhost"}
    assert expected | {"rayclient-demo-team-a.kind"} <= set(found.get_values_for_type(x509.DNSName))


def test_nodes_may_call_each_other_with_it() -> None:
    usages = leaf(secret()).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_nothing_changes_while_nothing_has_to() -> None:
    first = secret(pod("10.0.0.7"), pod("10.0.0.8"))
    assert secret(pod("10.0.0.7"), pod("10.0.0.8"), known=first) == first
    assert secret(pod("10.0.0.8"), known=first) == first, "a pod that goes is no reason"


def test_a_new_pod_is_added_and_those_that_are_gone_are_left_out() -> None:
    first = secret(pod("10.0.0.7"))
    second = secret(pod("10.0.0.8"), pod("10.0.0.9", "Succeeded"), known=first)
    assert text_of(second, "addresses") == "10.0.0.8\n"
    assert ip_address("10.0.0.7") not in names_of(second).get_values_for_type(x509.IPAddress)


def test_the_key_stays_so_that_a_pod_never_reads_two_files_that_do_not_belong_together() -> None:
    first = secret()
    second = secret(pod("10.0.0.8"), known=first)
    assert second["data"]["server.key"] == first["data"]["server.key"]
    assert second["data"]["server.crt"] != first["data"]["server.crt"]


def test_the_certificate_is_replaced_long_before_it_ends() -> None:
    first = secret(pod("10.0.0.7"))
    later = NOW + timedelta(days=800)
    second = secret(pod("10.0.0.7"), known=first, now=later)
    assert leaf(second).not_valid_after_utc - later > timedelta(days=365)
    assert second["data"]["ca.crt"] == first["data"]["ca.crt"]


def test_the_ca_is_replaced_and_both_are_trusted_meanwhile() -> None:
    first = secret()
    second = secret(known=first, now=NOW + timedelta(days=2500))
    assert second["data"]["ca.key"] != first["data"]["ca.key"]
    trusted = value_of(second, "ca.crt")
    assert value_of(first, "ca.crt") in trusted
    assert len(x509.load_pem_x509_certificates(trusted)) == 2


def test_the_ca_of_the_public_operator_signs_on() -> None:
    theirs = upstreams()
    made = secret(pod("10.0.0.7"), known=theirs)
    assert (made["data"]["ca.key"], made["data"]["ca.crt"]) == (theirs["data"]["ca.key"], theirs["data"]["ca.crt"])
    leaf(made).verify_directly_issued_by(x509.load_pem_x509_certificate(value_of(theirs, "ca.crt")))


def test_the_ca_under_the_older_name_is_taken_over() -> None:
    theirs = upstreams()
    assert secret(before=theirs)["data"]["ca.key"] == theirs["data"]["ca.key"]


def test_a_broken_ca_is_replaced() -> None:
    made = secret(known={"data": {"ca.crt": "eA==", "ca.key": "eA=="}})
    assert x509.load_pem_x509_certificate(value_of(made, "ca.crt"))


def test_the_key_of_the_ca_is_never_in_a_ray_pod() -> None:
    container: Object = {"template": {"spec": {"containers": [{"name": "ray", "image": "r"}]}}}
    metadata = {"name": "demo", "namespace": "team-a"}
    cluster: Object = {"metadata": metadata, "spec": {"headGroupSpec": container, "workerGroupSpecs": [{**container}]}}
    Injection(NAMES, Settings(), KubeRaySettings(), openshift=False).into(cluster)
    for spec in pods_of(cluster):
        shown = [one["secret"] for one in spec["volumes"] if (one.get("secret") or {}).get("secretName") == NAMES.ca]
        assert [[item["key"] for item in each["items"]] for each in shown] == [
            ["ca.crt", "server.crt", "server.key", "addresses"]
        ]


def test_a_pod_that_waits_is_told_when_its_certificate_is_there() -> None:
    waiting, running = pod("10.0.0.7"), pod("10.0.0.8", "Running")
    assert nudges(NAMES, None, [waiting]) == []
    made = secret(waiting, running)
    (edit,) = nudges(NAMES, made, [waiting, running])
    assert edit.key.name == "p-10.0.0.7"
    told = pod("10.0.0.7", annotations={"ray.openshift.ai/certificate": "ready"})
    assert nudges(NAMES, made, [told]) == []
