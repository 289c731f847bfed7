"""The Python clients that people use, each with a short real program on our API server."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.e2e.conftest import Kubectl, wait_until


def run(program: str, kubeconfig: Path, tmp_path: Path) -> str:
    """A program in a process of its own: the libraries keep state of their own."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(file), str(kubeconfig)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kubernetes_client(kubectl: Kubectl, apiserver: Path, tmp_path: Path) -> None:
    said = run(
        """
        import sys, threading
        from kubernetes import client, config, watch
        config.load_kube_config(sys.argv[1])
        core, apps = client.CoreV1Api(), client.AppsV1Api()
        core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="official")))
        core.create_namespaced_config_map("official", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="cm"), data={"a": "1"}))
        container = client.V1Container(name="main", image="web:1")
        template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "w"}), spec=client.V1PodSpec(containers=[container]))
        spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels={"app": "w"}), template=template)
        apps.create_namespaced_deployment("official", client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
        apps.patch_namespaced_deployment_scale("web", "official", {"spec": {"replicas": 3}})
        print("replicas", apps.read_namespaced_deployment("web", "official").spec.replicas)
        core.patch_namespaced_config_map("cm", "official", {"data": {"b": "2"}})
        seen = []
        w = watch.Watch()
        for event in w.stream(core.list_namespaced_config_map, "official", timeout_seconds=5):
            seen.append((event["type"], event["object"].metadata.name))
            if ("ADDED", "cm") in seen:
                w.stop()
        print("watched", ("ADDED", "cm") in seen)
        dyn = client.CustomObjectsApi()
        print("version", client.VersionApi().get_code().git_version)
        try:
            core.read_namespaced_config_map("absent", "official")
        except client.ApiException as error:
            print("status", error.status, error.reason)
        core.delete_namespaced_config_map("cm", "official")
        """,
        apiserver,
        tmp_path,
    )
    assert "replicas 3" in said
    assert "watched True" in said
    assert "status 404 Not Found" in said


def test_kr8s(kubectl: Kubectl, apiserver: Path, tmp_path: Path) -> None:
    said = run(
        """
        import sys, kr8s
        from kr8s.objects import ConfigMap, Deployment, Namespace
        api = kr8s.api(kubeconfig=sys.argv[1])
        Namespace({"metadata": {"name": "kr8s"}}, api=api).create()
        cm = ConfigMap({"metadata": {"name": "cm", "namespace": "kr8s"}, "data": {"a": "1"}}, api=api)
        cm.create()
        cm.patch({"data": {"b": "2"}})
        cm.label({"x": "y"})
        found = list(api.get("configmaps", namespace="kr8s", label_selector="x=y"))
        print("found", [(c.name, dict(c.data)) for c in found])
        cm.delete()
        print("exists", cm.exists())
        """,
        apiserver,
        tmp_path,
    )
    assert "found [('cm', {'a': '1', 'b': '2'})]" in said
    assert "exists False" in said


def test_lightkube(kubectl: Kubectl, apiserver: Path, tmp_path: Path) -> None:
    said = run(
        """
        import sys
        from lightkube import Client, KubeConfig
        from lightkube.generic_resource import create_namespaced_resource
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap, Namespace
        client = Client(config=KubeConfig.from_file(sys.argv[1]), field_manager="lightkube")
        client.create(Namespace(metadata=ObjectMeta(name="lightkube")))
        client.apply(ConfigMap(metadata=ObjectMeta(name="cm", namespace="lightkube"), data={"a": "1"}))
        client.apply(ConfigMap(metadata=ObjectMeta(name="cm", namespace="lightkube"), data={"a": "2"}))
        print("data", client.get(ConfigMap, "cm", namespace="lightkube").data)
        for op, obj in client.watch(ConfigMap, namespace="lightkube", server_timeout=5):
            if obj.metadata.name == "cm":
                print("watched", op)
                break
        client.delete(ConfigMap, "cm", namespace="lightkube")
        """,
        apiserver,
        tmp_path,
    )
    assert "data {'a': '2'}" in said
    assert "watched ADDED" in said


OPERATOR = """
import kopf

@kopf.on.create("kopf.example.com", "v1", "greetings")
def create(spec, name, namespace, logger, **_):
    logger.info("greeting %s", spec.get("who"))
    return {"said": "hello " + spec.get("who", "")}

@kopf.on.delete("kopf.example.com", "v1", "greetings")
def delete(**_):
    pass
"""
KOPF_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.kopf.example.com}
spec:
  group: kopf.example.com
  scope: Namespaced
  names: {plural: greetings, singular: greeting, kind: Greeting}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {who: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def test_a_kopf_operator(kubectl: Kubectl, apiserver: Path, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", input=KOPF_CRD)
    kubectl("wait", "--for=condition=Established", "crd/greetings.kopf.example.com", "--timeout=30s")
    (tmp_path / "operator.py").write_text(OPERATOR)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "-A", "--standalone", str(tmp_path / "operator.py")],
            env={"KUBECONFIG": str(apiserver), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            stdout=log,
            stderr=log,
        )
    try:
        kubectl("create", "namespace", "kopf")
        greeting = "apiVersion: kopf.example.com/v1\nkind: Greeting\nmetadata: {name: g}\nspec: {who: world}\n"
        kubectl("apply", "-n", "kopf", "-f", "-", input=greeting)
        wait_until(
            lambda: (
                "hello world" in kubectl("get", "greeting", "g", "-n", "kopf", "-o", "jsonpath={.status.create.said}")
            ),
            f"kopf handled the creation: {(tmp_path / 'log').read_text(errors='replace')[-2000:]}",
            alive=process,
        )
        kubectl("delete", "greeting", "g", "-n", "kopf", "--timeout=60s")
    finally:
        process.terminate()
        process.wait(30)
