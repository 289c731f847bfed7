"""Scenarios 27-37: what is admitted, what is filled in, and what may change."""

from __future__ import annotations

import copy
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, status_of
from modelyard.operators.codeflare.appwrapper.api import QUEUE_LABEL, USER_ID_LABEL, USER_LABEL
from tests.cluster.appwrapper.scenarios.scene import (
    AW,
    NAME,
    AppWrapperScene,
    Book,
    deployment,
    job,
    pod,
    pod_spec,
    refused,
    service,
)
from tests.ground import ApiGround

book = Book()
admission = book.scenario
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
APPWRAPPERS = {"apiGroups": [AW.group], "resources": ["appwrappers"], "verbs": ["*"]}


async def begun(scene: AppWrapperScene, **section: Any) -> AppWrapperScene:
    await scene.start(hooks=True, **section)
    return scene


def with_sets(component: Object, *paths: str, replicas: int | None = None) -> Object:
    count = {"replicas": replicas} if replicas is not None else {}
    return component | {"podSets": [{"path": path, **count} for path in paths]}


@admission(27, needs_api=True)
async def without_a_pod_there_is_nothing_to_queue(scene: AppWrapperScene) -> None:
    await begun(scene)
    await refused(scene.create(suspend=True), "components contains no podspecs")
    await refused(scene.create(service(), suspend=True), "components contains no podspecs")


@admission(28, needs_api=True)
async def at_most_eight_pod_sets_are_admitted(scene: AppWrapperScene) -> None:
    await begun(scene)
    nine = [pod(f"p{number}") for number in range(9)]
    await refused(scene.create(*nine, suspend=True), "components contains 9 podspecs; at most 8 are allowed")
    await scene.create(*nine[:8], suspend=True)


@admission(29, needs_api=True)
async def declared_paths_lead_to_pod_templates(scene: AppWrapperScene) -> None:
    await begun(scene)
    for path, said in (
        ("template.spec.missing", "missing field 'missing'"),
        ("", "podspec must specify path"),
        ("template.spec.template.metadata", "does not contain a spec"),
    ):
        await refused(scene.create(with_sets(deployment(), path), suspend=True), "podSets[0].path", said)


def job_set() -> Object:
    """A kind of its own: it has no definition here."""
    group = {"name": "g", "replicas": 1, "template": {"spec": {"template": {"spec": pod_spec()}}}}
    return {
        "template": {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "js"},
            "spec": {"replicatedJobs": [group]},
        }
    }


@admission(30, needs_api=True)
async def paths_into_lists_are_checked(scene: AppWrapperScene) -> None:
    await begun(scene)
    jobs = "template.spec.replicatedJobs"
    for path in (
        f"{jobs}.template.spec.template",
        jobs,
        f"{jobs}[0].template[0].spec.template",
        f"{jobs}[10].template.spec.template",
        f"{jobs}[-1].template.spec.template",
        f"{jobs}[a10].template.spec.template",
        f"{jobs}[1",
        f"{jobs}[1]].template.spec.template",
    ):
        await refused(scene.create(with_sets(job_set(), path), suspend=True), "podSets[0].path", path)
    await scene.create(with_sets(job_set(), f"{jobs}[0].template.spec.template"), suspend=True)


@admission(31, needs_api=True)
async def components_stay_in_the_namespace(scene: AppWrapperScene) -> None:
    await begun(scene)
    component = pod()
    component["template"]["metadata"]["namespace"] = "elsewhere"
    await refused(scene.create(component, suspend=True), "AppWrappers cannot create objects in other namespaces")
    component["template"]["metadata"]["namespace"] = scene.namespace
    await scene.create(component, suspend=True)


@admission(32, needs_api=True)
async def appwrappers_are_not_nested(scene: AppWrapperScene) -> None:
    await begun(scene)
    for version in ("v1beta2", "v1beta1"):
        inner = {
            "apiVersion": f"{AW.group}/{version}",
            "kind": AW.kind,
            "metadata": {"name": "inner"},
            "spec": {"components": []},
        }
        await refused(scene.create({"template": inner}, pod(), suspend=True), "Nested AppWrappers are forbidden")


async def by(client: Client, scene: AppWrapperScene, name: str, *components: Object, **metadata: Any) -> Object:
    body = {
        "apiVersion": AW.api_version,
        "kind": AW.kind,
        "metadata": {"name": name, "namespace": scene.namespace, **metadata},
    }
    return await client.create(AW, {**body, "spec": {"suspend": True, "components": list(components)}})


@admission(33, needs_api=True)
async def users_wrap_only_what_they_may_create_themselves(scene: AppWrapperScene) -> None:
    await begun(scene)
    assert isinstance(scene.ground, ApiGround)
    alice = await scene.ground.user("alice", PODS, APPWRAPPERS)
    await by(alice, scene, "pods", pod())
    said = f"is not authorized to create deployments in {scene.namespace}"
    await refused(by(alice, scene, "web", deployment()), "spec.components[0].template: Forbidden: User ", said)
    text = '{"appwrapper": {"enabled": true, "Config": {"userRBACAdmissionCheck": false}}}'
    await scene.ground.edit(
        builtin.ConfigMap, scene.settings.config_map, lambda obj: obj.update(data={"config.yaml": text})
    )
    await by(alice, scene, "web", deployment())


@admission(34, needs_api=True)
async def the_name_of_the_user_cannot_be_chosen(scene: AppWrapperScene) -> None:
    await begun(scene)
    assert isinstance(scene.ground, ApiGround)
    alice = await scene.ground.user("alice", PODS, APPWRAPPERS)
    made = await by(alice, scene, NAME, pod(), labels={USER_LABEL: "bad", USER_ID_LABEL: "worse"})
    user = labels_of(made)[USER_LABEL]
    assert user == f"system_serviceaccount_{scene.namespace}_alice"[:63].strip("-_.")
    assert labels_of(made)[USER_ID_LABEL] not in ("", "worse")

    def rename(obj: Object) -> None:
        obj["metadata"]["labels"][USER_LABEL] = "bad"

    await refused(scene.ground.edit(AW, NAME, rename), USER_LABEL, "attempt to change immutable field")
    changed = await scene.ground.edit(AW, NAME, lambda obj: obj["metadata"].update(annotations={"a": "b"}))
    assert labels_of(changed)[USER_LABEL] == user


@admission(35, needs_api=True)
async def a_queue_is_chosen_for_who_names_none(scene: AppWrapperScene) -> None:
    await begun(scene, Config={"defaultQueueName": "q1"})
    made = await scene.create(pod(), suspend=True)
    assert labels_of(made)[QUEUE_LABEL] == "q1"
    other = await scene.create(pod(), name="other", suspend=True, labels={QUEUE_LABEL: "q2"})
    assert labels_of(other)[QUEUE_LABEL] == "q2"


@admission(36, needs_api=True)
async def what_is_wrapped_does_not_change(scene: AppWrapperScene) -> None:
    await begun(scene)
    await scene.create(with_sets(deployment(), "template.spec.template", replicas=2), suspend=True)
    component = (await scene.ground.get(AW, NAME))["spec"]["components"][0]

    async def change(**changes: Any) -> None:
        await scene.edit(components=[copy.deepcopy(component) | changes])

    await change(podSetInfos=[{"labels": {"a": "b"}}])
    other = scene.edit(managedBy="someone.example.com/else")
    await refused(other, "spec.managedBy: Forbidden: attempt to change immutable field")
    path = {"path": "template.spec.template", "replicas": 2}
    for said, changes in (
        ("spec.components[0].template.raw", {"template": deployment("api")["template"]}),
        ("spec.components[0].podsets", {"podSets": [path, path]}),
        ("spec.components[0].podsets[0].path", {"podSets": [path | {"path": "template"}]}),
        ("spec.components[0].podsets[0].replicas", {"podSets": [path | {"replicas": 3}]}),
    ):
        await refused(change(**changes), f"{said}: Forbidden: attempt to change immutable field")
    await refused(scene.edit(components=[component, pod()]), "spec.components: Forbidden")
    await scene.edit(suspend=False)


def pytorch_job(workers: int) -> Object:
    group = {"replicas": 1, "template": {"spec": pod_spec()}}
    spec = {"pytorchReplicaSpecs": {"Master": group, "Worker": {**group, "replicas": workers}}}
    metadata = {"name": "train"}
    return {"template": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}}


def ray_spec(workers: int) -> Object:
    worker = {"groupName": "w", "replicas": workers, "template": {"spec": pod_spec()}}
    return {"headGroupSpec": {"template": {"spec": pod_spec()}}, "workerGroupSpecs": [worker]}


def ray(kind: str, spec: Object) -> Object:
    return {"template": {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}}


@admission(37, needs_api=True)
async def pod_sets_follow_from_known_kinds(scene: AppWrapperScene) -> None:
    await begun(scene)
    for number, (component, counts) in enumerate(
        (
            (pod(), [1]),
            (deployment(replicas=3), [3]),
            (job(parallelism=2, completions=4), [2]),
            (job(parallelism=8, completions=4), [4]),
            (pytorch_job(3), [1, 3]),
            (ray("RayCluster", ray_spec(2)), [1, 2]),
            (ray("RayJob", {"rayClusterSpec": ray_spec(2)}), [1, 2]),
        )
    ):
        name = f"aw-{number}"
        await scene.create(component, name=name, suspend=True)
        found = await scene.phase("Suspended", name)
        assert [each["replicas"] for each in status_of(found)["componentStatus"][0]["podSets"]] == counts
