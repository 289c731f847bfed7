"""Impersonation: acting as someone else, for those who may. The constrained form is tried first, then the old one."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from modelyard.kube import names
from modelyard.local.apiserver.auth.rbac import Rbac
from modelyard.local.apiserver.requests import paths
from modelyard.local.apiserver.requests.hooks import Attributes
from modelyard.local.apiserver.requests.messages import Request, UserInfo
from modelyard.local.apiserver.requests.pipeline import attributes_of, forbidden
from modelyard.local.apiserver.requests.problems import Problem, bad_request, go_quote

_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_NODE = "system:node:"


class Impersonation:
    def __init__(self, rbac: Rbac) -> None:
        self._rbac = rbac

    def apply(self, request: Request, requester: UserInfo) -> UserInfo:
        """The user to act as. Raises a Problem where the requester may not."""
        wanted = _wanted(request)
        if wanted is None:
            return requester
        attributes = _attributes(request, requester)
        first: Problem | None = None
        for mode in ("arbitrary-node", "serviceaccount", "user-info", ""):
            if not _applies(mode, wanted):
                continue
            try:
                return self._check(mode, requester, wanted, attributes)
            except Problem as problem:
                first = first or problem
        assert first is not None
        raise first

    def _check(self, mode: str, requester: UserInfo, wanted: UserInfo, attributes: Attributes) -> UserInfo:
        verb = "impersonate"
        if mode:
            self._require(replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}"))
            verb = f"impersonate:{mode}"
        group = _AUTHENTICATION if mode else ""
        groups = wanted.groups
        account = _account(wanted.name)
        node = wanted.name.removeprefix(_NODE) if mode == "arbitrary-node" else ""
        if account is not None:
            self._require(_about(requester, verb, group, "serviceaccounts", account[1], namespace=account[0]))
            if not groups:
                groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
        elif node:
            self._require(_about(requester, verb, group, "nodes", node))
            groups = ("system:nodes",)
        else:
            self._require(_about(requester, verb, group, "users", wanted.name))
        if wanted.uid:
            self._require(_about(requester, verb, _AUTHENTICATION, "uids", wanted.uid))
        for each in wanted.groups:
            self._require(_about(requester, verb, group, "groups", each))
        for key, values in wanted.extra.items():
            for value in values:
                self._require(_about(requester, verb, _AUTHENTICATION, "userextras", value, subresource=key))
        if wanted.name != "system:anonymous" and "system:unauthenticated" not in groups:
            if "system:authenticated" not in groups:
                groups = (*groups, "system:authenticated")
        elif "system:unauthenticated" not in groups:
            groups = (*groups, "system:unauthenticated")
        return UserInfo(wanted.name, wanted.uid, groups, wanted.extra)

    def _require(self, attributes: Attributes) -> None:
        decision = self._rbac.decide(attributes)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)


def _about(
    user: UserInfo, verb: str, group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
) -> Attributes:
    return Attributes(user, verb, "", True, group, "v1", resource, subresource, namespace, name)


def _applies(mode: str, wanted: UserInfo) -> bool:
    bare = not wanted.uid and not wanted.groups and not wanted.extra
    account = _account(wanted.name) is not None
    node = wanted.name.startswith(_NODE) and not names.dns_subdomain(wanted.name.removeprefix(_NODE))
    if mode == "arbitrary-node":
        return bare and node
    if mode == "serviceaccount":
        return bare and account
    if mode == "user-info":
        return not node and not account
    return True


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    if not name.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    if not colon or ":" in account or names.dns_label(namespace) or names.dns_subdomain(account):
        return None
    return namespace, account


def _wanted(request: Request) -> UserInfo | None:
    headers = request.headers
    name, uid = headers.get("impersonate-user", ""), headers.get("impersonate-uid", "")
    groups = tuple(request.header_values("impersonate-group"))
    extra = {
        unquote(header.removeprefix(_EXTRA)): tuple(request.header_values(header))
        for header in headers
        if header.startswith(_EXTRA)
    }
    if name:
        return UserInfo(name, uid, groups, extra)
    if uid or groups or extra:
        shown_groups = "[]string{" + ", ".join(go_quote(group) for group in groups) + "}" if groups else "[]string(nil)"
        shown_extra = "map[string][]string(nil)"
        if extra:
            pairs = ", ".join(
                f"{go_quote(key)}:[]string{{{', '.join(go_quote(value) for value in values)}}}"
                for key, values in sorted(extra.items())
            )
            shown_extra = f"map[string][]string{{{pairs}}}"
        raise bad_request(
            f'requested &user.DefaultInfo{{Name:"", UID:{go_quote(uid)}, Groups:{shown_groups}, Extra:{shown_extra}}} '
            "without impersonating a user name"
        )
    return None


def _attributes(request: Request, user: UserInfo) -> Attributes:
    target = paths.parse(request)
    if target is None:
        return Attributes(user, request.method.lower(), request.path)
    return attributes_of(request, user, target)
