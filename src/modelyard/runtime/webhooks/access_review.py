"""Asks the API server what a user may do, for webhooks that act on a user's behalf. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from modelyard.kube.builtin import SubjectAccessReview
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.declaring.controller import Permission

PERMISSIONS = (Permission(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",), everywhere=True),)
"""What a process needs to ask."""


@dataclass(frozen=True)
class User:
    """Who sent a request, as the API server says: every part of it may matter to an authorizer."""

    name: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class NotAsked(Exception):
    """The API server could not be asked, or did not answer: nobody knows whether the user may."""


class AccessReviews(Protocol):
    """What webhooks ask. `name` empty: any object of the kind; `subresource` such as `log`."""

    async def may(
        self, user: User, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = ""
    ) -> bool:
        """Whether the user may; `NotAsked` where no answer is to be had."""
        ...


class ApiAccessReviews:
    """Asks with a SubjectAccessReview. Answers are not kept: a right that was taken away counts at once."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def may(
        self, user: User, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = ""
    ) -> bool:
        asked = review_spec(user, verb, kind, namespace, name, subresource)
        try:
            review = await self._client.create(SubjectAccessReview, {"spec": asked})
        except (ApiError, Unreachable) as error:
            raise NotAsked(
                f"the API server could not be asked whether {user.name} may {verb} {kind.plural}: {error}"
            ) from error
        return bool((review.get("status") or {}).get("allowed"))


class NobodyToAsk:
    """The reviews of a process that was given none: it never guesses."""

    async def may(
        self, user: User, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = ""
    ) -> bool:
        raise NotAsked(f"this process has no way to ask whether {user.name} may {verb} {kind.plural}")


def review_spec(user: User, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = "") -> Object:
    """The `spec` of a SubjectAccessReview."""
    attributes = {
        "group": kind.group,
        "version": kind.version,
        "resource": kind.plural,
        "subresource": subresource,
        "namespace": namespace if kind.namespaced else "",
        "name": name,
        "verb": verb,
    }
    spec: Object = {"user": user.name, "resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    return spec
