"""A cluster on which the public mlflow-operator ran: it is not disturbed while it runs, and its objects live on as ours."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import finalizers_of, key_of, owners_of, status_of
from modelyard.kube.times import format_micro_time, utc_now
from modelyard.operators.mlflow.api import MLFLOW, MLflow
from modelyard.operators.mlflow.children import children, claim
from modelyard.operators.mlflow.config import UPSTREAM
from modelyard.operators.mlflow.facts import Facts
from modelyard.operators.mlflow.migration_job import migration_job
from modelyard.operators.mlflow.module import FINALIZER, MODULE_NAME, READY_MESSAGE
from modelyard.operators.mlflow.namespace_rbac import EDIT, MANAGED_BY, VIEW
from modelyard.operators.parts import build
from modelyard.operators.parts.platform import Auth
from tests.cluster.mlflow.scenarios.platform import GROUPS, MODULE, label, subjects
from tests.cluster.mlflow.scenarios.scene import JOB, MLflowScene, Server
from tests.ground import ApiGround

SPEC: Object = {
    "backendStoreUri": "sqlite:////mlflow/mlflow.db",
    "storage": {"resources": {"requests": {"storage": "5Gi"}}},
    "garbageCollection": {"schedule": "0 2 * * 0"},
    "traceArchival": {"enabled": True, "location": "s3://b/t", "retention": "30d"},
}
KINDS = {
    kind.kind: kind
    for kind in (
        builtin.ServiceAccount, builtin.ClusterRole, builtin.ClusterRoleBinding, builtin.PersistentVolumeClaim,
        builtin.NetworkPolicy, builtin.ConfigMap, builtin.CronJob, builtin.Service, builtin.Deployment, builtin.HTTPRoute,
        builtin.ServiceMonitor, builtin.ConsoleLink,
    )
}  # fmt: skip
OPTIONAL = (builtin.HTTPRoute, builtin.ServiceMonitor, builtin.ConsoleLink)
URL: dict[str, Any] = {"url": "https://gw.example.com", "url_configured": True}
Place = tuple[Kind, Key]


def yard_of(scene: MLflowScene) -> ApiGround:
    assert isinstance(scene.ground, ApiGround)
    return scene.ground


async def upstream_ran(scene: MLflowScene, *served: Kind) -> dict[Place, Object]:
    """The cluster as the public operator leaves it: everything applied by it, settled, version recorded."""
    ground = yard_of(scene)
    for kind in served:
        await ground.serve(kind)
    made = await scene.create(**SPEC)
    status = {"version": "3.14.0", "address": {"url": f"https://mlflow.{ground.namespace}.svc:8443/mlflow"}}
    await ground.set_status(MLFLOW.kind, "mlflow", status)
    facts = Facts(
        scene.settings.__class__(namespace=ground.namespace, **URL),
        openshift=builtin.ConsoleLink in served,
        console=builtin.ConsoleLink in served,
        routes=builtin.HTTPRoute in served,
        monitors=builtin.ServiceMonitor in served,
    )
    mlflow = MLflow.parse(made)
    objects = [child.object for child in children(mlflow, facts) if child.object["kind"] != "PersistentVolumeClaim"]
    placed: dict[Place, Object] = {}
    for obj in (claim(mlflow, facts), *objects):
        kind = KINDS[obj["kind"]]
        # Its ConsoleLink and HTTPRoute are created and updated, the rest is applied.
        manager = "manager" if kind in (builtin.HTTPRoute, builtin.ConsoleLink) else "mlflow-operator"
        found = await ground.client.apply(kind, _as_upstream_makes_it(kind, obj, made), field_manager=manager)
        placed[kind, key_of(found)] = found
    job = migration_job(mlflow, facts)
    job["metadata"]["ownerReferences"] = [_reference(made, controller=True)]
    placed[builtin.Job, Key(ground.namespace, JOB)] = await ground.client.create(
        builtin.Job, job, field_manager="manager"
    )
    await ground.job_succeeds(JOB)
    await ground.deployment_ready("mlflow")
    return placed


def _as_upstream_makes_it(kind: Kind, obj: Object, owner: Object) -> Object:
    """With its owner references, and with what only upstream sets."""
    made: Object = copy.deepcopy(obj)
    metadata = made["metadata"]
    shared = metadata["name"] == "mlflow" and kind in (builtin.ClusterRole, builtin.ClusterRoleBinding)
    metadata["ownerReferences"] = [_reference(owner, controller=not shared)]
    if kind == builtin.Deployment:
        template = made["spec"]["template"]
        template["metadata"].pop("annotations", None)
        template["spec"]["containers"][0]["env"].append({"name": "MLFLOW_LOGGING_LEVEL", "value": "INFO"})
    return {"apiVersion": kind.api_version, "kind": kind.kind, **made}


def _reference(owner: Object, *, controller: bool) -> Object:
    reference: Object = {
        "apiVersion": MLFLOW.kind.api_version,
        "kind": "MLflow",
        "name": "mlflow",
        "uid": owner["metadata"]["uid"],
    }
    return reference | ({"controller": True, "blockOwnerDeletion": True} if controller else {})


async def lease(scene: MLflowScene, holder: str) -> None:
    """The public operator's Lease, as its leader writes it."""
    now = format_micro_time(utc_now())
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": now, "acquireTime": now}
    body: Any = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    body["metadata"] = {"name": UPSTREAM.lease, "namespace": scene.namespace}
    await yard_of(scene).client.apply(builtin.Lease, body, field_manager="manager", force=True)


async def now_there(scene: MLflowScene, placed: dict[Place, Object]) -> dict[Place, Object]:
    client = yard_of(scene).client
    return {(kind, key): await client.get(kind, key.namespace, key.name) for kind, key in placed}


def managers(obj: Object) -> set[str]:
    """Who holds fields of an object's own, apart from its status."""
    return {entry["manager"] for entry in obj["metadata"]["managedFields"] if not entry.get("subresource")}


@pytest.mark.parametrize("served", [(), OPTIONAL], ids=["plain", "openshift"])
async def test_what_upstream_made_is_taken_over_without_making_anything_anew(
    scene: MLflowScene, served: tuple[Kind, ...]
) -> None:
    placed = await upstream_ran(scene, *served)
    await scene.start(**URL)
    ground = yard_of(scene)
    await ground.until(builtin.Deployment, "mlflow", lambda d: "MLFLOW_LOGGING_LEVEL" not in Server(d).env)
    # The new template is rolled out, and nothing else happens: no migration, and the server is never scaled down.
    await ground.deployment_ready("mlflow")
    await scene.condition("Available", status="True", reason="DeploymentReady")
    await ground.quiet()
    after = await now_there(scene, placed)
    for place, obj in after.items():
        assert obj["metadata"]["uid"] == placed[place]["metadata"]["uid"], place
        assert "deletionTimestamp" not in obj["metadata"], place
        if place[0] != builtin.Job:
            assert not managers(obj) & set(UPSTREAM.managers), (place, managers(obj))
    assert await ground.names(builtin.Job) == [JOB]
    assert (await scene.status())["version"] == "3.14.0"
    # The volume no longer goes with the MLflow.
    assert not owners_of(after[builtin.PersistentVolumeClaim, Key(ground.namespace, "mlflow-pvc")])
    assert status_of(await scene.resource())["conditions"][0]["status"] == "True"


async def test_nothing_is_changed_while_upstream_runs(scene: MLflowScene) -> None:
    await upstream_ran(scene)
    await lease(scene, "mlflow-operator-controller-manager-5d9_1")
    before = await now_there(scene, {place: {} for place in (await _places(scene))})
    await scene.start(**URL)
    said = await scene.condition("Reconciled", status="False", reason="OtherOperatorRunning")
    assert f"holds its Lease {scene.namespace}/{UPSTREAM.lease}" in said["message"]
    assert f"kubectl -n {scene.namespace} scale deployment mlflow-operator-controller-manager" in said["message"]
    await yard_of(scene).delete(builtin.NetworkPolicy, "mlflow")
    await yard_of(scene).quiet()
    before.pop((builtin.NetworkPolicy, Key(scene.namespace, "mlflow")))
    assert await now_there(scene, before) == before
    assert await yard_of(scene).find(builtin.NetworkPolicy, "mlflow") is None
    # Given up: what it left undone is done.
    await lease(scene, "")
    await yard_of(scene).until(builtin.NetworkPolicy, "mlflow")
    await yard_of(scene).until(builtin.Deployment, "mlflow", lambda d: "MLFLOW_LOGGING_LEVEL" not in Server(d).env)
    await yard_of(scene).quiet()
    conditions = {one["type"] for one in (await scene.status())["conditions"]}
    assert "Reconciled" not in conditions


async def groups_bound_by_upstream(scene: MLflowScene) -> dict[Place, Object]:
    """The platform's groups, bound in the ground's namespace as the public operator does it, and one too many."""
    ground = yard_of(scene)
    await ground.serve(Auth)
    await ground.create(Auth, "auth", spec=GROUPS)
    await label(scene, "mlflow")
    owner = await scene.resource()
    placed: dict[Place, Object] = {}
    for name, role in ((VIEW, "mlflow-operator-mlflow-view"), (EDIT, "mlflow-operator-mlflow-edit")):
        subjects = [build.group_subject("gone-since")]
        made = build.role_binding(name, ground.namespace, role, subjects, MANAGED_BY, role_kind="ClusterRole")
        made["metadata"]["ownerReferences"] = [_reference(owner, controller=True)]
        found = await ground.client.apply(builtin.RoleBinding, made, field_manager="mlflow-operator")
        placed[builtin.RoleBinding, key_of(found)] = found
    return placed


async def module_of_upstream(scene: MLflowScene) -> dict[Place, Object]:
    """The platform's module, as the public operator leaves it: with its finalizer, and ready."""
    spec = {"gatewayName": "gw", "sectionTitle": "ML", "gateway": {"domain": "gw.example.com"}}
    made = await scene.ground.create(MODULE, MODULE_NAME, finalizers=[FINALIZER], spec=spec)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": READY_MESSAGE,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"phase": "Ready", "observedGeneration": 1, "conditions": [ready]}
    await scene.ground.set_status(MODULE, MODULE_NAME, status)
    return {(MODULE, key_of(made)): made}


async def test_the_bindings_of_groups_and_the_module_are_taken_over(scene: MLflowScene) -> None:
    ground = yard_of(scene)
    await upstream_ran(scene)
    placed = await groups_bound_by_upstream(scene) | await module_of_upstream(scene)
    await scene.start(module=True, namespace_rbac=True, **URL)
    for name, members in ((VIEW, ["a", "shared", "adm"]), (EDIT, ["shared", "adm"])):
        await ground.until(builtin.RoleBinding, name, lambda binding: "gone-since" not in subjects(binding))
        binding = await ground.get(builtin.RoleBinding, name)
        assert subjects(binding) == members
        assert not managers(binding) & set(UPSTREAM.managers)
    await scene.condition("MLflowOperatorReady", status="True", reason="Ready")
    module = await ground.until(MODULE, MODULE_NAME, lambda module: status_of(module).get("releases"))
    assert finalizers_of(module) == [FINALIZER]
    ready = await ground.condition(MODULE, MODULE_NAME, "Ready", status="True")
    assert ready["lastTransitionTime"] == "2026-01-01T00:00:00Z", "it was ready all the time"
    for place, obj in (await now_there(scene, placed)).items():
        assert obj["metadata"]["uid"] == placed[place]["metadata"]["uid"], place
        assert "deletionTimestamp" not in obj["metadata"], place
    # And the module goes as it would have gone: with its last instance.
    await ground.delete(MODULE, MODULE_NAME)
    await ground.condition(MODULE, MODULE_NAME, "Ready", status="False", reason="MLflowInstancesPresent")
    await ground.delete(MLFLOW.kind, "mlflow")
    await ground.gone(MODULE, MODULE_NAME)


async def test_going_back_nothing_is_written_any_more(scene: MLflowScene) -> None:
    """The public operator is started again while we run: from its Lease on, all is left to it."""
    ground = yard_of(scene)
    await ground.serve(Auth)
    await ground.create(Auth, "auth", spec=GROUPS)
    await label(scene, "mlflow")
    await scene.start(module=True, namespace_rbac=True, **URL)
    await ground.create(MODULE, MODULE_NAME, spec={"gatewayName": "gw", "sectionTitle": "ML"})
    await scene.settled(garbageCollection=SPEC["garbageCollection"], traceArchival=SPEC["traceArchival"])
    await ground.until(builtin.RoleBinding, EDIT)
    await lease(scene, "mlflow-operator-controller-manager-5d9_1")
    await scene.condition("Reconciled", status="False", reason="OtherOperatorRunning")
    await ground.condition(MODULE, MODULE_NAME, "Reconciled", status="False", reason="OtherOperatorRunning")
    await ground.quiet()
    expected = await now_there(scene, {place: {} for place in await _places(scene)})
    # What would call for a write: a drift, a loss, another spec, other groups.
    for kind, name in ((builtin.NetworkPolicy, "mlflow"), (builtin.RoleBinding, EDIT)):
        await ground.delete(kind, name)
        expected.pop((kind, Key(scene.namespace, name)))
    changes: list[tuple[Kind, str, Callable[[Object], Any]]] = [
        (builtin.Deployment, "mlflow", lambda deployment: deployment["spec"].update(replicas=7)),
        (builtin.RoleBinding, VIEW, lambda binding: binding.update(subjects=[])),
        (Auth, "auth", lambda auth: auth["spec"].update(adminGroups=["new"])),
        (MODULE, MODULE_NAME, lambda module: module["spec"].pop("sectionTitle")),
        (MLFLOW.kind, "mlflow", lambda mlflow: mlflow["spec"].pop("garbageCollection")),
    ]
    for kind, name, change in changes:
        made = await ground.edit(kind, name, change)
        expected[kind, key_of(made)] = made
    await ground.quiet()
    assert await now_there(scene, expected) == expected
    assert set(await _places(scene)) <= expected.keys()
    # Stopped again: all of it is done.
    await lease(scene, "")
    await ground.until(builtin.RoleBinding, EDIT, lambda binding: subjects(binding) == ["new"])
    await ground.condition(MODULE, MODULE_NAME, "Ready", status="False", reason="ConfigPending")


async def _places(scene: MLflowScene) -> list[Place]:
    """All that belongs to the MLflow."""
    client, uid = yard_of(scene).client, (await scene.resource())["metadata"]["uid"]
    return [
        (kind, key_of(obj))
        for kind in (*(kind for kind in KINDS.values() if kind not in OPTIONAL), builtin.Job, builtin.RoleBinding)
        for obj in (await client.list(kind, scene.namespace if kind.namespaced else "")).items
        if any(owner["uid"] == uid for owner in owners_of(obj))
    ]
