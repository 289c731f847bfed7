"""Another namespace for a server that exists: what the operator says, and how the server moves."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import status_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.config import Settings
from tests.cluster.mlflow.scenarios.scene import MLflowScene
from tests.cluster.mlflow.scenarios.surprises import pod_of

LABELS = {"app": "mlflow", "app.kubernetes.io/instance": "mlflow"}
FILES: dict[str, Any] = {
    "backendStoreUri": "sqlite:////mlflow/mlflow.db",
    "storage": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def another_namespace(scene: MLflowScene, **spec: Any) -> str:
    """A settled server, and a namespace that it is to move to."""
    new = f"{scene.namespace}-new"
    for name in (scene.namespace, new):
        if await scene.ground.find(builtin.Namespace, name) is None:
            await scene.ground.create(builtin.Namespace, name)
    await scene.start()
    await scene.settled(**spec)
    return new


async def comes_back(scene: MLflowScene, namespace: str, *, before: str = "") -> None:
    """The operator is started again with these namespaces."""
    await scene.ground.halt()
    scene.settings = Settings(namespace=namespace, previous_namespace=before)
    await scene.resume()


async def stays(scene: MLflowScene, new: str) -> None:
    """The old server is as it was, and there is no new one."""
    server = await scene.ground.get(builtin.Deployment, "mlflow")
    assert server["spec"]["replicas"] == 1
    for kind, name in (
        (builtin.Deployment, "mlflow"),
        (builtin.Service, "mlflow"),
        (builtin.ServiceAccount, "mlflow-sa"),
    ):
        await scene.ground.absent(kind, name, namespace=new)
    binding = await scene.ground.get(builtin.ClusterRoleBinding, "mlflow")
    assert [subject["namespace"] for subject in binding["subjects"]] == [scene.namespace]


async def a_changed_namespace_is_said_and_starts_no_second_server(scene: MLflowScene) -> None:
    new = await another_namespace(scene)
    await comes_back(scene, new)
    found = await scene.condition("Degraded", status="True", reason="NamespaceChanged")
    assert f"the server stands in namespace {scene.namespace} (Deployment and Service mlflow)" in found["message"]
    assert f"MLFLOW_PREVIOUS_NAMESPACE={scene.namespace}" in found["message"]
    await scene.condition("Available", status="True")
    await scene.ground.told(MLFLOW.kind, "mlflow", "NamespaceChanged: the server stands in namespace")
    await stays(scene, new)
    # Back again, nothing has happened.
    await comes_back(scene, scene.namespace)
    await scene.condition("Progressing", reason="ReconcileComplete")


async def a_server_moves_and_never_runs_twice(scene: MLflowScene) -> None:
    new, old = await another_namespace(scene), scene.namespace
    pod = await pod_of(scene, "mlflow", labels=LABELS)
    await scene.ground.edit(builtin.Pod, pod, lambda p: p["metadata"].update(finalizers=["example.com/hold"]))
    await comes_back(scene, new, before=old)
    await scene.ground.gone(builtin.Deployment, "mlflow")
    await scene.condition("Progressing", status="True", reason="NamespaceMoving")
    await scene.ground.absent(builtin.Deployment, "mlflow", namespace=new)
    await scene.ground.edit(builtin.Pod, pod, lambda p: p["metadata"].update(finalizers=[]))
    if await scene.ground.find(builtin.Pod, pod) is not None:
        await scene.ground.delete(builtin.Pod, pod)
    server = await scene.ground.until(builtin.Deployment, "mlflow", namespace=new)
    assert server["spec"]["replicas"] == 1
    for kind, name in (
        (builtin.Service, "mlflow"),
        (builtin.ServiceAccount, "mlflow-sa"),
        (builtin.NetworkPolicy, "mlflow"),
    ):
        await scene.ground.gone(kind, name)
        await scene.ground.until(kind, name, namespace=new)
    await scene.ground.until(MLFLOW.kind, "mlflow", lambda m: _address(m).startswith(f"https://mlflow.{new}.svc"))


def _address(mlflow: Object) -> str:
    return str((status_of(mlflow).get("address") or {}).get("url"))


async def data_in_a_volume_does_not_get_lost_on_the_way(scene: MLflowScene) -> None:
    new, old = await another_namespace(scene, **FILES), scene.namespace
    await comes_back(scene, new, before=old)
    found = await scene.condition("Degraded", status="True", reason="NamespaceChanged")
    assert f"volume claim mlflow-pvc of namespace {old}" in found["message"]
    assert f"copy the data into a claim named mlflow-pvc in namespace {new}" in found["message"]
    await stays(scene, new)
    await scene.ground.create(builtin.PersistentVolumeClaim, "mlflow-pvc", namespace=new, spec=FILES["storage"])
    await scene.ground.pass_time(20)
    await scene.ground.until(builtin.Deployment, "mlflow", namespace=new)
    await scene.ground.gone(builtin.Deployment, "mlflow")
    # The data of before is still where it was.
    await scene.ground.get(builtin.PersistentVolumeClaim, "mlflow-pvc")


async def a_namespace_that_is_gone_took_its_server_along(scene: MLflowScene) -> None:
    new = await another_namespace(scene)
    await scene.ground.halt()
    await scene.ground.delete(builtin.Deployment, "mlflow")
    await scene.ground.delete(builtin.Namespace, scene.namespace)
    await comes_back(scene, new)
    await scene.ground.until(builtin.Deployment, "mlflow", namespace=new)
