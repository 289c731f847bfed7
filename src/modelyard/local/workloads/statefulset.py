"""StatefulSet: pods with fixed names, one after the other or all at once, each with claims of its own."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from modelyard.kube.builtin import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.local.workloads import pods as podlib
from modelyard.runtime.declaring.controller import Controller, Owns, Watch
from modelyard.runtime.declaring.desired import Child, Desired, EventNote, Policy
from modelyard.runtime.declaring.world import World

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def statefulset_controller() -> Controller:
    controller = Controller(
        "statefulset",
        StatefulSet,
        owns=[Owns(Pod), Owns(ControllerRevision)],
        watches=[Watch(PersistentVolumeClaim)],
        concurrency=8,
    )
    controller.reconcile(reconcile)
    return controller


@dataclass(frozen=True)
class Revisions:
    """The template that new pods get, and the one that pods below the partition keep."""

    update: str
    current: str
    objects: list[Object]
    templates: dict[str, Object]


def reconcile(statefulset: Object, world: World) -> Desired:
    spec, meta = statefulset["spec"], statefulset["metadata"]
    revisions = _revisions(statefulset, world)
    pods = {pod["metadata"]["name"]: pod for pod in world.owned(Pod)}
    start = int((spec.get("ordinals") or {}).get("start") or 0)
    ordinals = range(start, start + int(spec.get("replicas", 1)))
    # There may be more ordinals than there ever are pods, so only those of pods are looked at.
    numbered = sorted(pods, key=_ordinal)
    wanted = [name for name in numbered if name == f"{meta['name']}-{_ordinal(name)}" and _ordinal(name) in ordinals]
    surplus = [name for name in reversed(numbered) if name not in set(wanted)]
    created, removed = _step(statefulset, revisions, pods, ordinals, surplus, world)
    claims = [
        claim
        for name in [*wanted, *(pod["metadata"]["name"] for pod in created)]
        for claim in _claims(statefulset, name)
    ]
    events = [
        EventNote("SuccessfulCreate", f"create Pod {p['metadata']['name']} in StatefulSet {meta['name']} successful")
        for p in created
    ]
    events += [
        EventNote("SuccessfulDelete", f"delete Pod {name} in StatefulSet {meta['name']} successful") for name in removed
    ]
    min_ready = int(spec.get("minReadySeconds") or 0)
    return Desired(
        children=[
            *(Child(claim, policy=Policy.ONCE, keep=True) for claim in claims),
            *revisions.objects,
            *created,
        ],
        delete=[
            *((Pod, Key(meta["namespace"], name)) for name in removed),
            *_old_revisions(statefulset, revisions, pods, world),
        ],
        prune=False,
        status=_status(statefulset, revisions, [pods[name] for name in wanted], list(pods.values()), world),
        events=events,
        requeue_after=podlib.seconds_until_available(pods.values(), min_ready, world.now),
    )


def _step(
    statefulset: Object,
    revisions: Revisions,
    pods: dict[str, Object],
    ordinals: range,
    surplus: list[str],
    world: World,
) -> tuple[list[Object], list[str]]:
    """What to create and what to delete now. In order: create from below, remove from above, update from above."""
    spec, name = statefulset["spec"], statefulset["metadata"]["name"]
    ordered = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
    min_ready = int(spec.get("minReadySeconds") or 0)
    partition = int(((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition") or 0)
    created: list[Object] = []
    removed: list[str] = []
    for ordinal in ordinals:
        pod = pods.get(f"{name}-{ordinal}")
        if pod is None:
            revision = revisions.current if ordinal - ordinals.start < partition else revisions.update
            created.append(_pod(statefulset, revisions, revision, ordinal))
            if len(created) == podlib.BURST:
                return created, removed
        elif podlib.is_finished(pod) and not podlib.is_deleting(pod):
            removed.append(pod["metadata"]["name"])
        elif not ordered or (not podlib.is_deleting(pod) and podlib.is_available(pod, min_ready, world.now)):
            continue
        if ordered:
            return created, removed
    for doomed in surplus:
        if not podlib.is_deleting(pods[doomed]):
            removed.append(doomed)
        if ordered:
            return created, removed
    if created or removed or (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        return created, removed
    return created, removed + _outdated(revisions, pods, name, ordinals, partition, min_ready, world)


def _outdated(
    revisions: Revisions,
    pods: dict[str, Object],
    name: str,
    ordinals: range,
    partition: int,
    min_ready: int,
    world: World,
) -> list[str]:
    """The highest pod of an old revision, once all above it are up."""
    for ordinal in reversed(ordinals):
        if ordinal - ordinals.start < partition:
            return []
        pod = pods[f"{name}-{ordinal}"]
        if podlib.is_deleting(pod):
            return []
        if (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) != revisions.update:
            return [pod["metadata"]["name"]]
        if not podlib.is_available(pod, min_ready, world.now):
            return []
    return []


def _revisions(statefulset: Object, world: World) -> Revisions:
    meta, status = statefulset["metadata"], statefulset.get("status") or {}
    template = statefulset["spec"]["template"]
    known = sorted(world.owned(ControllerRevision), key=lambda r: int(r.get("revision") or 0))
    same = next((r for r in reversed(known) if _template_of(r) == template), None)
    templates = {r["metadata"]["name"]: _template_of(r) for r in known}
    highest = int(known[-1].get("revision") or 0) if known else 0
    update = same["metadata"]["name"] if same else f"{meta['name']}-{podlib.template_hash(template, 0)}"
    objects: list[Object] = []
    if same is None or int(same.get("revision") or 0) != highest:
        # A template of before comes back under its old name, with a new number.
        objects = [_revision(statefulset, update, template, highest + 1)]
        templates[update] = template
    current = status.get("currentRevision") or update
    return Revisions(update, current if current in templates else update, objects, templates)


def _revision(statefulset: Object, name: str, template: Object, number: int) -> Object:
    meta = statefulset["metadata"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": meta["namespace"], "labels": {**labels, REVISION_LABEL: name}},
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }


def _template_of(revision: Object) -> Object:
    template = dict(((revision.get("data") or {}).get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return template


def _old_revisions(
    statefulset: Object, revisions: Revisions, pods: dict[str, Object], world: World
) -> list[tuple[Kind, Key]]:
    used = {(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods.values()}
    used |= {revisions.update, revisions.current}
    known = sorted(world.owned(ControllerRevision), key=lambda r: int(r.get("revision") or 0))
    idle = [r["metadata"]["name"] for r in known if r["metadata"]["name"] not in used]
    limit = int(statefulset["spec"].get("revisionHistoryLimit", 10))
    return [
        (ControllerRevision, Key(statefulset["metadata"]["namespace"], name))
        for name in idle[: max(len(idle) - limit, 0)]
    ]


def _pod(statefulset: Object, revisions: Revisions, revision: str, ordinal: int) -> Object:
    meta, spec = statefulset["metadata"], statefulset["spec"]
    name = f"{meta['name']}-{ordinal}"
    labels = {REVISION_LABEL: revision, POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}
    pod = podlib.pod_from_template(
        msgspec.json.decode(msgspec.json.encode(revisions.templates[revision])),
        name=name,
        namespace=meta["namespace"],
        labels=labels,
    )
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    claimed = {template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or []}
    volumes = [v for v in pod["spec"].get("volumes") or [] if v["name"] not in claimed]
    volumes += [{"name": c, "persistentVolumeClaim": {"claimName": f"{c}-{name}"}} for c in sorted(claimed)]
    if volumes:
        pod["spec"]["volumes"] = volumes
    return pod


def _claims(statefulset: Object, pod_name: str) -> list[Object]:
    meta, spec = statefulset["metadata"], statefulset["spec"]
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{template['metadata']['name']}-{pod_name}",
                "namespace": meta["namespace"],
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
                **(
                    {"annotations": template["metadata"]["annotations"]}
                    if template["metadata"].get("annotations")
                    else {}
                ),
            },
            "spec": template["spec"],
        }
        for template in spec.get("volumeClaimTemplates") or []
    ]


def _status(
    statefulset: Object, revisions: Revisions, pods: list[Object], all_pods: list[Object], world: World
) -> Object:
    spec = statefulset["spec"]
    before = statefulset.get("status") or {}
    min_ready = int(spec.get("minReadySeconds") or 0)
    living = [pod for pod in all_pods if podlib.is_active(pod)]
    updated = [p for p in living if (p["metadata"].get("labels") or {}).get(REVISION_LABEL) == revisions.update]
    ready = [p for p in living if podlib.is_ready(p)]
    done = len(updated) == len(living) == int(spec.get("replicas", 1)) and all(podlib.is_ready(p) for p in updated)
    current = revisions.update if done else revisions.current
    of_current = [p for p in living if (p["metadata"].get("labels") or {}).get(REVISION_LABEL) == current]
    status: Object = {
        "observedGeneration": statefulset["metadata"].get("generation", 0),
        "replicas": len(living),
        "readyReplicas": len(ready),
        "availableReplicas": sum(podlib.is_available(p, min_ready, world.now) for p in living),
        "currentReplicas": len(of_current),
        "updatedReplicas": len(updated),
        "currentRevision": current,
        "updateRevision": revisions.update,
        "collisionCount": before.get("collisionCount") or 0,
    }
    return {
        k: v
        for k, v in status.items()
        if v or k in ("replicas", "availableReplicas", "collisionCount", "observedGeneration")
    }


def _ordinal(name: str) -> int:
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0
