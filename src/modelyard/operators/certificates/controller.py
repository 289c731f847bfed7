"""Issues the Secret that a Service of ours asks for, and renews it; and keeps the CA that signs them."""

from __future__ import annotations

from collections.abc import Iterable, Set

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import (
    annotations_of,
    controller_of,
    group_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
)
from modelyard.kube.openshift import MARKS, SERVING_CERTIFICATE, is_openshift
from modelyard.kube.secrets import encoded, value_of
from modelyard.operators.certificates.config import CertificateSettings, Issuer
from modelyard.operators.certificates.reach import Reach
from modelyard.operators.parts import build
from modelyard.runtime.acting.ownership import OWNER_KIND
from modelyard.runtime.declaring.controller import Controller, Fixed, MapFn, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Desired, Edit, EventNote, Hold
from modelyard.runtime.declaring.world import World
from modelyard.runtime.tls.certificates import is_good, issue, renewed_ca, service_names
from modelyard.runtime.tls.pairs import Pair

CERTIFICATE_NAME = "cert-manager.io/certificate-name"
"""Cert-manager's own annotation on the Secrets that it writes."""
CA_SECRET = "modelyard-serving-ca"
ISSUED = {"modelyard.dev/serving-certificate": "true"}
CA = {"modelyard.dev/serving-ca": "true"}
RECHECK = 12 * 3600.0


def ca_controller(settings: CertificateSettings) -> Controller:
    """Keeps the CA of our own, where it is the issuer."""
    key = Key(settings.namespace, CA_SECRET)
    controller = Controller(
        "serving-ca",
        Fixed((key,)),
        owns=[Owns(builtin.Secret, namespace=settings.namespace, labels=CA)],
        asks=MARKS,
    )

    @controller.reconcile
    def reconcile(_: object, world: World) -> Desired:
        if issuer_of(settings, world) is not Issuer.OWN:
            return Desired(prune=False)  # It may be wanted again, and is harmless.
        known = world.get(builtin.Secret, settings.namespace, CA_SECRET)
        pair, bundle = renewed_ca(_pair(known), value_of(known, "ca.crt"), world.now)
        data = {"tls.crt": encoded(pair.certificate), "tls.key": encoded(pair.key), "ca.crt": encoded(bundle)}
        secret = build.obj(builtin.Secret, CA_SECRET, settings.namespace, CA, type="kubernetes.io/tls", data=data)
        return Desired([secret], requeue_after=RECHECK)

    return controller


def certificate_controller(settings: CertificateSettings, makers: Set[str], reach: Reach = Reach()) -> Controller:
    """Issues for Services of these makers (`makers_of`), and in the platform's own namespaces for those that people made; what
    another controller made is its own matter."""
    controller = Controller(
        "serving-certificates",
        builtin.Service,
        namespaces=() if reach.everywhere else reach.namespaces,
        owns=[
            *(Owns(builtin.Secret, labels=ISSUED, namespace=place) for place in reach.places),
            *(Owns(builtin.Certificate, optional=True, namespace=place) for place in reach.places),
        ],
        watches=[
            Watch(builtin.Secret, to=_users(makers, reach), namespace=settings.namespace, labels=CA),
        ],
        asks=MARKS,
    )

    @controller.reconcile
    def reconcile(service: Object, world: World) -> Desired | Hold:
        secret = wanted_secret(service, makers, reach.namespaces)
        issuer = issuer_of(settings, world)
        if not secret or issuer in (Issuer.OPENSHIFT, Issuer.NONE):
            return Desired()
        if issuer is Issuer.CERT_MANAGER:
            if not world.serves(builtin.Certificate):
                return _without_cert_manager(secret)
            return Desired([_certificate(service, secret, settings)])
        ca = world.get(builtin.Secret, settings.namespace, CA_SECRET)
        pair, bundle = _pair(ca), value_of(ca, "ca.crt")
        if pair is None:
            return without_ca(settings)
        live = world.get(builtin.Secret, namespace_of(service), secret)
        if live is not None and annotations_of(live).get(CERTIFICATE_NAME) == secret:
            return _after_cert_manager(live, world)
        if live is not None and all(key_of(own) != key_of(live) for own in world.owned(builtin.Secret)):
            return Desired()  # Someone put a certificate there; it is theirs to renew.
        return Desired([_issued(service, secret, live, pair, bundle, world)], requeue_after=RECHECK)

    return controller


def without_ca(settings: CertificateSettings) -> Hold:
    return Hold("WaitingForCA", f"the CA in Secret {settings.namespace}/{CA_SECRET} does not exist yet")


def _without_cert_manager(secret: str) -> Hold:
    message = (
        f"Secret {secret} is not written: SERVING_CERTIFICATES=cert-manager, but this cluster serves no Certificates. "
        "Install cert-manager, or choose another issuer"
    )
    return Hold("CertManagerMissing", message, events=[EventNote("CertManagerMissing", message, "Warning")])


def _after_cert_manager(left: Object, world: World) -> Desired:
    """What cert-manager wrote while it was chosen goes, but not before it was told to stop: else it would write it again."""
    if world.owned(builtin.Certificate):
        return Desired()
    # It does not say that it is this Service's, so nobody tells us that it has gone.
    edit = Edit(builtin.Secret, key_of(left), resource_version_of(left), None)
    return Desired(edits=[edit], requeue_after=1.0)


def issuer_of(settings: CertificateSettings, world: World) -> Issuer:
    """The one issuer: the one that was chosen, else what the platform has."""
    if settings.issuer is not Issuer.AUTO:
        return settings.issuer
    return Issuer.OPENSHIFT if is_openshift(world) else Issuer.OWN


def wanted_secret(service: Object, makers: Set[str], namespaces: Set[str] = frozenset()) -> str:
    """The Secret that a Service asks for, if it is ours or someone's own in one of these namespaces; else empty."""
    owner, maker = controller_of(service), labels_of(service).get(OWNER_KIND)
    if owner is None and maker is None:
        served = namespace_of(service) in namespaces
    else:
        # Some of ours have no custom resource above them.
        served = maker in makers or (owner is not None and group_of(str(owner.get("apiVersion") or "")) in makers)
    return annotations_of(service).get(SERVING_CERTIFICATE, "") if served else ""


def names_of(service: Object) -> list[str]:
    """The names a certificate must be good for."""
    return [*service_names(name_of(service), namespace_of(service)), "localhost"]


def _issued(service: Object, secret: str, live: Object | None, ca: Pair, bundle: bytes, world: World) -> Object:
    names = names_of(service)
    pair = _pair(live)
    if pair is None or not is_good(pair.certificate, names, bundle, world.now):
        pair = issue(ca, names, world.now)
    data = {"tls.crt": encoded(pair.certificate), "tls.key": encoded(pair.key), "ca.crt": encoded(bundle)}
    return build.obj(builtin.Secret, secret, namespace_of(service), ISSUED, type="kubernetes.io/tls", data=data)


def _certificate(service: Object, secret: str, settings: CertificateSettings) -> Object:
    reference = {"group": builtin.Certificate.group, "kind": settings.reference.kind, "name": settings.reference.name}
    # With this label we see the Secret, and know later that it was made for us.
    template = {"labels": ISSUED}
    spec = {"secretName": secret, "dnsNames": names_of(service), "issuerRef": reference, "secretTemplate": template}
    return build.obj(builtin.Certificate, secret, namespace_of(service), spec=spec)


def _users(makers: Set[str], reach: Reach) -> MapFn:
    """The CA wakes all Services that ask for a certificate."""

    def users(secret: Object, reader: Reader) -> Iterable[Key]:
        services = [service for place in reach.places for service in reader.list(builtin.Service, place)]
        return [key_of(service) for service in services if wanted_secret(service, makers, reach.namespaces)]

    return users


def _pair(secret: Object | None) -> Pair | None:
    certificate, key = value_of(secret, "tls.crt"), value_of(secret, "tls.key")
    return Pair(certificate, key) if certificate and key else None
