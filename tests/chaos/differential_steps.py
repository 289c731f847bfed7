"""Random requests for the differential fuzzer: every verb, patch type, option and subresource, on a few objects of two kinds."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, ApiError
from modelyard.kube.kinds import Kind, Object
from tests.chaos import differential_definitions as definitions
from tests.chaos.differential_chance import Chance
from tests.chaos.differential_objects import CONTENTS, KINDS, an_object

JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
SCALED = (
    builtin.Deployment,
    builtin.StatefulSet,
    builtin.ReplicaSet,
    definitions.GIZMO,
    definitions.OLD_GIZMO,
)
Request = dict[str, Any]
"""The arguments of a `Step`."""


async def install(client: Client) -> None:
    """Defines the custom resources and waits until they are served."""
    for definition in definitions.DEFINITIONS:
        try:
            await client.create(builtin.CustomResourceDefinition, definition)
        except AlreadyExists:
            continue
    for kind in definitions.KINDS:
        await _served(client, kind)


async def _served(client: Client, kind: Kind) -> None:
    for _ in range(400):
        try:
            await client.list(kind, "default")
            return
        except ApiError:
            await asyncio.sleep(0.05)
    raise AssertionError(f"{kind.kind} was not served in time")


def sequence(chance: Chance) -> list[Request]:
    """10 to 18 requests about a few objects of two kinds; the first makes one that most of the others are about."""
    kinds = chance.sample(KINDS, 2)
    first = [{"verb": "create", "kind": kind, "name": "a", "body": an_object(chance, kind, "a")} for kind in kinds]
    return first + [step(chance, chance.choice(kinds)) for _ in range(chance.randint(8, 16))]


_STEPS = {
    "create": 4,
    "update": 4,
    "apply": 6,
    "patch": 6,
    "delete": 2,
    "get": 1,
    "list": 2,
    "status": 2,
    "scale": 1,
    "collection": 0.5,
    "generate": 0.5,
    "raw": 0.5,
}


def step(chance: Chance, kind: Kind) -> Request:
    name = chance.choice(["a", "a", "a", "b"])
    verb = chance.choices(list(_STEPS), list(_STEPS.values()))[0]
    request: Request = {"kind": kind, "name": name, "options": options(chance, verb)}
    match verb:
        case "create":
            return request | {"verb": verb, "body": an_object(chance, kind, name)}
        case "update":
            body = an_object(chance, kind, name)
            if isinstance(body.get("metadata"), dict) and chance.random() < 0.7:
                body["metadata"]["resourceVersion"] = chance.pick(["current"], ["1", "0", "x"])
            return request | {"verb": verb, "body": body}
        case "apply":
            return request | {"verb": "patch", "body": thinned(chance, an_object(chance, kind, name)), "content": APPLY}
        case "patch":
            content = chance.choice([JSON_PATCH, MERGE, STRATEGIC, MERGE])
            body = a_patch(chance, kind, content)
            if chance.random() < chance.mutations / 2:
                body = chance.mutated(body)
            return request | {"verb": verb, "body": body, "content": content}
        case "delete":
            return request | {"verb": verb, "body": delete_options(chance)}
        case "list":
            accept = chance.choice(["application/json", "application/json", TABLE, METADATA_LIST])
            return request | {"verb": verb, "accept": accept}
        case "status":
            return request | a_status(chance, kind, name)
        case "scale" if kind in SCALED:
            return request | a_scale(chance, name)
        case "collection":
            return request | {"verb": "deletecollection", "body": delete_options(chance)}
        case "generate":
            body = an_object(chance, kind, "")
            if isinstance(body.get("metadata"), dict):
                body["metadata"] = {**body["metadata"], "name": "", "generateName": chance.pick(["gen-"], ["Bad_"])}
            # Two servers make up two names, and lists are sorted by them: nothing is kept.
            return request | {"verb": "create", "name": "", "body": body, "options": {"dryRun": "All"}}
        case "raw":
            return request | a_raw_body(chance, kind)
    return {"verb": "get", "kind": kind, "name": name, "accept": chance.choice(["application/json", TABLE, METADATA])}


def options(chance: Chance, verb: str) -> dict[str, str]:
    made: dict[str, str] = {}
    match verb:
        case "create" | "update" | "patch" | "apply" | "status" | "scale":
            if verb == "apply":
                made["fieldManager"] = chance.choice(["one", "two", "three"])
                chance.maybe(made, 0.4, force="true")
            else:
                chance.maybe(made, 0.25, fieldManager=chance.choice(["one", "two"]))
            chance.maybe(made, 0.08, dryRun=chance.pick(["All"], ["Other"]))
            chance.maybe(made, 0.2, fieldValidation=chance.pick(["Strict", "Warn", "Ignore"], ["Other"]))
            if chance.wrong(0.2):
                made |= chance.choice(
                    [{"fieldManager": ""}, {"fieldManager": "x" * 200}, {"force": "true"}, {"dryRun": ""}]
                )
        case "delete":
            chance.maybe(made, 0.1, dryRun="All")
            chance.maybe(made, 0.1, propagationPolicy=chance.pick(["Background", "Orphan"], ["Other"]))
        case "list" | "collection":
            selectors = ["app=web", "app!=web", "app in (web,db)", "!app", "tier", "app notin (web),tier"]
            chance.maybe(made, 0.5, labelSelector=chance.pick(selectors, ["a=b=c", "in (", "bad key!=x", "app in ()"]))
            fields = ["metadata.name=a", "metadata.name!=a", "metadata.namespace=x"]
            chance.maybe(made, 0.3, fieldSelector=chance.pick(fields, ["spec.foo=bar", "metadata.name"]))
            if verb == "list":
                chance.maybe(made, 0.3, limit=chance.pick(["1", "2"], ["-1", "x", "0"]))
                chance.maybe(made, 0.15, **{"continue": "more"})
                match = chance.pick(["NotOlderThan"], ["Exact", "Other"])
                chance.maybe(made, 0.1, resourceVersion="0", resourceVersionMatch=match)
                chance.maybe(made, 0.05, resourceVersion=chance.choice(["0", "x"]))
    return made


def delete_options(chance: Chance) -> Any:
    body: Object = {}
    chance.maybe(body, 0.5, propagationPolicy=chance.pick(["Background", "Foreground", "Orphan"], ["Other"]))
    chance.maybe(body, 0.1, gracePeriodSeconds=chance.pick([0, 5], [-1]))
    chance.maybe(
        body,
        0.15,
        preconditions=chance.choice([{"resourceVersion": "current"}, {"resourceVersion": "1"}, {"uid": "x"}, {}]),
    )
    chance.maybe(body, 0.05, dryRun=chance.pick([["All"]], [["Other"]]))
    chance.maybe(body, 0.05, orphanDependents=True)
    if chance.wrong(0.2):
        body |= chance.choice([{"kind": "Other", "apiVersion": "v1"}, {"unheardOf": 1}, {"preconditions": 1}])
    return body or None


def a_status(chance: Chance, kind: Kind, name: str) -> Request:
    statuses = STATUSES.get(kind.kind) or definitions.STATUSES.get(kind.kind)
    if statuses is None:
        return {"verb": "get", "name": name, "options": {}, "subresource": "status"}
    status = copy.deepcopy(chance.choice(statuses))
    match chance.randint(0, 3):
        case 0:
            body: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
            body |= copy.deepcopy(CONTENTS[kind.kind](chance)) | {"status": status}
            return {"verb": "update", "body": body, "subresource": "status"}
        case 1:
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "status": status}
            managed = {"fieldManager": chance.choice(["one", "four"]), "force": chance.choice(["true", "false"])}
            return {"verb": "patch", "body": body, "subresource": "status", "content": APPLY, "options": managed}
    content = chance.choice([MERGE, MERGE, STRATEGIC])
    body = {"status": status} | ({"metadata": {"labels": {"by": "status"}}} if chance.random() < 0.2 else {})
    return {"verb": "patch", "body": body, "content": content, "subresource": "status"}


def a_scale(chance: Chance, name: str) -> Request:
    replicas = chance.pick([0, 2], [-1, "x"])
    match chance.randint(0, 3):
        case 0:
            return {"verb": "get", "options": {}, "subresource": "scale"}
        case 1:
            body = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name},
                "spec": {"replicas": replicas},
            }
            return {"verb": "update", "body": body, "subresource": "scale"}
        case 2:
            body = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name},
                "spec": {"replicas": replicas},
            }
            managed = {"fieldManager": "scaler", "force": chance.choice(["true", "false"])}
            return {"verb": "patch", "body": body, "content": APPLY, "options": managed, "subresource": "scale"}
    return {"verb": "patch", "body": {"spec": {"replicas": replicas}}, "content": MERGE, "subresource": "scale"}


def a_raw_body(chance: Chance, kind: Kind) -> Request:
    """What is not an object of the kind at all, or not of the type that its header says."""
    bodies: list[tuple[str, str, Any]] = [
        ("create", "", []),
        ("create", "", "text"),
        ("create", "", {}),
        ("create", "", {"metadata": {"name": "a"}}),
        ("create", "", {"kind": kind.kind}),
        ("update", "", {"metadata": {}}),
        ("patch", MERGE, []),
        ("patch", MERGE, "text"),
        ("patch", JSON_PATCH, {}),
        ("patch", JSON_PATCH, [{"op": "none", "path": "/x"}]),
        ("patch", JSON_PATCH, [{"op": "add", "path": "x", "value": 1}]),
        ("patch", STRATEGIC, []),
        ("patch", APPLY, {}),
        ("patch", APPLY, {"apiVersion": kind.api_version, "kind": kind.kind}),
        ("patch", "application/json", {}),
        ("patch", "text/plain", {}),
        ("create", "text/plain", {}),
    ]  # fmt: skip
    verb, content, body = chance.choice(bodies)
    return {
        "verb": verb,
        "body": body,
        "content": content,
        "options": {"fieldManager": "one"} if content == APPLY else {},
    }


def thinned(chance: Chance, obj: Object) -> Object:
    """An apply often says only a part."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and chance.random() < 0.3:
        for key in list(spec):
            if key not in ("size", "selector", "template") and chance.random() < 0.5:
                del spec[key]
    if chance.random() < 0.2:
        obj.pop("data", None)
    return obj


_OPERATIONS: list[Object] = [
    {"op": "add", "path": "/metadata/labels", "value": {"app": "patched"}},
    {"op": "replace", "path": "/metadata/labels/app", "value": "db"},
    {"op": "remove", "path": "/metadata/annotations/note"},
    {"op": "test", "path": "/metadata/name", "value": "a"},
    {"op": "test", "path": "/metadata/labels/app", "value": "web"},
    {"op": "add", "path": "/data/z", "value": "9"},
    {"op": "add", "path": "/data", "value": {"z": "9"}},
    {"op": "replace", "path": "/spec/replicas", "value": 2},
    {"op": "add", "path": "/spec/tags/-", "value": "z"},
    {"op": "remove", "path": "/spec/tags/0"},
    {"op": "add", "path": "/spec/template/metadata/annotations", "value": {"x": "y"}},
    {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:9"},
    {"op": "remove", "path": "/spec/template/spec/containers/1"},
    {"op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/moved"},
    {"op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/a~1b"},
    {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/copied"},
    {"op": "add", "path": "/metadata/finalizers", "value": ["fuzz.modelyard.dev/hold"]},
    {"op": "remove", "path": "/metadata/finalizers"},
    {"op": "add", "path": "/spec/ports/0", "value": {"port": 99, "name": "added"}},
    {"op": "remove", "path": "/spec"},
    {"op": "replace", "path": "/kind", "value": "Other"},
]


def a_patch(chance: Chance, kind: Kind, content_type: str) -> Any:
    if content_type == JSON_PATCH:
        return copy.deepcopy(chance.sample(_OPERATIONS, chance.randint(1, 2)))
    patch: Object = {}
    changes: list[Object] = [
        {"labels": {"app": "web"}},
        {"labels": {"app": None}},
        {"labels": {"tier": "y"}},
        {"annotations": {"patched": "yes"}},
        {"annotations": None},
        {"finalizers": ["fuzz.modelyard.dev/hold"]},
        {"finalizers": None},
        {"resourceVersion": "current"},
        {"resourceVersion": "1"},
        {"name": "other"},
        {"labels": {"bad key!": "x"}},
    ]
    if chance.random() < 0.5:
        patch["metadata"] = copy.deepcopy(chance.choice(changes))
    if chance.random() < 0.8:
        known = PATCHES.get(kind.kind) or definitions.PATCHES.get(kind.kind) or [{}]
        if content_type == STRATEGIC:
            known = known + STRATEGIC_PATCHES.get(kind.kind, [])
        patch |= copy.deepcopy(chance.choice(known))
    return patch


_WORKLOAD: list[Object] = [
    {"spec": {"replicas": 1}},
    {"spec": {"replicas": None}},
    {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:3"}]}}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "x:1"}]}}}},
    {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}},
    {"spec": {"template": {"spec": {"volumes": [{"name": "more", "emptyDir": {}}]}}}},
    {"spec": {"paused": True}},
    {"spec": {"strategy": None}},
    {"spec": {"template": {"spec": {"containers": None}}}},
]
_STRATEGIC_WORKLOAD: list[Object] = [
    {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "main", "$patch": "replace", "image": "y"}]}}}},
    {"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, {"name": "new", "image": "z"}]}}}},
    {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}], "containers": [{"name": "side", "image": "z"}]}}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "9"}, {"name": "B", "$patch": "delete"}]}]}}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80, "name": "p"}]}]}}}},
    {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}},
    {"spec": {"template": {"spec": {"$patch": "delete"}}}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["fuzz.modelyard.dev/hold"]}},
    {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
    {"spec": {"template": {"spec": {"containers": [{"image": "nameless"}]}}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "main", "$patch": "other"}]}}}},
]  # fmt: skip
_POD: list[Object] = [
    {"spec": {"containers": [{"name": "main", "image": "web:3"}]}},
    {"spec": {"activeDeadlineSeconds": 5}},
    {"spec": {"terminationGracePeriodSeconds": 1}},
    {"spec": {"tolerations": [{"key": "more", "operator": "Exists"}]}},
    {"spec": {"restartPolicy": "Never"}},
    {"spec": {"nodeName": "n"}},
]
PATCHES: dict[str, list[Object]] = {
    "ConfigMap": [{"data": {"a": "3"}}, {"data": {"a": None}}, {"data": None}, {"binaryData": {}}, {"immutable": True}],
    "Secret": [{"data": {"key": "eA=="}}, {"data": {"key": None}}, {"data": {"key": "!"}}, {"stringData": {"x": "y"}}],
    "Deployment": _WORKLOAD,
    "StatefulSet": [*_WORKLOAD, {"spec": {"serviceName": "other"}}, {"spec": {"volumeClaimTemplates": []}}],
    "ReplicaSet": _WORKLOAD,
    "DaemonSet": _WORKLOAD,
    "Pod": _POD,
    "Service": [
        {"spec": {"ports": [{"port": 80, "targetPort": 9}]}},
        {"spec": {"selector": {"x": "y"}}},
        {"spec": {"sessionAffinity": "ClientIP"}},
        {"spec": {"type": "NodePort"}},
        {"spec": {"type": "ClusterIP"}},
        {"spec": {"type": "ExternalName", "externalName": "x.y"}},
        {"spec": {"clusterIP": "None"}},
        {"spec": {"ipFamilyPolicy": "PreferDualStack"}},
    ],
    "Job": [{"spec": {"suspend": True}}, {"spec": {"parallelism": 3}}, {"spec": {"completions": 5}}, {"spec": {"backoffLimit": 1}}],
    "CronJob": [{"spec": {"suspend": True}}, {"spec": {"schedule": "@hourly"}}, {"spec": {"schedule": None}}, {"spec": {"timeZone": "UTC"}}],
    "Ingress": [{"spec": {"ingressClassName": "other"}}, {"spec": {"rules": None}}, {"spec": {"tls": [{}]}}],
    "HorizontalPodAutoscaler": [{"spec": {"maxReplicas": 5}}, {"spec": {"minReplicas": None}}, {"spec": {"metrics": None}}],
    "PodDisruptionBudget": [{"spec": {"minAvailable": 2}}, {"spec": {"maxUnavailable": None}}, {"spec": {"selector": None}}],
    "PersistentVolumeClaim": [
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        {"spec": {"storageClassName": "fast"}},
        {"spec": {"volumeName": "w"}},
        {"spec": {"resources": {"limits": {"storage": "3Gi"}}}},
    ],
    "Role": [{"rules": None}, {"rules": []}],
    "RoleBinding": [{"roleRef": {"name": "admin"}}, {"subjects": None}, {"subjects": []}],
    "ServiceAccount": [{"secrets": None}, {"imagePullSecrets": [{"name": "c"}]}, {"automountServiceAccountToken": None}],
    "NetworkPolicy": [{"spec": {"ingress": None}}, {"spec": {"policyTypes": None}}, {"spec": {"podSelector": {"matchLabels": None}}}],
    "Lease": [{"spec": {"holderIdentity": "they"}}, {"spec": {"leaseDurationSeconds": None}}, {"spec": None}],
    "EndpointSlice": [{"ports": None}, {"endpoints": []}, {"addressType": "IPv6"}],
}  # fmt: skip
STRATEGIC_PATCHES: dict[str, list[Object]] = {
    "Deployment": _STRATEGIC_WORKLOAD,
    "StatefulSet": _STRATEGIC_WORKLOAD,
    "DaemonSet": _STRATEGIC_WORKLOAD,
    "Service": [
        {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}},
        {"spec": {"ports": [{"$patch": "replace"}, {"port": 7}]}},
        {"spec": {"$setElementOrder/ports": [{"port": 8080}, {"port": 80}]}},
    ],
    "ConfigMap": [{"data": {"$patch": "replace", "n": "1"}}, {"$patch": "replace", "metadata": {"name": "a"}}, {"$patch": "delete"}],
    "ServiceAccount": [{"secrets": [{"name": "a", "$patch": "delete"}]}, {"imagePullSecrets": [{"name": "a", "$patch": "delete"}]}],
    "Pod": [{"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}, {"status": {"conditions": [{"type": "x", "status": "True"}]}}],
    "Ingress": [{"spec": {"rules": [{"host": "x.y"}]}}],
}  # fmt: skip
_REPLICAS: list[Object] = [
    {"replicas": 1},
    {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "observedGeneration": 1},
    {"replicas": 1, "readyReplicas": 2},
    {"replicas": -1},
    {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "r", "message": "m"}]},
    {},
]  # fmt: skip
STATUSES: dict[str, list[Object]] = {
    "Deployment": _REPLICAS,
    "ReplicaSet": _REPLICAS,
    "StatefulSet": _REPLICAS,
    "DaemonSet": [{"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1}, {"numberReady": -1}, {}],
    "Job": [{"active": 1, "startTime": "2024-01-01T00:00:00Z"}, {"active": -1}, {"succeeded": 1}, {"failed": 2, "ready": 1}, {}],
    "CronJob": [{"lastScheduleTime": "2024-01-01T00:00:00Z"}, {"active": [{"name": "x"}]}, {}],
    "Pod": [
        {"phase": "Running"},
        {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "hostIP": "10.0.0.1"},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "web", "imageID": ""}]},
    ],
    "Service": [{"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}, {"loadBalancer": {"ingress": [{"ip": "x"}]}}, {}],
    "Ingress": [{"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}, {"loadBalancer": {"ingress": [{"hostname": "B_"}]}}, {}],
    "PersistentVolumeClaim": [{"phase": "Pending", "capacity": {"storage": "1Gi"}}, {"capacity": {"storage": "-1"}}, {}],
    "HorizontalPodAutoscaler": [{"currentReplicas": 1, "desiredReplicas": 1}, {"currentReplicas": -1}, {}],
    "PodDisruptionBudget": [
        {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1},
        {"disruptionsAllowed": -1},
    ],
}  # fmt: skip
