"""ObjectMeta: what the server sets, what may not change, and what it checks, for every kind."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from modelyard.kube import names
from modelyard.kube.kinds import Object
from modelyard.kube.times import format_time
from modelyard.local.apiserver.requests.options import manager_causes
from modelyard.local.apiserver.requests.problems import (
    Cause,
    field_forbidden,
    go_quote,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from modelyard.local.apiserver.served.resources import ServedResource

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM = random.Random()
"""Of its own: a program that seeds the common one must not get the same uids again."""
_ANNOTATION_BYTES = 256 * 1024
STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_IMMUTABLE = "field is immutable"
_ORDER = ("kind", "apiVersion", "metadata")
_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def generated_name(prefix: str) -> str:
    return prefix[:58] + "".join(random.choices(_ALPHABET, k=5))


def new_uid() -> str:
    text = f"{_RANDOM.getrandbits(128):032x}"
    # The digits that say that it is a random one.
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"


def fill_system_fields(metadata: Object, now: datetime) -> None:
    """What every new object gets, whatever its creator says."""
    for name in _SYSTEM:
        metadata.pop(name, None)
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = format_time(now)


def ordered(obj: Object, resource: ServedResource) -> Object:
    """The object with kind, apiVersion and metadata in front: lists cut the first two off the stored bytes."""
    metadata = obj["metadata"]
    result: Object = {"kind": resource.kind.kind, "apiVersion": resource.kind.api_version, "metadata": metadata}
    for name, value in obj.items():
        if name not in _ORDER:
            result[name] = value
    return result


_METADATA_ORDER = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip


def drop_empty(metadata: Object) -> None:
    """ObjectMeta never holds an empty list or map; so nobody can own one."""
    for name in ("labels", "annotations", "ownerReferences", "finalizers"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def tidy_metadata(metadata: Object) -> Object:
    """Only the fields that ObjectMeta has, in its order, without empty ones."""
    tidy = {name: value for name in _METADATA_ORDER if (value := metadata.get(name))}
    if metadata.get("deletionGracePeriodSeconds") == 0:
        tidy["deletionGracePeriodSeconds"] = 0
    return tidy


def carry_over(new: Object, old: Object) -> None:
    """What an update keeps of the old metadata, whatever the request says."""
    for name in ("generation", "creationTimestamp"):
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)
    if not new.get("uid") and "uid" in old:
        new["uid"] = old["uid"]
    if "deletionTimestamp" in old:
        new["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old and new.get("deletionGracePeriodSeconds") is None:
        new["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    new.pop("selfLink", None)


def check(resource: ServedResource, obj: Object, *, update: bool = False) -> list[Cause]:
    """What is wrong with an object's metadata, old or new."""
    metadata = obj["metadata"]
    causes: list[Cause] = []
    name = metadata.get("name", "")
    if metadata.get("generateName") and (resource.strategy.prefix_always or not update):
        # The part that the server adds makes up for a trailing dash.
        wrong = resource.strategy.canonical_name({"metadata": {"generateName": metadata["generateName"]}})
        if wrong:
            causes.append(invalid_value("metadata.generateName", metadata["generateName"], wrong))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif wrong := resource.strategy.canonical_name(obj):
        causes.append(invalid_value("metadata.name", name, wrong))
    if resource.kind.namespaced:
        namespace = metadata.get("namespace", "")
        causes += [invalid_value("metadata.namespace", namespace, message) for message in names.dns_label(namespace)]
    elif metadata.get("namespace"):
        causes.append(field_forbidden("metadata.namespace", "not allowed on this type"))
    causes += check_contents(metadata)
    if finalizers := metadata.get("finalizers"):
        causes += _finalizer_causes(finalizers, qualified=resource.strategy.qualified_finalizers)
    return causes


def check_contents(metadata: Object) -> list[Cause]:
    """What is wrong with labels, annotations, owners and managers: what every check of an object looks at again."""
    causes: list[Cause] = []
    if labels := metadata.get("labels"):
        causes += label_causes(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        causes += annotation_causes(annotations, "metadata.annotations")
    if references := metadata.get("ownerReferences"):
        causes += _owner_causes(references)
    if managed := metadata.get("managedFields"):
        causes += _managed_causes(managed)
    return causes


def check_update(new: Object, old: Object) -> list[Cause]:
    """What may not change between two versions of an object's metadata."""
    causes: list[Cause] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = "[]string{" + ", ".join(go_quote(name) for name in extra) + "}"
            message = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
            causes.append(field_forbidden("metadata.finalizers", message))
    for name in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(name) != old.get(name):
            causes.append(invalid_value(f"metadata.{name}", new.get(name), _IMMUTABLE))
    return causes


@lru_cache(2048)
def _label_messages(key: str, value: str) -> tuple[tuple[str, str], ...]:
    wrong = [(key, message) for message in names.label_key(key)]
    return (*wrong, *((value, message) for message in names.label_value(value)))


def label_causes(labels: Mapping[str, str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += [invalid_value(path, bad, message) for bad, message in _label_messages(key, value)]
    return causes


def annotation_causes(annotations: Mapping[str, str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        causes += [invalid_value(path, key, message) for message in names.label_key(key.lower())]
        size += len(key) + len(value)
    # Counting bytes is only worth it near the limit.
    if size > _ANNOTATION_BYTES // 4:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > _ANNOTATION_BYTES:
            causes.append(too_long(path, _ANNOTATION_BYTES))
    return causes


def _owner_causes(references: Sequence[Object]) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    path = "metadata.ownerReferences"
    for index, reference in enumerate(references):
        at = f"{path}[{index}]"
        api_version = reference.get("apiVersion", "")
        if not api_version:
            causes.append(required(f"{at}.apiVersion", "must not be empty"))
        elif api_version.count("/") > 1 or api_version.endswith("/"):
            causes.append(invalid_value(f"{at}.apiVersion", api_version, "must be <group>/<version> or <version>"))
        for name in ("kind", "name", "uid"):
            if not reference.get(name):
                causes.append(required(f"{at}.{name}", "must not be empty"))
        if (api_version, reference.get("kind")) == ("v1", "Event"):
            causes.append(invalid_value(at, reference, "/v1, Kind=Event is disallowed from being an owner"))
        if reference.get("controller"):
            current = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                message = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}"
                )
                causes.append(invalid_value(path, list(references), message))
            else:
                controller = current
    return causes


def _finalizer_causes(finalizers: Sequence[str], *, qualified: bool) -> list[Cause]:
    causes: list[Cause] = []
    path = "metadata.finalizers"
    for index, name in enumerate(finalizers):
        causes += [invalid_value(path, name, message) for message in names.label_key(name)]
        if qualified and "/" not in name and name not in STANDARD_FINALIZERS:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value(f"{path}[{index}]", name, message))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        message = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value(path, list(finalizers), message))
    return causes


def _managed_causes(entries: Sequence[Object]) -> list[Cause]:
    causes: list[Cause] = []
    for index, entry in enumerate(entries):
        at = f"metadata.managedFields[{index}]"
        operation = entry.get("operation", "")
        if not operation:
            causes.append(required(f"{at}.operation", "must not be empty"))
        elif operation not in ("Apply", "Update"):
            causes.append(not_supported(f"{at}.operation", operation, ("Apply", "Update")))
        if entry.get("fieldsType", "FieldsV1") not in ("", "FieldsV1"):
            causes.append(invalid_value(f"{at}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        manager = entry.get("manager", "")
        if not (manager.isascii() and manager.isprintable() and len(manager) <= 128):
            causes += manager_causes(f"{at}.manager", manager)
    return causes


def dedupe_owners(obj: Object) -> list[str]:
    """Drops owner references whose uid came before; returns the warnings for it."""
    references = obj["metadata"].get("ownerReferences")
    if not references or len(references) < 2:
        return []
    seen: dict[Any, Object] = {}
    doubled: list[str] = []
    for reference in references:
        uid = reference.get("uid")
        if uid in seen and seen[uid] == reference:
            if uid not in doubled:
                doubled.append(str(uid))
        else:
            seen.setdefault(uid, reference)
    if not doubled:
        return []
    kept: list[Object] = []
    for reference in references:
        if reference not in kept:
            kept.append(reference)
    obj["metadata"]["ownerReferences"] = kept
    listed = ", ".join(doubled)
    return [
        f".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such "
        f"requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {listed}"
    ]


def system_finalizer(metadata: Object, name: str, *, present: bool) -> None:
    """Adds or removes one finalizer."""
    finalizers = [other for other in metadata.get("finalizers") or () if other != name]
    if present:
        finalizers.append(name)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
