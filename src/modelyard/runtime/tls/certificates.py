"""Serving certificates: our own CA in a Secret with rotation, or certificates that someone mounts; and the CA where the API needs it."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelyard.kube.builtin import Secret
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.tls.pairs import Pair, load

log = logging.getLogger(__name__)

CA_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
SKEW = timedelta(hours=1)
"""Certificates are valid from a little before they are made: clocks differ."""


def make_ca(now: datetime, *, name: str = "modelyard", life: timedelta = CA_LIFE) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}-ca-{int(now.timestamp())}")])
    certificate = (
        _builder(subject, subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def issue(
    ca: Pair,
    names: Sequence[str],
    now: datetime,
    *,
    life: timedelta = SERVING_LIFE,
    key: bytes = b"",
    client: bool = False,
) -> Pair:
    """A serving certificate for DNS names and IP addresses, signed by the CA. `key` is used again where it is given;
    `client`: who has it may also call others with it."""
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    ca_key = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("the key of the CA is neither an elliptic-curve nor an RSA key")
    own = _own_key(key)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else [])]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        _builder(subject, issuer.subject, own, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(own))


def _own_key(known: bytes) -> ec.EllipticCurvePrivateKey:
    """The key that was given, if it is one that we make, else a new one."""
    try:
        key = serialization.load_pem_private_key(known, None) if known else None
    except (ValueError, TypeError):
        key = None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else ec.generate_private_key(ec.SECP256R1())


def is_pair(pair: Pair) -> bool:
    """Are these a certificate and the key that belongs to it?"""
    try:
        public = x509.load_pem_x509_certificate(pair.certificate).public_key()
        return bool(serialization.load_pem_private_key(pair.key, None).public_key() == public)
    except (ValueError, TypeError):
        return False


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=sign_certificates, crl_sign=sign_certificates, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def service_names(service: str, namespace: str) -> list[str]:
    """The names under which a Service is called inside a cluster."""
    base = f"{service}.{namespace}"
    return [f"{base}.svc", f"{base}.svc.cluster.local", base, service]


@dataclass(frozen=True)
class Issued:
    """What is served (`pair`), whom it is trusted by (`bundle`), and the CA that signed it."""

    pair: Pair
    bundle: bytes
    ca: Pair

    def to_data(self) -> dict[str, str]:
        """As the data of a Secret."""
        parts = {
            "tls.crt": self.pair.certificate,
            "tls.key": self.pair.key,
            "ca.crt": self.bundle,
            "ca.key": self.ca.key,
            "ca-current.crt": self.ca.certificate,
        }
        return {name: base64.b64encode(value).decode() for name, value in parts.items()}

    @classmethod
    def from_data(cls, data: dict[str, str]) -> Issued | None:
        """From a Secret's data; None if it does not hold all of it."""
        try:
            parts = {name: base64.b64decode(data[name], validate=True) for name in data}
            pair = Pair(parts["tls.crt"], parts["tls.key"])
            found = cls(pair, parts["ca.crt"], Pair(parts["ca-current.crt"], parts["ca.key"]))
            x509.load_pem_x509_certificate(pair.certificate)
            x509.load_pem_x509_certificates(found.bundle)
            serialization.load_pem_private_key(found.ca.key, None)
        except (KeyError, ValueError, TypeError):
            return None
        return found


def renewed(issued: Issued | None, names: Sequence[str], now: datetime) -> Issued:
    """The certificates that should be used now: the same ones while they are good, else new ones.

    A new CA is trusted next to the old one, so that whoever still has the old certificate goes on being trusted.
    """
    if issued is None or _is_used_up(issued.ca.certificate, now):
        ca = make_ca(now)
        old = _still_valid(issued.bundle, now) if issued is not None else b""
        return Issued(issue(ca, names, now), ca.certificate + old, ca)
    if _is_used_up(issued.pair.certificate, now) or not _covers(issued.pair.certificate, names):
        return Issued(issue(issued.ca, names, now), _still_valid(issued.bundle, now), issued.ca)
    return issued


def kept_between(issued: Issued) -> tuple[datetime, datetime]:
    """From when until when `renewed` leaves these as they are, for the names that they are for."""
    spans = [_use(certificate) for certificate in (issued.ca.certificate, issued.pair.certificate)]
    return max(start for start, _ in spans), min(end for _, end in spans)


def is_good(certificate: bytes, names: Sequence[str], bundle: bytes, now: datetime) -> bool:
    """May this serving certificate go on being used: fresh, for these names, and signed by a CA of the bundle?"""
    try:
        loaded = x509.load_pem_x509_certificate(certificate)
        issuers = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return False
    return (
        not _is_used_up(certificate, now) and _covers(certificate, names) and any(_signed(loaded, ca) for ca in issuers)
    )


def _signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def renewed_ca(ca: Pair | None, bundle: bytes, now: datetime) -> tuple[Pair, bytes]:
    """The CA that should sign now, and whom to trust: the same while it is good, else a new one next to the old."""
    if ca is not None and not _is_used_up(ca.certificate, now):
        return ca, _still_valid(bundle, now)
    made = make_ca(now)
    return made, made.certificate + (_still_valid(bundle, now) if bundle else b"")


def _is_used_up(certificate: bytes, now: datetime) -> bool:
    """Two thirds of its life are over, or it is not valid yet."""
    start, end = _use(certificate)
    return now < start or now >= end


def _use(certificate: bytes) -> tuple[datetime, datetime]:
    loaded = x509.load_pem_x509_certificate(certificate)
    start, end = loaded.not_valid_before_utc, loaded.not_valid_after_utc
    return start, start + (end - start) * 2 / 3


def _covers(certificate: bytes, names: Sequence[str]) -> bool:
    loaded = x509.load_pem_x509_certificate(certificate)
    found = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {_general_name(name) for name in names} <= set(found)


def _still_valid(bundle: bytes, now: datetime) -> bytes:
    kept = [c for c in x509.load_pem_x509_certificates(bundle) if c.not_valid_after_utc > now]
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in kept)


class SecretCertificates:
    """Certificates of our own, kept in a Secret that all replicas share."""

    def __init__(
        self, client: Client, namespace: str, name: str, names: Sequence[str], clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._names = tuple(names)
        self._clock = clock

    async def current(self) -> Issued:
        """What to serve now; made or renewed in the Secret if need be. Of two replicas, one wins and both use that."""
        while True:
            secret = await self._client.find(Secret, self._namespace, self._name)
            known = Issued.from_data(secret.get("data") or {}) if secret is not None else None
            issued = renewed(known, self._names, self._clock())
            if issued is known:
                return issued
            try:
                await self._write(secret, issued)
            except (Conflict, AlreadyExists, NotFound):
                continue
            log.info("serving certificate in secret %s/%s was renewed", self._namespace, self._name)
            return issued

    async def _write(self, secret: Object | None, issued: Issued) -> None:
        if secret is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls"}
            await self._client.create(Secret, body | {"data": issued.to_data()})
        else:
            data = (secret.get("data") or {}) | issued.to_data()
            await self._client.update(Secret, secret | {"data": data})


class MountedCertificates:
    """Certificates that cert-manager, the OpenShift service CA or a person put into a directory."""

    def __init__(self, directory: Path, *, certificate: str = "tls.crt", key: str = "tls.key") -> None:
        self._certificate = directory / certificate
        self._key = directory / key

    def current(self) -> Pair:
        try:
            return Pair(self._certificate.read_bytes(), self._key.read_bytes())
        except OSError as error:
            raise FileNotFoundError(
                f"no serving certificate: {error.strerror} {error.filename}; mount one there, or let the plane make its own"
            ) from None


@dataclass(frozen=True)
class Trust:
    """Where a CA bundle goes: a webhook configuration, or the conversion stanza of a CRD."""

    kind: Kind
    name: str


async def inject(client: Client, targets: Sequence[Trust], bundle: bytes) -> list[str]:
    """Writes the bundle where it is missing or another; gives what could not be done, in words."""
    problems: list[str] = []
    text = base64.b64encode(bundle).decode()
    for target in targets:
        try:
            obj = await client.find(target.kind, "", target.name)
            steps = _injection(obj, text) if obj is not None else []
            if steps:
                await client.patch(target.kind, "", target.name, steps, type="json")
        except (ApiError, Unreachable) as error:
            problems.append(f"the CA could not be written into {target.kind.kind} {target.name}: {error}")
    return problems


def _injection(obj: Object, text: str) -> list[Object]:
    steps: list[Object] = []
    for position, webhook in enumerate(obj.get("webhooks") or ()):
        if (webhook.get("clientConfig") or {}).get("caBundle") != text:
            path = f"/webhooks/{position}"
            # The test keeps the patch from hitting another entry if the list changed meanwhile.
            steps.append({"op": "test", "path": f"{path}/name", "value": webhook["name"]})
            steps.append({"op": "add", "path": f"{path}/clientConfig/caBundle", "value": text})
    config = (((obj.get("spec") or {}).get("conversion") or {}).get("webhook") or {}).get("clientConfig")
    if config is not None and config.get("caBundle") != text:
        steps.append({"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": text})
    return steps


class CertificateKeeper:
    """Keeps a TLS context and the API's trust in it current for as long as it runs."""

    def __init__(
        self,
        client: Client,
        certificates: SecretCertificates | MountedCertificates,
        context: ssl.SSLContext,
        targets: Sequence[Trust] = (),
        *,
        interval: float = 600.0,
    ) -> None:
        self._client = client
        self._certificates = certificates
        self._context = context
        self._targets = tuple(targets)
        self._interval = interval
        self._loaded: Pair | None = None

    async def refresh(self) -> list[str]:
        """One round: trust first, then the certificate, so that no request meets one that is not trusted yet."""
        problems: list[str] = []
        if isinstance(self._certificates, SecretCertificates):
            issued = await self._certificates.current()
            problems = await inject(self._client, self._targets, issued.bundle)
            pair = issued.pair
        else:
            pair = self._certificates.current()
        if pair != self._loaded:
            load(self._context, pair)
            self._loaded = pair
        return problems

    async def run(self) -> None:
        """Until cancelled; a round that fails is tried again soon."""
        while True:
            pause = self._interval
            try:
                for problem in await self.refresh():
                    log.warning("%s", problem)
                    pause = 10.0
            except (ApiError, Unreachable, OSError) as error:
                log.warning("serving certificates could not be refreshed: %s", error)
                pause = 10.0
            await asyncio.sleep(pause)
