"""kubectl on our API server, as a person uses it."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.e2e.conftest import Kubectl

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: web:1
        ports: [{containerPort: 8080}]
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A schedule of things to do.
        properties:
          spec:
            type: object
            required: [cronSpec]
            properties:
              cronSpec: {type: string, description: When to do it.}
              replicas: {type: integer, minimum: 1, default: 1}
    subresources:
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
      status: {}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
"""


@pytest.fixture
def ns(kubectl: Kubectl, request: pytest.FixtureRequest) -> str:
    name: str = "t-" + request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    kubectl("create", "namespace", name)
    return name


def test_client_side_apply_then_change_then_no_change(kubectl: Kubectl, ns: str) -> None:
    assert "deployment.apps/web created" in kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    assert "deployment.apps/web unchanged" in kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    changed = DEPLOYMENT.replace("web:1", "web:2")
    assert "deployment.apps/web configured" in kubectl("apply", "-n", ns, "-f", "-", input=changed)
    assert (
        kubectl("get", "deploy", "web", "-n", ns, "-o", "jsonpath={.spec.template.spec.containers[0].image}") == "web:2"
    )


def test_server_side_apply_and_its_conflicts(kubectl: Kubectl, ns: str) -> None:
    assert "serverside-applied" in kubectl("apply", "-n", ns, "--server-side", "-f", "-", input=DEPLOYMENT)
    changed = DEPLOYMENT.replace("replicas: 2", "replicas: 5")
    refused = kubectl("apply", "-n", ns, "--server-side", "--field-manager=other", "-f", "-", input=changed, code=1)
    assert 'conflict with "kubectl": .spec.replicas' in refused
    kubectl("apply", "-n", ns, "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", input=changed)
    assert kubectl("get", "deploy", "web", "-n", ns, "-o", "jsonpath={.spec.replicas}") == "5"


def test_client_side_apply_followed_by_server_side(kubectl: Kubectl, ns: str) -> None:
    kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    kubectl("apply", "-n", ns, "--server-side", "-f", "-", input=DEPLOYMENT.replace("web:1", "web:3"))
    assert (
        kubectl("get", "deploy", "web", "-n", ns, "-o", "jsonpath={.spec.template.spec.containers[0].image}") == "web:3"
    )


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", "NAME   READY   UP-TO-DATE   AVAILABLE   AGE"),
        ("wide", "CONTAINERS"),
        ("name", "deployment.apps/web"),
        ("yaml", "kind: Deployment"),
        ("json", '"kind": "Deployment"'),
        ("jsonpath={.metadata.name}", "web"),
        ("custom-columns=NAME:.metadata.name", "NAME"),
        ("go-template={{.metadata.name}}", "web"),
    ],
)
def test_get_in_every_format(kubectl: Kubectl, output: str, expected: str) -> None:
    kubectl("create", "namespace", "formats", code=None)
    kubectl("apply", "-n", "formats", "-f", "-", input=DEPLOYMENT)
    words = ["get", "deploy", "web", "-n", "formats", *(["-o", output] if output else [])]
    assert expected in kubectl(*words)


def test_get_all_and_selectors(kubectl: Kubectl, ns: str) -> None:
    kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    assert "deployment.apps/web" in kubectl("get", "all", "-n", ns)
    assert "web" in kubectl("get", "deploy", "-n", ns, "-l", "app=web")
    assert kubectl("get", "deploy", "-n", ns, "-l", "app=other", "-o", "name") == ""
    assert (
        kubectl("get", "deploy", "-n", ns, "--field-selector", "metadata.name=web", "-o", "name").strip()
        == "deployment.apps/web"
    )


def test_describe(kubectl: Kubectl, ns: str) -> None:
    kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    text = kubectl("describe", "deploy", "web", "-n", ns)
    assert "Replicas:" in text
    assert "web:1" in text
    assert "Name:" in kubectl("describe", "namespace", ns)


def test_explain_built_in_and_custom(kubectl: Kubectl) -> None:
    assert "KIND:       Deployment" in kubectl("explain", "deployment")
    assert "replicas" in kubectl("explain", "deployment.spec")
    kubectl("apply", "-f", "-", input=CRD)
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=30s")
    text = kubectl("explain", "crontab.spec")
    assert "cronSpec" in text
    assert "When to do it." in text


def test_custom_resources_with_columns_scale_and_short_names(kubectl: Kubectl, ns: str) -> None:
    kubectl("apply", "-f", "-", input=CRD)
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=30s")
    made = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: tick}\nspec: {cronSpec: '* * * * *'}\n"
    kubectl("apply", "-n", ns, "-f", "-", input=made)
    table = kubectl("get", "ct", "-n", ns)
    assert table.split("\n")[0].split() == ["NAME", "SPEC", "REPLICAS"]
    kubectl("scale", "ct/tick", "-n", ns, "--replicas=3")
    assert kubectl("get", "ct", "tick", "-n", ns, "-o", "jsonpath={.spec.replicas}") == "3"
    refused = kubectl("patch", "ct", "tick", "-n", ns, "--type=merge", "-p", '{"spec":{"replicas":0}}', code=1)
    assert "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1" in refused


def test_patch_label_annotate_scale(kubectl: Kubectl, ns: str) -> None:
    kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    kubectl(
        "patch",
        "deploy",
        "web",
        "-n",
        ns,
        "-p",
        '{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:9"}]}}}}',
    )
    kubectl(
        "patch",
        "deploy",
        "web",
        "-n",
        ns,
        "--type=json",
        "-p",
        '[{"op":"add","path":"/metadata/annotations/x","value":"y"}]',
    )
    kubectl("label", "deploy", "web", "-n", ns, "tier=front")
    kubectl("label", "deploy", "web", "-n", ns, "tier-")
    kubectl("annotate", "deploy", "web", "-n", ns, "note=hello", "--overwrite")
    kubectl("scale", "deploy", "web", "-n", ns, "--replicas=4")
    found = json.loads(kubectl("get", "deploy", "web", "-n", ns, "-o", "json"))
    assert found["spec"]["replicas"] == 4
    assert found["metadata"]["annotations"]["note"] == "hello"
    assert "tier" not in found["metadata"]["labels"]
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:9"


def test_diff_shows_what_apply_would_change(kubectl: Kubectl, ns: str) -> None:
    kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT)
    assert kubectl("diff", "-n", ns, "-f", "-", input=DEPLOYMENT) == ""
    text = kubectl("diff", "-n", ns, "-f", "-", input=DEPLOYMENT.replace("web:1", "web:2"), code=1)
    assert "+        - image: web:2".replace(" ", "") in text.replace(" ", "")


def test_wait_and_delete(kubectl: Kubectl, ns: str) -> None:
    kubectl("create", "configmap", "cm", "-n", ns, "--from-literal=a=b")
    kubectl("wait", "-n", ns, "--for=jsonpath={.data.a}=b", "configmap/cm", "--timeout=10s")
    assert 'configmap "cm" deleted' in kubectl("delete", "configmap", "cm", "-n", ns)
    assert "NotFound" in kubectl("get", "configmap", "cm", "-n", ns, code=1)


def test_a_namespace_goes_with_all_it_holds(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "doomed")
    kubectl("create", "configmap", "cm", "-n", "doomed")
    kubectl("delete", "namespace", "doomed", "--timeout=60s")
    assert "NotFound" in kubectl("get", "namespace", "doomed", code=1)


def test_auth_can_i_and_whoami(kubectl: Kubectl, ns: str) -> None:
    assert kubectl("auth", "can-i", "delete", "deployments").strip() == "yes"
    kubectl("create", "serviceaccount", "robot", "-n", ns)
    robot = f"--as=system:serviceaccount:{ns}:robot"
    assert kubectl("auth", "can-i", "list", "pods", "-n", ns, robot, code=1).startswith("no")
    kubectl("create", "rolebinding", "view", "-n", ns, "--clusterrole=view", f"--serviceaccount={ns}:robot")
    assert kubectl("auth", "can-i", "list", "pods", "-n", ns, robot).strip() == "yes"
    assert "system:masters" in kubectl("auth", "whoami")


def test_create_token(kubectl: Kubectl, ns: str) -> None:
    kubectl("create", "serviceaccount", "robot", "-n", ns)
    token = kubectl("create", "token", "robot", "-n", ns).strip()
    assert token.count(".") == 2
    assert "robot" in kubectl("auth", "whoami", f"--token={token}", "-o", "json", code=None)


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    text = kubectl("api-resources")
    for line in ("configmaps", "deployments", "cronjobs", "clusterrolebindings", "customresourcedefinitions"):
        assert line in text
    assert "apps/v1" in kubectl("api-versions")
    assert "deployments" in kubectl("api-resources", "--api-group=apps", "-o", "name")


def test_events(kubectl: Kubectl, ns: str) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": ns},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": ns, "apiVersion": "v1"},
        "reason": "Happened",
        "message": "something happened",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "test"},
    }
    kubectl("create", "-f", "-", input=yaml.safe_dump(event))
    assert "something happened" in kubectl("events", "-n", ns)
    assert "Happened" in kubectl("get", "events", "-n", ns)


def test_create_edit_replace_and_generators(kubectl: Kubectl, ns: str) -> None:
    kubectl("create", "secret", "generic", "s", "-n", ns, "--from-literal=k=v")
    kubectl("create", "service", "clusterip", "svc", "-n", ns, "--tcp=80:8080")
    kubectl("create", "job", "j", "-n", ns, "--image=web:1")
    kubectl("create", "cronjob", "c", "-n", ns, "--image=web:1", "--schedule=* * * * *")
    kubectl("create", "role", "r", "-n", ns, "--verb=get", "--resource=pods")
    assert "ClusterIP" in kubectl("get", "svc", "-n", ns)
    kubectl("expose", "-n", ns, "-f", "-", "--port=80", input=DEPLOYMENT, code=None)
    text = kubectl("get", "secret,svc,job,cronjob,role", "-n", ns, "-o", "name").split()
    assert {"secret/s", "service/svc", "job.batch/j", "cronjob.batch/c", "role.rbac.authorization.k8s.io/r"} <= set(
        text
    )


def test_a_typo_is_refused_with_its_path(kubectl: Kubectl, ns: str) -> None:
    refused = kubectl("apply", "-n", ns, "-f", "-", input=DEPLOYMENT.replace("replicas: 2", "replica: 2"), code=1)
    assert 'unknown field "spec.replica"' in refused
