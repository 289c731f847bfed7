"""The reviews: whose token this is, who the caller is, and what a user may do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from modelyard.kube.builtin import (
    LocalSubjectAccessReview,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SelfSubjectRulesReview,
    SubjectAccessReview,
    TokenReview,
)
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time
from modelyard.local.apiserver.auth.authentication import TokenAuthenticator
from modelyard.local.apiserver.auth.claims import BadToken
from modelyard.local.apiserver.auth.rbac import Rbac, aggregate
from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.builtin.rules import shape_name
from modelyard.local.apiserver.builtin.shapes import ShapeError, reader_for
from modelyard.local.apiserver.requests.hooks import Attributes, Authorizer
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.requests.problems import Cause, bad_request, invalid, invalid_value
from modelyard.local.apiserver.served.resources import Call, Handler

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Reviews:
    """Answers reviews; `handlers` is what the catalog plugs in."""

    def __init__(
        self,
        authorizer: Authorizer,
        rbac: Rbac,
        authenticator: TokenAuthenticator,
        tokens: ServiceAccountTokens,
        clock: Callable[[], datetime],
    ) -> None:
        self._authorizer = authorizer
        self._rbac = rbac
        self._authenticator = authenticator
        self._tokens = tokens
        self._clock = clock

    def handlers(self) -> dict[tuple[str, str], Handler]:
        return {
            (TokenReview.resource, ""): self.token_review,
            (SelfSubjectReview.resource, ""): self.self_subject_review,
            (SubjectAccessReview.resource, ""): self.subject_access_review,
            (SelfSubjectAccessReview.resource, ""): self.self_subject_access_review,
            (LocalSubjectAccessReview.resource, ""): self.local_subject_access_review,
            (SelfSubjectRulesReview.resource, ""): self.self_subject_rules_review,
        }

    # Authentication.

    async def token_review(self, call: Call) -> Object:
        review = _read(TokenReview, call)
        spec = review["spec"]
        token, audiences = spec.get("token", ""), spec.get("audiences") or []
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        review["status"] = self._review_token(token, audiences)
        return review

    def _review_token(self, token: str, audiences: list[str]) -> Object:
        user = self._authenticator.static_user(token)
        if user is not None:
            own = [audience for audience in self._tokens.audiences if not audiences or audience in audiences]
            return {"authenticated": True, "user": user_info(user), "audiences": own} if own else {"user": {}}
        try:
            verified = self._tokens.verify(token, audiences)
        except BadToken as error:
            why = "invalid bearer token"
            return {"user": {}, "error": f"[{why}, {error}]" if "audiences" in str(error) else why}
        return {"authenticated": True, "user": user_info(verified.user), "audiences": list(verified.audiences)}

    async def self_subject_review(self, call: Call) -> Object:
        review = _read(SelfSubjectReview, call)
        review["metadata"] = {"creationTimestamp": format_time(self._clock())}
        review["status"] = {"userInfo": user_info(call.user)}
        return review

    # Authorization.

    async def subject_access_review(self, call: Call) -> Object:
        review = _read(SubjectAccessReview, call)
        spec = review["spec"]
        causes = _attribute_causes(spec) + _subject_causes(spec)
        if review["metadata"]:
            causes.append(invalid_value("metadata", review["metadata"], "must be empty"))
        _refuse(causes)
        return await self._answer(review, _subject(spec))

    async def self_subject_access_review(self, call: Call) -> Object:
        review = _read(SelfSubjectAccessReview, call)
        _refuse(_attribute_causes(review["spec"]))
        return await self._answer(review, call.user)

    async def local_subject_access_review(self, call: Call) -> Object:
        review = _read(LocalSubjectAccessReview, call)
        spec, metadata = review["spec"], review["metadata"]
        metadata["namespace"] = metadata.get("namespace") or call.namespace
        causes = _attribute_causes(spec) + _subject_causes(spec)
        wanted = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if spec.get("resourceAttributes") is not None and wanted != metadata["namespace"]:
            detail = "must match metadata.namespace"
            causes.append(invalid_value("spec.resourceAttributes.namespace", wanted, detail))
        if spec.get("nonResourceAttributes") is not None:
            detail = "disallowed on this kind of request"
            causes.append(invalid_value("spec.nonResourceAttributes", spec["nonResourceAttributes"], detail))
        _refuse(causes)
        return await self._answer(review, _subject(spec))

    async def _answer(self, review: Object, user: UserInfo) -> Object:
        decision = await self._authorizer.authorize(_attributes(review["spec"], user))
        review["status"] = {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})
        return review

    async def self_subject_rules_review(self, call: Call) -> Object:
        review = _read(SelfSubjectRulesReview, call)
        namespace = review["spec"].get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        held = self._rbac.held(call.user, namespace)
        resources: list[Object] = []
        urls: list[Object] = []
        for rule in held.rules:
            if rule.resources:
                found: Object = {
                    "verbs": list(rule.verbs),
                    "apiGroups": list(rule.api_groups),
                    "resources": list(rule.resources),
                }
                if rule.resource_names:
                    found["resourceNames"] = list(rule.resource_names)
                resources.append(found)
            if rule.non_resource_urls:
                urls.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)})
        status: Object = {"resourceRules": resources, "nonResourceRules": urls, "incomplete": bool(held.problems)}
        if held.problems:
            status["evaluationError"] = aggregate(held.problems)
        review["spec"] = {}
        review["status"] = status
        return review


def user_info(user: UserInfo) -> Object:
    """A user as reviews and admission show one."""
    shown: Object = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return shown


def _read(kind: Kind, call: Call) -> Object:
    """The review that was sent, in its Go shape, without a status."""
    reader = reader_for(shape_name(kind))
    assert reader is not None
    body = dict(call.body or {})
    body["kind"], body["apiVersion"] = kind.kind, kind.api_version
    body.pop("status", None)
    try:
        review: Object = reader(body)
    except ShapeError as error:
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error.message}'
        ) from None
    return review


def _refuse(causes: list[Cause]) -> None:
    if causes:
        # Kubernetes leaves the kind's name out here.
        raise invalid(Kind("authorization.k8s.io", "v1", "", ""), "", causes)


def _attribute_causes(spec: Object) -> list[Cause]:
    given = [spec.get(name) for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name) is not None]
    if len(given) == 1:
        return []
    return [invalid_value("spec", spec.get("nonResourceAttributes"), _ONE_OF)]


def _subject_causes(spec: Object) -> list[Cause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_value("spec.user", "", "at least one of user or group must be specified")]


def _subject(spec: Object) -> UserInfo:
    extra: dict[str, Any] = spec.get("extra") or {}
    return UserInfo(
        spec.get("user", ""),
        spec.get("uid", ""),
        tuple(spec.get("groups") or ()),
        {key: tuple(values) for key, values in extra.items()},
    )


def _attributes(spec: Object, user: UserInfo) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(user, path.get("verb", ""), path.get("path", ""))
    about = spec["resourceAttributes"]
    return Attributes(
        user, about.get("verb", ""), "", True, about.get("group", ""), about.get("version", ""), about.get("resource", ""),
        about.get("subresource", ""), about.get("namespace", ""), about.get("name", ""),
    )  # fmt: skip
