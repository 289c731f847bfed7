"""Service-account tokens: issued for a while and for someone, bound to objects, worth nothing once those are gone."""

from __future__ import annotations

import base64
import hmac
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from modelyard.kube.builtin import Node, Pod, Secret, ServiceAccount
from modelyard.kube.kinds import Kind
from modelyard.local.apiserver.auth.claims import BadToken, Claims
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.storage.store import Store, Stored

if TYPE_CHECKING:
    from modelyard.local.apiserver.auth.jwt import SigningKey

ISSUER = "https://kubernetes.default.svc.cluster.local"
LEGACY_ISSUER = "kubernetes/serviceaccount"
PROJECTED_SECONDS = 3607
"""What pods ask for; such tokens live a year, so that clients that do not reload them go on working."""
EXTENDED_SECONDS = 365 * 24 * 3600
_LEGACY = "kubernetes.io/serviceaccount/"
_EXTRA = "authentication.kubernetes.io/"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
_REMEMBERED = 1024
_LEEWAY = 60.0


@dataclass(frozen=True, slots=True)
class Verified:
    """Who a token stands for, and for which audiences it was accepted."""

    user: UserInfo
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """An object that a token is bound to: it must exist, with this uid."""

    kind: Kind
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Issue:
    """What a token is to say."""

    namespace: str
    account: Stored
    seconds: int
    audiences: Sequence[str]
    bound: Sequence[Bound] = field(default_factory=tuple)
    warn_after: int = 0


class ServiceAccountTokens:
    def __init__(
        self, store: Store, clock: Callable[[], datetime], key: Callable[[], SigningKey], issuer: str = ISSUER
    ) -> None:
        self._store = store
        self._clock = clock
        self._make_key = key
        self._key: SigningKey | None = None
        self.issuer = issuer
        self.audiences: tuple[str, ...] = (issuer,)
        self._known: OrderedDict[str, Claims] = OrderedDict()
        """Tokens whose signature was checked: checking is the slow part."""

    @property
    def key(self) -> SigningKey:
        if self._key is None:
            self._key = self._make_key()
        return self._key

    def issue(self, issue: Issue) -> str:
        now = int(self._clock().timestamp())
        account = issue.account
        about: dict[str, Any] = {
            "namespace": issue.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        for bound in issue.bound:
            about[bound.kind.kind.lower()] = {"name": bound.name} | ({"uid": bound.uid} if bound.uid else {})
        if issue.warn_after:
            about["warnafter"] = now + issue.warn_after
        return self.key.sign(
            {
                "aud": list(issue.audiences),
                "exp": now + issue.seconds,
                "iat": now,
                "iss": self.issuer,
                "jti": str(uuid.uuid4()),
                "kubernetes.io": about,
                "nbf": now,
                "sub": f"system:serviceaccount:{issue.namespace}:{account.name}",
            }
        )

    def issue_for_secret(self, account: Stored, secret: str) -> str:
        """A token without end, as Secrets of type service-account-token hold it."""
        return self.key.sign(
            {
                "iss": LEGACY_ISSUER,
                f"{_LEGACY}namespace": account.namespace,
                f"{_LEGACY}secret.name": secret,
                f"{_LEGACY}service-account.name": account.name,
                f"{_LEGACY}service-account.uid": account.uid,
                "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
            }
        )

    def is_ours(self, token: str) -> bool:
        return token.count(".") == 2

    def verify(self, token: str, audiences: Sequence[str] = ()) -> Verified:
        """Who holds the token. `audiences`: who asks (default: this server). Raises BadToken."""
        claims = self._known.get(token)
        if claims is None:
            claims = self.key.verify(token)
            self._known[token] = claims
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        if claims.get("iss") == LEGACY_ISSUER:
            return self._verify_legacy(token, claims, audiences)
        if claims.get("iss") != self.issuer:
            raise BadToken(f"the token's issuer is {claims.get('iss')}")
        now = self._clock().timestamp()
        if float(claims.get("exp", 0)) + _LEEWAY < now:
            raise BadToken("service account token has expired")
        if float(claims.get("nbf", 0)) - _LEEWAY > now:
            raise BadToken("service account token is not valid yet")
        wanted = tuple(audiences) or self.audiences
        accepted = tuple(audience for audience in wanted if audience in (claims.get("aud") or ()))
        if not accepted:
            raise BadToken(
                f"token audiences {_listed(claims.get('aud') or ())} is invalid for the target audiences {_listed(wanted)}"
            )
        return Verified(self._bound_user(claims), accepted)

    def _bound_user(self, claims: Claims) -> UserInfo:
        about = claims.get("kubernetes.io") or {}
        namespace = about.get("namespace", "")
        account = about.get("serviceaccount") or {}
        self._alive(ServiceAccount, namespace, account)
        extra: dict[str, tuple[str, ...]] = {f"{_EXTRA}credential-id": (f"JTI={claims.get('jti', '')}",)}
        for name, kind, place in (("pod", Pod, namespace), ("secret", Secret, namespace), ("node", Node, "")):
            reference = about.get(name)
            if not reference:
                continue
            # A pod's token names its node for information only.
            if name != "node" or "pod" not in about:
                self._alive(kind, place, reference)
            if name != "secret":
                extra[f"{_EXTRA}{name}-name"] = (reference.get("name", ""),)
                if reference.get("uid"):
                    extra[f"{_EXTRA}{name}-uid"] = (reference["uid"],)
        return account_user(namespace, account.get("name", ""), account.get("uid", ""), extra)

    def _alive(self, kind: Kind, namespace: str, reference: dict[str, str]) -> None:
        stored = self._store.get(kind.resource, namespace, reference.get("name", ""))
        if stored is None or stored.uid != reference.get("uid"):
            raise BadToken(f"the token's {kind.kind} {reference.get('name')} no longer exists")
        if stored.deleting:
            self._check_leaving(stored)

    def _check_leaving(self, stored: Stored) -> None:
        """Objects that are being deleted keep their tokens alive for a minute beyond their time."""
        text = stored.decode()["metadata"].get("deletionTimestamp", "")
        until = datetime.fromisoformat(text)
        if (self._clock() - until).total_seconds() > _LEEWAY:
            raise BadToken(f"the token's {stored.storage} {stored.name} is being deleted")

    def _verify_legacy(self, token: str, claims: Claims, audiences: Sequence[str]) -> Verified:
        namespace, secret = claims.get(f"{_LEGACY}namespace", ""), claims.get(f"{_LEGACY}secret.name", "")
        name, uid = claims.get(f"{_LEGACY}service-account.name", ""), claims.get(f"{_LEGACY}service-account.uid", "")
        self._alive(ServiceAccount, namespace, {"name": name, "uid": uid})
        stored = self._store.get(Secret.resource, namespace, secret)
        if stored is None or stored.deleting:
            raise BadToken("Token has been invalidated")
        self._check_copy(stored, token)
        wanted = tuple(audiences) or self.audiences
        accepted = tuple(audience for audience in wanted if audience in self.audiences)
        if not accepted:
            raise BadToken("the token has no audience but this server")
        return Verified(account_user(namespace, name, uid, {}), accepted)

    @staticmethod
    def _check_copy(stored: Stored, token: str) -> None:
        """Only the token that the Secret holds now is good: it may have been replaced, or the Secret made again."""
        secret = stored.decode()
        held = ((secret.get("data") or {}).get("token") or "").encode()
        if not hmac.compare_digest(held, base64.b64encode(token.encode())):
            raise BadToken("Token does not match server's copy")
        if _INVALID_SINCE in (secret["metadata"].get("labels") or {}):
            raise BadToken(f"the token in Secret {stored.namespace}/{stored.name} has been marked invalid")


def account_user(namespace: str, name: str, uid: str, extra: dict[str, tuple[str, ...]]) -> UserInfo:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", uid, groups, extra)


def _listed(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
