"""Looks at a cluster the way a person would: the platform's resources, their children, and why one is not ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.conditions import find_condition
from modelyard.kube.errors import ApiError, NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, uid_of
from modelyard.runtime.operator import Operator
from modelyard.runtime.ownership import OWNER_KIND, OWNER_NAME, OWNER_NAMESPACE, SHARE_PREFIX, Owner

_BELOW = (builtin.ReplicaSet, builtin.Job, builtin.Pod)
"""Kinds that children make themselves."""
_BAD_WAITS = frozenset(
    (
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError",
        "RunContainerError",
    )
)  # fmt: skip


@dataclass
class Node:
    """One object with what it says about itself, and what belongs to it."""

    kind: Kind
    object: Object
    state: str
    ready: bool | None
    """None: such a kind is neither ready nor not (a ConfigMap)."""
    why: str = ""
    """Why it is not ready, in a few words."""
    children: list[Node] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return key_of(self.object)

    @property
    def title(self) -> str:
        return f"{self.kind.kind} {self.key.name}"


async def survey(client: Client, operators: Sequence[Operator], only: tuple[str, str] | None = None) -> list[Node]:
    """The custom resources of these operators; `only` is a kind (or plural) and a name."""
    served = await client.discover()
    roots: list[Node] = []
    index = await _index(client, operators, served)
    events = await _events(client)
    for operator in operators:
        for definition in operator.definitions:
            kind = definition.kind
            names = {kind.kind.lower(), kind.plural, definition.singular.lower(), *definition.short_names}
            if kind not in served or (only is not None and only[0].lower() not in names):
                continue
            for obj in (await client.list(kind)).items:
                if only is not None and only[1] and key_of(obj).name != only[1]:
                    continue
                roots.append(_node(kind, obj, index, events))
    return roots


def reason(root: Node) -> str:
    """One sentence: the deepest thing that is wrong, with the way to it."""
    culprit = _culprit(root)
    if culprit is None:
        return ""
    path, why = culprit
    own = path[0] if path else root
    if len(path) <= 1:
        return f"{own.title}: {why}"
    last = path[-1]
    return f"{own.title}: {last.kind.kind.lower()} {last.key.name} {_is(last, why)}"


def _is(node: Node, why: str) -> str:
    """A pod is *in* a state that it names; everything else is not ready for a reason."""
    return f"is in {why}" if node.kind == builtin.Pod and why.startswith(node.state) else f"is not ready: {why}"


def _culprit(node: Node) -> tuple[list[Node], str] | None:
    for child in node.children:
        if child.ready is False:
            below = _culprit(child)
            if below is not None:
                path, why = below
                return [child, *path], why
            return [child], child.why or child.state
    if node.ready is False and node.why:
        return [], node.why
    return None


async def _index(
    client: Client, operators: Sequence[Operator], served: set[Kind]
) -> dict[str, list[tuple[Kind, Object]]]:
    """Owner (uid, or tracking text) -> what belongs to it."""
    kinds = {owned.kind for operator in operators for controller in operator.controllers for owned in controller.owns}
    found: dict[str, list[tuple[Kind, Object]]] = {}
    for kind in sorted({*kinds, *_BELOW} & served, key=str):
        try:
            items = (await client.list(kind)).items
        except ApiError:
            continue  # Not everybody may list everything; what cannot be seen is left out.
        for obj in items:
            for owner in _owners(obj):
                found.setdefault(owner, []).append((kind, obj))
    return found


def _owners(obj: Object) -> Iterable[str]:
    for reference in obj["metadata"].get("ownerReferences") or ():
        yield str(reference.get("uid"))
    labels = obj["metadata"].get("labels") or {}
    if OWNER_KIND in labels:
        yield _tracking_text(labels)
    yield from (label for label in labels if label.startswith(SHARE_PREFIX))


async def _events(client: Client) -> dict[str, list[Object]]:
    try:
        items = (await client.list(builtin.Event)).items
    except (ApiError, NotFound):
        return {}
    found: dict[str, list[Object]] = {}
    for event in sorted(items, key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or ""):
        found.setdefault(str((event.get("involvedObject") or {}).get("uid")), []).append(event)
    return found


def _node(
    kind: Kind,
    obj: Object,
    index: dict[str, list[tuple[Kind, Object]]],
    events: dict[str, list[Object]],
    depth: int = 0,
) -> Node:
    state, ready, why = state_of(kind, obj)
    node = Node(kind, obj, state, ready, why, events=events.get(uid_of(obj), []))
    if depth < 6:
        marks = [uid_of(obj)]
        if depth == 0:
            owner = Owner("", key_of(obj), kind, uid_of(obj))
            marks += [_tracking_text(owner.labels), SHARE_PREFIX + owner.token]
        # One object may say in several ways whose it is.
        below = {(k, key_of(o)): (k, o) for mark in marks for k, o in index.get(mark, ())}.values()
        node.children = [_node(k, o, index, events, depth + 1) for k, o in below if not _is_idle(k, o)]
        node.children.sort(key=lambda n: (n.kind.kind, n.key))
    return node


def _tracking_text(labels: Mapping[str, str]) -> str:
    return "/".join(labels.get(name, "") for name in (OWNER_KIND, OWNER_NAMESPACE, OWNER_NAME))


def _is_idle(kind: Kind, obj: Object) -> bool:
    """An old ReplicaSet of a rollout says nothing to a person."""
    return (
        kind == builtin.ReplicaSet and not obj["spec"].get("replicas") and not (obj.get("status") or {}).get("replicas")
    )


def state_of(kind: Kind, obj: Object) -> tuple[str, bool | None, str]:
    """A few words for a person, whether it is ready, and why not."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    if obj["metadata"].get("deletionTimestamp"):
        held = ", ".join(obj["metadata"].get("finalizers") or [])
        return "being deleted", False, f"being deleted{f'; waits for {held}' if held else ''}"
    match kind.kind:
        case "Deployment" | "ReplicaSet" | "StatefulSet":
            return _replicas(spec, status)
        case "Pod":
            return _pod(obj)
        case "Job":
            return _job(status)
        case "PersistentVolumeClaim":
            phase = status.get("phase") or "Pending"
            return phase, phase == "Bound", "" if phase == "Bound" else "not bound to a volume yet"
    conditions = status.get("conditions") or []
    for name in ("Available", "Ready"):
        main = find_condition(conditions, name)
        if main is not None:
            good = main.get("status") == "True"
            why = "" if good else f"{main.get('reason', '')}: {main.get('message', '')}".strip(": ")
            return ("ready" if good else "not ready"), good, why
    return "", None, ""


def _replicas(spec: Object, status: Object) -> tuple[str, bool, str]:
    wanted, ready = int(spec.get("replicas", 1)), int(status.get("readyReplicas") or 0)
    failure = find_condition(status.get("conditions"), "ReplicaFailure")
    why = str(failure["message"]) if failure else f"{ready} of {wanted} replicas are ready"
    good = ready >= wanted
    return f"{ready}/{wanted} ready", good, "" if good else why


def _job(status: Object) -> tuple[str, bool, str]:
    for name, good in (("Complete", True), ("Failed", False)):
        over = find_condition(status.get("conditions"), name)
        if over is not None and over.get("status") == "True":
            return name.lower(), good, "" if good else f"{over.get('reason')}: {over.get('message')}"
    return "running", False, "the job has not finished yet"


def _pod(pod: Object) -> tuple[str, bool, str]:
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    if phase == "Succeeded":
        return "completed", True, ""
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _BAD_WAITS:
            return waiting["reason"], False, f"{waiting['reason']}: {waiting.get('message', '')}".strip(": ")
    for container in statuses:
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended and ended.get("exitCode"):
            why = f"{ended.get('reason', 'Error')} (exit code {ended['exitCode']}): {ended.get('message', '')}".strip(
                ": "
            )
            return ended.get("reason") or "Error", False, why
    scheduled = find_condition(status.get("conditions"), "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return scheduled.get("reason") or "Pending", False, str(scheduled.get("message") or "")
    ready = find_condition(status.get("conditions"), "Ready")
    if ready is not None and ready.get("status") == "True":
        return "running", True, ""
    message = (ready or {}).get("message") or "not ready yet"
    waits = [c["state"]["waiting"].get("reason", "") for c in statuses if (c.get("state") or {}).get("waiting")]
    if waits and waits[0]:
        return waits[0], False, f"{waits[0]}: {message}"
    return phase, False, message
