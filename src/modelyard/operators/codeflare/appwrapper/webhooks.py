"""Admission of AppWrappers: who made them is noted, what they wrap is checked, and what may not change stays."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from modelyard.kube import names
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import annotations_of, kind_of, labels_of, metadata_of, name_of, namespace_of, spec_of
from modelyard.operators.codeflare.appwrapper import paths
from modelyard.operators.codeflare.appwrapper.api import (
    APPWRAPPER,
    GROUP,
    QUEUE_LABEL,
    USER_ID_LABEL,
    USER_LABEL,
    Component,
    PodSet,
)
from modelyard.operators.codeflare.appwrapper.config import AppWrapperSettings, annotation_warnings
from modelyard.operators.codeflare.appwrapper.podsets import PodSetError, disagreement, inferred
from modelyard.operators.codeflare.appwrapper.rights import is_covered
from modelyard.operators.codeflare.config import Settings
from modelyard.runtime.declaring.settings import SettingError
from modelyard.runtime.webhooks import AdmissionRequest, Allowed, Answer, Denied, Webhook
from modelyard.runtime.webhooks.access_review import NotAsked

MOST_POD_SETS = 8
LONGEST_NAME = 63
_PATH = "workload-codeflare-dev-v1beta2-appwrapper"
_IMMUTABLE = "Forbidden: attempt to change immutable field"
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)


def appwrapper_webhooks(settings: Settings) -> list[Webhook]:
    """At upstream's paths, under upstream's names."""
    return [
        Webhook(
            "mappwrapper.kb.io",
            "mutating",
            f"/mutate-{_PATH}",
            lambda request: fill_in(request, _read(settings, request)),
            kinds=[APPWRAPPER.kind],
            operations=("CREATE",),
            configuration="codeflare-operator-mutating-webhook-configuration",
            reads=[settings.followed],
        ),
        Webhook(
            "vappwrapper.kb.io",
            "validating",
            f"/validate-{_PATH}",
            lambda request: validate(request, _read(settings, request)),
            kinds=[APPWRAPPER.kind],
            configuration="codeflare-operator-validating-webhook-configuration",
            reads=[settings.followed],
            reviews_access=True,
        ),
    ]


def _read(settings: Settings, request: AdmissionRequest) -> AppWrapperSettings:
    """With a setting that cannot be read, the defaults hold: they are the strict ones."""
    try:
        return AppWrapperSettings.of(settings.document(request.reader), enabled=settings.appwrappers)
    except SettingError:
        return AppWrapperSettings(enabled=settings.appwrappers)


# Defaults


def fill_in(request: AdmissionRequest, settings: AppWrapperSettings) -> Answer:
    """The queue, if none is named; and who sent it, whatever the labels say."""
    obj = request.object
    if obj is None or request.operation != "CREATE":
        return None
    labels = dict(labels_of(obj))
    if settings.default_queue and QUEUE_LABEL not in labels:
        labels[QUEUE_LABEL] = settings.default_queue
    labels[USER_LABEL] = sanitized(request.user)
    labels[USER_ID_LABEL] = sanitized(request.user_uid)
    return obj | {"metadata": {**metadata_of(obj), "labels": labels}}


def sanitized(text: str) -> str:
    """What of a text fits into a label."""
    cut = text.encode()[:LONGEST_NAME].decode(errors="replace")
    return _NOT_IN_LABELS.sub("_", cut)[:LONGEST_NAME].strip("-_.")


# Validation


async def validate(request: AdmissionRequest, settings: AppWrapperSettings) -> Answer:
    obj = request.object
    if obj is None:
        return None
    warnings = annotation_warnings(annotations_of(obj))
    if request.operation == "UPDATE":
        if (errors := _changes(request.old or {}, obj)) and not _is_leaving(request.old or {}, obj):
            return _denied(errors, warnings)
        return Allowed(warnings=_new_warnings(warnings, request.old or {}))
    errors = [*_name_errors(obj, request)]
    total = 0
    for index, component in enumerate(_components(obj)):
        found = _Component(index, component, request, settings)
        errors += await found.errors()
        total += found.count
        warnings += found.warnings
    where = "spec.components: Invalid value: components contains"
    if total == 0:
        errors.append(f"{where} no podspecs")
    if total > MOST_POD_SETS:
        errors.append(f"{where} {total} podspecs; at most {MOST_POD_SETS} are allowed")
    if not settings.enabled:
        warnings.append("AppWrappers are turned off here: nothing happens to this one until an admin turns them on")
    return _denied(errors, warnings) if errors else Allowed(warnings=warnings)


def _denied(errors: Sequence[str], warnings: Sequence[str]) -> Denied:
    said = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    causes = [{"reason": "FieldValueInvalid", "field": e.split(": ", 1)[0], "message": e} for e in errors]
    return Denied(said, causes=causes, warnings=warnings)


def _new_warnings(warnings: Sequence[str], old: Object) -> list[str]:
    """What was said before is not said at every update."""
    before = set(annotation_warnings(annotations_of(old)))
    return [each for each in warnings if each not in before]


def _is_leaving(old: Object, new: Object) -> bool:
    """What is being deleted and changes only its metadata is not held up."""
    return bool(metadata_of(new).get("deletionTimestamp")) and spec_of(old) == spec_of(new)


def _name_errors(obj: Object, request: AdmissionRequest) -> list[str]:
    name = name_of(obj) or request.name
    wrong = names.label_value(name) if name else ()
    return [f'metadata.name: Invalid value: "{name}": it is put into a label: {each}' for each in wrong]


def _components(obj: Object) -> list[Object]:
    found = spec_of(obj).get("components")
    return [each if isinstance(each, dict) else {} for each in found] if isinstance(found, list) else []


class _Component:
    """The checks of one component."""

    def __init__(self, index: int, component: Object, request: AdmissionRequest, settings: AppWrapperSettings) -> None:
        self.at = f"spec.components[{index}]"
        self.request = request
        self.settings = settings
        self.count = 0
        """How many pod sets it has."""
        self.warnings: list[str] = []
        self._component = component

    async def errors(self) -> list[str]:
        template = self._component.get("template")
        if not isinstance(template, dict) or not all(kind_of(template)):
            return [f"{self.at}.template: Invalid value: failed to decode as JSON: apiVersion and kind are required"]
        return [*self._kind_errors(template), *await self._rights_errors(template), *self._pod_set_errors(template)]

    def _kind_errors(self, template: Object) -> list[str]:
        found, at = [], f"{self.at}.template"
        api_version, kind = kind_of(template)
        if kind == APPWRAPPER.kind_name and api_version.rpartition("/")[0] == GROUP:
            found.append(f"{at}: Forbidden: Nested AppWrappers are forbidden")
        if namespace_of(template) not in ("", self.request.namespace):
            said = "AppWrappers cannot create objects in other namespaces"
            found.append(f"{at}.metadata.namespace: Forbidden: {said}")
        metadata = metadata_of(template)
        if not metadata.get("name") and not metadata.get("generateName"):
            found.append(f"{at}.metadata.name: Required value: name or generateName is required")
        known = self.request.reader.kind_of(api_version, kind)
        if known is not None and not known.namespaced:
            found.append(
                f"{at}: Forbidden: {kind} belongs to no namespace, and only objects of a namespace can be wrapped"
            )
        return found

    async def _rights_errors(self, template: Object) -> list[str]:
        """The plane creates the object with rights of its own, so its user must have them too."""
        api_version, kind = kind_of(template)
        group, _, version = api_version.rpartition("/")
        known = self.request.reader.kind_of(api_version, kind)
        if known is None:
            self.warnings.append(
                f"the API does not serve {api_version} {kind}: it is created once its definition is there"
            )
        elif not is_covered(known.group, known.plural):
            said = f"the role that comes with the plane may not create {known.resource}"
            self.warnings.append(f"{said}: unless an admin has allowed it, this AppWrapper will fail")
        if not self.settings.checks_user_rights:
            return []
        asked = known or Kind(group, version, kind, "*")
        namespace, user = self.request.namespace, self.request.sender
        try:
            allowed = await self.request.access.may(user, "create", asked, namespace)
        except NotAsked as error:
            return [f"{self.at}.template: Internal error: {error}"]
        if allowed:
            return []
        hint = (
            ""
            if known
            else f"; the API does not serve {api_version} {kind}, so the right to create all of {group} is needed"
        )
        said = f"User {user.name} is not authorized to create {asked.plural} in {namespace}{hint}"
        return [f"{self.at}.template: Forbidden: {said}"]

    def _pod_set_errors(self, template: Object) -> list[str]:
        try:
            component = msgspec.convert(self._component, Component)
        except msgspec.ValidationError as error:
            return [f"{self.at}: Invalid value: {error}"]
        declared = component.pod_sets or []
        found = [each for index, pod_set in enumerate(declared) for each in self._path_errors(template, index, pod_set)]
        try:
            sets = inferred(template)
        except PodSetError as error:
            self.count = len(declared)
            return [*found, f"{self.at}.template: Invalid value: error inferring PodSets: {error}"]
        if declared and (wrong := disagreement(declared, sets)):
            found.append(f"{self.at}.podSets: Invalid value: {wrong}")
        self.count = max(len(declared), len(sets))
        return found

    def _path_errors(self, template: Object, index: int, pod_set: PodSet) -> list[str]:
        at = f"{self.at}.podSets[{index}]"
        if pod_set.count < 0:
            return [f"{at}.replicas: Invalid value: {pod_set.count}: must not be negative"]
        if not pod_set.path:
            return [f"{at}.path: Required value: podspec must specify path"]
        try:
            paths.pod_template(template, pod_set.path)
        except paths.BadPath as error:
            said = f"path does not refer to a v1.PodSpecTemplate: {error}"
            return [f'{at}.path: Invalid value: "{pod_set.path}": {said}']
        return []


# Changes


def _changes(old: Object, new: Object) -> list[str]:
    """What was changed and may not be."""
    before, after = _components(old), _components(new)
    if len(before) != len(after):
        return [f"spec.components: {_IMMUTABLE}"]
    found = []
    for index, (was, now) in enumerate(zip(before, after, strict=True)):
        at = f"spec.components[{index}]"
        if was.get("template") != now.get("template"):
            found.append(f"{at}.template.raw: {_IMMUTABLE}")
        sets, new_sets = was.get("podSets") or [], now.get("podSets") or []
        if len(sets) != len(new_sets):
            found.append(f"{at}.podsets: {_IMMUTABLE}")
            continue
        for position, (one, other) in enumerate(zip(sets, new_sets, strict=True)):
            if _count(one) != _count(other):
                found.append(f"{at}.podsets[{position}].replicas: {_IMMUTABLE}")
            if one.get("path") != other.get("path"):
                found.append(f"{at}.podsets[{position}].path: {_IMMUTABLE}")
    for label in (USER_LABEL, USER_ID_LABEL):
        if labels_of(old).get(label, "") != labels_of(new).get(label, ""):
            found.append(f"metadata.labels[{label}]: {_IMMUTABLE}")
    if spec_of(old).get("managedBy") != spec_of(new).get("managedBy"):
        found.append(f"spec.managedBy: {_IMMUTABLE}")
    return found


def _count(pod_set: Object) -> int:
    replicas = pod_set.get("replicas")
    return 1 if replicas is None else int(replicas)
