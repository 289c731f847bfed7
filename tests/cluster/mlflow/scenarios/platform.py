"""Scenarios 63-69: the platform's module, and the groups in namespaces."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import finalizers_of, status_of
from modelyard.operators.mlflow.api import MLFLOW, MLFLOW_OPERATOR
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.module import FINALIZER, MODULE_NAME, VERSION_CONFIG
from modelyard.operators.mlflow.namespace_rbac import EDIT, VIEW, WORKSPACE
from modelyard.operators.parts.platform import Auth
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.scene import Book, MLflowScene

book = Book()
platform = book.scenario
MODULE = MLFLOW_OPERATOR.kind


async def with_module(scene: MLflowScene, *served: Kind, **spec: Any) -> None:
    await scene.start(*served, module=True, applications_namespace=scene.namespace)
    if spec:
        await scene.ground.create(MODULE, MODULE_NAME, spec=spec)


@platform(63)
async def without_the_module_nothing_is_done(scene: MLflowScene) -> None:
    served = (builtin.HTTPRoute, builtin.ConsoleLink, builtin.ServiceMonitor)
    kinds = [owns.kind for owns in mlflow_controller(Settings()).owns if not owns.optional] + [
        *served,
        builtin.ClusterRole,
    ]

    async def found() -> dict[str, set[str]]:
        """Without what Kubernetes puts into every namespace by itself."""
        return {kind.kind: {*await scene.ground.names(kind)} - {"kube-root-ca.crt", "default"} for kind in kinds}

    await with_module(scene, *served)
    before = await found()
    await scene.create(storage={}, garbageCollection=GC, traceArchival=ARCHIVAL)
    for type, status in (("MLflowOperatorReady", "False"), ("Available", "False"), ("Progressing", "True")):
        await scene.condition(type, status=status, reason="MLflowOperatorMissing")
    await scene.ground.quiet()
    assert await found() == before


@platform(64)
async def the_module_says_what_it_lacks_and_what_it_runs(scene: MLflowScene) -> None:
    await with_module(scene, gatewayName="gw")
    condition = await scene.ground.condition(MODULE, MODULE_NAME, "Ready", status="False", reason="ConfigPending")
    assert condition["message"].endswith(": spec.sectionTitle")
    module = await scene.ground.get(MODULE, MODULE_NAME)
    assert finalizers_of(module) == [FINALIZER]
    assert status_of(module)["phase"] == "Progressing"
    await scene.ground.edit(MODULE, MODULE_NAME, lambda module: module["spec"].update(sectionTitle="ML"))
    await scene.ground.condition(MODULE, MODULE_NAME, "Ready", status="True", reason="Ready")
    status = status_of(await scene.ground.get(MODULE, MODULE_NAME))
    mlflow = {"name": "MLflow", "version": "3.14.0", "repoUrl": "https://github.com/mlflow/mlflow"}
    assert (status["phase"], status["releases"]) == ("Ready", [mlflow])
    await scene.ground.create(builtin.ConfigMap, VERSION_CONFIG, data={"platformVersion": "2.30.0"})
    releases = [{"name": "platform", "version": "2.30.0"}, mlflow]
    await scene.ground.until(MODULE, MODULE_NAME, lambda module: status_of(module)["releases"] == releases)


@platform(65)
async def a_bad_platform_version_is_an_error(scene: MLflowScene) -> None:
    await with_module(scene, gatewayName="gw", sectionTitle="ML")
    ready = await scene.ground.condition(MODULE, MODULE_NAME, "Ready", status="True")
    await scene.ground.create(builtin.ConfigMap, VERSION_CONFIG, data={"platformVersion": "not-a-semver"})
    condition = await scene.ground.condition(MODULE, MODULE_NAME, "Reconciled", reason="InvalidPlatformVersion")
    assert f"invalid platform version in {scene.namespace}/{VERSION_CONFIG}" in condition["message"]
    assert await scene.ground.condition(MODULE, MODULE_NAME, "Ready") == ready
    # A module that never had a good one is not ready.
    await scene.ground.delete(MODULE, MODULE_NAME)
    await scene.ground.gone(MODULE, MODULE_NAME)
    await scene.ground.create(MODULE, MODULE_NAME, spec={"gatewayName": "gw", "sectionTitle": "ML"})
    await scene.ground.condition(MODULE, MODULE_NAME, "Reconciled", reason="InvalidPlatformVersion")
    status = status_of(await scene.ground.get(MODULE, MODULE_NAME))
    assert [one["type"] for one in status["conditions"]] == ["Reconciled"]
    assert "phase" not in status


@platform(66)
async def the_module_waits_for_its_instances(scene: MLflowScene) -> None:
    await with_module(scene, gatewayName="gw", sectionTitle="ML")
    await scene.ground.condition(MODULE, MODULE_NAME, "Ready", status="True")
    await scene.settled()
    await scene.condition("MLflowOperatorReady", status="True", reason="Ready")
    await scene.ground.delete(MODULE, MODULE_NAME)
    condition = await scene.ground.condition(
        MODULE, MODULE_NAME, "Ready", status="False", reason="MLflowInstancesPresent"
    )
    assert condition["message"] == "cannot delete MLflowOperator while 1 MLflow instance(s) still exist"
    await scene.condition("MLflowOperatorReady", status="False", reason="MLflowInstancesPresent")
    await scene.condition("Available", status="True", reason="DeploymentReady")
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await scene.ground.gone(MODULE, MODULE_NAME)


GROUPS: Object = {"allowedGroups": ["a", "shared"], "adminGroups": ["shared", "adm"]}


async def with_groups(scene: MLflowScene) -> None:
    """The ground's namespace is a workspace, and the platform says who may use it."""
    await scene.ground.serve(Auth)
    await scene.start(namespace_rbac=True)
    await scene.create()
    if await scene.ground.find(builtin.Namespace, scene.namespace) is None:
        await scene.ground.create(builtin.Namespace, scene.namespace)
    await label(scene, "mlflow")
    await scene.ground.create(Auth, "auth", spec=GROUPS)


async def label(scene: MLflowScene, value: str | None) -> None:
    def change(namespace: Object) -> None:
        labels = namespace["metadata"].setdefault("labels", {})
        labels.pop(WORKSPACE, None)
        if value is not None:
            labels[WORKSPACE] = value

    await scene.ground.edit(builtin.Namespace, scene.namespace, change)


def subjects(binding: Object) -> list[str]:
    return [subject["name"] for subject in binding.get("subjects") or ()]


@platform(67)
async def a_workspace_gets_the_platforms_groups(scene: MLflowScene) -> None:
    await with_groups(scene)
    uid = (await scene.resource())["metadata"]["uid"]
    for name, role, members in (
        (VIEW, "mlflow-operator-mlflow-view", ["a", "shared", "adm"]),
        (EDIT, "mlflow-operator-mlflow-edit", ["shared", "adm"]),
    ):
        binding = await scene.ground.until(builtin.RoleBinding, name)
        group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io"}
        assert binding["subjects"] == [{**group, "name": member} for member in members]
        assert binding["roleRef"] == {"apiGroup": group["apiGroup"], "kind": "ClusterRole", "name": role}
        assert binding["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "mlflow-operator"
        (owner,) = binding["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)


@platform(68)
async def bindings_follow_the_groups_and_resist(scene: MLflowScene) -> None:
    await with_groups(scene)
    await scene.ground.until(builtin.RoleBinding, VIEW)
    await scene.ground.edit(Auth, "auth", lambda auth: auth["spec"].update(allowedGroups=["b"]))
    await scene.ground.until(builtin.RoleBinding, VIEW, lambda binding: subjects(binding) == ["b", "shared", "adm"])
    rogue = {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}
    await scene.ground.edit(builtin.RoleBinding, EDIT, lambda binding: binding["subjects"].append(rogue))
    await scene.ground.until(builtin.RoleBinding, EDIT, lambda binding: subjects(binding) == ["shared", "adm"])
    for name, members in ((VIEW, ["b", "shared", "adm"]), (EDIT, ["shared", "adm"])):
        await scene.ground.delete(builtin.RoleBinding, name)
        restored = await scene.ground.until(builtin.RoleBinding, name)
        await swap(scene, restored, "cluster-admin", rogue)
        corrected = await has_role(scene, name, restored["roleRef"])
        assert subjects(restored) == subjects(corrected) == members


async def swap(scene: MLflowScene, binding: Object, role: str, subject: Object) -> None:
    """While nobody looks, someone puts a binding with our marks and another role in the place of ours."""
    name = binding["metadata"]["name"]
    marks = {field: binding["metadata"][field] for field in ("labels", "ownerReferences")}
    await scene.ground.halt()
    await scene.ground.delete(builtin.RoleBinding, name)
    stolen = {**binding["roleRef"], "name": role}
    await scene.ground.create(builtin.RoleBinding, name, **marks, roleRef=stolen, subjects=[subject])
    await scene.resume()


async def has_role(scene: MLflowScene, name: str, role: Object) -> Object:
    return await scene.ground.until(builtin.RoleBinding, name, lambda binding: binding["roleRef"] == role)


async def auth_says(scene: MLflowScene, spec: Object) -> None:
    await scene.ground.edit(Auth, "auth", lambda auth: auth.update(spec=spec))


async def both_bindings(scene: MLflowScene) -> list[Object]:
    return [await scene.ground.until(builtin.RoleBinding, name) for name in (VIEW, EDIT)]


async def no_bindings(scene: MLflowScene) -> None:
    for name in (VIEW, EDIT):
        await scene.ground.gone(builtin.RoleBinding, name)


@platform(69)
async def bindings_go_with_what_they_stand_on(scene: MLflowScene) -> None:
    await with_groups(scene)
    await both_bindings(scene)
    await label(scene, None)
    await no_bindings(scene)
    await label(scene, "mlflow")
    made = await both_bindings(scene)
    for field in ("allowedGroups", "adminGroups"):
        # Nobody is let in or locked out by a typing mistake.
        for groups in ("not a list", [1]):
            await auth_says(scene, {**GROUPS, field: groups})
            await scene.ground.told(MLFLOW.kind, "mlflow", f"spec.{field} must be a list of strings")
            await scene.ground.quiet()
            assert await both_bindings(scene) == made
    await scene.ground.delete(Auth, "auth")
    await no_bindings(scene)
    for field in ("allowedGroups", "adminGroups"):
        await scene.ground.create(Auth, "auth", spec={**GROUPS, field: "not a list"})
        await scene.ground.quiet()
        await no_bindings(scene)
        await scene.ground.delete(Auth, "auth")
    await scene.ground.create(Auth, "auth", spec=GROUPS)
    await both_bindings(scene)
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await no_bindings(scene)


async def others_bindings_stay(scene: MLflowScene, labels: dict[str, str]) -> None:
    """Bindings with our names that someone else made outlive all that ours stand on (Q31)."""
    theirs = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"}
    for name in (VIEW, EDIT):
        await scene.ground.create(builtin.RoleBinding, name, labels=labels, roleRef=theirs, subjects=[])
    made = await both_bindings(scene)

    async def as_made() -> None:
        await scene.ground.quiet()
        assert await both_bindings(scene) == made

    await with_groups(scene)
    await as_made()
    await label(scene, None)
    await as_made()
    await label(scene, "mlflow")
    await scene.ground.delete(Auth, "auth")
    await as_made()
    await scene.ground.create(Auth, "auth", spec=GROUPS)
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await as_made()
