"""What the differential fuzzer sends: objects of many built-in kinds with their quirks, put together at random."""

from __future__ import annotations

import copy
from collections.abc import Callable

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from tests.chaos import differential_definitions as definitions
from tests.chaos.differential_chance import Chance

KINDS: tuple[Kind, ...] = (
    builtin.ConfigMap, builtin.Secret, builtin.Service, builtin.Deployment, builtin.Deployment, builtin.StatefulSet,
    builtin.DaemonSet, builtin.ReplicaSet, builtin.Job, builtin.CronJob, builtin.Pod, builtin.ServiceAccount,
    builtin.Role, builtin.RoleBinding, builtin.NetworkPolicy, builtin.Ingress, builtin.HorizontalPodAutoscaler,
    builtin.PodDisruptionBudget, builtin.PersistentVolumeClaim, builtin.Lease, builtin.EndpointSlice,
    *definitions.KINDS, definitions.WIDGET, definitions.GADGET,
)  # fmt: skip
SELECTOR: Object = {"matchLabels": {"app": "web"}}
_HOLD = "fuzz.modelyard.dev/hold"


def metadata(chance: Chance, name: str) -> Object:
    meta: Object = {"name": name}
    labels = {"app": chance.choice(["web", "db"])} | ({"tier": "x"} if chance.random() < 0.3 else {})
    chance.maybe(meta, 0.5, labels=labels)
    chance.maybe(meta, 0.3, annotations={"note": chance.choice(["one", "two"])})
    chance.maybe(meta, 0.05, finalizers=chance.pick([[_HOLD], [_HOLD, "x.y/z"]], [["hold"], ["bad key!"], []]))
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "b9a1a6a0-0000-4000-8000-000000000000"}
    chance.maybe(meta, 0.02, ownerReferences=chance.pick([[]], [[{**owner, "uid": ""}], [{"kind": "x"}]]))
    if chance.wrong(0.4):
        wrong: list[Object] = [
            {"labels": {"bad key!": "x"}},
            {"labels": {"a": "bad value!"}},
            {"labels": None},
            {"annotations": {"bad key!": "x"}},
            {"name": ""},
            {"name": "Bad_Name"},
            {"name": "other"},
            {"generateName": "Bad_"},
            {"generateName": "a-"},
            {"namespace": "elsewhere"},
            {"uid": "b9a1a6a0-0000-4000-8000-000000000000"},
            {"resourceVersion": "x"},
            {"unheardOf": 1},
            {"creationTimestamp": "yesterday"},
            {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "selfLink": "/x"},
            {"managedFields": []},
            {"managedFields": [{"manager": "x", "operation": "Other"}]},
        ]
        meta |= chance.choice(wrong)
    return meta


def an_object(chance: Chance, kind: Kind, name: str) -> Object:
    obj: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata(chance, name)}
    obj.update(copy.deepcopy(CONTENTS[kind.kind](chance)))
    if chance.wrong(0.5):
        obj["surprise"] = {"x": 1}
    if chance.wrong(0.15):
        obj |= chance.choice([{"kind": "Other"}, {"apiVersion": "v9"}, {"kind": ""}, {"metadata": None}])
    if chance.random() < chance.mutations:
        obj = chance.mutated(obj)
    return obj


def config_map(chance: Chance) -> Object:
    data = {
        chance.choice(["a", "b", "c.txt"]): chance.choice(["1", "2", "", "ä\n"]) for _ in range(chance.randint(0, 3))
    }
    made: Object = {"data": data}
    chance.maybe(made, 0.1, immutable=chance.choice([True, False]))
    chance.maybe(made, 0.15, binaryData=chance.pick([{"bin": "AAEC"}, {}], [{"a": "eA=="}, {"x": "!"}, {"y": None}]))
    if chance.wrong():
        made["data"] = chance.choice([{"bad/key": "x"}, {"a": 1}, {"a": None}, [], None, {"..": "x"}])
    return made


def secret(chance: Chance) -> Object:
    made: Object = {}
    chance.maybe(made, 0.5, stringData={"key": chance.choice(["v", "w"])})
    chance.maybe(
        made, 0.5, data=chance.pick([{"key": "dg=="}, {"username": "dg=="}, {}], [{"key": "v"}, {"a/b": "dg=="}])
    )
    kinds = [
        "kubernetes.io/basic-auth",
        "kubernetes.io/tls",
        "kubernetes.io/ssh-auth",
        "kubernetes.io/dockerconfigjson",
    ]
    chance.maybe(made, 0.2, type=chance.pick(["Opaque", "mine", "kubernetes.io/basic-auth"], kinds))
    chance.maybe(made, 0.1, immutable=True)
    return made


def service(chance: Chance) -> Object:
    ports: list[Object] = []
    for name, number in chance.sample([("web", 80), ("api", 8080), ("db", 5432)], chance.randint(1, 2)):
        port: Object = {"name": name, "port": chance.pick([number], [0, 70000, 80])}
        chance.maybe(port, 0.4, targetPort=chance.pick([8080, "http"], ["Bad_Port!", 0]))
        chance.maybe(port, 0.2, protocol=chance.pick(["TCP", "UDP"], ["ICMP"]))
        chance.maybe(port, 0.1, appProtocol=chance.pick(["http", "example.com/x"], ["bad protocol"]))
        ports.append(port)
    if chance.wrong(0.3):
        ports = chance.choice([[], [{}], [{"port": 80}, {"port": 81}], ports + ports])
    spec: Object = {"ports": ports, "selector": {"app": "web"}}
    chance.maybe(spec, 0.2, clusterIP="None")
    chance.maybe(spec, 0.2, type=chance.pick(["ClusterIP", "NodePort", "LoadBalancer"], ["Other", "ExternalName"]))
    chance.maybe(spec, 0.1, sessionAffinity=chance.pick(["ClientIP", "None"], ["Other"]))
    chance.maybe(spec, 0.1, internalTrafficPolicy=chance.pick(["Local", "Cluster"], ["Other"]))
    chance.maybe(spec, 0.1, publishNotReadyAddresses=True)
    chance.maybe(spec, 0.1, externalIPs=chance.pick([["192.0.2.1"]], [["127.0.0.1"], ["x"]]))
    if chance.random() < 0.05:
        spec = {"type": "ExternalName", "externalName": chance.pick(["example.com"], ["Bad_", ""])}
    return {"spec": spec}


def container(chance: Chance, name: str) -> Object:
    made: Object = {
        "name": name,
        "image": chance.pick(["web", "web:1", "web:latest", "x/y@sha256:" + "0" * 64], ["", " web"]),
    }
    ports = [{"containerPort": port} for port in chance.sample([80, 8080], chance.randint(1, 2))]
    chance.maybe(
        made, 0.4, ports=ports if not chance.wrong() else [{"containerPort": 0}, {"containerPort": 80, "name": "B_"}]
    )
    env: list[Object] = [
        {"name": n, "value": chance.choice(["1", "2"])} for n in chance.sample("ABC", chance.randint(1, 2))
    ]
    if chance.random() < 0.3:
        env.append({"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}})
    if chance.wrong(0.5):
        env.append(
            chance.choice([{"name": ""}, {"name": "a=b"}, {"name": "E", "value": "1", "valueFrom": {}}, {"name": "A"}])
        )
    chance.maybe(made, 0.4, env=env)
    good: list[Object] = [
        {"limits": {"cpu": "1"}},
        {"requests": {"cpu": "100m", "memory": "64Mi"}},
        {"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": 0.1}},
        {},
    ]
    bad: list[Object] = [
        {"limits": {"cpu": "100m"}, "requests": {"cpu": "1"}},
        {"limits": {"cpu": "x"}},
        {"limits": {"unheardof": "1"}},
        {"requests": {"memory": "-1"}},
        {"limits": {"hugepages-2Mi": "3Mi"}},
    ]
    chance.maybe(made, 0.3, resources=chance.pick(good, bad))
    probes: list[Object] = [
        {"httpGet": {"port": 80}},
        {"exec": {"command": ["true"]}, "periodSeconds": 5},
        {"tcpSocket": {"port": "web"}},
        {"grpc": {"port": 9000}},
    ]
    wrong: list[Object] = [
        {},
        {"httpGet": {"port": 0}},
        {"exec": {}},
        {"httpGet": {"port": 80}, "failureThreshold": -1},
    ]
    for field in ("readinessProbe", "livenessProbe", "startupProbe"):
        chance.maybe(made, 0.1, **{field: copy.deepcopy(chance.pick(probes, wrong))})
    chance.maybe(made, 0.1, volumeMounts=[{"name": "data", "mountPath": chance.pick(["/data"], ["", "a:b"])}])
    chance.maybe(made, 0.1, imagePullPolicy=chance.pick(["Always", "Never"], ["Other"]))
    chance.maybe(
        made, 0.1, securityContext=chance.pick([{"runAsNonRoot": True, "runAsUser": 5}, {}], [{"runAsUser": -1}])
    )
    chance.maybe(made, 0.1, command=["sh", "-c", "true"], args=[])
    chance.maybe(
        made, 0.05, lifecycle={"preStop": chance.pick([{"exec": {"command": ["x"]}}, {"sleep": {"seconds": 1}}], [{}])}
    )
    return made


def pod_spec(chance: Chance) -> Object:
    names = ["main", "main"] if chance.wrong(0.3) else chance.choice([["main"], ["main", "side"]])
    spec: Object = {"containers": [container(chance, name) for name in names]}
    volumes: list[Object] = [
        {"name": "data", "emptyDir": {}},
        {"name": "data", "configMap": {"name": "a", "defaultMode": 256}},
        {"name": "data", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "data"},
        {"name": "data", "projected": {"sources": [{"configMap": {"name": "a"}}]}},
    ]
    bad: list[Object] = [
        {"name": "data", "emptyDir": {}, "configMap": {"name": "a"}},
        {"name": "Bad_", "emptyDir": {}},
        {"name": "data", "secret": {}},
        {"name": "data", "hostPath": {"path": "../x"}},
    ]
    chance.maybe(spec, 0.4, volumes=[copy.deepcopy(chance.pick(volumes, bad))])
    chance.maybe(spec, 0.1, serviceAccountName=chance.pick(["default"], ["Bad_"]))
    chance.maybe(spec, 0.1, initContainers=[container(chance, "init")])
    chance.maybe(spec, 0.1, nodeSelector={"x": "y"})
    good: list[Object] = [{"key": "x", "operator": "Exists"}, {"key": "x", "value": "y", "effect": "NoSchedule"}]
    chance.maybe(
        spec,
        0.1,
        tolerations=[copy.deepcopy(chance.pick(good, [{"operator": "Exists", "value": "x"}, {"effect": "X"}]))],
    )
    chance.maybe(spec, 0.1, terminationGracePeriodSeconds=chance.pick([0, 5], [-1]))
    chance.maybe(spec, 0.1, securityContext=chance.pick([{"fsGroup": 5}, {}], [{"runAsUser": -1}]))
    chance.maybe(spec, 0.05, dnsPolicy=chance.pick(["ClusterFirst", "Default"], ["Other", "None"]))
    term = {"topologyKey": "zone", "labelSelector": SELECTOR}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighed = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": term}]}
    }
    chance.maybe(spec, 0.05, affinity=copy.deepcopy(chance.pick([anti, {}], [weighed])))
    return spec


def template(chance: Chance, *policies: str) -> Object:
    made: Object = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(chance)}
    if policies:
        made["spec"]["restartPolicy"] = chance.pick(policies, ["Always", "Other"])
    if chance.wrong(0.3):
        made["metadata"] = chance.choice([{}, {"labels": {"app": "db"}}, {"labels": {"app": "web", "bad!": "x"}}, None])
    return made


def pod(chance: Chance) -> Object:
    spec = pod_spec(chance)
    chance.maybe(spec, 0.2, restartPolicy=chance.pick(["Always", "Never", "OnFailure"], ["Other"]))
    return {"spec": spec}


def workload(chance: Chance) -> Object:
    spec: Object = {"selector": copy.deepcopy(SELECTOR), "template": template(chance)}
    chance.maybe(spec, 0.6, replicas=chance.pick([0, 1, 3], [-1]))
    chance.maybe(spec, 0.1, minReadySeconds=chance.pick([0, 5], [-1]))
    if chance.wrong(0.5):
        expression = {"key": "app", "operator": "In", "values": []}
        wrong = [{"matchLabels": {"app": "other"}}, {}, None, {"matchExpressions": [expression]}]
        spec["selector"] = chance.choice(wrong)
    return spec


def deployment(chance: Chance) -> Object:
    spec = workload(chance)
    good = [{"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%"}}, {}]
    bad = [
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
        {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
        {"type": "Other"},
        {"rollingUpdate": {"maxUnavailable": "120%"}},
        {"rollingUpdate": {"maxSurge": "x"}},
    ]
    chance.maybe(spec, 0.2, strategy=copy.deepcopy(chance.pick(good, bad)))
    chance.maybe(spec, 0.1, revisionHistoryLimit=chance.pick([0, 3], [-1]))
    chance.maybe(spec, 0.1, progressDeadlineSeconds=chance.pick([600], [0, -1]))
    chance.maybe(spec, 0.1, paused=True)
    return {"spec": spec}


def stateful_set(chance: Chance) -> Object:
    spec = workload(chance)
    spec["serviceName"] = chance.pick(["web", ""], ["Bad_"])
    chance.maybe(spec, 0.3, podManagementPolicy=chance.pick(["Parallel", "OrderedReady"], ["Other"]))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": chance.pick(["1Gi"], ["0", "x"])}}}
    chance.maybe(
        spec, 0.3, volumeClaimTemplates=[{"metadata": {"name": chance.pick(["data"], ["Bad_"])}, "spec": claim}]
    )
    good = [{"type": "OnDelete"}, {}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}]
    bad = [{"type": "Other"}, {"type": "OnDelete", "rollingUpdate": {}}, {"rollingUpdate": {"partition": -1}}]
    chance.maybe(spec, 0.2, updateStrategy=copy.deepcopy(chance.pick(good, bad)))
    kept = {"whenDeleted": chance.pick(["Delete", "Retain"], ["Other"])}
    chance.maybe(spec, 0.1, persistentVolumeClaimRetentionPolicy=kept)
    chance.maybe(spec, 0.1, ordinals={"start": chance.pick([0, 2], [-1])})
    return {"spec": spec}


def daemon_set(chance: Chance) -> Object:
    spec = workload(chance)
    spec.pop("replicas", None)
    good = [{"type": "OnDelete"}, {}, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}]
    bad = [
        {"type": "Other"},
        {"rollingUpdate": {"maxUnavailable": 0}},
        {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    ]
    chance.maybe(spec, 0.2, updateStrategy=copy.deepcopy(chance.pick(good, bad)))
    return {"spec": spec}


def job_spec(chance: Chance) -> Object:
    spec: Object = {"template": template(chance, "Never", "OnFailure")}
    for name in ("completions", "parallelism", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"):
        chance.maybe(spec, 0.3, **{name: chance.pick([0, 1, 2], [-1])})
    chance.maybe(spec, 0.1, suspend=True)
    chance.maybe(spec, 0.1, completionMode=chance.pick(["Indexed", "NonIndexed"], ["Other"]))
    chance.maybe(spec, 0.1, podReplacementPolicy=chance.pick(["Failed", "TerminatingOrFailed"], ["Other"]))
    if chance.wrong(0.3):
        spec["selector"] = copy.deepcopy(SELECTOR)
    return spec


def job(chance: Chance) -> Object:
    return {"spec": job_spec(chance)}


def cron_job(chance: Chance) -> Object:
    schedule = chance.pick(["*/5 * * * *", "@daily", "0 0 * * 1-5"], ["nonsense", "", "61 * * * *", "TZ=UTC * * * * *"])
    spec: Object = {"schedule": schedule, "jobTemplate": {"spec": job_spec(chance)}}
    chance.maybe(spec, 0.3, concurrencyPolicy=chance.pick(["Allow", "Forbid", "Replace"], ["Other"]))
    chance.maybe(spec, 0.3, suspend=chance.random() < 0.5)
    chance.maybe(spec, 0.2, startingDeadlineSeconds=chance.pick([10], [-1]))
    chance.maybe(spec, 0.2, timeZone=chance.pick(["Europe/Zurich", "Etc/UTC"], ["Nowhere/Land", "", "Local"]))
    chance.maybe(spec, 0.1, failedJobsHistoryLimit=chance.pick([0, 2], [-1]))
    return {"spec": spec}


def service_account(chance: Chance) -> Object:
    made: Object = {}
    chance.maybe(made, 0.5, automountServiceAccountToken=chance.random() < 0.5)
    chance.maybe(made, 0.3, imagePullSecrets=[{"name": "a"}, {"name": chance.choice(["b", "a"])}])
    chance.maybe(made, 0.2, secrets=[{"name": chance.choice(["b", "a"])}])
    return made


def role(chance: Chance) -> Object:
    rule = {"apiGroups": [""], "resources": [chance.choice(["pods", "secrets"])], "verbs": ["get"]}
    wrong = [
        {"verbs": []},
        {"verbs": ["get"]},
        {"nonResourceURLs": ["/x"], "verbs": ["get"]},
        {"verbs": ["get"], "resources": ["pods"]},
    ]
    rules = [copy.deepcopy(chance.pick([rule], wrong)) for _ in range(chance.randint(0, 2))]
    return {"rules": rules} if chance.random() < 0.9 else {}


def role_binding(chance: Chance) -> Object:
    good: list[Object] = [
        {"kind": "User", "name": "jo"},
        {"kind": "ServiceAccount", "name": "default", "namespace": "default"},
        {"kind": "Group", "name": "all", "apiGroup": "rbac.authorization.k8s.io"},
    ]
    bad: list[Object] = [
        {"kind": "Other", "name": "x"},
        {"kind": "ServiceAccount", "name": "default"},
        {"kind": "ServiceAccount", "name": "Bad_", "namespace": "default"},
        {"kind": "User", "name": ""},
        {"kind": "User", "name": "x", "apiGroup": "y"},
    ]
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": chance.pick(["Role", "ClusterRole"], ["Other"]),
        "name": "view",
    }
    chance.maybe(reference, 0.1, name=chance.pick(["edit"], ["", "a/b"]))
    chance.maybe(reference, 0.1, apiGroup=chance.pick([""], ["x"]))
    return {
        "subjects": [copy.deepcopy(chance.pick(good, bad)) for _ in range(chance.randint(0, 2))],
        "roleRef": reference,
    }


def network_policy(chance: Chance) -> Object:
    spec: Object = {"podSelector": copy.deepcopy(SELECTOR) if chance.random() < 0.5 else {}}
    good = [
        {"podSelector": {}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
        {"namespaceSelector": SELECTOR},
    ]
    bad = [
        {},
        {"ipBlock": {"cidr": "10.0.0.0"}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
        {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}},
    ]
    port = chance.pick(
        [{"port": 80}, {"port": "web"}, {"port": 80, "endPort": 90}, {}],
        [{"port": 70000}, {"endPort": 9}, {"port": 80, "endPort": 1}],
    )
    chance.maybe(spec, 0.6, ingress=[{"from": [copy.deepcopy(chance.pick(good, bad))], "ports": [port]}])
    chance.maybe(spec, 0.2, egress=[{"to": [copy.deepcopy(chance.pick(good, bad))]}])
    chance.maybe(
        spec,
        0.3,
        policyTypes=chance.pick([["Ingress"], ["Egress"], ["Ingress", "Egress"]], [["Other"], ["Ingress"] * 3]),
    )
    return {"spec": spec}


def claim(chance: Chance) -> Object:
    spec: Object = {
        "accessModes": chance.pick(
            [["ReadWriteOnce"], ["ReadWriteMany"]], [[], ["Other"], ["ReadWriteOncePod", "ReadWriteOnce"]]
        )
    }
    spec["resources"] = {"requests": {"storage": chance.pick(["1Gi", "1024Mi", "1.5Gi"], ["0", "-1", "1m", "x"])}}
    chance.maybe(spec, 0.2, storageClassName=chance.pick(["", "fast"], ["Bad_"]))
    chance.maybe(spec, 0.2, volumeMode=chance.pick(["Block", "Filesystem"], ["Other"]))
    chance.maybe(spec, 0.1, selector=copy.deepcopy(SELECTOR))
    chance.maybe(spec, 0.1, volumeName="v")
    return {"spec": spec}


def ingress(chance: Chance) -> Object:
    port = chance.pick(
        [{"number": 80}, {"name": "http"}], [{}, {"number": 80, "name": "http"}, {"number": 0}, {"name": "B_"}]
    )
    backend: Object = {"service": {"name": chance.pick(["web"], ["", "Bad_"]), "port": port}}
    if chance.random() < 0.1:
        backend = {"resource": {"apiGroup": "x.y", "kind": "Z", "name": "z"}}
    spec: Object = {}
    chance.maybe(spec, 0.3, defaultBackend=backend)
    if chance.random() < 0.8 or chance.wrong():
        path: Object = {
            "path": chance.pick(["/", "/a"], ["bad", "", "/a//b", "/../x"]),
            "backend": copy.deepcopy(backend),
        }
        if not chance.wrong(0.3):
            path["pathType"] = chance.pick(["Prefix", "Exact", "ImplementationSpecific"], ["Other"])
        rule: Object = {"http": {"paths": [path]}}
        chance.maybe(rule, 0.5, host=chance.pick(["web.example.com", "*.example.com"], ["Bad_Host", "10.0.0.1", "*"]))
        spec["rules"] = [rule]
    chance.maybe(
        spec,
        0.2,
        tls=[{"hosts": [chance.pick(["web.example.com"], ["B_"])], "secretName": chance.pick(["tls"], ["Bad_"])}],
    )
    chance.maybe(spec, 0.2, ingressClassName=chance.pick(["nginx"], ["Bad_", ""]))
    return {"spec": spec}


def autoscaler(chance: Chance) -> Object:
    target = {"apiVersion": "apps/v1", "kind": chance.pick(["Deployment"], [""]), "name": chance.pick(["a"], [""])}
    spec: Object = {"scaleTargetRef": target, "maxReplicas": chance.pick([2, 3], [0, -1])}
    chance.maybe(spec, 0.5, minReplicas=chance.pick([1, 2], [0, 9, -1]))
    good = [{"type": "Utilization", "averageUtilization": 50}, {"type": "AverageValue", "averageValue": "100m"}]
    bad = [{"type": "Utilization"}, {"type": "Other", "value": "1"}, {"type": "Value", "value": "-1"}]
    metric: Object = {"type": "Resource", "resource": {"name": "cpu", "target": copy.deepcopy(chance.pick(good, bad))}}
    if chance.random() < 0.3:
        wanted = chance.pick([{"type": "AverageValue", "averageValue": "1"}], [{"type": "Value", "value": "1"}])
        metric = {"type": "Pods", "pods": {"metric": {"name": chance.pick(["m"], ["", "a/b"])}, "target": wanted}}
    if chance.wrong(0.3):
        metric = chance.choice(
            [{"type": "Other"}, {"type": "Resource"}, {**metric, "external": {"metric": {"name": "x"}, "target": {}}}]
        )
    chance.maybe(spec, 0.5, metrics=[metric])
    down = chance.pick(
        [{"stabilizationWindowSeconds": 10}, {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]}],
        [
            {"stabilizationWindowSeconds": -1},
            {"stabilizationWindowSeconds": 4000},
            {"policies": [{"type": "X", "value": 0}]},
            {"selectPolicy": "X"},
        ],
    )
    chance.maybe(spec, 0.2, behavior={"scaleDown": copy.deepcopy(down)})
    return {"spec": spec}


def budget(chance: Chance) -> Object:
    spec: Object = {"selector": copy.deepcopy(chance.choice([SELECTOR, {}]))}
    chance.maybe(spec, 0.6, minAvailable=chance.pick([1, "50%"], ["x%", -1, "x", "200%"]))
    if "minAvailable" not in spec or chance.wrong():
        spec["maxUnavailable"] = chance.pick([1, "20%"], ["120%", -1])
    chance.maybe(spec, 0.2, unhealthyPodEvictionPolicy=chance.pick(["AlwaysAllow"], ["Other"]))
    return {"spec": spec}


def lease(chance: Chance) -> Object:
    spec: Object = {}
    chance.maybe(spec, 0.5, leaseDurationSeconds=chance.pick([15], [0, -1]))
    chance.maybe(spec, 0.6, holderIdentity=chance.pick(["me", "you"], [""]))
    chance.maybe(spec, 0.4, renewTime=chance.pick(["2024-01-01T00:00:00.000000Z"], ["2024-01-01T00:00:00Z", "x", ""]))
    chance.maybe(spec, 0.2, leaseTransitions=chance.pick([0, 2], [-1]))
    chance.maybe(spec, 0.1, strategy=chance.choice(["OldestEmulationVersion", "x"]))
    return {"spec": spec}


def endpoint_slice(chance: Chance) -> Object:
    made: Object = {"addressType": chance.pick(["IPv4"], ["IPv6", "Other", ""])}
    address = chance.pick(["10.1.2.3", "192.0.2.7"], ["x", "169.254.0.1", "224.0.0.1"])
    endpoint: Object = {"addresses": chance.pick([[address]], [[], [address] * 2])}
    chance.maybe(endpoint, 0.5, conditions={"ready": chance.random() < 0.5})
    chance.maybe(endpoint, 0.2, hostname=chance.pick(["h"], ["B_"]))
    made["endpoints"] = [endpoint] * chance.randint(0, 1)
    chance.maybe(
        made, 0.5, ports=[{"name": chance.pick(["", "web"], ["B_"]), "port": chance.pick([80], [0]), "protocol": "TCP"}]
    )
    return made


CONTENTS: dict[str, Callable[[Chance], Object]] = {
    "ConfigMap": config_map,
    "Secret": secret,
    "Service": service,
    "Deployment": deployment,
    "ReplicaSet": lambda chance: {"spec": workload(chance)},
    "StatefulSet": stateful_set,
    "DaemonSet": daemon_set,
    "Job": job,
    "CronJob": cron_job,
    "Pod": pod,
    "ServiceAccount": service_account,
    "Role": role,
    "RoleBinding": role_binding,
    "NetworkPolicy": network_policy,
    "PersistentVolumeClaim": claim,
    "Ingress": ingress,
    "HorizontalPodAutoscaler": autoscaler,
    "PodDisruptionBudget": budget,
    "Lease": lease,
    "EndpointSlice": endpoint_slice,
    **definitions.CONTENTS,
}
