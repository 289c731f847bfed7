"""Works on AppWrappers: looks at what is there, asks the table of phases, and says what should be true next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from modelyard.kube import builtin
from modelyard.kube.conditions import merge_conditions
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import is_deleting, key_of, labels_of, name_of, namespace_of, spec_of, uid_of
from modelyard.operators.codeflare.appwrapper import nodes, phases
from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER, FINALIZER, LABEL, AppWrapper, Phase
from modelyard.operators.codeflare.appwrapper.config import AppWrapperSettings, Tolerance, tolerance
from modelyard.operators.codeflare.appwrapper.observe import count_failed, own_pods, summary
from modelyard.operators.codeflare.appwrapper.parts import (
    Part,
    after_attempt,
    after_deletion,
    attempt,
    first_record,
    parts_of,
    recorded_components,
    seen_parts,
    uids,
    wrapped_kinds,
)
from modelyard.operators.codeflare.appwrapper.phases import Act, Observation, Step
from modelyard.operators.codeflare.appwrapper.podsets import PodSetError, pods_to_succeed
from modelyard.operators.codeflare.appwrapper.rights import PERMISSIONS, POD_PERMISSIONS
from modelyard.operators.codeflare.appwrapper.templates import recorded_sets
from modelyard.operators.codeflare.config import Settings
from modelyard.operators.codeflare.ray_cluster.controller import UPSTREAM
from modelyard.operators.parts.mappings import everyone
from modelyard.runtime.acting.status import RECONCILED, without_engine_marks
from modelyard.runtime.declaring.controller import Controller, Index, Reader, Watch, Wraps
from modelyard.runtime.declaring.desired import Deletion, Desired, EventNote, FollowUp, Hold, Live, Outcome
from modelyard.runtime.declaring.operator_metrics import Count
from modelyard.runtime.declaring.settings import SettingError
from modelyard.runtime.declaring.world import World

NAME = "appwrapper"
_LOOKS_AT_OBJECTS = frozenset(
    (Phase.RUNNING, Phase.SUSPENDING, Phase.RESETTING, Phase.FAILED, Phase.SUCCEEDED, Phase.TERMINATING)
)


def _settings(settings: Settings, world: World) -> AppWrapperSettings:
    return AppWrapperSettings.of(settings.document(world), enabled=settings.appwrappers)


def appwrapper_controller(settings: Settings, transitions: Count) -> Controller:
    """`transitions` counts the phases that AppWrappers enter."""
    by_node = Index("node", builtin.Pod, lambda pod: [spec_of(pod).get("nodeName") or ""])

    def users_of_node(node: Object, reader: Reader) -> Iterable[Key]:
        return [key for pod in reader.by_index(by_node.name, name_of(node)) for key in _owner_of(pod, reader)]

    controller = Controller(
        NAME,
        APPWRAPPER,
        watches=[
            Watch(builtin.Pod, to=_owner_of, labels=LABEL),
            Watch(builtin.Node, to=users_of_node, predicate=_labels_differ),
            replace(settings.followed, to=everyone(APPWRAPPER.kind)),
        ],
        wraps=Wraps(wrapped_kinds, labels=LABEL, permissions=PERMISSIONS),
        permissions=POD_PERMISSIONS,
        indexes=[by_node],
        finalizer=FINALIZER,
        finalizer_when=_needs_finalizer,
        ready_condition=RECONCILED,
        predecessor=UPSTREAM.also_in(settings.namespace, *settings.predecessor_namespaces),
    )

    @controller.reconcile
    async def reconcile(appwrapper: AppWrapper, world: World) -> Outcome:
        if not appwrapper.is_ours:
            return Desired(prune=False)
        now = _settings(settings, world)
        if not now.enabled:
            # Another operator may work on it: then nothing is said either.
            return Desired(prune=False, events=[_disabled(settings)] if appwrapper.phase is Phase.NEW else [])
        try:
            return await _Pass(appwrapper, world, now, transitions).run(appwrapper.phase)
        except PodSetError as error:
            # The webhook refuses this; where it was not asked, nothing is made.
            return Hold("InvalidPodSets", str(error))

    @controller.cleanup
    async def cleanup(appwrapper: AppWrapper, world: World) -> Outcome:
        if not appwrapper.is_ours:
            status = appwrapper.status.to_dict() if appwrapper.status is not None else {}
            return Hold("ManagedByAnother", "another controller takes its finalizer off", status=status)
        try:
            now = _settings(settings, world)
        except SettingError:
            now = AppWrapperSettings()  # What is to go does not wait for a mended setting.
        return await _Pass(appwrapper, world, now, transitions).run(Phase.TERMINATING)

    return controller


def _owner_of(pod: Object, reader: Reader) -> Iterable[Key]:
    return [Key(namespace_of(pod), labels_of(pod).get(LABEL, ""))]


def _may_wait(obj: Object) -> bool:
    """Has it more than no time to end? What is deleted without grace already is not deleted over and over."""
    return not is_deleting(obj) or bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _labels_differ(old: Object | None, new: Object | None) -> bool:
    return labels_of(old or {}) != labels_of(new or {})


def _needs_finalizer(appwrapper: AppWrapper) -> bool:
    """From the moment on when it may have objects."""
    waits = appwrapper.phase is Phase.SUSPENDED and appwrapper.is_suspended
    return appwrapper.is_ours and appwrapper.phase is not Phase.NEW and not waits


def _disabled(settings: Settings) -> EventNote:
    place = f"{settings.namespace}/{settings.config_map}"
    said = f"AppWrappers are turned off: set appwrapper.enabled to true in ConfigMap {place}"
    return EventNote("Disabled", said, "Warning")


@dataclass(frozen=True)
class _Pass:
    """One look at one AppWrapper."""

    appwrapper: AppWrapper
    world: World
    settings: AppWrapperSettings
    transitions: Count

    async def run(self, phase: Phase) -> Desired:
        parts = parts_of(self.appwrapper, self.world)
        if phase in _LOOKS_AT_OBJECTS:
            parts = await seen_parts(parts, self.appwrapper, self.world)
        pods = self._pods(parts) if phase in _LOOKS_AT_OBJECTS else []
        seen = self._observe(phase, parts, pods)
        step = phases.step(phase, seen)
        if step.act is Act.CREATE:
            return self._create(parts, seen)
        entries = first_record(self.appwrapper) if phase is Phase.NEW else after_deletion(parts, seen.now)
        if phase is Phase.RUNNING:
            entries = recorded_components(self.appwrapper)
        asked = self._deletions(parts, pods, force=seen.force) if step.act is Act.DELETE else []
        unfinished = phase is Phase.TERMINATING and not step.released
        return Desired(
            delete=asked,
            status=self._status(step, entries, shown=step.phase if not step.released else self.appwrapper.phase),
            events=step.events,
            requeue_after=self._again(step),
            prune=False,
            unfinished=unfinished,
        )

    def _create(self, parts: Sequence[Part], seen: Observation) -> Desired:
        planned = attempt(parts, self.appwrapper, self.settings)

        def follow(live: Live) -> FollowUp:
            creation, ended_at = planned.outcome(live)
            step = phases.after_creation(seen, creation)
            entries = after_attempt(parts, live, creation, ended_at, seen.now)
            return FollowUp(self._status(step, entries, shown=step.phase), step.events, self._again(step))

        return Desired(stages=planned.stages, follow=follow, prune=False)

    def _pods(self, parts: Sequence[Part]) -> list[Object]:
        labelled = self.world.list(builtin.Pod, self.appwrapper.namespace, {LABEL: self.appwrapper.name})
        return own_pods(labelled, self.appwrapper.metadata.uid, uids(parts).keys())

    def _observe(self, phase: Phase, parts: Sequence[Part], pods: Sequence[Object]) -> Observation:
        appwrapper, autopilot = self.appwrapper, self.settings.autopilot
        status = appwrapper.status.to_dict() if appwrapper.status is not None else {}
        rules = self._tolerance()
        base = Observation(
            self.world.now,
            rules,
            appwrapper.is_suspended,
            without_engine_marks(status, RECONCILED).get("conditions") or [],
            status.get("resettingCount") or 0,
            components=len(parts),
        )
        if phase not in _LOOKS_AT_OBJECTS:
            return base
        watched = self.world.list(builtin.Node) if autopilot.monitor_nodes and phase is Phase.RUNNING else []
        sets = [recorded_sets(appwrapper, part.index) for part in parts]
        objects = [part.object for part in parts if part.object is not None]
        return replace(
            base,
            deployed=sum(part.is_deployed for part in parts),
            failed_components=count_failed(objects),
            expected_pods=sum(each.count for group in sets for each in group),
            pods_to_succeed=sum(
                pods_to_succeed(component.template, group)
                for component, group in zip(appwrapper.components, sets, strict=True)
            ),
            pods=summary(pods, rules, nodes.no_execute(watched, autopilot)),
            left=len(objects) + len(pods),
        )

    def _tolerance(self) -> Tolerance:
        return tolerance(self.appwrapper.metadata.annotations, self.settings.faults)

    def _deletions(self, parts: Sequence[Part], pods: Sequence[Object], *, force: bool) -> list[Deletion]:
        """The objects; and once that has taken too long, first the pods and then the objects, without waiting for anything."""
        if force and pods:
            return [Deletion(builtin.Pod, key_of(pod), uid_of(pod), grace=0) for pod in pods if _may_wait(pod)]
        there = [(part.kind, part.key, part.object) for part in parts if part.object is not None]
        return [
            Deletion(kind, key, uid_of(obj), grace=0 if force else None)
            for kind, key, obj in there
            if kind is not None and (_may_wait(obj) if force else not is_deleting(obj))
        ]

    def _again(self, step: Step) -> float | None:
        """A new phase is looked at once more without waiting for the event of our own write."""
        return step.again if step.phase is self.appwrapper.phase else 0.0

    def _status(self, step: Step, entries: Sequence[Object], *, shown: Phase) -> Object:
        before = self.appwrapper.status.to_dict() if self.appwrapper.status is not None else {}
        status = without_engine_marks(before, RECONCILED)
        found = merge_conditions(status.get("conditions"), step.conditions, self.world.now)
        if shown is not self.appwrapper.phase and shown is not Phase.TERMINATING:
            self.transitions.add(self.appwrapper.namespace, str(shown))
        changed = {
            "phase": str(shown),
            "componentStatus": list(entries),
            "conditions": found,
            "resettingCount": self._resets(before, step),
        }
        return {**status, **{name: value for name, value in changed.items() if value}}

    def _resets(self, before: Object, step: Step) -> int:
        return int(before.get("resettingCount") or 0) + step.resets
