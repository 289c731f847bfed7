"""Who asks: tokens, certificates, tokens that ran out, and whom one may act as."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, ServiceAccount
from modelyard.local.apiserver.auth.authentication import TokenAuthenticator
from modelyard.local.apiserver.auth.jwt import SigningKey
from modelyard.local.apiserver.auth.rbac import Rbac
from modelyard.local.apiserver.auth.tokens import Issue, ServiceAccountTokens
from modelyard.local.apiserver.requests.messages import ANONYMOUS, Request, UserInfo
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.storage.store import Store


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2024, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class CallerBench:
    def __init__(self) -> None:
        self.store = Store()
        self.clock = Clock()
        self.tokens = ServiceAccountTokens(self.store, self.clock, SigningKey)
        static = {"secret": UserInfo("admin", groups=("system:masters",))}
        self.authenticator = TokenAuthenticator(Rbac(self.store), self.tokens, static)

    async def who(self, **headers: str) -> UserInfo:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.authenticator.authenticate(Request("GET", "/api/v1/pods", headers=named))

    async def account_token(self, seconds: int = 600) -> str:
        stored = await self.store.put(
            ServiceAccount.resource, {"metadata": {"name": "robot", "namespace": "a", "uid": "u1"}}, None
        )
        return self.tokens.issue(Issue("a", stored, seconds, self.tokens.audiences))


@pytest.fixture
def bench() -> CallerBench:
    return CallerBench()


async def test_static_token(bench: CallerBench) -> None:
    user = await bench.who(authorization="Bearer secret")
    assert (user.name, user.groups) == ("admin", ("system:masters", "system:authenticated"))


async def test_no_credentials_is_nobody(bench: CallerBench) -> None:
    assert await bench.who() == ANONYMOUS
    assert await bench.who(authorization="Basic x") == ANONYMOUS


@pytest.mark.parametrize("token", ["wrong", "a.b.c", "secret2", "."])
async def test_bad_tokens(bench: CallerBench, token: str) -> None:
    with pytest.raises(Problem, match="Unauthorized"):
        await bench.who(authorization=f"Bearer {token}")


async def test_account_token_runs_out(bench: CallerBench) -> None:
    token = await bench.account_token()
    assert (await bench.who(authorization=f"Bearer {token}")).name == "system:serviceaccount:a:robot"
    bench.clock.now += timedelta(seconds=700)
    with pytest.raises(Problem, match="Unauthorized"):
        await bench.who(authorization=f"Bearer {token}")


async def test_account_token_ends_with_its_account(bench: CallerBench) -> None:
    token = await bench.account_token()
    stored = bench.store.get(ServiceAccount.resource, "a", "robot")
    assert stored is not None
    await bench.store.remove(stored)
    with pytest.raises(Problem, match="Unauthorized"):
        await bench.who(authorization=f"Bearer {token}")


async def test_certificate_names_user_and_groups(bench: CallerBench) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "ann"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "devs"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "ops"),
        ]
    )
    now = datetime(2024, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    request = Request("GET", "/", certificate=certificate.public_bytes(serialization.Encoding.DER))
    user = await bench.authenticator.authenticate(request)
    assert (user.name, user.groups) == ("ann", ("devs", "ops", "system:authenticated"))


class TestImpersonation:
    async def test_master_acts_as_anyone(self, bench: CallerBench) -> None:
        user = await bench.who(
            authorization="Bearer secret", impersonate_user="bob", impersonate_group="a\nb", impersonate_extra_x="1"
        )
        assert user == UserInfo("bob", groups=("a", "b", "system:authenticated"), extra={"x": ("1",)})

    async def test_others_need_to_be_allowed(self, bench: CallerBench) -> None:
        token = await bench.account_token()
        with pytest.raises(Problem, match='cannot impersonate-on:user-info:list resource "pods"'):
            await bench.who(authorization=f"Bearer {token}", impersonate_user="bob")
        rules = [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]
        await bench.store.put(ClusterRole.resource, {"metadata": {"name": "r"}, "rules": rules}, None)
        binding = {
            "metadata": {"name": "r"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "a"}],
        }
        await bench.store.put(ClusterRoleBinding.resource, binding, None)
        assert (await bench.who(authorization=f"Bearer {token}", impersonate_user="bob")).name == "bob"
        with pytest.raises(Problem, match="forbidden"):
            await bench.who(authorization=f"Bearer {token}", impersonate_user="eve")
        with pytest.raises(Problem, match="forbidden"):
            await bench.who(authorization=f"Bearer {token}", impersonate_user="bob", impersonate_group="system:masters")

    async def test_groups_without_a_user_are_refused(self, bench: CallerBench) -> None:
        with pytest.raises(Problem, match="without impersonating a user name"):
            await bench.who(authorization="Bearer secret", impersonate_group="x")
