"""Plays the part of a cluster's own controllers where none run: workloads are reported as ready, so that what waits for them goes on."""

from __future__ import annotations

from datetime import timedelta

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import key_of, labels_of, metadata_of, status_of
from modelyard.kube.times import format_time, utc_now
from modelyard.kube.workload_status import COUNTS, job_succeeded, pod_running, replicas_status

_DOCUMENTATION_ADDRESS = "192.0.2.1"
"""Belongs to nobody: what is played here is only reported, never reached."""
_SETTLED = timedelta(hours=1)
"""Workloads are played as ready for so long: some operators do not trust a fresh one yet."""
_POD_NAME = 200
_SERVICE_NAME = "kubernetes.io/service-name"


async def play_workloads(client: Client) -> bool:
    """Reports every workload as ready, as its controllers would once its pods run; True if one was not."""
    played = False
    for kind, played_as in ((builtin.Deployment, _replicas), (builtin.StatefulSet, _replicas), (builtin.Job, _job)):
        for obj in (await client.list(kind)).items:
            wanted = played_as(obj)
            current = obj.get("status") or {}
            if any(current.get(name) != value for name, value in wanted.items() if name not in _TIMES):
                meta = metadata_of(obj)
                await client.patch(kind, meta["namespace"], meta["name"], {"status": wanted}, subresource="status")
                played = True
    pods, endpoints = await _play_pods(client), await _play_endpoints(client)
    return played or pods or endpoints


async def _play_pods(client: Client) -> bool:
    """Runs every pod. Gives every Deployment that wants pods one; takes it away from one that wants none."""
    pods = (await client.list(builtin.Pod)).items
    there = {key_of(pod) for pod in pods}
    played = False
    for pod in pods:
        if status_of(pod).get("phase") in (None, "Pending"):
            await _run(client, key_of(pod), pod["spec"]["containers"])
            played = True
    for deployment in (await client.list(builtin.Deployment)).items:
        spec, place = deployment["spec"], key_of(deployment)
        key = Key(place.namespace, f"{place.name[:_POD_NAME]}-planned")
        if (spec.get("replicas", 1) > 0) == (key in there):
            continue
        played = True
        if key in there:
            await client.delete(builtin.Pod, *key, grace=0)
            continue
        template = spec["template"]
        planned: Object = {
            "apiVersion": builtin.Pod.api_version,
            "kind": builtin.Pod.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels_of(template)},
            "spec": template["spec"],
        }
        await client.create(builtin.Pod, planned)
        await _run(client, key, template["spec"]["containers"])
    return played


async def _run(client: Client, pod: Key, containers: list[Object]) -> None:
    status = pod_running(containers, _settled()) | {"podIP": _DOCUMENTATION_ADDRESS}
    await client.patch(builtin.Pod, *pod, {"status": status}, subresource="status")


async def _play_endpoints(client: Client) -> bool:
    """Gives every Service that selects pods one ready endpoint."""
    there = {_service_of(each) for each in (await client.list(builtin.EndpointSlice)).items}
    played = False
    for service in (await client.list(builtin.Service)).items:
        key, spec = key_of(service), service["spec"]
        if key in there or not spec.get("selector"):
            continue
        ports = [{"name": p.get("name", ""), "port": p["port"], "protocol": "TCP"} for p in spec.get("ports") or ()]
        endpoint = {"addresses": [_DOCUMENTATION_ADDRESS], "conditions": {"ready": True, "serving": True}}
        # Slices carry the labels of their Service, as Kubernetes' own do.
        labels = labels_of(service) | {_SERVICE_NAME: key.name}
        slice_: Object = {
            "apiVersion": builtin.EndpointSlice.api_version,
            "kind": builtin.EndpointSlice.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [endpoint],
            "ports": ports,
        }
        await client.create(builtin.EndpointSlice, slice_)
        played = True
    return played


def _service_of(endpoints: Object) -> Key:
    return Key(key_of(endpoints).namespace, labels_of(endpoints).get(_SERVICE_NAME, ""))


_TIMES = frozenset(("startTime", "completionTime", "conditions"))


def _replicas(obj: Object) -> Object:
    """With None for each count that is to go."""
    return dict.fromkeys(COUNTS) | replicas_status(obj, since=_settled())


def _job(obj: Object) -> Object:
    return job_succeeded(format_time(utc_now()))


def _settled() -> str:
    return format_time(utc_now() - _SETTLED)
