"""Subresources of pods: log, exec, attach, port forwarding, binding, eviction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from modelyard.kube.builtin import Node, Pod, PodDisruptionBudget
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time
from modelyard.local.apiserver.builtin.checks import selects
from modelyard.local.apiserver.builtin.pods.behavior import binding_causes
from modelyard.local.apiserver.requests.messages import Duplex, Reply, Upgrade, WebSocket
from modelyard.local.apiserver.requests.options import DeleteOptions, WriteOptions
from modelyard.local.apiserver.requests.problems import (
    Cause,
    Problem,
    bad_request,
    conflict,
    custom,
    field_forbidden,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    too_many_requests,
)
from modelyard.local.apiserver.served.resources import Call, Handler
from modelyard.local.apiserver.storage.store import Store, decode
from modelyard.local.apiserver.subresources import channels, forwarding
from modelyard.local.apiserver.subresources.admitting import admit
from modelyard.local.apiserver.subresources.kubelet import Kubelet
from modelyard.local.apiserver.verbs.deletion import Deletion
from modelyard.local.apiserver.verbs.writes import Write, Writes

if TYPE_CHECKING:
    from modelyard.local.apiserver.verbs.deletion import Deletions

_BINDING = Kind("", "v1", "Binding", "bindings")
_EXEC_OPTIONS = Kind("", "v1", "PodExecOptions", "pods")
_ATTACH_OPTIONS = Kind("", "v1", "PodAttachOptions", "pods")
_FORWARD_OPTIONS = Kind("", "v1", "PodPortForwardOptions", "pods")
_EVICTION = Kind("policy", "v1", "Eviction", "evictions")
_LOG_OPTIONS = Kind("", "v1", "PodLogOptions", "pods")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class PodSubresources:
    def __init__(
        self, store: Store, writes: Writes, deletions: Deletions, kubelet: Kubelet, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._writes = writes
        self._deletions = deletions
        self._clock = clock
        self.kubelet = kubelet

    def handlers(self) -> dict[tuple[str, str], Handler]:
        pods = Pod.resource
        return {
            (pods, "log"): self.log,
            (pods, "exec"): self.execute,
            (pods, "attach"): self.attach,
            (pods, "portforward"): self.forward,
            (pods, "binding"): self.bind,
            (pods, "eviction"): self.evict,
        }

    def on_a_laptop(self) -> dict[tuple[str, str], Handler]:
        """What is different where the kubelet is the one of a laptop cluster."""
        return {(Pod.resource, "ephemeralcontainers"): self.ephemeral_containers}

    async def ephemeral_containers(self, call: Call) -> Object:
        pod = self._pod(call)
        if call.verb == "get":
            return pod
        raise forbidden(
            Pod,
            call.name,
            "a laptop cluster runs no ephemeral containers; look into the pod with kubectl exec, or debug a copy of it with "
            f"kubectl debug {call.name} --copy-to={call.name}-debug",
        )

    def _pod(self, call: Call) -> Object:
        stored = self._store.get(Pod.resource, call.namespace, call.name)
        if stored is None:
            raise not_found(Pod, call.name)
        return stored.decode()

    # What the kubelet answers.

    async def log(self, call: Call) -> Reply:
        _check_log_options(call)
        pod = self._pod(call)
        container = _container(pod, call.request.param("container"), by_annotation=False)
        node = pod["spec"].get("nodeName")
        if not node:
            return Reply(204, b"", "text/plain")
        self._check_node(node)
        pieces = await self.kubelet.logs(call.namespace, call.name, container, call.request.query)
        return Reply(200, pieces, "text/plain")

    async def execute(self, call: Call) -> Reply:
        container = self._remote_container(call)
        command = call.request.params("command")
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        await admit(call, "CONNECT", _EXEC_OPTIONS, _options(call, _EXEC_OPTIONS, container) | {"command": command})
        return self._stream(call, "exec", container)

    async def attach(self, call: Call) -> Reply:
        container = self._remote_container(call)
        await admit(call, "CONNECT", _ATTACH_OPTIONS, _options(call, _ATTACH_OPTIONS, container))
        return self._stream(call, "attach", container)

    def _remote_container(self, call: Call) -> str:
        pod = self._pod(call)
        container = _container(pod, call.request.param("container"), by_annotation=True)
        self._check_assigned(pod)
        return container

    def _check_assigned(self, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if not node:
            raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        self._check_node(node)

    def _stream(self, call: Call, action: str, container: str) -> Reply:
        async def run(socket: WebSocket) -> None:
            try:
                await self.kubelet.stream(action, call.namespace, call.name, container, call.request.query, socket)
            except Problem as problem:
                # The connection has another protocol by now: a failure goes through its error channel.
                await socket.send(b"\x03" + _failure(problem))
                await socket.close(1000)

        async def run_spdy(pipe: Duplex, protocol: str) -> None:
            await channels.over_spdy(pipe, protocol, channels.streams_of(call.request.query), run)

        return Reply(101, upgrade=Upgrade(_PROTOCOLS, run, _PROTOCOLS, run_spdy))

    async def forward(self, call: Call) -> Reply:
        self._check_assigned(self._pod(call))
        ports = [_number(text, "ports") for value in call.request.params("ports") for text in value.split(",")]
        if wrong := [port for port in ports if not 0 < port < 65536]:
            raise bad_request(f"ports={wrong[0]}: must be between 1 and 65535")
        options: Object = {"kind": _FORWARD_OPTIONS.kind, "apiVersion": "v1"} | ({"ports": ports} if ports else {})
        await admit(call, "CONNECT", _FORWARD_OPTIONS, options)

        async def connect(port: int, pipe: Duplex) -> None:
            await self.kubelet.forward(call.namespace, call.name, port, pipe)

        async def run(socket: WebSocket) -> None:
            await forwarding.over_web_socket(socket, ports, connect)

        async def run_spdy(pipe: Duplex, protocol: str) -> None:
            await forwarding.over_spdy(pipe, connect)

        return Reply(101, upgrade=Upgrade(forwarding.PROTOCOLS, run, forwarding.SPDY_PROTOCOLS, run_spdy))

    def _check_node(self, node: str) -> None:
        if self._store.get(Node.resource, "", node) is None:
            raise not_found(Pod, node)

    # Binding.

    async def bind(self, call: Call) -> Object:
        binding = call.body or {}
        if (binding.get("metadata") or {}).get("name") != call.name:
            raise bad_request("name in URL does not match name in Binding object")
        causes = [str(cause) for cause in binding_causes(binding)]
        if causes:
            raise custom(500, "", causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]")
        self._pod(call)
        binding = await admit(call, "CREATE", _BINDING, {"kind": "Binding", "apiVersion": "v1"} | binding)
        node = binding["target"]["name"]
        about = Kind("", "v1", "Pod", "pods/binding")

        async def bound(raw: bytes | None) -> Object:
            assert raw is not None
            pod = decode(raw)
            metadata, spec = pod["metadata"], pod["spec"]
            if metadata.get("deletionTimestamp"):
                why = f"pod {call.name} is being deleted, cannot be assigned to a host"
                raise conflict(about, call.name, why)
            if spec.get("nodeName"):
                why = f'pod {call.name} is already assigned to node "{spec["nodeName"]}"'
                raise conflict(about, call.name, why)
            if spec.get("schedulingGates"):
                raise conflict(about, call.name, f"pod {call.name} has non-empty .spec.schedulingGates")
            spec["nodeName"] = node
            notes = (binding.get("metadata") or {}).get("annotations")
            if notes:
                metadata.setdefault("annotations", {}).update(notes)
            self._scheduled(pod)
            return pod

        resource = call.resource
        write = Write(resource, call.namespace, call.name, call.user, WriteOptions(), "binding", warnings=call.warnings)
        await self._writes.change(write, bound, options_kind="UpdateOptions", unchecked=True)
        return dict(_SUCCESS)

    def _scheduled(self, pod: Object) -> None:
        status = pod.setdefault("status", {})
        conditions = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
        conditions.append(
            {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": format_time(self._clock()),
            }
        )
        status["conditions"] = conditions

    # Eviction.

    async def evict(self, call: Call) -> Object:
        pod = self._pod(call)
        wanted_eviction: Object = {"kind": "Eviction", "apiVersion": "policy/v1"} | (call.body or {})
        eviction = await admit(call, "CREATE", _EVICTION, wanted_eviction)
        labels = pod["metadata"].get("labels") or {}
        for stored in self._store.items(PodDisruptionBudget.resource, call.namespace):
            budget = stored.decode()
            selector = (budget.get("spec") or {}).get("selector")
            allowed = (budget.get("status") or {}).get("disruptionsAllowed", 0)
            if selector is not None and selects(selector, labels) and allowed <= 0:
                problem = too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
                message = f"The disruption budget {stored.name} needs more healthy pods"
                problem.status["details"]["causes"] = [{"reason": "DisruptionBudget", "message": message}]
                raise problem
        options = eviction.get("deleteOptions") or {}
        grace = options.get("gracePeriodSeconds")
        wanted = DeleteOptions(grace=grace) if isinstance(grace, int) else DeleteOptions()
        await self._deletions.delete(Deletion(call.resource, call.namespace, call.name, call.user, wanted))
        return dict(_SUCCESS)


def _options(call: Call, kind: Kind, container: str) -> Object:
    options: Object = {"kind": kind.kind, "apiVersion": "v1"}
    for name in ("stdin", "stdout", "stderr", "tty"):
        if call.request.flag(name):
            options[name] = True
    return options | {"container": container}


def _failure(problem: Problem) -> bytes:
    return msgspec.json.encode(problem.status)


def _container(pod: Object, wanted: str, *, by_annotation: bool) -> str:
    """The container that is meant. Raises where the name is wrong or missing."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    groups = [
        [each.get("name", "") for each in spec.get(group) or ()]
        for group in ("initContainers", "containers", "ephemeralContainers")
    ]
    known = [each for group in groups for each in group]
    if wanted:
        if wanted not in known:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    default = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, "")
    if by_annotation and default in known:
        return str(default)
    if len(groups[1]) == 1:
        return str(groups[1][0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(known)}]")


def _check_log_options(call: Call) -> None:
    request = call.request
    causes: list[Cause] = []
    for name, least in (("tailLines", 0), ("limitBytes", 1)):
        text = request.param(name)
        if not text:
            continue
        number = _number(text, name)
        if number < least:
            detail = "must be greater than or equal to 0" if least == 0 else "must be greater than 0"
            causes.append(invalid_value(name, number, detail))
    if request.param("sinceSeconds") and request.param("sinceTime"):
        causes.append(field_forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif request.param("sinceSeconds"):
        number = _number(request.param("sinceSeconds"), "sinceSeconds")
        if number < 1:
            causes.append(invalid_value("sinceSeconds", number, "must be greater than 0"))
    if causes:
        raise invalid(_LOG_OPTIONS, call.name, causes)


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax: {name} must be a number') from None
