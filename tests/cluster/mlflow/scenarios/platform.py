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
from tests.cluster.mlflow.scenarios.story import Book, Story

book = Book()
platform = book.scenario
MODULE = MLFLOW_OPERATOR.kind


async def with_module(story: Story, *served: Kind, **spec: Any) -> None:
    await story.start(*served, module=True, applications_namespace=story.namespace)
    if spec:
        await story.yard.create(MODULE, MODULE_NAME, spec=spec)


@platform(63)
async def without_the_module_nothing_is_done(story: Story) -> None:
    served = (builtin.HTTPRoute, builtin.ConsoleLink, builtin.ServiceMonitor)
    kinds = [owns.kind for owns in mlflow_controller(Settings()).owns if not owns.optional] + [
        *served,
        builtin.ClusterRole,
    ]

    async def found() -> dict[str, set[str]]:
        """Without what Kubernetes puts into every namespace by itself."""
        return {kind.kind: {*await story.yard.names(kind)} - {"kube-root-ca.crt", "default"} for kind in kinds}

    await with_module(story, *served)
    before = await found()
    await story.create(storage={}, garbageCollection=GC, traceArchival=ARCHIVAL)
    for type, status in (("MLflowOperatorReady", "False"), ("Available", "False"), ("Progressing", "True")):
        await story.condition(type, status=status, reason="MLflowOperatorMissing")
    await story.yard.quiet()
    assert await found() == before


@platform(64)
async def the_module_says_what_it_lacks_and_what_it_runs(story: Story) -> None:
    await with_module(story, gatewayName="gw")
    condition = await story.yard.condition(MODULE, MODULE_NAME, "Ready", status="False", reason="ConfigPending")
    assert condition["message"].endswith(": spec.sectionTitle")
    module = await story.yard.get(MODULE, MODULE_NAME)
    assert finalizers_of(module) == [FINALIZER]
    assert status_of(module)["phase"] == "Progressing"
    await story.yard.edit(MODULE, MODULE_NAME, lambda module: module["spec"].update(sectionTitle="ML"))
    await story.yard.condition(MODULE, MODULE_NAME, "Ready", status="True", reason="Ready")
    status = status_of(await story.yard.get(MODULE, MODULE_NAME))
    mlflow = {"name": "MLflow", "version": "3.14.0", "repoUrl": "https://github.com/mlflow/mlflow"}
    assert (status["phase"], status["releases"]) == ("Ready", [mlflow])
    await story.yard.create(builtin.ConfigMap, VERSION_CONFIG, data={"platformVersion": "2.30.0"})
    releases = [{"name": "platform", "version": "2.30.0"}, mlflow]
    await story.yard.until(MODULE, MODULE_NAME, lambda module: status_of(module)["releases"] == releases)


@platform(65)
async def a_bad_platform_version_is_an_error(story: Story) -> None:
    await with_module(story, gatewayName="gw", sectionTitle="ML")
    ready = await story.yard.condition(MODULE, MODULE_NAME, "Ready", status="True")
    await story.yard.create(builtin.ConfigMap, VERSION_CONFIG, data={"platformVersion": "not-a-semver"})
    condition = await story.yard.condition(MODULE, MODULE_NAME, "Reconciled", reason="InvalidPlatformVersion")
    assert f"invalid platform version in {story.namespace}/{VERSION_CONFIG}" in condition["message"]
    assert await story.yard.condition(MODULE, MODULE_NAME, "Ready") == ready
    # A module that never had a good one is not ready.
    await story.yard.delete(MODULE, MODULE_NAME)
    await story.yard.gone(MODULE, MODULE_NAME)
    await story.yard.create(MODULE, MODULE_NAME, spec={"gatewayName": "gw", "sectionTitle": "ML"})
    await story.yard.condition(MODULE, MODULE_NAME, "Reconciled", reason="InvalidPlatformVersion")
    status = status_of(await story.yard.get(MODULE, MODULE_NAME))
    assert [one["type"] for one in status["conditions"]] == ["Reconciled"]
    assert "phase" not in status


@platform(66)
async def the_module_waits_for_its_instances(story: Story) -> None:
    await with_module(story, gatewayName="gw", sectionTitle="ML")
    await story.yard.condition(MODULE, MODULE_NAME, "Ready", status="True")
    await story.settled()
    await story.condition("MLflowOperatorReady", status="True", reason="Ready")
    await story.yard.delete(MODULE, MODULE_NAME)
    condition = await story.yard.condition(
        MODULE, MODULE_NAME, "Ready", status="False", reason="MLflowInstancesPresent"
    )
    assert condition["message"] == "cannot delete MLflowOperator while 1 MLflow instance(s) still exist"
    await story.condition("MLflowOperatorReady", status="False", reason="MLflowInstancesPresent")
    await story.condition("Available", status="True", reason="DeploymentReady")
    await story.yard.delete(MLFLOW.kind, "mlflow")
    await story.yard.gone(MODULE, MODULE_NAME)


GROUPS: Object = {"allowedGroups": ["a", "shared"], "adminGroups": ["shared", "adm"]}


async def with_groups(story: Story) -> None:
    """The yard's namespace is a workspace, and the platform says who may use it."""
    await story.yard.serve(Auth)
    await story.start(namespace_rbac=True)
    await story.create()
    if await story.yard.find(builtin.Namespace, story.namespace) is None:
        await story.yard.create(builtin.Namespace, story.namespace)
    await label(story, "mlflow")
    await story.yard.create(Auth, "auth", spec=GROUPS)


async def label(story: Story, value: str | None) -> None:
    def change(namespace: Object) -> None:
        labels = namespace["metadata"].setdefault("labels", {})
        labels.pop(WORKSPACE, None)
        if value is not None:
            labels[WORKSPACE] = value

    await story.yard.edit(builtin.Namespace, story.namespace, change)


def subjects(binding: Object) -> list[str]:
    return [subject["name"] for subject in binding.get("subjects") or ()]


@platform(67)
async def a_workspace_gets_the_platforms_groups(story: Story) -> None:
    await with_groups(story)
    uid = (await story.mlflow())["metadata"]["uid"]
    for name, role, members in (
        (VIEW, "mlflow-operator-mlflow-view", ["a", "shared", "adm"]),
        (EDIT, "mlflow-operator-mlflow-edit", ["shared", "adm"]),
    ):
        binding = await story.yard.until(builtin.RoleBinding, name)
        group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io"}
        assert binding["subjects"] == [{**group, "name": member} for member in members]
        assert binding["roleRef"] == {"apiGroup": group["apiGroup"], "kind": "ClusterRole", "name": role}
        assert binding["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "mlflow-operator"
        (owner,) = binding["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)


@platform(68)
async def bindings_follow_the_groups_and_resist(story: Story) -> None:
    await with_groups(story)
    await story.yard.until(builtin.RoleBinding, VIEW)
    await story.yard.edit(Auth, "auth", lambda auth: auth["spec"].update(allowedGroups=["b"]))
    await story.yard.until(builtin.RoleBinding, VIEW, lambda binding: subjects(binding) == ["b", "shared", "adm"])
    rogue = {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}
    await story.yard.edit(builtin.RoleBinding, EDIT, lambda binding: binding["subjects"].append(rogue))
    await story.yard.until(builtin.RoleBinding, EDIT, lambda binding: subjects(binding) == ["shared", "adm"])
    for name, members in ((VIEW, ["b", "shared", "adm"]), (EDIT, ["shared", "adm"])):
        await story.yard.delete(builtin.RoleBinding, name)
        restored = await story.yard.until(builtin.RoleBinding, name)
        await swap(story, restored, "cluster-admin", rogue)
        corrected = await has_role(story, name, restored["roleRef"])
        assert subjects(restored) == subjects(corrected) == members


async def swap(story: Story, binding: Object, role: str, subject: Object) -> None:
    """While nobody looks, someone puts a binding with our marks and another role in the place of ours."""
    name = binding["metadata"]["name"]
    marks = {field: binding["metadata"][field] for field in ("labels", "ownerReferences")}
    await story.yard.halt()
    await story.yard.delete(builtin.RoleBinding, name)
    stolen = {**binding["roleRef"], "name": role}
    await story.yard.create(builtin.RoleBinding, name, **marks, roleRef=stolen, subjects=[subject])
    await story.resume()


async def has_role(story: Story, name: str, role: Object) -> Object:
    return await story.yard.until(builtin.RoleBinding, name, lambda binding: binding["roleRef"] == role)


async def auth_says(story: Story, spec: Object) -> None:
    await story.yard.edit(Auth, "auth", lambda auth: auth.update(spec=spec))


async def both_bindings(story: Story) -> list[Object]:
    return [await story.yard.until(builtin.RoleBinding, name) for name in (VIEW, EDIT)]


async def no_bindings(story: Story) -> None:
    for name in (VIEW, EDIT):
        await story.yard.gone(builtin.RoleBinding, name)


@platform(69)
async def bindings_go_with_what_they_stand_on(story: Story) -> None:
    await with_groups(story)
    await both_bindings(story)
    await label(story, None)
    await no_bindings(story)
    await label(story, "mlflow")
    made = await both_bindings(story)
    for field in ("allowedGroups", "adminGroups"):
        # Nobody is let in or locked out by a typing mistake.
        for groups in ("not a list", [1]):
            await auth_says(story, {**GROUPS, field: groups})
            await story.yard.told(MLFLOW.kind, "mlflow", f"spec.{field} must be a list of strings")
            await story.yard.quiet()
            assert await both_bindings(story) == made
    await story.yard.delete(Auth, "auth")
    await no_bindings(story)
    for field in ("allowedGroups", "adminGroups"):
        await story.yard.create(Auth, "auth", spec={**GROUPS, field: "not a list"})
        await story.yard.quiet()
        await no_bindings(story)
        await story.yard.delete(Auth, "auth")
    await story.yard.create(Auth, "auth", spec=GROUPS)
    await both_bindings(story)
    await story.yard.delete(MLFLOW.kind, "mlflow")
    await no_bindings(story)


async def others_bindings_stay(story: Story, labels: dict[str, str]) -> None:
    """Bindings with our names that someone else made outlive all that ours stand on (Q31)."""
    theirs = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"}
    for name in (VIEW, EDIT):
        await story.yard.create(builtin.RoleBinding, name, labels=labels, roleRef=theirs, subjects=[])
    made = await both_bindings(story)

    async def as_made() -> None:
        await story.yard.quiet()
        assert await both_bindings(story) == made

    await with_groups(story)
    await as_made()
    await label(story, None)
    await as_made()
    await label(story, "mlflow")
    await story.yard.delete(Auth, "auth")
    await as_made()
    await story.yard.create(Auth, "auth", spec=GROUPS)
    await story.yard.delete(MLFLOW.kind, "mlflow")
    await as_made()
