"""AppWrappers on a laptop cluster: real pods that run, succeed, and fail once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.laptop import Laptop

Object = dict[str, Any]
HEAD = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper"}


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """A cluster with CodeFlare; AppWrappers are on without a word."""
    cluster = Laptop(tmp_path_factory.mktemp("codeflare"), kubectl_program, operators="codeflare")
    cluster.start()
    yield cluster
    cluster.stop()


def pod_spec(command: str, **more: Any) -> Object:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", command], **more}
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}


def wrapped(ns: str, name: str, *templates: Object, **annotations: str) -> str:
    given = {f"workload.codeflare.dev.appwrapper/{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": ns, "annotations": given}
    return json.dumps({**HEAD, "metadata": metadata, "spec": {"components": [{"template": t} for t in templates]}})


def phase(laptop: Laptop, ns: str, name: str) -> str:
    found = laptop.get("appwrapper", name, "-n", ns) or {}
    return str((found.get("status") or {}).get("phase") or "")


def left(laptop: Laptop, ns: str) -> list[str]:
    """What is in the namespace that an AppWrapper has made."""
    found = laptop.get("pods,jobs,deployments,services", "-n", ns, "-l", "workload.codeflare.dev/appwrapper") or {
        "items": []
    }
    return [f"{obj['kind']} {obj['metadata']['name']}" for obj in found["items"]]


def test_58_a_job_succeeds_and_a_deployment_with_its_service_runs(laptop: Laptop, ns: str) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work"},
        "spec": {"template": {"spec": pod_spec("echo done")}},
    }
    laptop.apply(wrapped(ns, "once", job))
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec("sleep 1000") | {"restartPolicy": "Always"}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80}]},
    }
    laptop.apply(wrapped(ns, "serving", web, service))
    laptop.wait(lambda: phase(laptop, ns, "once") == "Succeeded", "the job has succeeded")
    laptop.kubectl("wait", "appwrapper/serving", "-n", ns, "--for=condition=PodsReady", "--timeout=60s")
    assert phase(laptop, ns, "serving") == "Running"
    laptop.kubectl("delete", "appwrapper", "--all", "-n", ns)
    assert left(laptop, ns) == []


def test_a_pair_of_pods_that_fails_once_is_tried_again(laptop: Laptop, ns: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "memory", "namespace": ns},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    laptop.apply(json.dumps(claim))
    once = pod_spec(
        "test -e /memory/failed || { touch /memory/failed; exit 3; }",
        volumeMounts=[{"name": "memory", "mountPath": "/memory"}],
    )
    once["volumes"] = [{"name": "memory", "persistentVolumeClaim": {"claimName": "memory"}}]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("master", once), ("worker", pod_spec("sleep 1")))
    ]
    laptop.apply(wrapped(ns, "pair", *pods, failureGracePeriodDuration="0s", retryPausePeriodDuration="1s"))
    laptop.wait(lambda: phase(laptop, ns, "pair") == "Succeeded", "the second try has succeeded")
    found = laptop.get("appwrapper", "pair", "-n", ns)
    assert found["status"]["resettingCount"] == 1
    laptop.kubectl("delete", "appwrapper", "pair", "-n", ns)
    assert left(laptop, ns) == []
