"""The options of requests, from query parameters or bodies, checked as Kubernetes checks them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from modelyard.kube.kinds import Kind, Object
from modelyard.kube.selectors import FieldSelector, LabelSelector, SelectorError, parse_fields, parse_labels
from modelyard.local.apiserver.builtin.shapes import ShapeError, reader_for
from modelyard.local.apiserver.requests import bodies, problems
from modelyard.local.apiserver.requests.hooks import FieldValidation
from modelyard.local.apiserver.requests.messages import Request
from modelyard.local.apiserver.requests.problems import Cause, field_forbidden, invalid_value, not_supported

APPLY = "application/apply-patch+yaml"
_INTEGER = re.compile(r"[-+]?[0-9]+")
_LONGEST_NUMBER = 40
_VALIDATIONS: dict[str, FieldValidation] = {"": "Warn", "Warn": "Warn", "Strict": "Strict", "Ignore": "Ignore"}


def _options_kind(kind: str) -> Kind:
    return Kind("meta.k8s.io", "v1", kind, kind)


def _refuse(kind: str, causes: list[Cause]) -> None:
    if causes:
        raise problems.invalid(_options_kind(kind), "", causes)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Of create, update, patch and apply."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = "Warn"
    force: bool = False

    def to_object(self, kind: str) -> Object:
        """As admission shows them."""
        options: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if kind == "PatchOptions" and self.force:
            options["force"] = True
        if self.field_manager:
            options["fieldManager"] = self.field_manager
        if self.field_validation != "Warn":
            options["fieldValidation"] = self.field_validation
        return options


_DEFAULT_WRITE = WriteOptions()


def write_options(request: Request, kind: str, patch_type: str = "") -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions."""
    query = request.query
    if not query and patch_type != APPLY:
        return _DEFAULT_WRITE
    manager = request.param("fieldManager")
    validation = request.param("fieldValidation")
    dry_run = request.params("dryRun")
    force = query.get("force")
    causes: list[Cause] = []
    if patch_type == APPLY and not manager:
        causes.append(problems.required("fieldManager", "is required for apply patch"))
    if patch_type not in ("", APPLY) and force:
        causes.append(field_forbidden("force", "may not be specified for non-apply patch"))
    causes += manager_causes("fieldManager", manager)
    causes += _dry_run_causes(dry_run)
    if validation not in _VALIDATIONS:
        causes.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    _refuse(kind, causes)
    return WriteOptions(bool(dry_run), manager, _VALIDATIONS[validation], request.flag("force"))


def manager_causes(path: str, manager: str) -> list[Cause]:
    causes = [problems.too_long(path, 128)] if len(manager.encode()) > 128 else []
    position = 0
    for char in manager:
        if not char.isprintable():
            causes.append(invalid_value(path, manager, f"invalid character U+{ord(char):04X} (at position {position})"))
        position += len(char.encode())
    return causes


def _dry_run_causes(values: list[str]) -> list[Cause]:
    return [not_supported("dryRun", values, ("All",))] if any(value != "All" for value in values) else []


@dataclass(slots=True)
class DeleteOptions:
    dry_run: bool = False
    grace: int | None = None
    propagation: str | None = None
    orphan: bool | None = None
    uid: str | None = None
    resource_version: str | None = None

    def to_object(self) -> Object:
        options: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace is not None:
            options["gracePeriodSeconds"] = self.grace
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        preconditions = {key: value for key, value in preconditions.items() if value is not None}
        if preconditions:
            options["preconditions"] = preconditions
        if self.orphan is not None:
            options["orphanDependents"] = self.orphan
        if self.propagation is not None:
            options["propagationPolicy"] = self.propagation
        if self.dry_run:
            options["dryRun"] = ["All"]
        return options


_POLICIES = ("Foreground", "Background", "Orphan")


def delete_options(request: Request) -> DeleteOptions:
    """From the body; where there is none, from the query."""
    bodies.check_size(request.body)
    given: Object = _delete_body(request) if request.body else _delete_query(request)
    policy, orphan, dry_run = given.get("propagationPolicy"), given.get("orphanDependents"), given.get("dryRun") or []
    causes: list[Cause] = []
    if policy is not None and orphan is not None:
        causes.append(
            invalid_value("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy is not None and policy not in _POLICIES:
        causes.append(not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    causes += _dry_run_causes(dry_run)
    _refuse("DeleteOptions", causes)
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    return DeleteOptions(
        bool(dry_run), grace, policy, orphan, preconditions.get("uid"), preconditions.get("resourceVersion")
    )


def _delete_body(request: Request) -> Object:
    try:
        value, _ = bodies.decode_body(request.body, request.headers.get("content-type", ""))
    except bodies.Unreadable as error:
        raise problems.bad_request(f"couldn't get version/kind; {error}") from None
    if why := bodies.untyped(value):
        raise problems.bad_request(f"couldn't get version/kind; json parse error: {why}")
    value = value or {}
    if value.get("kind") not in (None, "", "DeleteOptions"):
        raise problems.bad_request(
            f'no kind "{value["kind"]}" is registered for version "{value.get("apiVersion") or "v1"}" '
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    read = reader_for("meta/v1.DeleteOptions")
    if read is None:
        return dict(value)
    try:
        options: Object = read(value)
    except ShapeError as error:
        raise problems.bad_request(error.message) from None
    return options


def _delete_query(request: Request) -> Object:
    given: Object = {}
    if grace := request.param("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = read_integer(grace)
    if policy := request.param("propagationPolicy"):
        given["propagationPolicy"] = policy
    if "orphanDependents" in request.query:
        given["orphanDependents"] = request.flag("orphanDependents")
    given["dryRun"] = request.params("dryRun")
    return given


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Of list, watch and deletecollection."""

    labels: LabelSelector
    fields: FieldSelector
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None
    selectors: tuple[str, str] = field(default=("", ""))
    """The selectors' texts, which with the rest decide whether two watches want the same frames."""


def list_options(request: Request, *, watch: bool) -> ListOptions:
    limit, timeout = _integer(request, "limit") or 0, _integer(request, "timeoutSeconds")
    try:
        labels = parse_labels(request.param("labelSelector"))
    except SelectorError as error:
        raise problems.bad_request(str(error)) from None
    try:
        fields = parse_fields(request.param("fieldSelector"))
    except SelectorError as error:
        raise problems.bad_request(str(error)) from None
    version, match, token = (
        request.param("resourceVersion"),
        request.param("resourceVersionMatch"),
        request.param("continue"),
    )
    initial = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None
    _refuse("ListOptions", (_watch_causes if watch else _list_causes)(version, match, token, initial))
    if version and (why := version_problem(version)):
        raise problems.custom(500, "", why) if watch else problems.bad_request(f"invalid resource version: {why}")
    return ListOptions(
        labels, fields,
        limit=limit,
        continue_token=token,
        resource_version=version,
        match=match,
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial,
        timeout=timeout,
        selectors=(str(labels), str(fields)),
    )  # fmt: skip


def version_problem(text: str) -> str:
    """Why a resource version cannot be read, in Go's words; empty where it can."""
    plain = text.isascii() and text.isdecimal()
    if plain and len(text) <= _LONGEST_NUMBER and int(text) < 2**64:
        return ""
    quoted = problems.go_quote(text)
    why = "value out of range" if plain else "invalid syntax"
    return f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"


def _integer(request: Request, name: str) -> int | None:
    text = request.param(name)
    return read_integer(text) if text else None


def read_integer(text: str) -> int:
    """A whole number of a query, as Go reads one. Raises 400."""
    plain = _INTEGER.fullmatch(text)
    if plain and len(text) <= _LONGEST_NUMBER and abs(number := int(text)) < 2**63:
        return number
    why = "value out of range" if plain else "invalid syntax"
    raise problems.bad_request(f"strconv.ParseInt: parsing {problems.go_quote(text)}: {why}")


def _list_causes(version: str, match: str, token: str, initial: bool | None) -> list[Cause]:
    path, causes = "resourceVersionMatch", []
    if match:
        if not version:
            causes.append(field_forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
        if token:
            causes.append(field_forbidden(path, f"{path} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            causes.append(not_supported(path, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            causes.append(field_forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
    if initial is not None:
        causes.append(field_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_causes(version: str, match: str, token: str, initial: bool | None) -> list[Cause]:
    path, causes = "resourceVersionMatch", []
    if initial is not None and match != "NotOlderThan":
        causes.append(field_forbidden(path, f"sendInitialEvents requires setting {path} to NotOlderThan"))
    if match:
        if initial is None:
            causes.append(field_forbidden(path, f"{path} is forbidden for watch unless sendInitialEvents is provided"))
        if match != "NotOlderThan":
            causes.append(not_supported(path, match, ("NotOlderThan",)))
        if token:
            causes.append(field_forbidden(path, f"{path} is forbidden when continue is provided"))
    return causes
