"""Authentication: bearer tokens, service-account tokens, client certificates, or nobody; and impersonation on top."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from modelyard.local.apiserver.auth.claims import BadToken
from modelyard.local.apiserver.auth.impersonation import Impersonation
from modelyard.local.apiserver.auth.rbac import Rbac
from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.requests.messages import ANONYMOUS, Request, UserInfo
from modelyard.local.apiserver.requests.problems import unauthorized

_AUTHENTICATED = "system:authenticated"


class TokenAuthenticator:
    """The server's authenticator. `static` maps bearer tokens to users; it may grow while the server runs."""

    def __init__(
        self, rbac: Rbac, service_accounts: ServiceAccountTokens, static: Mapping[str, UserInfo] | None = None
    ) -> None:
        self._service_accounts = service_accounts
        self._static: dict[bytes, UserInfo] = {}
        self._impersonation = Impersonation(rbac)
        for token, user in (static or {}).items():
            self.add_token(token, user)

    def add_token(self, token: str, user: UserInfo) -> None:
        self._static[token.encode()] = authenticated(user)

    async def authenticate(self, request: Request) -> UserInfo:
        user = self._requester(request)
        if _impersonates(request.headers):
            return self._impersonation.apply(request, user)
        return user

    def _requester(self, request: Request) -> UserInfo:
        if request.user is not None:
            return request.user
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not token.isascii():
            raise unauthorized()
        if scheme.lower() == "bearer" and token.strip():
            return self._bearer(token.strip())
        if request.certificate is not None:
            return _certificate_user(request.certificate)
        return ANONYMOUS

    def _bearer(self, token: str) -> UserInfo:
        user = self.static_user(token)
        if user is not None:
            return user
        if not self._service_accounts.is_ours(token):
            raise unauthorized()
        try:
            return self._service_accounts.verify(token).user
        except BadToken:
            raise unauthorized() from None

    def static_user(self, token: str) -> UserInfo | None:
        """The user of a static token; takes the same time whether it is nearly right or not."""
        found = None
        given = token.encode()
        for known, user in self._static.items():
            if hmac.compare_digest(known, given):
                found = user
        return found


def _impersonates(headers: Mapping[str, str]) -> bool:
    # Nearly nobody does, and every request is asked.
    return "impersonate-" in ",".join(headers) and any(name.startswith("impersonate-") for name in headers)


def authenticated(user: UserInfo) -> UserInfo:
    """The user with the group that all who proved who they are have."""
    if _AUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, _AUTHENTICATED), user.extra)


def _certificate_user(der: bytes) -> UserInfo:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_der_x509_certificate(der).subject
    except ValueError:
        raise unauthorized() from None
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise unauthorized()
    groups = tuple(str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return authenticated(UserInfo(str(names[0].value), groups=groups))
