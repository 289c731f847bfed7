"""Deployment: which ReplicaSets there should be, how large, and what the rollout's state is."""

from __future__ import annotations

from dataclasses import dataclass

from modelyard.kube.builtin import Deployment, ReplicaSet
from modelyard.kube.conditions import condition, find_condition, remove_condition
from modelyard.kube.intstr import scaled
from modelyard.kube.kinds import Key, Object
from modelyard.kube.times import format_time, later, parse_time
from modelyard.local.workloads.pods import template_hash
from modelyard.runtime.declaring.controller import Controller, Owns
from modelyard.runtime.declaring.desired import Child, Desired, Edit, EventNote
from modelyard.runtime.declaring.world import World

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HISTORY = "deployment.kubernetes.io/revision-history"
HASH = "pod-template-hash"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_COPIED = {LAST_APPLIED, REVISION, DESIRED, MAXIMUM, HISTORY}
_NO_DEADLINE = 2**31 - 1


def deployment_controller() -> Controller:
    controller = Controller("deployment", Deployment, owns=[Owns(ReplicaSet)], concurrency=8)
    controller.reconcile(reconcile)
    return controller


@dataclass
class Sizes:
    """How many replicas each ReplicaSet is to have."""

    current: dict[str, int]
    wanted: dict[str, int]

    def total(self) -> int:
        return sum(self.wanted.values())


def reconcile(deployment: Object, world: World) -> Desired:
    spec = deployment["spec"]
    sets = sorted(world.owned(ReplicaSet), key=lambda rs: (revision_of(rs), rs["metadata"]["name"]))
    current = next((rs for rs in sets if same_template(rs, deployment)), None)
    paused = bool(spec.get("paused"))
    made = current is None and not paused and not (_recreates(deployment) and any(_has_pods(rs) for rs in sets))
    if made:
        current = _new_set(deployment, sets)
    old = [rs for rs in sets if current is None or rs["metadata"]["name"] != current["metadata"]["name"]]
    revision = (
        _revision(current, old, made) if current is not None else max((revision_of(rs) for rs in sets), default=0)
    )

    sizes = _sizes(deployment, current, old, made, paused)
    gone = _too_old(deployment, old)
    events = [_scaled_event(rs, sizes) for rs in [*old, *([current] if current else [])] if _changes(rs, sizes)]
    children = [
        Child(_as_applied(rs, sizes.wanted[rs["metadata"]["name"]], deployment, sizes, None))
        for rs in old
        if rs["metadata"]["name"] not in gone and not rs["metadata"].get("deletionTimestamp")
    ]
    if current is not None:
        children.append(
            Child(_as_applied(current, sizes.wanted[current["metadata"]["name"]], deployment, sizes, revision))
        )
    status = _status(deployment, current, old, made, world)
    return Desired(
        children=children,
        delete=[(ReplicaSet, Key(deployment["metadata"]["namespace"], name)) for name in gone],
        prune=False,
        edits=_revision_edit(deployment, revision),
        status=status,
        events=events,
        requeue_after=_seconds_to_deadline(deployment, status, world),
    )


def revision_of(rs: Object) -> int:
    text = (rs["metadata"].get("annotations") or {}).get(REVISION) or "0"
    return int(text) if text.isdecimal() else 0


def same_template(rs: Object, deployment: Object) -> bool:
    return _without_hash(rs["spec"]["template"]) == _without_hash(deployment["spec"]["template"])


def _without_hash(template: Object) -> Object:
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k != HASH}
    return {"metadata": {k: v for k, v in meta.items() if v}, "spec": template.get("spec")}


def _new_set(deployment: Object, sets: list[Object]) -> Object:
    meta, spec = deployment["metadata"], deployment["spec"]
    taken = {rs["metadata"]["name"] for rs in sets}
    collisions = int((deployment.get("status") or {}).get("collisionCount") or 0)
    digest = template_hash(spec["template"], collisions)
    while f"{meta['name']}-{digest}" in taken:
        collisions += 1
        digest = template_hash(spec["template"], collisions)
    template = dict(spec["template"])
    template_meta = dict(template.get("metadata") or {})
    labels = {**(template_meta.get("labels") or {}), HASH: digest}
    template["metadata"] = {**template_meta, "labels": labels}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: digest}
    return {
        "metadata": {"name": f"{meta['name']}-{digest}", "namespace": meta["namespace"], "labels": labels},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


def _as_applied(rs: Object, replicas: int, deployment: Object, sizes: Sizes, revision: int | None) -> Object:
    """The ReplicaSet as we own it: with its own template, and the annotations that kubectl's rollout commands read."""
    meta, spec = deployment["metadata"], deployment["spec"]
    notes = dict(rs["metadata"].get("annotations") or {})
    if revision is not None:
        notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _NOT_COPIED}
        notes[REVISION] = str(revision)
        if history := _history(rs, revision):
            notes[HISTORY] = history
    notes[DESIRED] = str(spec.get("replicas", 1))
    notes[MAXIMUM] = str(spec.get("replicas", 1) + _surge(deployment))
    applied: Object = {
        "replicas": replicas,
        "selector": rs["spec"]["selector"],
        "template": rs["spec"]["template"],
    }
    if min_ready := (spec.get("minReadySeconds") if revision is not None else rs["spec"].get("minReadySeconds")):
        applied["minReadySeconds"] = min_ready
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": rs["metadata"]["name"],
            "namespace": meta["namespace"],
            "labels": rs["metadata"].get("labels") or {},
            "annotations": notes,
        },
        "spec": applied,
    }


def _history(rs: Object, revision: int) -> str:
    """The revisions that this set stood for before, oldest first."""
    before = str((rs["metadata"].get("annotations") or {}).get(HISTORY) or "")
    own = revision_of(rs)
    if not own or own == revision:
        return before
    return f"{before},{own}" if before else str(own)


def _revision(current: Object, old: list[Object], made: bool) -> int:
    """The newest of all: also when an old template came back (a rollback)."""
    highest = max((revision_of(rs) for rs in old), default=0)
    own = 0 if made else revision_of(current)
    return own if own > highest else highest + 1


def _revision_edit(deployment: Object, revision: int) -> list[Edit]:
    meta = deployment["metadata"]
    if revision == 0 or (meta.get("annotations") or {}).get(REVISION) == str(revision):
        return []
    patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
    key = Key(meta["namespace"], meta["name"])
    # With the status: an annotation that comes another way counts as a new generation.
    return [Edit(Deployment, key, meta["resourceVersion"], patch, subresource="status")]


def _recreates(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "Recreate")


def _has_pods(rs: Object) -> bool:
    status = rs.get("status") or {}
    return _size(rs) > 0 or bool(status.get("replicas") or status.get("terminatingReplicas"))


def _surge(deployment: Object) -> int:
    spec = deployment["spec"]
    strategy = spec.get("strategy") or {}
    if _recreates(deployment):
        return 0
    return scaled((strategy.get("rollingUpdate") or {}).get("maxSurge", "25%"), spec.get("replicas", 1), round_up=True)


def _unavailable(deployment: Object) -> int:
    spec = deployment["spec"]
    strategy = spec.get("strategy") or {}
    replicas = spec.get("replicas", 1)
    if _recreates(deployment) or replicas == 0:
        return 0
    allowed = scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", "25%"), replicas, round_up=False)
    if allowed == 0 and _surge(deployment) == 0:
        return 1
    return min(allowed, int(replicas))


def _size(rs: Object) -> int:
    return int(rs["spec"].get("replicas", 1))


def _available(rs: Object) -> int:
    return int((rs.get("status") or {}).get("availableReplicas") or 0)


def _counted(sets: list[Object], field: str) -> int:
    return sum(int((rs.get("status") or {}).get(field) or 0) for rs in sets)


def _sizes(deployment: Object, current: Object | None, old: list[Object], made: bool, paused: bool) -> Sizes:
    present = {rs["metadata"]["name"]: _size(rs) for rs in [*old, *([current] if current else [])]}
    if made and current is not None:
        present[current["metadata"]["name"]] = 0
    sizes = Sizes(dict(present), dict(present))
    replicas = int(deployment["spec"].get("replicas", 1))
    live_old = [rs for rs in old if present[rs["metadata"]["name"]] > 0]
    if current is None:
        if paused:
            _scale_in_proportion(deployment, sizes, live_old)
        else:
            sizes.wanted = dict.fromkeys(present, 0)
        return sizes
    name = current["metadata"]["name"]
    if not live_old:
        if not _recreates(deployment) or not any(_has_pods(rs) for rs in old):
            sizes.wanted[name] = replicas
        return sizes
    if paused or _is_scaling(deployment, [*live_old, current]):
        _scale_in_proportion(deployment, sizes, [*live_old, current])
        return sizes
    if _recreates(deployment):
        for rs in live_old:
            sizes.wanted[rs["metadata"]["name"]] = 0
        return sizes
    _roll(deployment, sizes, current, live_old, replicas)
    return sizes


def _roll(deployment: Object, sizes: Sizes, current: Object, live_old: list[Object], replicas: int) -> None:
    """One step of a rolling update: up to the surge, then down as far as enough stay available."""
    name = current["metadata"]["name"]
    room = replicas + _surge(deployment) - sum(sizes.current.values())
    if sizes.current[name] > replicas:
        sizes.wanted[name] = replicas
    elif sizes.current[name] < replicas and room > 0:
        sizes.wanted[name] = min(replicas, sizes.current[name] + room)
        return
    least = replicas - _unavailable(deployment)
    new_unavailable = sizes.current[name] - _available(current)
    spare = sum(sizes.current.values()) - least - max(new_unavailable, 0)
    for rs in live_old:
        sick = sizes.wanted[rs["metadata"]["name"]] - _available(rs)
        down = min(max(sick, 0), max(spare, 0))
        sizes.wanted[rs["metadata"]["name"]] -= down
        spare -= down
    healthy = sum(_available(rs) for rs in [*live_old, current]) - least
    for rs in live_old:
        if healthy <= 0:
            return
        down = min(sizes.wanted[rs["metadata"]["name"]], healthy)
        sizes.wanted[rs["metadata"]["name"]] -= down
        healthy -= down


def _is_scaling(deployment: Object, sets: list[Object]) -> bool:
    """Did `spec.replicas` change since the sets were last written?"""
    for rs in sets:
        noted = (rs["metadata"].get("annotations") or {}).get(DESIRED)
        if _size(rs) > 0 and noted is not None and noted != str(deployment["spec"].get("replicas", 1)):
            return True
    return False


def _scale_in_proportion(deployment: Object, sizes: Sizes, sets: list[Object]) -> None:
    """Spreads a change of `spec.replicas` over the sets by their size, the largest first."""
    allowed = int(deployment["spec"].get("replicas", 1))
    if not sets:
        return
    if len(sets) > 1 and allowed > 0:
        allowed += _surge(deployment)
    total = sum(sizes.current[rs["metadata"]["name"]] for rs in sets)
    change = allowed - total
    if len(sets) == 1:
        sizes.wanted[sets[0]["metadata"]["name"]] = allowed
        return
    ordered = sorted(sets, key=lambda rs: (-sizes.current[rs["metadata"]["name"]], -revision_of(rs)))
    left = change
    for rs in ordered:
        name = rs["metadata"]["name"]
        share = round(change * sizes.current[name] / total) if total else 0
        share = max(min(share, left), 0) if change > 0 else min(max(share, left), 0)
        sizes.wanted[name] = max(sizes.current[name] + share, 0)
        left -= share
    first = ordered[0]["metadata"]["name"]
    sizes.wanted[first] = max(sizes.wanted[first] + left, 0)


def _too_old(deployment: Object, old: list[Object]) -> set[str]:
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    idle = [
        rs
        for rs in old
        if _size(rs) == 0
        and not int((rs.get("status") or {}).get("replicas") or 0)
        and int((rs.get("status") or {}).get("observedGeneration") or 0) >= int(rs["metadata"].get("generation") or 0)
    ]
    return {rs["metadata"]["name"] for rs in idle[: max(len(idle) - int(limit), 0)]}


def _changes(rs: Object, sizes: Sizes) -> bool:
    name = rs["metadata"]["name"]
    return sizes.wanted[name] != sizes.current[name]


def _scaled_event(rs: Object, sizes: Sizes) -> EventNote:
    name = rs["metadata"]["name"]
    before, after = sizes.current[name], sizes.wanted[name]
    way = "up" if after > before else "down"
    return EventNote("ScalingReplicaSet", f"Scaled {way} replica set {name} from {before} to {after}")


def _status(deployment: Object, current: Object | None, old: list[Object], made: bool, world: World) -> Object:
    spec = deployment["spec"]
    sets = [*old, *([current] if current is not None and not made else [])]
    updated = [] if current is None or made else [current]
    total, available = _counted(sets, "replicas"), _counted(sets, "availableReplicas")
    before = deployment.get("status") or {}
    status: Object = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": _counted(updated, "replicas"),
        "readyReplicas": _counted(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(total - available, int(spec.get("replicas", 1)) - available, 0),
        "terminatingReplicas": _counted(sets, "terminatingReplicas"),
        "collisionCount": before.get("collisionCount"),
    }
    status = {k: v for k, v in status.items() if v or k in ("observedGeneration", "terminatingReplicas")}
    status["conditions"] = _conditions(deployment, current, made, status, world)
    return status


def _conditions(deployment: Object, current: Object | None, made: bool, status: Object, world: World) -> list[Object]:
    spec, now = deployment["spec"], format_time(world.now)
    before = (deployment.get("status") or {}).get("conditions") or []
    enough = status.get("availableReplicas", 0) >= int(spec.get("replicas", 1)) - _unavailable(deployment)
    available = (
        condition("Available", True, "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else condition(
            "Available", False, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )
    )
    progress = _progress(deployment, current, made, status, find_condition(before, "Progressing"), world)
    result = list(before)
    for new in (available, progress):
        if new is None:
            result = remove_condition(result, "Progressing")
            continue
        last = find_condition(before, new["type"])
        moved = new["type"] == "Progressing" and new["reason"] == "ReplicaSetUpdated" and _advanced(deployment, status)
        if last and not moved and all(last.get(k) == new.get(k) for k in ("status", "reason")):
            continue
        # What changed goes to the end, as Kubernetes has it.
        since = last["lastTransitionTime"] if last and last["status"] == new["status"] else now
        changed = {**new, "lastUpdateTime": now, "lastTransitionTime": since}
        result = [*remove_condition(result, new["type"]), changed]
    return result


def _advanced(deployment: Object, status: Object) -> bool:
    before = deployment.get("status") or {}
    old_now = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    old_before = before.get("replicas", 0) - before.get("updatedReplicas", 0)
    return bool(
        status.get("updatedReplicas", 0) > before.get("updatedReplicas", 0)
        or old_now < old_before
        or status.get("readyReplicas", 0) > before.get("readyReplicas", 0)
        or status.get("availableReplicas", 0) > before.get("availableReplicas", 0)
    )


def _progress(
    deployment: Object, current: Object | None, made: bool, status: Object, last: Object | None, world: World
) -> Object | None:
    spec, name = deployment["spec"], deployment["metadata"]["name"]
    deadline = spec.get("progressDeadlineSeconds", _NO_DEADLINE)
    if deadline == _NO_DEADLINE:
        return None
    target = f'ReplicaSet "{current["metadata"]["name"]}"' if current is not None else f'Deployment "{name}"'
    if spec.get("paused"):
        if last is not None and last.get("reason") == "DeploymentPaused":
            return _plain(last)
        return condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
    if last is not None and last.get("reason") == "DeploymentPaused":
        return condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
    if made:
        return condition("Progressing", True, "NewReplicaSetCreated", f"Created new replica set {target[11:]}")
    replicas = int(spec.get("replicas", 1))
    complete = (
        status.get("updatedReplicas", 0) == replicas
        and status.get("replicas", 0) == replicas
        and status.get("availableReplicas", 0) == replicas
    )
    if complete:
        return condition("Progressing", True, "NewReplicaSetAvailable", f"{target} has successfully progressed.")
    if last is not None and last.get("reason") == "NewReplicaSetAvailable" and not _replaced(deployment, last, current):
        return _plain(last)
    if _advanced(deployment, status) or last is None:
        return condition("Progressing", True, "ReplicaSetUpdated", f"{target} is progressing.")
    if last.get("reason") == "ProgressDeadlineExceeded":
        return _plain(last)
    since = parse_time(last.get("lastUpdateTime") or format_time(world.now))
    if later(since, deadline) <= world.now:
        return condition("Progressing", False, "ProgressDeadlineExceeded", f"{target} has timed out progressing.")
    if last.get("status") == "False":
        return condition("Progressing", True, "ReplicaSetUpdated", f"{target} is progressing.")
    return _plain(last)


def _replaced(deployment: Object, last: Object, current: Object | None) -> bool:
    """The rollout that had succeeded was another ReplicaSet's."""
    return current is not None and current["metadata"]["name"] not in str(last.get("message"))


def _plain(last: Object) -> Object:
    return {k: last[k] for k in ("type", "status", "reason", "message") if k in last}


def _seconds_to_deadline(deployment: Object, status: Object, world: World) -> float | None:
    progress = find_condition(status.get("conditions"), "Progressing")
    deadline = deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE)
    if progress is None or progress["status"] != "True" or progress["reason"] == "NewReplicaSetAvailable":
        return None
    since = parse_time(progress["lastUpdateTime"])
    return max((later(since, deadline) - world.now).total_seconds(), 1.0)
