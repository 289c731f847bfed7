"""Validation of built-in kinds: which field is wrong, and in which words Kubernetes says so."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import APPLY, MERGE, Answer, call
from tests.cluster.conftest import Api

SELECTOR: Object = {"matchLabels": {"a": "b"}}


def template(**spec: object) -> Object:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def container(**more: object) -> Object:
    return template(containers=[{"name": "c", "image": "x:1", **more}])


def deployment(**spec: object) -> Object:
    return {"spec": {"selector": SELECTOR, "template": template(), **spec}}


def job(**spec: object) -> Object:
    return {"spec": {"template": template(restartPolicy="Never"), **spec}}


def cron(**spec: object) -> Object:
    return {
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}, **spec}
    }


def webhook(**more: object) -> Object:
    plain = {
        "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"},
    }  # fmt: skip
    return {"webhooks": [plain | more]}


BACKEND: Object = {"service": {"name": "s", "port": {"number": 80}}}
IN_TEMPLATE = "spec.template.spec.containers[0]"

CASES: list[tuple[Kind, Object, list[tuple[str, str]]]] = [
    (
        builtin.Deployment,
        deployment(replicas=-1),
        [("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")],
    ),
    (
        builtin.Deployment,
        deployment(selector=None),
        [
            ("spec.selector", "Required value"),
            ("spec.template.metadata.labels", 'Invalid value: {"a":"b"}: `selector` does not match template `labels`'),
        ],
    ),
    (
        builtin.Deployment,
        deployment(selector={}),
        [("spec.selector", "Invalid value: {}: empty selector is invalid for deployment")],
    ),
    (
        builtin.Deployment,
        deployment(strategy={"type": "Recreate", "rollingUpdate": {}}),
        [("spec.strategy.rollingUpdate", "Forbidden: may not be specified when strategy `type` is 'Recreate'")],
    ),
    (
        builtin.Deployment,
        deployment(strategy={"type": "Other"}),
        [
            (
                "spec.strategy",
                'Unsupported value: {"Type":"Other","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"',
            )
        ],
    ),
    (
        builtin.Deployment,
        deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        [("spec.strategy.rollingUpdate.maxUnavailable", "Invalid value: 0: may not be 0 when `maxSurge` is 0")],
    ),
    (
        builtin.Deployment,
        deployment(template=template(restartPolicy="Never")),
        [("spec.template.spec.restartPolicy", 'Unsupported value: "Never": supported values: "Always"')],
    ),
    (
        builtin.Deployment,
        deployment(template=template(containers=[])),
        [("spec.template.spec.containers", "Required value")],
    ),
    (
        builtin.Deployment,
        deployment(template=container(image="")),
        [(f"{IN_TEMPLATE}.image", "Required value")],
    ),
    (
        builtin.Deployment,
        deployment(template=container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}])),
        [(f"{IN_TEMPLATE}.ports[1].name", 'Duplicate value: "a"')],
    ),
    (
        builtin.Deployment,
        deployment(template=container(ports=[{"containerPort": 70000}])),
        [(f"{IN_TEMPLATE}.ports[0].containerPort", "Invalid value: 70000: must be between 1 and 65535, inclusive")],
    ),
    (
        builtin.Deployment,
        deployment(template=container(volumeMounts=[{"name": "v", "mountPath": "/x"}])),
        [(f"{IN_TEMPLATE}.volumeMounts[0].name", 'Not found: "v"')],
    ),
    (
        builtin.Deployment,
        deployment(template=container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
        [(f"{IN_TEMPLATE}.resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1')],
    ),
    (
        builtin.Deployment,
        deployment(template=container(livenessProbe={"tcpSocket": {"port": 1}, "exec": {"command": ["x"]}})),
        [(f"{IN_TEMPLATE}.livenessProbe.tcpSocket", "Forbidden: may not specify more than 1 handler type")],
    ),
    (
        builtin.Deployment,
        deployment(template=container(readinessProbe={})),
        [(f"{IN_TEMPLATE}.readinessProbe", "Required value: must specify a handler type")],
    ),
    (
        builtin.Deployment,
        deployment(
            template=container(
                env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            )
        ),
        [(f"{IN_TEMPLATE}.env[0].valueFrom", 'Invalid value: "": may not be specified when `value` is not empty')],
    ),
    (
        builtin.Deployment,
        deployment(template=template(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}])),
        [("spec.template.spec.volumes[0].hostPath", "Forbidden: may not specify more than 1 volume type")],
    ),
    (
        builtin.StatefulSet,
        {"spec": {"selector": SELECTOR, "template": template(), "podManagementPolicy": "x"}},
        [("spec.podManagementPolicy", "Invalid value: \"x\": must be 'OrderedReady' or 'Parallel'")],
    ),
    (
        builtin.Job,
        job(backoffLimit=-1),
        [("spec.backoffLimit", "Invalid value: -1: must be greater than or equal to 0")],
    ),
    (
        builtin.Job,
        job(template=template()),
        [("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"')],
    ),
    (
        builtin.Job,
        job(backoffLimitPerIndex=1),
        [("spec.backoffLimitPerIndex", "Invalid value: 1: requires indexed completion mode")],
    ),
    (
        builtin.CronJob,
        cron(schedule="61 * * * *"),
        [("spec.schedule", 'Invalid value: "61 * * * *": end of range (61) above maximum (59): 61')],
    ),
    (
        builtin.CronJob,
        cron(schedule="x"),
        [("spec.schedule", 'Invalid value: "x": expected exactly 5 fields, found 1: [x]')],
    ),
    (
        builtin.CronJob,
        cron(timeZone="Mars/One"),
        [("spec.timeZone", 'Invalid value: "Mars/One": unknown time zone Mars/One')],
    ),
    (builtin.Service, {"spec": {"ports": []}}, [("spec.ports", "Required value")]),
    (
        builtin.Service,
        {"spec": {"clusterIP": "None", "ports": [{"port": 80}, {"port": 81}]}},
        [("spec.ports[0].name", "Required value"), ("spec.ports[1].name", "Required value")],
    ),
    (builtin.Service, {"spec": {"type": "ExternalName"}}, [("spec.externalName", "Required value")]),
    (
        builtin.Service,
        {"spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 80}]}},
        [
            (
                "spec.clusterIPs",
                'Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range',
            )
        ],
    ),
    (
        builtin.Service,
        {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}},
        [
            (
                "spec.ports[0].nodePort",
                "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
            )
        ],
    ),
    (
        builtin.ConfigMap,
        {"data": {"a b": "c"}},
        [
            (
                "data[a b]",
                "Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
                "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            )
        ],
    ),
    (
        builtin.Secret,
        {"type": "kubernetes.io/tls"},
        [("data[tls.crt]", "Required value"), ("data[tls.key]", "Required value")],
    ),
    (
        builtin.PersistentVolumeClaim,
        {"spec": {}},
        [
            ("spec.accessModes", "Required value: at least 1 access mode is required"),
            ("spec.resources[storage]", "Required value"),
        ],
    ),
    (
        builtin.Ingress,
        {"spec": {}},
        [("spec", "Invalid value: null: either `defaultBackend` or `rules` must be specified")],
    ),
    (
        builtin.Ingress,
        {"spec": {"rules": [{"http": {"paths": [{"path": "x", "pathType": "Prefix", "backend": BACKEND}]}}]}},
        [("spec.rules[0].http.paths[0].path", 'Invalid value: "x": must be an absolute path')],
    ),
    (
        builtin.NetworkPolicy,
        {
            "spec": {
                "podSelector": {},
                "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}],
            }
        },
        [
            (
                "spec.ingress[0].from[0].ipBlock.except[0]",
                'Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
            )
        ],
    ),
    (
        builtin.NetworkPolicy,
        {"spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
        [
            (
                "spec.podSelector.matchExpressions[0].values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            )
        ],
    ),
    (
        builtin.PodDisruptionBudget,
        {"spec": {"minAvailable": "101%"}},
        [("spec.minAvailable", 'Invalid value: "101%": must not be greater than 100%')],
    ),
    (
        builtin.Lease,
        {"spec": {"leaseDurationSeconds": 0}},
        [("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")],
    ),
    (
        builtin.Role,
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        [("rules[0].nonResourceURLs", 'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs')],
    ),
    (
        builtin.RoleBinding,
        {"roleRef": {"kind": "Other", "name": "x"}},
        [("roleRef.kind", 'Unsupported value: "Other": supported values: "Role", "ClusterRole"')],
    ),
    (
        builtin.EndpointSlice,
        {"addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]},
        [
            (
                "endpoints[0].addresses[0]",
                'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            )
        ],
    ),
    (
        builtin.ValidatingWebhookConfiguration,
        webhook(timeoutSeconds=31),
        [("webhooks[0].timeoutSeconds", "Invalid value: 31: the timeout value must be between 1 and 30 seconds")],
    ),
    (
        builtin.ValidatingWebhookConfiguration,
        webhook(clientConfig={}),
        [("webhooks[0].clientConfig", "Required value: exactly one of url or service is required")],
    ),
    (
        builtin.ValidatingWebhookConfiguration,
        webhook(name="short"),
        [
            (
                "webhooks[0].name",
                'Invalid value: "short": should be a domain with at least three segments separated by dots',
            )
        ],
    ),
    (
        builtin.PriorityClass,
        {"value": 2000000000},
        [("value", "Forbidden: maximum allowed value of a user defined priority is 1000000000")],
    ),
]


@pytest.mark.parametrize(
    ("kind", "body", "causes"), CASES, ids=lambda value: value.kind if isinstance(value, Kind) else ""
)
async def test_refused_at_creation(api: Api, kind: Kind, body: Object, causes: list[tuple[str, str]]) -> None:
    namespace = await api.namespace() if kind.namespaced else ""
    answer = await call(api, "POST", kind.path(namespace), {"metadata": {"name": "zz-bad"}} | body)
    assert (answer.status, answer.reason) == (422, "Invalid"), answer.body
    assert sorted(answer.causes) == sorted(causes)
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    assert answer.message.startswith(f'{title} "zz-bad" is invalid: ')
    assert answer.body["details"]["kind"] == kind.kind


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            deployment(replicas="x"),
            "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            deployment(replicas=1.5),
            "cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            deployment(template=container(ports=[{"containerPort": "x"}])),
            "cannot unmarshal string into Go struct field ContainerPort.spec.template.spec.containers.ports.containerPort of "
            "type int32",
        ),
        ({"spec": []}, "cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
    ],
)
async def test_wrong_types_are_a_bad_request(api: Api, body: Object, why: str) -> None:
    path = builtin.Deployment.path(await api.namespace())
    answer = await call(api, "POST", path, {"metadata": {"name": "a"}} | body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == f'Deployment in version "v1" cannot be handled as a Deployment: json: {why}'


async def test_bad_quantity_is_a_bad_request(api: Api) -> None:
    path = builtin.Deployment.path(await api.namespace())
    body = {"metadata": {"name": "a"}} | deployment(template=container(resources={"limits": {"cpu": "much"}}))
    answer = await call(api, "POST", path, body)
    assert answer.status == 400
    assert "quantities must match the regular expression" in answer.message


async def changed(api: Api, kind: Kind, body: Object, change: Object, subresource: str = "") -> Answer:
    """The answer to a merge patch of a fresh object."""
    namespace = await api.namespace() if kind.namespaced else ""
    made = await call(api, "POST", kind.path(namespace), {"metadata": {"name": "a"}} | body)
    assert made.status == 201, made.body
    return await call(api, "PATCH", kind.path(namespace, "a", subresource), change, type=MERGE)


@pytest.mark.parametrize(
    ("kind", "body", "change", "field", "message"),
    [
        pytest.param(
            builtin.Deployment,
            deployment(),
            {"spec": {"selector": {"matchLabels": {"c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}}},
            "spec.selector",
            'Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable',
            id="deployment selector",
        ),
        pytest.param(
            builtin.StatefulSet,
            {"spec": {"selector": SELECTOR, "template": template(), "serviceName": "x"}},
            {"spec": {"serviceName": "y"}},
            "spec.serviceName",
            'Invalid value: "y": field is immutable',
            id="stateful set service",
        ),
        pytest.param(
            builtin.Job,
            job(),
            {"spec": {"completions": 2}},
            "spec.completions",
            "Invalid value: 2: field is immutable",
            id="job",
        ),
        pytest.param(
            builtin.Secret,
            {"immutable": True, "data": {"a": "Yg=="}},
            {"data": {"a": "Yw=="}},
            "data",
            "Forbidden: field is immutable when `immutable` is set",
            id="immutable secret",
        ),
        pytest.param(
            builtin.Secret, {}, {"type": "x"}, "type", 'Invalid value: "x": field is immutable', id="secret type"
        ),
        pytest.param(
            builtin.ConfigMap,
            {"immutable": True},
            {"immutable": None},
            "immutable",
            "Forbidden: field is immutable when `immutable` is set",
            id="immutable config map",
        ),
        pytest.param(
            builtin.RoleBinding,
            {"roleRef": {"kind": "Role", "name": "r"}},
            {"roleRef": {"name": "q"}},
            "roleRef",
            'Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"q"}: field is immutable',
            id="role reference",
        ),
        pytest.param(
            builtin.EndpointSlice,
            {"addressType": "IPv4"},
            {"addressType": "IPv6"},
            "addressType",
            "Invalid value: null: field is immutable",
            id="address type",
        ),
    ],
)
async def test_what_may_not_change(
    api: Api, kind: Kind, body: Object, change: Object, field: str, message: str
) -> None:
    answer = await changed(api, kind, body, change)
    assert answer.status == 422, answer.body
    assert (field, message) in answer.causes


async def test_address_of_a_service_may_not_change(api: Api) -> None:
    answer = await changed(api, builtin.Service, {"spec": {"ports": [{"port": 80}]}}, {"spec": {"clusterIP": "None"}})
    assert answer.causes == [("spec.clusterIPs[0]", 'Invalid value: ["None"]: may not change once set')]


async def test_job_template_may_not_change(api: Api) -> None:
    change = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    answer = await changed(api, builtin.Job, job(), change)
    assert [field for field, _ in answer.causes] == ["spec.template"]
    assert answer.message.endswith(": field is immutable")


async def test_claim_may_not_change_before_it_is_bound(api: Api) -> None:
    body = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    change = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    answer = await changed(api, builtin.PersistentVolumeClaim, body, change)
    assert [field for field, _ in answer.causes] == ["spec"]
    assert "spec is immutable after creation except resources.requests" in answer.message


POD: Object = {
    "spec": {"containers": [{"name": "c", "image": "x:1"}], "tolerations": [{"key": "x", "operator": "Exists"}]}
}


class TestPods:
    async def test_deadline_may_be_set(self, api: Api) -> None:
        change = {"spec": {"activeDeadlineSeconds": 100}}
        answer = await changed(api, builtin.Pod, POD, change)
        assert answer.status == 200
        assert answer.body["metadata"]["generation"] == 2

    async def test_other_fields_may_not(self, api: Api) -> None:
        answer = await changed(api, builtin.Pod, POD, {"spec": {"hostname": "x"}})
        assert [field for field, _ in answer.causes] == ["spec"]
        assert "pod updates may not change fields other than `spec.containers[*].image`" in answer.message

    async def test_tolerations_may_only_be_added(self, api: Api) -> None:
        answer = await changed(api, builtin.Pod, POD, {"spec": {"tolerations": []}})
        message = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        assert ("spec.tolerations", message) in answer.causes

    async def test_quality_of_service_may_not_change(self, api: Api) -> None:
        answer = await changed(api, builtin.Pod, POD, {"status": {"qosClass": "Guaranteed"}}, "status")
        assert answer.causes == [("status.qosClass", 'Invalid value: "Guaranteed": field is immutable')]


async def test_two_services_cannot_have_one_address(api: Api) -> None:
    namespace = await api.namespace()
    path = builtin.Service.path(namespace)
    first = await call(api, "POST", path, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
    address = first.body["spec"]["clusterIP"]
    body = {"metadata": {"name": "b"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
    again = await call(api, "POST", path, body)
    why = f'Invalid value: ["{address}"]: failed to allocate IP {address}: provided IP is already allocated'
    assert again.causes == [("spec.clusterIPs", why)]
    await api.client.delete(builtin.Service, namespace, "a")
    assert (await call(api, "POST", path, body)).status == 201


async def test_loopback_endpoints_are_allowed_here_only(api: Api) -> None:
    namespace = await api.namespace()
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.2"]}]}
    answer = await call(api, "POST", builtin.EndpointSlice.path(namespace), body)
    assert answer.status == (422 if api.real else 201)


YAML_TWICE = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: twice}
data:
  a: one
  a: two
odd: 3
"""
REPEATED = 'yaml: unmarshal errors:\n  line 6: key "a" already set in map'


async def test_a_key_given_twice_in_yaml_is_told_by_its_line(api: Api) -> None:
    namespace = await api.namespace()
    path, yaml = builtin.ConfigMap.path(namespace), "application/yaml"
    refused = await call(api, "POST", path, YAML_TWICE, type=yaml, fieldValidation="Strict")
    assert refused.message.endswith(f'strict decoding error: {REPEATED}, unknown field "odd"')
    plain = YAML_TWICE.replace(b"odd: 3\n", b"")
    applied = await call(api, "PATCH", f"{path}/twice", plain, type=APPLY, fieldManager="me", fieldValidation="Strict")
    assert applied.message == f"error strict decoding patch: error converting YAML to JSON: {REPEATED}"
    warned = await call(api, "POST", path, plain, type=yaml, fieldValidation="Warn")
    assert warned.status == 201
    said = {name.lower(): value for name, value in warned.headers.items()}
    assert said["warning"] == '299 - "line 6: key \\"a\\" already set in map"'
    assert warned.body["data"] == {"a": "two"}
