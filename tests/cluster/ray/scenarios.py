"""Scenarios K1-K10 of the specification (Appendix A.7), each written once for every ground; and what the text around them asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, name_of, namespace_of, spec_of, status_of
from modelyard.operators.ray.names import HOST_INDEX, REPLICA_INDEX, REPLICA_NAME
from tests.cluster.ray.scene import NAME, RayScene, cluster, names, ray, template, uids, variables, workers

Scenario = Callable[[RayScene], Awaitable[None]]
FQDN = "demo-head-svc.{}.svc.cluster.local"


async def k1_a_cluster_gets_its_service_its_head_and_its_workers(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster(workers(replicas=3)))
    await scene.until_pods(1, 3)
    service = await scene.ground.get(builtin.Service, "demo-head-svc")
    assert spec_of(service)["clusterIP"] == "None"
    ports = {port["name"]: port["port"] for port in spec_of(service)["ports"]}
    assert ports == {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
    head = await scene.head()
    assert spec_of(service)["selector"].items() <= labels_of(head).items()
    assert name_of(head).startswith("demo-head-")
    assert {name.rpartition("-")[0] for name in names(await scene.workers())} == {"demo-small-worker"}


async def k2_a_cluster_whose_pods_are_ready_is_ready(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster(workers(replicas=2)))
    await scene.condition("RayClusterProvisioned", status="False", reason="RayClusterPodsProvisioning")
    await scene.condition("HeadPodReady", status="False")
    await scene.run_pods()
    status = await scene.state("ready")
    await scene.condition("RayClusterProvisioned", status="True", reason="AllPodRunningAndReadyFirstTime")
    await scene.condition("HeadPodReady", status="True", reason="HeadPodRunningAndReady")
    head = await scene.head()
    address = status_of(head)["podIP"]
    assert status["head"] == {
        "podIP": address,
        "podName": name_of(head),
        "serviceIP": address,
        "serviceName": "demo-head-svc",
    }
    assert status["endpoints"]["dashboard"] == "8265"
    assert (status["desiredWorkerReplicas"], status["availableWorkerReplicas"], status["readyWorkerReplicas"]) == (
        2,
        2,
        2,
    )
    assert "ready" in status["stateTransitionTimes"]


async def k3_a_worker_that_is_deleted_is_replaced(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster(workers(replicas=2)))
    lost, kept = await scene.workers()
    await scene.ground.delete(builtin.Pod, name_of(lost))
    await scene.until_pods(1, 2)
    now = names(await scene.workers())
    assert name_of(kept) in now
    assert name_of(lost) not in now


async def k4_no_more_workers_than_the_maximum(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster(workers(replicas=5, maxReplicas=4)))
    await scene.until_pods(1, 4)
    assert (await scene.status())["desiredWorkerReplicas"] == 4


async def k5_a_suspended_cluster_has_no_pods_and_comes_back(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster())
    await scene.edit(suspend=True)
    await scene.state("suspended")
    assert await scene.pods() == []
    await scene.condition("RayClusterSuspended", status="True")
    await scene.condition("RayClusterSuspending", status="False")
    await scene.condition("RayClusterProvisioned", status="False")
    await scene.ground.get(builtin.Service, "demo-head-svc")
    await scene.edit(suspend=False)
    await scene.condition("RayClusterSuspended", status="False")
    await scene.run_pods()
    await scene.state("ready")
    await scene.until_pods(1, 1)


async def k6_no_fewer_workers_than_the_minimum(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster(workers(replicas=0, minReplicas=2)))
    await scene.until_pods(1, 2)


async def k7_a_changed_template_leaves_running_pods_alone(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster())
    before = uids(await scene.pods())
    changed = template()
    changed["spec"]["containers"][0]["image"] = "rayproject/ray:2.61.0"
    await scene.edit(workerGroupSpecs=[workers(template=changed)])
    assert uids(await scene.pods()) == before


async def k8_pods_are_made_in_the_namespace_of_the_cluster(scene: RayScene) -> None:
    await scene.start()
    elsewhere = template() | {"metadata": {"namespace": "other", "labels": {"team": "a"}}}
    await scene.create(cluster(workers(template=elsewhere), head={"template": elsewhere}))
    await scene.until_pods(1, 1)
    assert {namespace_of(pod) for pod in await scene.pods()} == {scene.ground.namespace}
    assert {labels_of(pod)["team"] for pod in await scene.pods()} == {"a"}


async def k9_a_head_that_failed_is_made_again(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster())
    before, kept = await scene.head(), uids(await scene.workers())
    await scene.fail(before)
    await scene.ground.gone(builtin.Pod, name_of(before))
    await scene.until_pods(1, 1)
    assert uids(await scene.workers()) == kept
    assert (await scene.status())["state"] == "ready", "it came up once, and that is not taken back"


async def k10_what_codeflare_put_into_the_templates_is_completed(scene: RayScene) -> None:
    await scene.start()
    create_cert: Object = {"name": "create-cert", "image": "ubi9", "command": ["sh", "-c", "true"]}
    head = template(initContainers=[create_cert])
    head["spec"]["containers"].append({"name": "oauth-proxy", "image": "oauth-proxy"})
    group = workers(template=template(initContainers=[create_cert]))
    await scene.create(cluster(group, head={"template": head}))
    pod, (worker,) = await scene.head(), await scene.workers()
    address = FQDN.format(scene.ground.namespace)
    assert [container["name"] for container in spec_of(pod)["containers"]] == ["ray", "oauth-proxy"]
    assert variables(spec_of(pod)["initContainers"][0])["FQ_RAY_IP"] == address
    assert [container["name"] for container in spec_of(worker)["initContainers"]] == ["create-cert", "wait-gcs-ready"]
    for container in spec_of(worker)["initContainers"]:
        assert variables(container)["FQ_RAY_IP"] == address
        assert variables(container)["RAY_IP"] == "demo-head-svc"


async def fewer_replicas_take_workers_away(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster(workers(replicas=3)))
    await scene.edit(workerGroupSpecs=[workers(replicas=1)])
    await scene.until_pods(1, 1)


async def a_group_that_is_taken_out_takes_its_workers_along(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster(workers(), workers(groupName="large", replicas=2)))
    await scene.edit(workerGroupSpecs=[workers()])
    await scene.until_pods(1, 1)


async def with_the_autoscaler_only_named_workers_go(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster(workers(replicas=3), enableInTreeAutoscaling=True))
    await scene.edit(workerGroupSpecs=[workers(replicas=2)])
    await scene.until_pods(1, 3)
    leaving, *staying = sorted(names(await scene.workers()))
    await scene.edit(workerGroupSpecs=[workers(replicas=2, scaleStrategy={"workersToDelete": [leaving]})])
    await scene.until_pods(1, 2)
    assert names(await scene.workers()) == set(staying)


async def the_autoscaler_runs_beside_the_head_with_rights_of_its_own(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster(enableInTreeAutoscaling=True))
    head = await scene.head()
    assert [container["name"] for container in spec_of(head)["containers"]] == ["ray", "autoscaler"]
    assert spec_of(head)["serviceAccountName"] == NAME
    role = await scene.ground.get(builtin.Role, NAME)
    clusters = next(rule for rule in role["rules"] if rule["apiGroups"] == ["ray.io"])
    assert clusters["resourceNames"] == [NAME]
    await scene.ground.get(builtin.ServiceAccount, NAME)
    binding = await scene.ground.get(builtin.RoleBinding, NAME)
    assert binding["subjects"][0]["name"] == NAME
    await scene.edit(enableInTreeAutoscaling=False)
    await scene.ground.gone(builtin.RoleBinding, NAME)


async def recreate_replaces_all_pods_when_the_spec_changes(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster(upgradeStrategy={"type": "Recreate"}))
    before = uids(await scene.pods())
    await scene.edit(workerGroupSpecs=[workers(replicas=2)])
    await scene.until_pods(1, 2)
    assert before <= uids(await scene.pods()), "another number of workers is no other cluster"
    await scene.edit(rayVersion="2.61.0")
    await scene.until_pods(1, 2)
    assert not before & uids(await scene.pods())


async def the_hosts_of_a_replica_live_and_die_together(scene: RayScene) -> None:
    await scene.start()
    await scene.ready(cluster(workers(replicas=2, numOfHosts=2)))
    await scene.until_pods(1, 4)
    pods = await scene.workers()
    places = {(labels_of(pod)[REPLICA_INDEX], labels_of(pod)[HOST_INDEX]) for pod in pods}
    assert places == {("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")}
    first = [pod for pod in pods if labels_of(pod)[REPLICA_NAME] == "small-0"]
    await scene.fail(first[0])
    await scene.ground.gone(builtin.Pod, name_of(first[1]))
    await scene.until_pods(1, 4)
    assert len(uids(pods) & uids(await scene.workers())) == 2
    await scene.ground.get(builtin.Service, "demo-headless")


async def clients_need_a_token_that_is_made_once(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster())
    secret = await scene.ground.get(builtin.Secret, NAME)
    for pod in await scene.pods():
        assert variables(ray(pod))["RAY_AUTH_MODE"] == "token"
        assert variables(ray(pod))["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"name": NAME, "key": "auth_token"}}
    await scene.edit(rayVersion="2.61.0")
    assert (await scene.ground.get(builtin.Secret, NAME))["data"] == secret["data"]


async def a_cluster_of_another_manager_is_left_alone(scene: RayScene) -> None:
    await scene.start()
    made = await scene.create(cluster(managedBy="kueue.x-k8s.io/multikueue"))
    assert await scene.pods() == []
    assert "status" not in made


async def where_kuberay_runs_nothing_is_done(scene: RayScene) -> None:
    labels = {"app.kubernetes.io/component": "kuberay-operator"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    await scene.ground.create(builtin.Deployment, "kuberay-operator", labels=labels, spec=spec)
    await scene.start(predecessor_namespaces=(scene.ground.namespace,))
    await scene.create(cluster())
    await scene.ground.quiet()
    assert await scene.pods() == []
    assert "status" not in await scene.resource()
    await scene.ground.edit(builtin.Deployment, "kuberay-operator", lambda obj: obj["spec"].update(replicas=0))
    await scene.until_pods(1, 1)


async def a_cluster_that_cannot_work_says_why(scene: RayScene) -> None:
    await scene.start()
    await scene.create(cluster(workers(minReplicas=3, maxReplicas=2)))
    said = await scene.condition("RayClusterProvisioned", status="False", reason="InvalidRayClusterSpec")
    assert said["message"] == "spec.workerGroupSpecs[0]: minReplicas 3 is more than maxReplicas 2"
    assert await scene.pods() == []
    await scene.edit(workerGroupSpecs=[workers()])
    await scene.until_pods(1, 1)


async def someone_elses_service_keeps_the_pods_from_being_made(scene: RayScene) -> None:
    """Else their program would answer the workers."""
    ports = [{"port": 6379}]
    await scene.ground.create(builtin.Service, "demo-head-svc", spec={"ports": ports, "selector": {"app": "theirs"}})
    await scene.start()
    await scene.create(cluster())
    await scene.condition("Reconciled", status="False", reason="Foreign")
    assert await scene.pods() == []
    assert spec_of(await scene.ground.get(builtin.Service, "demo-head-svc"))["selector"] == {"app": "theirs"}


APPENDIX: tuple[Scenario, ...] = (
    k1_a_cluster_gets_its_service_its_head_and_its_workers,
    k2_a_cluster_whose_pods_are_ready_is_ready,
    k3_a_worker_that_is_deleted_is_replaced,
    k4_no_more_workers_than_the_maximum,
    k5_a_suspended_cluster_has_no_pods_and_comes_back,
    k6_no_fewer_workers_than_the_minimum,
    k7_a_changed_template_leaves_running_pods_alone,
    k8_pods_are_made_in_the_namespace_of_the_cluster,
    k9_a_head_that_failed_is_made_again,
    k10_what_codeflare_put_into_the_templates_is_completed,
)
FURTHER: tuple[Scenario, ...] = (
    fewer_replicas_take_workers_away,
    a_group_that_is_taken_out_takes_its_workers_along,
    with_the_autoscaler_only_named_workers_go,
    the_autoscaler_runs_beside_the_head_with_rights_of_its_own,
    recreate_replaces_all_pods_when_the_spec_changes,
    the_hosts_of_a_replica_live_and_die_together,
    clients_need_a_token_that_is_made_once,
    a_cluster_of_another_manager_is_left_alone,
    where_kuberay_runs_nothing_is_done,
    a_cluster_that_cannot_work_says_why,
    someone_elses_service_keeps_the_pods_from_being_made,
)
