"""Defaults: what Kubernetes fills into built-in kinds, and what it leaves out again."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.errors import Invalid
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import call
from tests.cluster.conftest import Api

TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
SELECTOR: Object = {"matchLabels": {"a": "b"}}
CONTAINER: Object = {
    "name": "c",
    "image": "nginx",
    "imagePullPolicy": "Always",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
POD_SPEC: Object = {
    "containers": [CONTAINER],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}


async def created(api: Api, kind: Kind, spec: Object | None, **more: Any) -> Object:
    """The object as a dry run of its creation shows it."""
    namespace = await api.namespace() if kind.namespaced else ""
    body = {"metadata": {"name": "a"}} | ({"spec": spec} if spec is not None else {}) | more
    answer = await call(api, "POST", kind.path(namespace), body, dryRun="All")
    assert answer.status == 201, answer.body
    result: Object = answer.body
    return result


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        pytest.param(
            builtin.Deployment,
            {"selector": SELECTOR, "template": TEMPLATE},
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "selector": SELECTOR,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
            },
            id="deployment",
        ),
        pytest.param(
            builtin.ReplicaSet,
            {"selector": SELECTOR, "template": TEMPLATE},
            {
                "replicas": 1,
                "selector": SELECTOR,
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
            },
            id="replica set",
        ),
        pytest.param(
            builtin.StatefulSet,
            {
                "selector": SELECTOR,
                "template": TEMPLATE,
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "d"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
                    }
                ],
            },
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "podManagementPolicy": "OrderedReady",
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
                "selector": SELECTOR,
                "serviceName": "",
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
                "volumeClaimTemplates": [
                    {
                        "kind": "PersistentVolumeClaim",
                        "apiVersion": "v1",
                        "metadata": {"name": "d"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                            "volumeMode": "Filesystem",
                        },
                        "status": {"phase": "Pending"},
                    }
                ],
            },
            id="stateful set",
        ),
        pytest.param(
            builtin.CronJob,
            {
                "schedule": "@daily",
                "jobTemplate": {
                    "spec": {
                        "template": {"spec": {"containers": TEMPLATE["spec"]["containers"], "restartPolicy": "Never"}}
                    }
                },
            },
            {
                "schedule": "@daily",
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": {
                    "metadata": {},
                    "spec": {"template": {"metadata": {}, "spec": POD_SPEC | {"restartPolicy": "Never"}}},
                },
            },
            id="cron job",
        ),
        pytest.param(
            builtin.NetworkPolicy,
            {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]},
            {
                "podSelector": {},
                "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                "policyTypes": ["Ingress", "Egress"],
            },
            id="network policy",
        ),
        pytest.param(
            builtin.HorizontalPodAutoscaler,
            {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
            {
                "maxReplicas": 3,
                "minReplicas": 1,
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                    }
                ],
            },
            id="autoscaler",
        ),
        pytest.param(
            builtin.PersistentVolumeClaim,
            {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.5Gi"}}},
            {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "512Mi"}},
                "volumeMode": "Filesystem",
            },
            id="claim",
        ),
        pytest.param(
            builtin.PersistentVolume,
            {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
            {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x", "type": ""},
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem",
            },
            id="volume",
        ),
    ],
)
async def test_spec_defaults(api: Api, kind: Kind, spec: Object, expected: Object) -> None:
    assert (await created(api, kind, spec))["spec"] == expected


async def test_job_gets_its_selector_and_labels(api: Api) -> None:
    template = {"metadata": {"labels": {"x": "y"}}, "spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
    made = await created(api, builtin.Job, {"template": template})
    uid = made["metadata"]["uid"]
    labels = {
        "x": "y",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == labels
    assert made["metadata"]["labels"] == labels
    wanted = {
        "backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1, "manualSelector": False, "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed", "suspend": False,
    }  # fmt: skip
    assert {name: made["spec"][name] for name in wanted} == wanted


async def test_daemon_set_counts_its_template(api: Api) -> None:
    namespace = await api.namespace()
    body = {
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"selector": SELECTOR, "template": TEMPLATE},
    }
    made = await api.client.create(builtin.DaemonSet, body)
    assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert made["spec"]["updateStrategy"] == strategy
    change = {"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}
    changed = await api.client.patch(builtin.DaemonSet, namespace, "a", change)
    assert changed["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "2"}
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "Always"),
        ("Not An Image", "IfNotPresent"),
    ],
)
async def test_pull_policy_follows_the_tag(api: Api, image: str, policy: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    made = await created(api, builtin.Deployment, {"selector": SELECTOR, "template": template})
    assert made["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_probes_volumes_and_references_in_a_template(api: Api) -> None:
    spec = {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "livenessProbe": {"httpGet": {"port": 80}},
                "readinessProbe": {"grpc": {"port": 80}},
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1048576Ki"}},
            }
        ],
        "volumes": [
            {"name": "e"},
            {"name": "s", "secret": {"secretName": "x"}},
            {"name": "c", "configMap": {"name": "x"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    made = (await created(api, builtin.Deployment, {"selector": SELECTOR, "template": template}))["spec"]["template"]
    container = made["spec"]["containers"][0]
    numbers = {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}
    assert container["livenessProbe"] == {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, **numbers}
    assert container["readinessProbe"] == {"grpc": {"port": 80, "service": ""}, **numbers}
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    assert container["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert made["spec"]["volumes"] == [
        {"name": "e", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
        {"name": "c", "configMap": {"name": "x", "defaultMode": 420}},
        {
            "name": "p",
            "projected": {
                "defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            },
        },
    ]


async def test_pod_requests_follow_its_limits(api: Api) -> None:
    namespace = await api.namespace()
    container = {"name": "c", "image": "x:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    body = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"containers": [container]}}
    made = await api.client.create(builtin.Pod, body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert made["spec"]["enableServiceLinks"] is True
    assert made["metadata"]["generation"] == 1


async def test_empty_and_zero_values_are_left_out(api: Api) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {}},
        "spec": {
            "containers": [{"name": "c", "image": "x:1", "args": [], "env": None, "tty": False, "workingDir": ""}],
            "nodeSelector": {},
            "hostNetwork": False,
            "tolerations": [],
        },
    }
    made = await created(
        api, builtin.Deployment, {"selector": SELECTOR, "template": template, "minReadySeconds": 0, "paused": False}
    )
    assert set(made["spec"]["template"]["spec"]["containers"][0]) == set(CONTAINER)
    assert set(made["spec"]["template"]["spec"]) == set(POD_SPEC)
    assert set(made["spec"]["template"]["metadata"]) == {"labels"}
    assert "minReadySeconds" not in made["spec"]
    assert "paused" not in made["spec"]


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        pytest.param(builtin.Secret, {}, {"type": "Opaque"}, id="secret"),
        pytest.param(
            builtin.Secret,
            {"stringData": {"a": "b"}, "data": {"a": "eA=="}},
            {"data": {"a": "Yg=="}},
            id="stringData wins",
        ),
        pytest.param(
            builtin.Namespace, {}, {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}, id="ns"
        ),
        pytest.param(
            builtin.StorageClass,
            {"provisioner": "x/y"},
            {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
            id="storage class",
        ),
        pytest.param(builtin.PriorityClass, {"value": 1}, {"preemptionPolicy": "PreemptLowerPriority"}, id="priority"),
        pytest.param(
            builtin.RoleBinding,
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
            },
            id="role binding",
        ),
        pytest.param(builtin.Role, {"rules": []}, {"rules": None}, id="role without rules"),
        pytest.param(
            builtin.EndpointSlice,
            {"addressType": "IPv4", "ports": [{"port": 80}]},
            {"endpoints": None, "ports": [{"name": "", "port": 80, "protocol": "TCP"}]},
            id="endpoint slice",
        ),
        pytest.param(
            builtin.Event,
            {"involvedObject": {"namespace": "default"}},
            {"eventTime": None, "firstTimestamp": None, "lastTimestamp": None, "source": {}, "reportingComponent": ""},
            id="event",
        ),
    ],
)
async def test_other_defaults(api: Api, kind: Kind, body: Object, expected: Object) -> None:
    namespace = "default" if kind == builtin.Event else await api.namespace() if kind.namespaced else ""
    answer = await call(api, "POST", kind.path(namespace), {"metadata": {"name": "zz-defaults"}, **body}, dryRun="All")
    assert answer.status == 201, answer.body
    assert {name: answer.body[name] for name in expected} == expected


async def test_webhook_configuration_defaults(api: Api) -> None:
    webhook = {
        "name": "a.b.c",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }
    made = await created(api, builtin.MutatingWebhookConfiguration, None, webhooks=[webhook])
    found = made["webhooks"][0]
    assert found["clientConfig"]["service"]["port"] == 443
    assert found["rules"][0]["scope"] == "*"
    assert (found["failurePolicy"], found["matchPolicy"], found["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    assert (found["namespaceSelector"], found["objectSelector"], found["reinvocationPolicy"]) == ({}, {}, "Never")


class TestServices:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            pytest.param(
                {"clusterIP": "None", "selector": {"a": "b"}},
                {"clusterIPs": ["None"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
                id="headless",
            ),
            pytest.param(
                {"clusterIP": "None"},
                {"clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"},
                id="headless without selector",
            ),
            pytest.param(
                {"sessionAffinity": "ClientIP", "clusterIP": "None"},
                {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
                id="affinity",
            ),
            pytest.param(
                {"ports": [{"port": 80}], "type": "NodePort"},
                {"externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"},
                id="node port",
            ),
        ],
    )
    async def test_defaults(self, api: Api, spec: Object, expected: Object) -> None:
        made = (await created(api, builtin.Service, spec))["spec"]
        assert {name: made[name] for name in expected} == expected

    async def test_addresses_and_ports_are_allocated_and_kept(self, api: Api) -> None:
        namespace = await api.namespace()
        body = {
            "metadata": {"name": "a", "namespace": namespace},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        }
        made = (await api.client.create(builtin.Service, body))["spec"]
        assert made["clusterIPs"] == [made["clusterIP"]]
        assert made["clusterIP"].startswith("10.96.")
        assert 30000 <= made["ports"][0]["nodePort"] <= 32767
        again = (await api.client.update(builtin.Service, body))["spec"]
        assert again == made

    async def test_one_port_in_two_protocols_has_one_node_port_from_the_start_and_two_when_one_comes_later(
        self, api: Api
    ) -> None:
        namespace = await api.namespace()
        tcp, udp, again = (
            {"name": n, "port": 80, "protocol": p} for n, p in (("t", "TCP"), ("u", "UDP"), ("a", "TCP"))
        )

        def body(*ports: Object) -> Object:
            return {
                "metadata": {"name": "a", "namespace": namespace},
                "spec": {"type": "NodePort", "ports": list(ports)},
            }

        with pytest.raises(Invalid) as refused:
            await api.client.create(builtin.Service, body(tcp, again))
        assert [cause["field"] for cause in refused.value.causes] == ["spec.ports[1].nodePort", "spec.ports[1]"]
        both = (await api.client.create(builtin.Service, body(tcp, udp)))["spec"]["ports"]
        assert both[0]["nodePort"] == both[1]["nodePort"]
        await api.client.update(builtin.Service, body(tcp))
        later = (await api.client.update(builtin.Service, body(tcp, udp)))["spec"]["ports"]
        assert later[0]["nodePort"] == both[0]["nodePort"] != later[1]["nodePort"]

    async def test_types_change_with_what_belongs_to_them(self, api: Api) -> None:
        namespace = await api.namespace()
        body = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"ports": [{"port": 80}]}}
        first = (await api.client.create(builtin.Service, body))["spec"]
        opened = (await api.client.patch(builtin.Service, namespace, "a", {"spec": {"type": "NodePort"}}))["spec"]
        assert opened["clusterIP"] == first["clusterIP"]
        assert opened["ports"][0]["nodePort"]
        closed = (await api.client.patch(builtin.Service, namespace, "a", {"spec": {"type": "ClusterIP"}}))["spec"]
        assert closed == first
        change = {"spec": {"type": "ExternalName", "externalName": "a.b"}}
        outside = (await api.client.patch(builtin.Service, namespace, "a", change))["spec"]
        assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(outside)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podCIDR": "10.0.0.0/24"}, {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}),
        ({"podCIDRs": ["10.0.1.0/24"]}, {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}),
        (
            {"podCIDR": "10.0.2.0/24", "podCIDRs": ["10.0.3.0/24"]},
            {"podCIDR": "10.0.2.0/24", "podCIDRs": ["10.0.2.0/24"]},
        ),
    ],
)
async def test_a_node_says_its_address_range_in_both_fields(api: Api, given: Object, expected: Object) -> None:
    made = await api.client.create(builtin.Node, {"metadata": {"generateName": "n-"}, "spec": given})
    await api.client.delete(builtin.Node, "", made["metadata"]["name"])
    assert {name: made["spec"].get(name) for name in expected} == expected
