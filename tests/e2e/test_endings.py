"""Everything that a user can make on a laptop can be deleted, and is really gone then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelyard.kube.openshift import PLATFORMS
from tests.e2e.laptop import Laptop

EXAMPLES = Path(__file__).parents[2] / "examples"
NAME = "ending"
POD: dict[str, Any] = {
    "containers": [{"name": "main", "image": "modelyard/http-echo:1"}],
    "terminationGracePeriodSeconds": 1,
}
TEMPLATE = {"metadata": {"labels": {"app": NAME}}, "spec": POD}
SELECTED = {"selector": {"matchLabels": {"app": NAME}}, "template": TEMPLATE}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
JOB = {"template": {"spec": POD | {"restartPolicy": "Never"}}}
NOBODY = {"matchLabels": {"app": "nobody"}}
HOOK = {
    "name": f"{NAME}.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "objectSelector": NOBODY,
}
WIDGETS = {
    "group": "ending.example.com",
    "scope": "Namespaced",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
}
GATEWAY = {"gatewayClassName": "modelyard", "listeners": [{"name": "https", "port": 443, "protocol": "HTTPS"}]}
BODIES: dict[str, dict[str, Any]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    },
    "rolebindings.rbac.authorization.k8s.io": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    },
    "controllerrevisions.apps": {"data": {}, "revision": 1},
    "cronjobs.batch": {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": JOB}}},
    "daemonsets.apps": {"spec": SELECTED},
    "deployments.apps": {"spec": SELECTED},
    "endpointslices.discovery.k8s.io": {"addressType": "IPv4", "endpoints": []},
    "gateways.gateway.networking.k8s.io": {"spec": GATEWAY},
    "httproutes.gateway.networking.k8s.io": {"spec": {}},
    "horizontalpodautoscalers.autoscaling": {
        "spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}}
    },
    "ingresses.networking.k8s.io": {"spec": {"defaultBackend": {"service": {"name": NAME, "port": {"number": 80}}}}},
    "ingressclasses.networking.k8s.io": {"spec": {"controller": "none.example.com/none"}},
    "jobs.batch": {"spec": JOB},
    "persistentvolumeclaims": {"spec": CLAIM},
    "persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Mi"},
            "hostPath": {"path": "/nowhere"},
            "storageClassName": NAME,
        }
    },
    "poddisruptionbudgets.policy": {"spec": {"selector": NOBODY}},
    "pods": {"spec": POD | {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": NAME}}]}},
    "podtemplates": {"template": TEMPLATE},
    "priorityclasses.scheduling.k8s.io": {"value": 1},
    "replicasets.apps": {"spec": SELECTED},
    "replicationcontrollers": {"spec": {"replicas": 0, "selector": {"app": NAME}, "template": TEMPLATE}},
    "runtimeclasses.node.k8s.io": {"handler": "none"},
    "services": {"spec": {"selector": {"app": NAME}, "ports": [{"port": 80}]}},
    "statefulsets.apps": {
        "spec": SELECTED
        | {"serviceName": NAME, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}]}
    },
    "storageclasses.storage.k8s.io": {"provisioner": "none.example.com/none"},
    "validatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [HOOK]},
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [HOOK]},
    "customresourcedefinitions.apiextensions.k8s.io": {"spec": WIDGETS},
}
"""What an object of a kind needs beside its name."""
NAMES = {"customresourcedefinitions.apiextensions.k8s.io": "widgets.ending.example.com"}
HOME = "opendatahub"
HOMES = {"modelregistries.modelregistry.opendatahub.io": HOME}
"""Kinds that the platform accepts in one namespace only."""
KEPT = (f"data-{NAME}-0", "mlflow-pvc")
"""Claims that hold a user's data and stay: those of a StatefulSet, and MLflow's."""
CATALOG = "model-catalog"
"""Runs wherever the model registry's operator does, whatever a user makes."""
ELSEWHERE = frozenset(
    ("namespaces", "nodes", "certificatesigningrequests.certificates.k8s.io", "events", "events.events.k8s.io")
)
"""Namespaces have a test of their own; the others report what programs saw, and no user makes them."""


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory, platform: str) -> Iterator[Laptop]:
    """With every operator, so that every kind is served."""
    folder = tmp_path_factory.mktemp("endings")
    cluster = Laptop(folder, kubectl_program, operators="mlflow,model-registry", platform=platform)
    cluster.start()
    yield cluster
    cluster.stop()


def makeable(laptop: Laptop) -> dict[str, dict[str, Any]]:
    """Every kind that can be created and deleted here, as `plural.group`, with how the server describes it."""
    found: dict[str, dict[str, Any]] = {}
    groups = json.loads(laptop.kubectl("get", "--raw", "/apis"))["groups"]
    preferred = [("", "v1", "/api/v1")]
    preferred += [
        (g["name"], g["preferredVersion"]["version"], f"/apis/{g['preferredVersion']['groupVersion']}") for g in groups
    ]
    for group, version, path in preferred:
        for resource in json.loads(laptop.kubectl("get", "--raw", path))["resources"]:
            if "/" in resource["name"] or not {"create", "delete", "get"} <= set(resource["verbs"]):
                continue
            name = f"{resource['name']}.{group}" if group else resource["name"]
            found[name] = resource | {"apiVersion": f"{group}/{version}" if group else version}
    return {name: resource for name, resource in found.items() if name not in ELSEWHERE}


def examples() -> dict[str, dict[str, Any]]:
    """The first object of each kind in the minimal examples."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(EXAMPLES.rglob("*minimal.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            found.setdefault(document["kind"], document)
    return found


def objects(laptop: Laptop, namespace: str) -> list[dict[str, Any]]:
    """One object of every kind that this laptop serves."""
    made = []
    given = examples()
    for name, resource in makeable(laptop).items():
        example = given.get(resource["kind"], {})
        body = BODIES.get(name) or {field: value for field, value in example.items() if field == "spec"}
        metadata = {"name": NAMES.get(name) or example.get("metadata", {}).get("name", NAME)}
        if resource["namespaced"]:
            metadata["namespace"] = HOMES.get(name, namespace)
        made.append({"apiVersion": resource["apiVersion"], "kind": resource["kind"], "metadata": metadata, **body})
    return made


def listed(things: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": things})


@pytest.mark.platforms(*PLATFORMS)
def test_one_of_everything_can_be_made_and_deleted_and_made_again(laptop: Laptop, ns: str) -> None:
    """Once in the middle of starting, once after MLflow and the registry's database are there."""
    things = objects(laptop, ns)
    assert len(things) > 30
    for grown in (False, True):
        laptop.kubectl("apply", "-f", "-", input=listed(things))
        laptop.wait(lambda: bound(laptop, ns) and running(laptop, ns), "the claim is bound and the pod runs")
        if grown:
            laptop.kubectl("wait", "mlflow/mlflow", "--for=condition=Available", "--timeout=90s")
            laptop.kubectl("rollout", "status", "-n", HOME, "deployment/modelregistry-sample-postgres", "--timeout=90s")
        laptop.kubectl("delete", "-f", "-", "--timeout=60s", input=listed(things), timeout=90)
        laptop.wait(lambda: left(laptop, things) == "", "nothing is left")
        laptop.wait(lambda: children(laptop, ns) == set(KEPT), "no pod is left, and only the claims that stay")


@pytest.mark.platforms(*PLATFORMS)
def test_a_namespace_ends_with_everything_in_it(laptop: Laptop, ns: str) -> None:
    inside = [each for each in objects(laptop, ns) if each["metadata"].get("namespace") == ns]
    laptop.kubectl("apply", "-f", "-", input=listed(inside))
    laptop.wait(lambda: bound(laptop, ns) and running(laptop, ns), "the claim is bound and the pod runs")
    laptop.kubectl("delete", "namespace", ns, "--timeout=60s", timeout=90)
    laptop.wait(lambda: ns not in laptop.kubectl("get", "pv"), "its volumes have gone")


def bound(laptop: Laptop, namespace: str) -> bool:
    claim = laptop.get("pvc", NAME, "-n", namespace)
    return claim is not None and claim["status"].get("phase") == "Bound"


def running(laptop: Laptop, namespace: str) -> bool:
    pod = laptop.get("pod", NAME, "-n", namespace)
    return pod is not None and pod["status"].get("phase") == "Running"


def left(laptop: Laptop, things: list[dict[str, Any]]) -> str:
    return laptop.kubectl("get", "-f", "-", "--ignore-not-found", "-o", "name", input=listed(things)).strip()


def children(laptop: Laptop, namespace: str) -> set[str]:
    """The pods and claims that these objects brought with them."""
    found = [each["metadata"] for each in laptop.get("pods,pvc", "-A")["items"]]
    made = {each["name"] for each in found if each["namespace"] in (HOME, namespace)}
    return {name for name in made if not name.startswith(CATALOG)}


def test_what_a_user_defines_can_be_made_deleted_and_defined_again(laptop: Laptop, ns: str) -> None:
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.ending.example.com"},
        "spec": WIDGETS | {"names": names},
    }
    gadget = {"apiVersion": "ending.example.com/v1", "kind": "Gadget", "metadata": {"name": NAME, "namespace": ns}}
    for _ in range(2):
        laptop.kubectl("apply", "-f", "-", input=listed([definition]))
        laptop.kubectl("wait", "crd/gadgets.ending.example.com", "--for=condition=Established", "--timeout=30s")
        laptop.apply(json.dumps(gadget))
        laptop.kubectl("delete", "gadget", NAME, "-n", ns, "--timeout=30s", timeout=60)
        laptop.apply(json.dumps(gadget))
        laptop.kubectl("delete", "crd", "gadgets.ending.example.com", "--timeout=30s", timeout=60)
        said = laptop.kubectl("get", "--raw", "/apis/ending.example.com/v1/gadgets", code=None)
        assert "could not find the requested resource" in said


def test_mlflow_comes_back_after_its_claim_was_deleted(laptop: Laptop) -> None:
    mlflow = examples()["MLflow"]
    laptop.apply(json.dumps(mlflow))
    laptop.kubectl("wait", "mlflow/mlflow", "--for=condition=Available", "--timeout=90s")
    claims = [claim["metadata"] for claim in laptop.get("pvc", "-A")["items"]]
    home = next(claim["namespace"] for claim in claims if claim["name"] == "mlflow-pvc")
    laptop.kubectl("delete", "mlflow", "mlflow", "--timeout=60s", timeout=90)
    laptop.kubectl("delete", "pvc", "mlflow-pvc", "-n", home, "--timeout=60s", timeout=90)
    laptop.apply(json.dumps(mlflow))
    laptop.kubectl("wait", "mlflow/mlflow", "--for=condition=Available", "--timeout=90s")
    laptop.kubectl("delete", "mlflow", "mlflow", "--timeout=60s", timeout=90)
    laptop.kubectl("delete", "pvc", "mlflow-pvc", "-n", home, "--timeout=60s", timeout=90)
