"""JSON web tokens with ES256 or RS256: just what service accounts need."""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from modelyard.local.apiserver.auth.claims import BadToken, Claims

_HALF = 32


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise BadToken("the token is not base64") from None


class SigningKey:
    """Signs tokens and verifies its own. The key is kept in a file where there is one."""

    def __init__(self, file: Path | None = None) -> None:
        self._key = _load(file)
        self._public = self._key.public_key()
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = _encode(hashlib.sha256(der).digest())
        self.algorithm = "RS256" if isinstance(self._key, rsa.RSAPrivateKey) else "ES256"

    def sign(self, claims: Claims) -> str:
        header = msgspec.json.encode({"alg": self.algorithm, "kid": self.id})
        text = f"{_encode(header)}.{_encode(msgspec.json.encode(claims))}"
        return f"{text}.{_encode(self._signature(text.encode()))}"

    def _signature(self, data: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big")

    def verify(self, token: str) -> Claims:
        """The claims of a token that this key signed. Raises BadToken."""
        head, dot, signature = token.rpartition(".")
        header, _, payload = head.partition(".")
        if not dot or not payload or "." in payload:
            raise BadToken("the token has not three parts")
        try:
            algorithm = msgspec.json.decode(_decode(header), type=dict[str, Any]).get("alg")
            if algorithm != self.algorithm:
                raise BadToken(f"the token is signed with {algorithm}, not {self.algorithm}")
            self._check(head.encode(), _decode(signature))
            return msgspec.json.decode(_decode(payload), type=Claims)
        except (msgspec.DecodeError, InvalidSignature, UnicodeError, RecursionError):
            raise BadToken("the token's signature or content is not valid") from None

    def _check(self, data: bytes, signature: bytes) -> None:
        if isinstance(self._public, rsa.RSAPublicKey):
            self._public.verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
            return
        if len(signature) != 2 * _HALF:
            raise BadToken("the token's signature has not the right length")
        r, s = int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
        self._public.verify(encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))

    def public_jwk(self) -> dict[str, str]:
        """The public key as a JSON web key, for others who verify tokens."""
        if isinstance(self._public, rsa.RSAPublicKey):
            numbers = self._public.public_numbers()
            size = (numbers.n.bit_length() + 7) // 8
            modulus, exponent = numbers.n.to_bytes(size, "big"), numbers.e.to_bytes(3, "big")
            return {
                "use": "sig",
                "kty": "RSA",
                "kid": self.id,
                "alg": "RS256",
                "n": _encode(modulus),
                "e": _encode(exponent),
            }
        point = self._public.public_numbers()
        x, y = point.x.to_bytes(_HALF, "big"), point.y.to_bytes(_HALF, "big")
        return {
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": _encode(x), "y": _encode(y),
        }  # fmt: skip


def _load(file: Path | None) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    if file is not None and file.exists():
        key = serialization.load_pem_private_key(file.read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            return key
        raise ValueError(f"{file} holds no EC or RSA key: remove it, and a new one is made (all tokens become invalid)")
    key = ec.generate_private_key(ec.SECP256R1())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.touch(mode=0o600)
        file.write_bytes(text)
    return key
