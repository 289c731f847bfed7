"""Tokens are what this key signed, unchanged, and nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from modelyard.local.apiserver.auth.claims import BadToken
from modelyard.local.apiserver.auth.jwt import SigningKey


def test_claims_come_back() -> None:
    key = SigningKey()
    assert key.verify(key.sign({"sub": "x", "n": [1, 2]})) == {"sub": "x", "n": [1, 2]}


def test_rsa_keys_work_too(tmp_path: Path) -> None:
    file = tmp_path / "sa.key"
    private = rsa.generate_private_key(65537, 2048)
    file.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    key = SigningKey(file)
    token = key.sign({"a": 1})
    assert json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "==")) == {"alg": "RS256", "kid": key.id}
    assert key.verify(token) == {"a": 1}
    assert key.public_jwk()["kty"] == "RSA"


def test_key_is_kept_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "pki" / "sa.key"
    token = SigningKey(file).sign({"a": 1})
    assert file.stat().st_mode & 0o777 == 0o600
    assert SigningKey(file).verify(token) == {"a": 1}


def _none(token: str) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    return f"{header}.{token.split('.')[1]}."


@pytest.mark.parametrize(
    "change",
    [
        lambda token: "",
        lambda token: "a.b",
        lambda token: "a.b.c",
        lambda token: token + "x",
        lambda token: token.rsplit(".", 1)[0] + ".",
        lambda token: "." + token.split(".", 1)[1],
        lambda token: token.replace(".", "..", 1),
        _none,
        lambda token: token[:-10] + token[:10],
        lambda token: "\u00e4" + token,
    ],
)
def test_anything_else_is_refused(change: object) -> None:
    key = SigningKey()
    assert callable(change)
    with pytest.raises(BadToken):
        key.verify(change(key.sign({"sub": "x"})))


def test_other_keys_are_refused() -> None:
    with pytest.raises(BadToken):
        SigningKey().verify(SigningKey().sign({"sub": "x"}))
