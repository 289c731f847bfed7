"""Looks at a cluster the way a person would: the platform's resources, their children, and why one is not ready."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from modelyard.cli.output import did_you_mean
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.conditions import find_condition
from modelyard.kube.crd import Definition
from modelyard.kube.errors import ApiError, NotFound, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import generation_of, key_of, status_of, uid_of
from modelyard.runtime.acting.ownership import OWNER_KIND, OWNER_NAME, OWNER_NAMESPACE, SHARE_PREFIX, Owner
from modelyard.runtime.declaring.controller import Fixed
from modelyard.runtime.declaring.operator import Operator

_WORKLOADS = (
    builtin.Deployment, builtin.StatefulSet, builtin.ReplicaSet, builtin.Job, builtin.Pod, builtin.PersistentVolumeClaim,
)  # fmt: skip
"""Kinds that children make themselves, and that can be broken without belonging to a resource of the platform."""
_STANDING = (builtin.Deployment, builtin.StatefulSet)
NO_IMAGE = frozenset(("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"))
_BAD_WAITS = NO_IMAGE | {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_LINE_LENGTH = 500
_ALL = "*"
_BEING_CREATED = "ContainerCreating"


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
    log: str = ""
    """The last line that a pod wrote before it crashed."""

    @property
    def key(self) -> Key:
        return key_of(self.object)

    @property
    def title(self) -> str:
        return f"{self.kind.kind} {self.key.name}"

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


class UnknownKind(Exception):
    """No operator defines such a kind; the text names those that they define."""


@dataclass(frozen=True)
class View:
    """What there is on a cluster, with the platform's resources on top."""

    roots: Sequence[Node]
    strays: Sequence[Node]
    """What is broken and belongs to none of them."""
    served: bool
    """Whether the cluster knows any of the platform's kinds."""

    @property
    def ready(self) -> bool:
        return not self.strays and all(root.ready is not False for root in self.roots)


async def survey(client: Client, operators: Sequence[Operator], only: tuple[str, str] | None = None) -> list[Node]:
    """The custom resources of these operators; `only` is a kind (or plural) and a name."""
    return list((await view(client, operators, only)).roots)


async def view(
    client: Client,
    operators: Sequence[Operator],
    only: tuple[str, str] | None = None,
    *,
    everywhere: bool = False,
) -> View:
    """The custom resources, and what else is broken in the namespaces of the platform, or `everywhere`."""
    foreign = {k for operator in operators for controller in operator.controllers for k in controller.foreign_kinds}
    names = {d.kind: _names(d) for operator in operators for d in operator.definitions}
    names |= {kind: {kind.kind.lower(), kind.plural} for kind in sorted(foreign, key=str)}
    wanted = [kind for kind, words in names.items() if only is None or only[0].lower() in words]
    if only is not None and not wanted:
        known = sorted({kind.kind for kind in names})
        close = did_you_mean(only[0], set().union(*names.values()))
        raise UnknownKind(f"no kind of the platform is called {only[0]!r}{close}; there are: {', '.join(known)}")
    reporting = {kind for operator in operators for controller in operator.controllers for kind in controller.kinds}
    served = await client.discover()
    index = await _index(client, operators, served)
    events = await _events(client)
    roots: list[Node] = []
    for kind in (kind for kind in wanted if kind in served):
        for obj in (await client.list(kind)).items:
            if only is None or not only[1] or key_of(obj).name == only[1]:
                roots.append(_root(kind, obj, index, events, reports=kind in reporting - foreign))
    strays = []
    if only is None:
        roots += _standing(index, events, operators)
        namespaces = None if everywhere else _namespaces(operators, roots)
        strays = _strays(index, events, roots, namespaces)
    for node in (node for root in (*roots, *strays) for node in root.walk()):
        node.log = await _last_log_line(client, node)
    return View(roots, strays, any(kind in served for kind in names))


async def survey_one(client: Client, operators: Sequence[Operator], kind: Kind, key: Key) -> Node | None:
    """One object, of any kind, with what belongs to it."""
    found = await client.find(kind, *key)
    if found is None:
        return None
    index = await _index(client, operators, await client.discover())
    root = _node(kind, found, index, await _events(client))
    for node in root.walk():
        node.log = await _last_log_line(client, node)
    return root


def _names(definition: Definition) -> set[str]:
    kind = definition.kind
    return {kind.kind.lower(), kind.plural, definition.singular.lower(), *definition.short_names}


def _root(
    kind: Kind,
    obj: Object,
    index: dict[str, list[tuple[Kind, Object]]],
    events: dict[str, list[Object]],
    *,
    reports: bool,
) -> Node:
    node = _node(kind, obj, index, events)
    if not reports or node.ready is False:
        return node
    conditions = status_of(obj).get("conditions") or []
    seen = max((int(each.get("observedGeneration") or 0) for each in conditions), default=0)
    if not conditions:
        node.state, node.ready, node.why = "not ready", False, "no controller has seen it yet; do the controllers run?"
    elif seen and seen < generation_of(obj):
        node.state, node.ready, node.why = "not ready", False, "no controller has acted on its last change yet"
    return node


def _standing(
    index: dict[str, list[tuple[Kind, Object]]], events: dict[str, list[Object]], operators: Sequence[Operator]
) -> list[Node]:
    """What runs for no resource, only because its operator does: the model catalog."""
    found = []
    for controller in (controller for operator in operators for controller in operator.controllers):
        for key in controller.for_.keys if isinstance(controller.for_, Fixed) else ():
            tracked = index.get(_tracking_text(Owner(controller.name, key).labels), ())
            found += [_node(kind, obj, index, events) for kind, obj in tracked if kind in _STANDING]
    return sorted(found, key=lambda node: node.key)


def _namespaces(operators: Sequence[Operator], roots: Sequence[Node]) -> set[str]:
    """Where the platform has things: those that the operators name, and those of the resources and what belongs to them."""
    declared = {owned.namespace or "" for o in operators for controller in o.controllers for owned in controller.owns}
    return declared | {node.key.namespace for root in roots for node in root.walk()}


def _strays(
    index: dict[str, list[tuple[Kind, Object]]],
    events: dict[str, list[Object]],
    roots: Sequence[Node],
    namespaces: Container[str] | None,
) -> list[Node]:
    """Broken workloads that belong to no resource."""
    shown = {uid_of(node.object) for root in roots for node in root.walk()}
    there = {uid_of(obj): (kind, obj) for kind, obj in index.get(_ALL, ())}
    found = []
    for kind, obj in there.values():
        owners = {str(each.get("uid")) for each in obj["metadata"].get("ownerReferences") or ()}
        if uid_of(obj) in shown or owners & there.keys() or owners & shown:
            continue
        if namespaces is None or key_of(obj).namespace in namespaces:
            node = _node(kind, obj, index, events)
            if _is_broken(node):
                found.append(node)
    return sorted(found, key=lambda node: (node.key, node.kind.kind))


def _is_broken(node: Node) -> bool:
    """A Job that runs is not ready, and nothing is wrong with it unless its pods say so."""
    if node.kind == builtin.Job and node.state == "running":
        return any(child.kind == builtin.Pod and child.state in _BAD_WAITS for child in node.children)
    return node.ready is False


async def _last_log_line(client: Client, node: Node) -> str:
    crashed = _crashed_container(node.object) if node.kind == builtin.Pod and node.ready is False else None
    if crashed is None:
        return ""
    container, previous = crashed
    try:
        text = await client.logs(*node.key, container=container, previous=previous, tail=5, limit_bytes=20_000)
    except (ApiError, Unreachable):
        return ""  # Not everybody may read logs, and those of the last run may be gone.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LINE_LENGTH] if lines else ""


def _crashed_container(pod: Object) -> tuple[str, bool] | None:
    """The container that ended with an error or is started again and again, and whether it was started again since."""
    status = status_of(pod)
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        now, before = container.get("state") or {}, container.get("lastState") or {}
        if (now.get("terminated") or {}).get("exitCode"):
            return container["name"], False
        if not container.get("ready") and before.get("terminated"):
            return container["name"], True
    return None


def reason(root: Node) -> str:
    """One sentence: the deepest thing that is wrong, with the way to it."""
    culprit = _culprit(root)
    if culprit is None:
        return ""
    path, why = culprit
    own = path[0] if path else root
    if len(path) <= 1:
        return f"{own.title}: {why}{_logged(own)}"
    last = path[-1]
    return f"{own.title}: {last.kind.kind.lower()} {last.key.name} {_is(last, why)}{_logged(last)}"


def _logged(node: Node) -> str:
    return f"; its last log line: {node.log}" if node.log else ""


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
    """Owner (uid, or tracking text) -> what belongs to it; `_ALL` -> every workload."""
    kinds = {owned.kind for operator in operators for controller in operator.controllers for owned in controller.owns}
    found: dict[str, list[tuple[Kind, Object]]] = {}
    for kind in sorted({*kinds, *_WORKLOADS} & served, key=str):
        try:
            items = (await client.list(kind)).items
        except ApiError:
            continue  # Not everybody may list everything; what cannot be seen is left out.
        if kind in _WORKLOADS:
            found.setdefault(_ALL, []).extend((kind, obj) for obj in items)
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
    if node.state == _BEING_CREATED and (told := [event for event in node.events if event.get("type") == "Warning"]):
        # Only the kubelet's Events say what a container that is not there yet waits for, such as a volume.
        node.why = f"{state}: {told[-1].get('message')}"
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
