"""What the differential fuzzer sends: objects of several kinds with their quirks, changed and combined at random."""

from __future__ import annotations

import asyncio
import copy
from random import Random
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, ApiError
from modelyard.kube.kinds import Kind, Object

NAMESPACE = builtin.Namespace
WIDGET = Kind("fuzz.modelyard.dev", "v1", "Widget", "widgets")
JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_SCHEMA: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 100},
                "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
                "port": {"x-kubernetes-int-or-string": True},
                "note": {"type": "string", "nullable": True, "maxLength": 20},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "parts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.note) || self.size > 0", "message": "a note needs a size"},
                {"rule": "self.size >= oldSelf.size - 50", "message": "must not shrink by more than 50"},
            ],
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "seen": {"type": "integer"}}},
    },
}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.fuzz.modelyard.dev"},
    "spec": {
        "group": "fuzz.modelyard.dev",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}
KINDS = (
    builtin.ConfigMap,
    builtin.Secret,
    builtin.Service,
    builtin.Deployment,
    builtin.Job,
    builtin.ServiceAccount,
    builtin.Role,
    builtin.NetworkPolicy,
    builtin.PersistentVolumeClaim,
    WIDGET,
    WIDGET,
    builtin.Deployment,
)
MORE_KINDS = (
    builtin.StatefulSet,
    builtin.CronJob,
    builtin.Ingress,
    builtin.HorizontalPodAutoscaler,
    builtin.PodDisruptionBudget,
    builtin.RoleBinding,
    builtin.Lease,
    builtin.Deployment,
    WIDGET,
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
SCALED = (builtin.Deployment, builtin.StatefulSet)


async def install(client: Client) -> None:
    """Defines the custom resource and waits until it is served."""
    try:
        await client.create(builtin.CustomResourceDefinition, CRD)
    except AlreadyExists:
        return
    for _ in range(200):
        try:
            await client.list(WIDGET, "default")
            return
        except ApiError:
            await asyncio.sleep(0.05)
    raise AssertionError("the custom resource was not served in time")


def sequence(chance: Random) -> list[dict[str, Any]]:
    """8 to 16 requests about a few objects of two kinds."""
    return [step(chance, kind) for kind in _kinds(chance, KINDS)]


def wide_sequence(chance: Random) -> list[dict[str, Any]]:
    """As `sequence`, of more kinds and with rarer requests among the common ones."""
    return [
        rare_step(chance, kind) if chance.random() < 0.25 else step(chance, kind) for kind in _kinds(chance, MORE_KINDS)
    ]


def _kinds(chance: Random, kinds: tuple[Kind, ...]) -> list[Kind]:
    two = chance.sample(kinds, 2)
    return [chance.choice(two) for _ in range(chance.randint(8, 16))]


def rare_step(chance: Random, kind: Kind) -> dict[str, Any]:
    name = chance.choice(["a", "b", "c"])
    choice = chance.choice(["scale", "patch scale", "collection", "precondition", "shape", "shape", "generate"])
    if choice.endswith("scale") and kind in SCALED:
        replicas = chance.choice([0, 2, -1])
        if choice == "scale":
            body: Any = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name},
                "spec": {"replicas": replicas},
            }
            return {"verb": "update", "kind": kind, "name": name, "body": body, "subresource": "scale"}
        body = {"spec": {"replicas": replicas}}
        return {"verb": "patch", "kind": kind, "name": name, "body": body, "content": MERGE, "subresource": "scale"}
    match choice:
        case "collection":
            options = chance.choice([{"labelSelector": "app=web"}, {"fieldSelector": "metadata.name=a"}, {}])
            return {"verb": "deletecollection", "kind": kind, "options": options}
        case "precondition":
            body = {"preconditions": chance.choice([{"resourceVersion": "current"}, {"resourceVersion": "1"}])}
            return {"verb": "delete", "kind": kind, "name": name, "body": body}
        case "generate":
            # A name that the server makes up differs; only what is refused can be compared whole.
            body = an_object(chance, kind, name)
            body["metadata"]["generateName"] = chance.choice(["a-", "Bad_"])
            return {"verb": "create", "kind": kind, "name": name, "body": body}
        case _:
            if chance.random() < 0.5:
                return {"verb": "get", "kind": kind, "name": name, "accept": chance.choice([TABLE, METADATA])}
            return {"verb": "list", "kind": kind, "accept": chance.choice([TABLE, METADATA_LIST])}


def step(chance: Random, kind: Kind) -> dict[str, Any]:
    name = chance.choice(["a", "b", "c"])
    verbs = ["create"] * 5 + ["update"] * 3 + ["apply"] * 5 + ["patch"] * 6 + ["delete"] * 2 + ["get", "list", "status"]
    verb = chance.choice(verbs)
    options: dict[str, str] = {}
    if verb not in ("get", "list", "delete") and chance.random() < 0.25:
        options["fieldManager"] = chance.choice(["one", "two"])
    if verb in ("create", "update", "patch", "apply", "delete") and chance.random() < 0.08:
        options["dryRun"] = "All"
    if verb in ("create", "update", "patch", "apply") and chance.random() < 0.2:
        options["fieldValidation"] = chance.choice(["Strict", "Warn", "Ignore"])
    match verb:
        case "create":
            return {
                "verb": "create",
                "kind": kind,
                "name": name,
                "body": an_object(chance, kind, name),
                "options": options,
            }
        case "update":
            body = an_object(chance, kind, name)
            if chance.random() < 0.7:
                body["metadata"]["resourceVersion"] = "current"
            return {"verb": "update", "kind": kind, "name": name, "body": body, "options": options}
        case "apply":
            options["fieldManager"] = chance.choice(["one", "two", "three"])
            if chance.random() < 0.4:
                options["force"] = "true"
            body = thinned(chance, an_object(chance, kind, name))
            return {"verb": "patch", "kind": kind, "name": name, "body": body, "options": options, "content": APPLY}
        case "patch":
            content = chance.choice([JSON_PATCH, MERGE, STRATEGIC, MERGE])
            body = a_patch(chance, kind, content)
            return {"verb": "patch", "kind": kind, "name": name, "body": body, "options": options, "content": content}
        case "delete":
            body = (
                {"propagationPolicy": chance.choice(["Background", "Foreground", "Orphan"])}
                if chance.random() < 0.6
                else None
            )
            return {"verb": "delete", "kind": kind, "name": name, "body": body, "options": options}
        case "list":
            if chance.random() < 0.5:
                options["labelSelector"] = chance.choice(["app=web", "app!=web", "app in (web,db)", "!app", "tier"])
            if chance.random() < 0.3:
                options["fieldSelector"] = chance.choice(["metadata.name=a", "metadata.name!=a", "spec.foo=bar"])
            if chance.random() < 0.3:
                options["limit"] = "1"
            return {"verb": "list", "kind": kind, "options": options}
        case "status" if kind in (builtin.Deployment, WIDGET, builtin.Job):
            body = {
                "status": {"phase": "x", "seen": chance.randint(0, 3)}
                if kind is WIDGET
                else {"replicas": chance.randint(0, 3)}
            }
            if kind is builtin.Job:
                body = {"status": {"active": chance.randint(0, 3)}}
            return {
                "verb": "patch",
                "kind": kind,
                "name": name,
                "body": body,
                "options": options,
                "content": MERGE,
                "subresource": "status",
            }
    return {"verb": "get", "kind": kind, "name": name}


def metadata(chance: Random, name: str) -> Object:
    meta: Object = {"name": name}
    if chance.random() < 0.5:
        meta["labels"] = {"app": chance.choice(["web", "db"])} | ({"tier": "x"} if chance.random() < 0.3 else {})
    if chance.random() < 0.3:
        meta["annotations"] = {"note": chance.choice(["one", "two"])}
    if chance.random() < 0.05:
        meta["finalizers"] = ["fuzz.modelyard.dev/hold"]
    if chance.random() < 0.04:
        meta["labels"] = {"bad key!": "x"}
    return meta


def an_object(chance: Random, kind: Kind, name: str) -> Object:
    obj: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata(chance, name)}
    obj.update(copy.deepcopy(content(chance, kind)))
    if chance.random() < 0.06:
        obj["surprise"] = {"x": 1}
    if chance.random() < 0.03:
        obj["kind"] = "Other"
    return obj


def content(chance: Random, kind: Kind) -> Object:
    match kind.kind:
        case "ConfigMap":
            data = {
                chance.choice(["a", "b", "c.txt"]): chance.choice(["1", "2", ""]) for _ in range(chance.randint(0, 3))
            }
            made: Object = {"data": data}
            if chance.random() < 0.1:
                made["immutable"] = True
            if chance.random() < 0.1:
                made["data"]["bad/key"] = "x"
            return made
        case "Secret":
            made = (
                {"stringData": {"key": chance.choice(["v", "w"])}}
                if chance.random() < 0.5
                else {"data": {"key": "dg=="}}
            )
            if chance.random() < 0.3:
                made["type"] = chance.choice(["Opaque", "kubernetes.io/basic-auth", "kubernetes.io/tls"])
            return made
        case "Service":
            return {"spec": a_service_spec(chance)}
        case "Deployment":
            return {"spec": a_deployment_spec(chance)}
        case "Job":
            template = a_template(chance)
            template["spec"]["restartPolicy"] = chance.choice(["Never", "OnFailure", "Always"])
            spec: Object = {"template": template}
            for field in ("completions", "parallelism", "backoffLimit", "ttlSecondsAfterFinished"):
                if chance.random() < 0.3:
                    spec[field] = chance.randint(-1, 4)
            return {"spec": spec}
        case "ServiceAccount":
            return {"automountServiceAccountToken": chance.random() < 0.5} if chance.random() < 0.5 else {}
        case "Role":
            rule = {"apiGroups": [""], "resources": [chance.choice(["pods", "secrets"])], "verbs": ["get"]}
            return {"rules": [rule] * chance.randint(0, 2)} if chance.random() < 0.9 else {"rules": [{"verbs": []}]}
        case "NetworkPolicy":
            spec = {"podSelector": {"matchLabels": {"app": "web"}} if chance.random() < 0.5 else {}}
            if chance.random() < 0.6:
                spec["ingress"] = [
                    {"from": [{"podSelector": {}}], "ports": [{"port": chance.choice([80, "web", 70000])}]}
                ]
            if chance.random() < 0.3:
                spec["policyTypes"] = [chance.choice(["Ingress", "Egress", "Other"])]
            return {"spec": spec}
        case "PersistentVolumeClaim":
            spec = {"accessModes": [chance.choice(["ReadWriteOnce", "ReadWriteMany"])]}
            spec["resources"] = {"requests": {"storage": chance.choice(["1Gi", "1024Mi", "0", "1.5Gi"])}}
            return {"spec": spec}
        case "StatefulSet":
            spec = a_deployment_spec(chance)
            spec.pop("strategy", None)
            spec["serviceName"] = chance.choice(["web", "", "Bad_"])
            if chance.random() < 0.3:
                spec["podManagementPolicy"] = chance.choice(["Parallel", "OrderedReady", "Other"])
            if chance.random() < 0.3:
                claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
            if chance.random() < 0.2:
                spec["updateStrategy"] = chance.choice([{"type": "OnDelete"}, {"type": "Other"}, {}])
            return {"spec": spec}
        case "CronJob":
            template = a_template(chance)
            template["spec"]["restartPolicy"] = chance.choice(["Never", "OnFailure", "Always"])
            spec = {
                "schedule": chance.choice(["*/5 * * * *", "@daily", "nonsense", ""]),
                "jobTemplate": {"spec": {"template": template}},
            }
            if chance.random() < 0.3:
                spec["concurrencyPolicy"] = chance.choice(["Allow", "Forbid", "Other"])
            if chance.random() < 0.3:
                spec["suspend"] = chance.random() < 0.5
            if chance.random() < 0.2:
                spec["startingDeadlineSeconds"] = chance.choice([10, -1])
            if chance.random() < 0.2:
                spec["timeZone"] = chance.choice(["Europe/Zurich", "Nowhere/Land", ""])
            return {"spec": spec}
        case "Ingress":
            return {"spec": an_ingress_spec(chance)}
        case "HorizontalPodAutoscaler":
            spec = {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": chance.choice(["a", ""])},
                "maxReplicas": chance.choice([1, 3, 0]),
            }
            if chance.random() < 0.5:
                spec["minReplicas"] = chance.choice([1, 2, 0])
            if chance.random() < 0.5:
                target = chance.choice(
                    [
                        {"type": "Utilization", "averageUtilization": 50},
                        {"type": "AverageValue", "averageValue": "100m"},
                        {"type": "Utilization"},
                    ]
                )
                spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
            if chance.random() < 0.2:
                spec["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": chance.choice([10, -1, 4000])}}
            return {"spec": spec}
        case "PodDisruptionBudget":
            spec = {"selector": chance.choice([{"matchLabels": {"app": "web"}}, {}])}
            if chance.random() < 0.6:
                spec["minAvailable"] = chance.choice([1, "50%", "x%", -1])
            if chance.random() < 0.3:
                spec["maxUnavailable"] = 1
            if chance.random() < 0.2:
                spec["unhealthyPodEvictionPolicy"] = chance.choice(["AlwaysAllow", "Other"])
            return {"spec": spec}
        case "RoleBinding":
            subject = chance.choice(
                [
                    {"kind": "User", "name": "jo"},
                    {"kind": "ServiceAccount", "name": "default"},
                    {"kind": "ServiceAccount", "name": "default", "namespace": "default"},
                    {"kind": "Group", "name": "all", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "Other", "name": "x"},
                ]
            )
            role = {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": chance.choice(["Role", "ClusterRole", "Other"]),
                "name": chance.choice(["view", "edit"]),
            }
            return {"subjects": [subject] * chance.randint(0, 2), "roleRef": role}
        case "Lease":
            spec = {"leaseDurationSeconds": chance.choice([15, 0])} if chance.random() < 0.5 else {}
            if chance.random() < 0.6:
                spec["holderIdentity"] = chance.choice(["me", "you", ""])
            if chance.random() < 0.4:
                spec["renewTime"] = chance.choice(["2024-01-01T00:00:00.000000Z", "2024-01-01T00:00:00Z"])
            if chance.random() < 0.2:
                spec["leaseTransitions"] = chance.choice([0, -1, 2])
            return {"spec": spec}
        case _:
            return {"spec": a_widget_spec(chance)}


def an_ingress_spec(chance: Random) -> Object:
    backend = {"service": {"name": "web", "port": chance.choice([{"number": 80}, {"name": "http"}, {}])}}
    spec: Object = {}
    if chance.random() < 0.3:
        spec["defaultBackend"] = backend
    if chance.random() < 0.8:
        path = {"path": chance.choice(["/", "/a", "bad", ""]), "backend": backend}
        if chance.random() < 0.9:
            path["pathType"] = chance.choice(["Prefix", "Exact", "ImplementationSpecific", "Other"])
        rule: Object = {"http": {"paths": [path]}}
        if chance.random() < 0.5:
            rule["host"] = chance.choice(["web.example.com", "*.example.com", "Bad_Host", "10.0.0.1"])
        spec["rules"] = [rule]
    if chance.random() < 0.2:
        spec["tls"] = [{"hosts": ["web.example.com"], "secretName": chance.choice(["tls", "Bad_"])}]
    if chance.random() < 0.2:
        spec["ingressClassName"] = chance.choice(["nginx", "Bad_"])
    return spec


def a_widget_spec(chance: Random) -> Object:
    spec: Object = {"size": chance.choice([0, 1, 50, 100, 101, "3"])} if chance.random() < 0.95 else {}
    if chance.random() < 0.4:
        spec["mode"] = chance.choice(["fast", "slow", "other"])
    if chance.random() < 0.3:
        spec["port"] = chance.choice([80, "web", 1.5])
    if chance.random() < 0.3:
        spec["note"] = chance.choice(["hello", None, "x" * 30])
    if chance.random() < 0.4:
        spec["tags"] = chance.choice([["a"], ["a", "b"], ["b", "a"], ["a", "a"], []])
    if chance.random() < 0.4:
        spec["parts"] = [
            {"name": n, **({"count": 2} if chance.random() < 0.4 else {})}
            for n in chance.choice(["a", "ab", "ba", "aa"])
        ]
    if chance.random() < 0.2:
        spec["free"] = {"x": {"y": [1, "2"]}}
    if chance.random() < 0.2:
        spec["labels"] = {"k": "v"}
    if chance.random() < 0.15:
        spec["unknown"] = 1
    return spec


def a_service_spec(chance: Random) -> Object:
    ports: list[Object] = []
    for name, number in chance.sample([("web", 80), ("api", 8080), ("db", 5432)], chance.randint(1, 2)):
        port: Object = {"name": name, "port": number}
        if chance.random() < 0.4:
            port["targetPort"] = chance.choice([8080, "http"])
        if chance.random() < 0.2:
            port["protocol"] = chance.choice(["TCP", "UDP"])
        ports.append(port)
    spec: Object = {"ports": ports, "selector": {"app": "web"}}
    if chance.random() < 0.2:
        spec["clusterIP"] = "None"
    if chance.random() < 0.15:
        spec["type"] = chance.choice(["ClusterIP", "NodePort", "Other"])
    return spec


def a_deployment_spec(chance: Random) -> Object:
    spec: Object = {"selector": {"matchLabels": {"app": "web"}}, "template": a_template(chance)}
    if chance.random() < 0.6:
        spec["replicas"] = chance.choice([0, 1, 3, -1])
    if chance.random() < 0.2:
        spec["strategy"] = chance.choice(
            [
                {"type": "Recreate"},
                {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
                {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            ]
        )
    if chance.random() < 0.1:
        spec["selector"] = {"matchLabels": {"app": "other"}}
    return spec


def a_template(chance: Random) -> Object:
    containers = [
        a_container(chance, name)
        for name in chance.choice(
            [["main"], ["main", "side"], ["main", "main"]] if chance.random() < 0.1 else [["main"], ["main", "side"]]
        )
    ]
    spec: Object = {"containers": containers}
    if chance.random() < 0.3:
        spec["volumes"] = [
            chance.choice(
                [{"name": "data", "emptyDir": {}}, {"name": "data", "configMap": {"name": "a"}}, {"name": "data"}]
            )
        ]
    if chance.random() < 0.15:
        spec["serviceAccountName"] = "runner"
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}


def a_container(chance: Random, name: str) -> Object:
    container: Object = {"name": name, "image": chance.choice(["web", "web:1", "web:latest"])}
    if chance.random() < 0.4:
        container["ports"] = [{"containerPort": p} for p in chance.sample([80, 8080, 0], chance.randint(1, 2))]
    if chance.random() < 0.4:
        container["env"] = [
            {"name": n, "value": chance.choice(["1", "2"])} for n in chance.sample("ABC", chance.randint(1, 2))
        ]
    if chance.random() < 0.3:
        container["resources"] = chance.choice(
            [
                {"limits": {"cpu": "1"}},
                {"requests": {"cpu": "100m", "memory": "64Mi"}},
                {"limits": {"cpu": "100m"}, "requests": {"cpu": "1"}},
            ]
        )
    if chance.random() < 0.2:
        container["readinessProbe"] = chance.choice(
            [{"httpGet": {"port": 80}}, {"exec": {"command": ["true"]}}, {"tcpSocket": {"port": "web"}}, {}]
        )
    if chance.random() < 0.2:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return container


def thinned(chance: Random, obj: Object) -> Object:
    """An apply often says only a part."""
    made = copy.deepcopy(obj)
    spec = made.get("spec")
    if isinstance(spec, dict) and chance.random() < 0.3:
        for key in list(spec):
            if key not in ("size", "selector", "template") and chance.random() < 0.5:
                del spec[key]
    if chance.random() < 0.2:
        made.pop("data", None)
    return made


def a_patch(chance: Random, kind: Kind, content_type: str) -> Any:
    if content_type == JSON_PATCH:
        ops = [
            {"op": "add", "path": "/metadata/labels", "value": {"app": "patched"}},
            {"op": "replace", "path": "/metadata/labels/app", "value": "db"},
            {"op": "remove", "path": "/metadata/annotations/note"},
            {"op": "test", "path": "/metadata/name", "value": "a"},
            {"op": "add", "path": "/data/z", "value": "9"},
            {"op": "replace", "path": "/spec/replicas", "value": 2},
            {"op": "add", "path": "/spec/tags/-", "value": "z"},
            {"op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/moved"},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/copied"},
        ]
        return chance.sample(ops, chance.randint(1, 2))
    patch: Object = {}
    if chance.random() < 0.5:
        patch["metadata"] = {"labels": chance.choice([{"app": "web"}, {"app": None}, {"tier": "y"}])}
    if chance.random() < 0.8:
        match kind.kind:
            case "ConfigMap":
                patch["data"] = chance.choice([{"a": "3"}, {"a": None}, None])
            case "Deployment" | "StatefulSet":
                spec = chance.choice(
                    [
                        {"replicas": chance.randint(0, 3)},
                        {"template": {"spec": {"containers": [{"name": "main", "image": "web:3"}]}}},
                        {"template": {"spec": {"containers": [{"name": "side", "image": "x:1"}]}}},
                        {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}
                        if content_type == STRATEGIC
                        else {"paused": True},
                        {"strategy": None},
                    ]
                )
                patch["spec"] = spec
            case "Service":
                patch["spec"] = chance.choice(
                    [
                        {"ports": [{"port": 80, "targetPort": 9}]},
                        {"selector": {"x": "y"}},
                        {"sessionAffinity": "ClientIP"},
                    ]
                )
            case "Widget":
                patch["spec"] = chance.choice(
                    [{"size": 7}, {"tags": ["q"]}, {"note": None}, {"mode": "fast"}, {"parts": [{"name": "p"}]}]
                )
            case "CronJob":
                patch["spec"] = chance.choice([{"suspend": True}, {"schedule": "@hourly"}, {"schedule": None}])
            case "Ingress":
                patch["spec"] = chance.choice([{"ingressClassName": "other"}, {"rules": None}, {"tls": [{}]}])
            case "HorizontalPodAutoscaler":
                patch["spec"] = chance.choice([{"maxReplicas": 5}, {"minReplicas": None}, {"metrics": None}])
            case "PodDisruptionBudget":
                patch["spec"] = chance.choice([{"minAvailable": 2}, {"maxUnavailable": None}, {"selector": None}])
            case "RoleBinding":
                patch |= chance.choice([{"roleRef": {"name": "admin"}}, {"subjects": None}])
            case "Lease":
                patch["spec"] = chance.choice([{"holderIdentity": "they"}, {"leaseDurationSeconds": None}, None])
            case "Secret":
                patch["data"] = {"key": chance.choice(["eA==", None, "!"])}
            case _:
                patch["metadata"] = {"annotations": {"patched": "yes"}}
    return patch
