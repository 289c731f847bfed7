"""Tables: the columns and cells that kubectl prints."""

from __future__ import annotations

import base64
import os
import re
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from modelyard.kube.builtin import (
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    CronJob,
    CustomResourceDefinition,
    DaemonSet,
    Deployment,
    Endpoints,
    Ingress,
    Job,
    Lease,
    Namespace,
    NetworkPolicy,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet,
    StorageClass,
)
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import call
from tests.cluster.api.definitions import definition, install, spec, version
from tests.cluster.conftest import Api

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGE = re.compile(r"\d+[smhd](\d+[smh])?")
TEMPLATE: Object = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]},
}
SELECTOR = {"matchLabels": {"a": "b"}}
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
SIGNING_REQUEST = Kind(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False
)


async def table(api: Api, kind: Kind, namespace: str = "", name: str = "", **query: str) -> Object:
    body: Object = (await call(api, "GET", kind.path(namespace, name), accept=TABLE, **query)).body
    assert (body["kind"], body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    return body


async def rows(api: Api, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
    """Each row as cells by column; ages are checked and cut out."""
    body = await table(api, kind, namespace)
    names = [column["name"] for column in body["columnDefinitions"]]
    found = []
    for row in body["rows"]:
        cells = dict(zip(names, row["cells"], strict=True))
        if "Age" in cells:
            assert AGE.fullmatch(cells.pop("Age"))
        found.append(cells)
    return found


async def test_pods(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Pod, {"metadata": {"name": "p", "namespace": namespace}, "spec": TEMPLATE["spec"] | {"serviceAccountName": "default"}})  # fmt: skip
    assert await rows(api, Pod, namespace) == [
        {
            "Name": "p", "Ready": "0/2", "Status": "Pending", "Restarts": "0", "IP": "<none>", "Node": "<none>",
            "Nominated Node": "<none>", "Readiness Gates": "<none>",
        }
    ]  # fmt: skip
    status = {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.1",
        "containerStatuses": [
            {"name": "c", "ready": True, "restartCount": 1, "image": "i", "imageID": "", "state": {"running": {}}},
            {
                "name": "d", "ready": False, "restartCount": 2, "image": "j", "imageID": "",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            },
        ],
    }  # fmt: skip
    await api.client.patch(Pod, namespace, "p", {"status": status}, subresource="status")
    [row] = await rows(api, Pod, namespace)
    assert (row["Ready"], row["Status"], row["Restarts"], row["IP"]) == ("1/2", "CrashLoopBackOff", "3", "10.0.0.1")


async def test_workloads(api: Api) -> None:
    namespace = await api.namespace()
    metadata = {"name": "w", "namespace": namespace}
    wide = {"Containers": "c,d", "Images": "i,j", "Selector": "a=b"}
    body = {"selector": SELECTOR, "template": TEMPLATE}
    for kind in (Deployment, ReplicaSet, DaemonSet):
        await api.client.create(kind, {"metadata": metadata, "spec": body})
    await api.client.create(StatefulSet, {"metadata": metadata, "spec": body | {"serviceName": "s", "replicas": 3}})
    assert await rows(api, Deployment, namespace) == [
        {"Name": "w", "Ready": "0/1", "Up-to-date": 0, "Available": 0} | wide
    ]
    assert await rows(api, ReplicaSet, namespace) == [{"Name": "w", "Desired": 1, "Current": 0, "Ready": 0} | wide]
    assert await rows(api, StatefulSet, namespace) == [
        {"Name": "w", "Ready": "0/3", "Containers": "c,d", "Images": "i,j"}
    ]
    assert await rows(api, DaemonSet, namespace) == [
        {
            "Name": "w",
            "Desired": 0,
            "Current": 0,
            "Ready": 0,
            "Up-to-date": 0,
            "Available": 0,
            "Node Selector": "<none>",
        }
        | wide
    ]


async def test_jobs(api: Api) -> None:
    namespace = await api.namespace()
    pod = {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
    await api.client.create(
        Job, {"metadata": {"name": "j", "namespace": namespace}, "spec": {"template": pod, "suspend": True}}
    )
    [row] = await rows(api, Job, namespace)
    assert (row["Completions"], row["Duration"], row["Containers"]) == ("0/1", "", "c,d")
    assert row["Status"] in ("Running", "Suspended")
    job = {"spec": {"template": pod}}
    await api.client.create(
        CronJob,
        {
            "metadata": {"name": "c", "namespace": namespace},
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": job, "suspend": True},
        },
    )
    assert await rows(api, CronJob, namespace) == [
        {
            "Name": "c", "Schedule": "0 0 1 1 *", "Timezone": "<none>", "Suspend": "True", "Active": 0,
            "Last Schedule": "<none>", "Containers": "c,d", "Images": "i,j", "Selector": "<none>",
        }
    ]  # fmt: skip


async def test_services(api: Api) -> None:
    namespace = await api.namespace()
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "protocol": "UDP"}]
    await api.client.create(
        Service, {"metadata": {"name": "a", "namespace": namespace}, "spec": {"ports": ports, "selector": {"x": "y"}}}
    )
    await api.client.create(
        Service, {"metadata": {"name": "b", "namespace": namespace}, "spec": {"clusterIP": "None", "ports": ports[:1]}}
    )
    external = {"type": "ExternalName", "externalName": "example.com"}
    await api.client.create(Service, {"metadata": {"name": "c", "namespace": namespace}, "spec": external})
    first, second, third = await rows(api, Service, namespace)
    assert first.pop("Cluster-IP")
    assert first == {
        "Name": "a", "Type": "ClusterIP", "External-IP": "<none>", "Port(s)": "80/TCP,81/UDP", "Selector": "x=y",
    }  # fmt: skip
    assert (second["Cluster-IP"], second["Port(s)"], second["Selector"]) == ("None", "80/TCP", "<none>")
    assert (third["Type"], third["Cluster-IP"], third["External-IP"]) == ("ExternalName", "<none>", "example.com")


async def test_endpoints_show_three_addresses(api: Api) -> None:
    namespace = await api.namespace()
    addresses = [{"ip": f"10.1.1.{n}"} for n in range(1, 5)]
    await api.client.create(
        Endpoints,
        {
            "metadata": {"name": "e", "namespace": namespace},
            "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}],
        },
    )
    assert await rows(api, Endpoints, namespace) == [
        {"Name": "e", "Endpoints": "10.1.1.1:80,10.1.1.2:80,10.1.1.3:80 + 1 more..."}
    ]


async def test_configuration(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, {"metadata": {"name": "c", "namespace": namespace}, "data": {"a": "", "b": ""}})
    await api.client.create(Secret, {"metadata": {"name": "s", "namespace": namespace}, "stringData": {"a": "x"}})
    assert {"Name": "c", "Data": 2} in await rows(api, ConfigMap, namespace)
    assert {"Name": "s", "Type": "Opaque", "Data": 1} in await rows(api, Secret, namespace)
    await api.client.create(ServiceAccount, {"metadata": {"name": "sa", "namespace": namespace}})
    assert {"Name": "sa"} in await rows(api, ServiceAccount, namespace)
    assert {"Name": namespace, "Status": "Active"} in await rows(api, Namespace)


async def test_policies_and_storage(api: Api) -> None:
    namespace = await api.namespace()
    metadata = {"name": "x", "namespace": namespace}
    await api.client.create(NetworkPolicy, {"metadata": metadata, "spec": {"podSelector": SELECTOR}})
    assert await rows(api, NetworkPolicy, namespace) == [{"Name": "x", "Pod-Selector": "a=b"}]
    await api.client.create(
        PodDisruptionBudget, {"metadata": metadata, "spec": {"minAvailable": "50%", "selector": SELECTOR}}
    )
    assert await rows(api, PodDisruptionBudget, namespace) == [
        {"Name": "x", "Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 0}
    ]
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }
    await api.client.create(PersistentVolumeClaim, {"metadata": metadata, "spec": claim})
    assert await rows(api, PersistentVolumeClaim, namespace) == [
        {
            "Name": "x", "Status": "Pending", "Volume": "", "Capacity": "", "Access Modes": "", "StorageClass": "fast",
            "VolumeAttributesClass": "<unset>", "VolumeMode": "Filesystem",
        }
    ]  # fmt: skip
    await api.client.create(Lease, {"metadata": metadata, "spec": {"holderIdentity": "me"}})
    assert await rows(api, Lease, namespace) == [{"Name": "x", "Holder": "me"}]
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    await api.client.create(
        Ingress,
        {"metadata": metadata, "spec": {"defaultBackend": backend, "rules": [{"host": "a.example.com"}], "tls": [{}]}},
    )
    assert await rows(api, Ingress, namespace) == [
        {"Name": "x", "Class": "<none>", "Hosts": "a.example.com", "Address": "", "Ports": "80, 443"}
    ]
    cluster_name = f"x-{namespace}"
    await api.client.create(StorageClass, {"metadata": {"name": cluster_name}, "provisioner": "p"})
    assert {
        "Name": cluster_name, "Provisioner": "p", "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate",
        "AllowVolumeExpansion": False,
    } in await rows(api, StorageClass)  # fmt: skip
    await api.client.create(PriorityClass, {"metadata": {"name": cluster_name}, "value": 5})
    assert {
        "Name": cluster_name, "Value": 5, "Global-Default": False, "PreemptionPolicy": "PreemptLowerPriority",
    } in await rows(api, PriorityClass)  # fmt: skip


async def test_access_rules(api: Api) -> None:
    name = f"x-{await api.namespace()}"
    await api.client.create(ClusterRole, {"metadata": {"name": name}, "rules": []})
    [role] = [row for row in await rows(api, ClusterRole) if row["Name"] == name]
    assert list(role) == ["Name", "Created At"]
    subjects = [
        {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    await api.client.create(
        ClusterRoleBinding, {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    )
    assert {
        "Name": name, "Role": f"ClusterRole/{name}", "Users": "u", "Groups": "", "ServiceAccounts": "n/s",
    } in await rows(api, ClusterRoleBinding)  # fmt: skip


async def test_printer_columns(api: Api) -> None:
    columns: list[Object] = [
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "description": "how many"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
        {"name": "First", "type": "string", "jsonPath": ".spec.tags[0]"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.tags"},
    ]
    schema = spec(
        count={"type": "integer"}, on={"type": "boolean"}, since={"type": "string"},
        tags={"type": "array", "items": {"type": "string"}},
    )  # fmt: skip
    custom = await install(api, definition(version(schema=schema, additionalPrinterColumns=columns)))
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
    await custom.create(
        {"count": 3, "tags": ["a", "b"], "on": True, "since": "nonsense"}, status={"conditions": conditions}
    )
    await custom.create({}, name="y")
    body = await table(api, custom.kind, custom.namespace)
    assert [column["name"] for column in body["columnDefinitions"]] == ["Name", *(c["name"] for c in columns)]
    assert body["columnDefinitions"][1] == {
        "name": "Count", "type": "integer", "format": "", "description": "how many", "priority": 0,
    }  # fmt: skip
    assert body["columnDefinitions"][3]["priority"] == 1
    assert [row["cells"] for row in body["rows"]] == [
        ["x", 3, "True", '["a","b"]', "a", True, "<invalid>", None],
        ["y", None, None, None, None, None, None, None],
    ]


async def test_custom_resource_without_columns_shows_its_age(api: Api) -> None:
    custom = await install(api, definition())
    await custom.create()
    body = await table(api, custom.kind, custom.namespace)
    assert [(c["name"], c["type"]) for c in body["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    assert AGE.fullmatch(body["rows"][0]["cells"][1])


async def test_definitions(api: Api) -> None:
    custom = await install(api, definition(version("v1"), version("v2", spec(a={"type": "string"}), storage=False)))
    [row] = [row for row in await rows(api, CustomResourceDefinition) if row["Name"] == custom.name]
    del row["Created At"]
    assert row == {
        "Name": custom.name, "Scope": "Namespaced", "Versions": "v1(storage),v2", "Group": custom.kind.group,
        "Kind": custom.kind.kind, "ShortNames": "", "Established": True,
    }  # fmt: skip


async def test_rows_carry_metadata_the_object_or_nothing(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, {"metadata": {"name": "c", "namespace": namespace}, "data": {"a": "b"}})
    row = (await table(api, ConfigMap, namespace, "c"))["rows"][0]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "c")
    row = (await table(api, ConfigMap, namespace, "c", includeObject="Object"))["rows"][0]
    assert (row["object"]["kind"], row["object"]["data"]) == ("ConfigMap", {"a": "b"})
    row = (await table(api, ConfigMap, namespace, "c", includeObject="None"))["rows"][0]
    assert row["object"] is None


async def test_a_pod_that_is_over_says_so_in_its_row(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Pod, {"metadata": {"name": "p", "namespace": namespace}, "spec": TEMPLATE["spec"]})
    assert "conditions" not in (await table(api, Pod, namespace))["rows"][0]
    await api.client.patch(Pod, namespace, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert (await table(api, Pod, namespace))["rows"][0]["conditions"] == [
        {
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ]  # fmt: skip


async def test_the_newest_default_storage_class_is_marked_in_lists(api: Api) -> None:
    names = [f"class-{os.getpid()}-{letter}" for letter in "ab"]
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name in names:
        await api.client.create(
            StorageClass, {"metadata": {"name": name, "annotations": default}, "provisioner": "example.com/p"}
        )
    try:
        listed = [row["cells"][0] for row in (await table(api, StorageClass))["rows"]]
        # Within one second the first by name wins, after it the newer one.
        assert sum(cell == f"{name} (default)" for cell in listed for name in names) == 1
        assert (await table(api, StorageClass, "", names[0]))["rows"][0]["cells"][0] == names[0]
    finally:
        for name in names:
            await api.client.delete(StorageClass, "", name)


async def test_storage_drivers(api: Api) -> None:
    name = f"driver-{os.getpid()}.example.com"
    spec = {"attachRequired": False, "tokenRequests": [{"audience": "a"}, {"audience": "b"}]}
    await api.client.create(CSI_DRIVER, {"metadata": {"name": name}, "spec": spec})
    await api.client.create(
        CSI_NODE, {"metadata": {"name": name}, "spec": {"drivers": [{"name": name, "nodeID": "n"}]}}
    )
    try:
        [row] = [row for row in await rows(api, CSI_DRIVER) if row["Name"] == name]
        assert row == {
            "Name": name, "AttachRequired": False, "PodInfoOnMount": False, "StorageCapacity": False,
            "TokenRequests": "a,b", "RequiresRepublish": False, "Modes": "Persistent",
        }  # fmt: skip
        assert [row for row in await rows(api, CSI_NODE) if row["Name"] == name] == [{"Name": name, "Drivers": 1}]
    finally:
        await api.client.delete(CSI_DRIVER, "", name)
        await api.client.delete(CSI_NODE, "", name)


async def test_signing_requests(api: Api) -> None:
    name = f"request-{os.getpid()}"
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spec = {
        "signerName": "example.com/signer", "usages": ["client auth"], "expirationSeconds": 7200,
        "request": base64.b64encode(request.public_bytes(Encoding.PEM)).decode(),
    }  # fmt: skip
    await api.client.create(SIGNING_REQUEST, {"metadata": {"name": name}, "spec": spec})
    try:
        [row] = [row for row in await rows(api, SIGNING_REQUEST) if row["Name"] == name]
        assert row.pop("Requestor")
        assert row == {
            "Name": name, "SignerName": "example.com/signer", "RequestedDuration": "120m", "Condition": "Pending",
        }  # fmt: skip
    finally:
        await api.client.delete(SIGNING_REQUEST, "", name)


async def test_scales(api: Api) -> None:
    namespace = await api.namespace()
    spec = {"selector": SELECTOR, "template": TEMPLATE, "replicas": 3}
    await api.client.create(Deployment, {"metadata": {"name": "d", "namespace": namespace}, "spec": spec})
    body = (await call(api, "GET", Deployment.path(namespace, "d") + "/scale", accept=TABLE)).body
    assert [column["name"] for column in body["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert body["rows"][0]["cells"][:3] == ["d", 3, 0]
