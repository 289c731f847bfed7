"""The components of one AppWrapper as a pass finds them, and what came of creating them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from modelyard.kube.conditions import condition, find_condition, is_true, set_condition
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import controller_of, is_deleting, kind_of, metadata_of, name_of, status_of, uid_of
from modelyard.operators.codeflare.appwrapper.api import RESOURCES_DEPLOYED, AppWrapper, PodSet
from modelyard.operators.codeflare.appwrapper.config import AppWrapperSettings
from modelyard.operators.codeflare.appwrapper.phases import Creation
from modelyard.operators.codeflare.appwrapper.podsets import definitive
from modelyard.operators.codeflare.appwrapper.templates import TemplateError, made
from modelyard.runtime.declaring.desired import Child, Live, Policy, Stage, generated_name
from modelyard.runtime.declaring.world import World


@dataclass(frozen=True)
class Part:
    """One component: what it is, and the object that stands for it."""

    index: int
    api_version: str
    kind_name: str
    kind: Kind | None
    """None: the API does not serve it now."""
    key: Key
    recorded: Object
    """Its entry in the status."""
    object: Object | None = None
    """Only if it is ours."""

    @property
    def is_created(self) -> bool:
        return is_true(self.recorded.get("conditions"), RESOURCES_DEPLOYED)

    @property
    def is_deployed(self) -> bool:
        return self.object is not None and not is_deleting(self.object)


def wrapped_kinds(resource: Object) -> Iterator[tuple[str, str]]:
    """Every kind of which an AppWrapper may have objects: those of its templates, and those in its status."""
    spec = resource.get("spec") or {}
    found = [kind_of(component.get("template") or {}) for component in spec.get("components") or ()]
    found += [kind_of(entry) for entry in status_of(resource).get("componentStatus") or ()]
    return (name for name in dict.fromkeys(found) if all(name))


def parts_of(appwrapper: AppWrapper, world: World) -> list[Part]:
    """The components, without a look at their objects. What is recorded goes before what the template says."""
    recorded = recorded_components(appwrapper)
    parts = []
    for index, component in enumerate(appwrapper.components):
        entry = recorded[index] if index < len(recorded) else {}
        known = entry.get("name")
        api_version, kind_name = kind_of(entry if known else component.template)
        metadata = metadata_of(component.template)
        name = known or metadata.get("name") or ""
        if not name:
            name = generated_name(str(metadata.get("generateName") or ""), str(index), appwrapper.metadata.uid)
        kind = world.kind_of(api_version, kind_name)
        namespace = appwrapper.namespace if kind is None or kind.namespaced else ""
        parts.append(Part(index, api_version, kind_name, kind, Key(namespace, str(name)), entry))
    return parts


async def seen_parts(parts: Sequence[Part], appwrapper: AppWrapper, world: World) -> list[Part]:
    """The components with those of their objects that this very AppWrapper controls."""
    seen = []
    for part in parts:
        found = None
        if part.kind is not None and part.kind.namespaced and part.key.name:
            found = await world.find(part.kind, *part.key)
        ours = found is not None and (controller_of(found) or {}).get("uid") == appwrapper.metadata.uid
        seen.append(
            Part(
                part.index, part.api_version, part.kind_name, part.kind, part.key, part.recorded,
                found if ours else None,
            )
        )  # fmt: skip
    return seen


# Creating


@dataclass(frozen=True)
class Attempt:
    """What is to be created in this pass, in order, and what hinders the rest."""

    stages: Sequence[Stage]
    asked: Sequence[Part]
    hindrance: Creation
    hindered: Part | None = None

    def outcome(self, live: Live) -> tuple[Creation, Part | None]:
        """What came of it; and the component at which it ended."""
        failures = {(failure.kind, failure.key): failure for failure in live.failures}
        for part in self.asked:
            assert part.kind is not None
            place = (part.kind, part.key)
            if (failure := failures.get(place)) is not None:
                if failure.reason == "Foreign":
                    said = f"resource {part.key.name} exists, but is not controlled by appwrapper"
                    return Creation(error=said, fatal=True), part
                return Creation(error=failure.message, fatal=failure.cause == "Invalid"), part
            if place in live.leaving or place not in live.objects:
                return Creation(error=f"an earlier {part.kind_name} {part.key.name} is still being deleted"), part
        return self.hindrance, self.hindered


def attempt(parts: Sequence[Part], appwrapper: AppWrapper, settings: AppWrapperSettings) -> Attempt:
    """What is not created yet, up to the first component that cannot be made."""
    stages: list[Stage] = []
    asked: list[Part] = []
    for part in parts:
        if part.is_created:
            continue
        if part.kind is None:
            said = f"the API does not serve {part.api_version} {part.kind_name}; it is created once its definition is there"
            return Attempt(stages, asked, Creation(error=said), part)
        if not part.kind.namespaced:
            said = f"{part.kind_name} belongs to no namespace, and only objects of a namespace can be wrapped"
            return Attempt(stages, asked, Creation(error=said, fatal=True), part)
        try:
            obj = made(appwrapper, part.index, settings)
        except TemplateError as error:
            return Attempt(stages, asked, Creation(error=str(error), fatal=True), part)
        obj["metadata"]["name"] = part.key.name
        stages.append(Stage([Child(obj, policy=Policy.CREATE, slot=str(part.index))]))
        asked.append(part)
    return Attempt(stages, asked, Creation(done=True))


# Recording


def recorded_components(appwrapper: AppWrapper) -> list[Object]:
    """The entries of the status. Hints on pod sets may change while the rest of a declaration may not: the latest are shown."""
    status = appwrapper.status.to_dict() if appwrapper.status is not None else {}
    found: list[Object] = list(status.get("componentStatus") or ())
    for index, component in enumerate(appwrapper.components[: len(found)]):
        sets = [_hinted(each, component.pod_sets or ()) for each in found[index]["podSets"]]
        found[index] = {**found[index], "podSets": sets}
    return found


def _hinted(recorded: Object, declared: Sequence[PodSet]) -> Object:
    """A pod set with the annotations that are declared for it; what was inferred stays as it is."""
    for pod_set in declared:
        if pod_set.path == recorded["path"]:
            rest = {name: value for name, value in recorded.items() if name != "annotations"}
            return rest | ({"annotations": dict(pod_set.annotations)} if pod_set.annotations else {})
    return recorded


def first_record(appwrapper: AppWrapper) -> list[Object]:
    """The entries of a new AppWrapper: the pod sets of each component, and no object yet."""
    recorded = recorded_components(appwrapper)
    if len(recorded) == len(appwrapper.components):
        return recorded
    return [
        {"name": "", "kind": "", "apiVersion": "", "podSets": [each.to_dict() for each in definitive(component)]}
        for component in appwrapper.components
    ]


def after_attempt(
    parts: Sequence[Part], live: Live, creation: Creation, ended_at: Part | None, now: datetime
) -> list[Object]:
    """The entries once it was tried to create."""
    entries = []
    for part in parts:
        entry = part.recorded
        if part.kind is not None and (obj := live.objects.get((part.kind, part.key))) is not None and part != ended_at:
            entry = _named(part, name_of(obj))
            entry = _marked(entry, condition(RESOURCES_DEPLOYED, True, "ComponentCreatedSuccessfully"), now)
        elif part == ended_at:
            mark = condition(RESOURCES_DEPLOYED, False, "ComponentCreationErrored", creation.error)
            entry = _marked(_named(part, part.key.name), mark, now)
        entries.append(entry)
    return entries


def after_deletion(parts: Sequence[Part], now: datetime) -> list[Object]:
    """The entries once it was seen what is left."""
    entries = []
    for part in parts:
        found = find_condition(part.recorded.get("conditions"), RESOURCES_DEPLOYED)
        entry = part.recorded
        if part.object is None and found is not None and found.get("status") != "False":
            # Spelled as upstream spells it.
            entry = _marked(entry, condition(RESOURCES_DEPLOYED, False, "CompononetDeleted"), now)
        entries.append(entry)
    return entries


def _named(part: Part, name: str) -> Object:
    return {**part.recorded, "name": name, "kind": part.kind_name, "apiVersion": part.api_version}


def _marked(entry: Object, mark: Object, now: datetime) -> Object:
    return {**entry, "conditions": set_condition(entry.get("conditions"), mark, now)}


def uids(parts: Sequence[Part]) -> Mapping[str, Part]:
    return {uid_of(part.object): part for part in parts if part.object is not None}
