"""Scenarios 1-8: what the webhooks do to a RayCluster."""

from __future__ import annotations

import copy
from collections.abc import Callable

from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of
from modelyard.operators.codeflare.config import KubeRaySettings, Settings
from modelyard.operators.codeflare.ray_cluster.injection import Injection
from modelyard.operators.codeflare.ray_cluster.names import VERSION, Names, RayCluster
from modelyard.operators.codeflare.ray_cluster.webhooks import changed
from modelyard.version import version
from tests.cluster.ray_cluster.scenarios.scene import OPENSHIFT, Book, RayScene, spec
from tests.cluster.stories import named, refused

book = Book()
TLS = ["MY_POD_IP", "RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"]


def names_in(items: list[Object]) -> list[str]:
    return [item["name"] for item in items]


async def pods(scene: RayScene) -> list[Object]:
    """The pod specs of head and workers, as stored."""
    stored = (await scene.ground.get(RayCluster, "demo"))["spec"]
    return [each["template"]["spec"] for each in (stored["headGroupSpec"], *stored["workerGroupSpecs"])]


@book.scenario(1)
async def the_head_gets_a_proxy_and_certificates(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    head = (await pods(scene))[0]
    assert names_in(head["containers"]) == ["ray-head", "oauth-proxy"]
    assert names_in(head["volumes"]) == ["proxy-tls-secret", "ca-vol", "server-cert"]
    assert names_in(head["initContainers"]) == ["create-cert"]
    assert head["serviceAccountName"] == scene.names.account


@book.scenario(2)
async def ray_in_the_head_learns_where_its_certificate_is(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    head = (await pods(scene))[0]
    ray, proxy = head["containers"]
    assert names_in(ray["env"]) == TLS
    assert names_in(ray["volumeMounts"]) == ["ca-vol", "server-cert"]
    assert names_in(proxy["env"]) == ["COOKIE_SECRET"]
    assert names_in(proxy["volumeMounts"]) == ["proxy-tls-secret"]


@book.scenario(3)
async def workers_get_certificates_and_no_proxy(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    (worker,) = (await pods(scene))[1:]
    (ray,) = worker["containers"]
    assert names_in(ray["env"]) == TLS
    assert names_in(ray["volumeMounts"]) == ["ca-vol", "server-cert"]
    assert names_in(worker["volumes"]) == ["ca-vol", "server-cert"]
    assert names_in(worker["initContainers"]) == ["create-cert"]


@book.scenario(4)
async def the_version_annotation_is_the_operators(scene: RayScene) -> None:
    await scene.start()
    assert annotations_of(await scene.create())[VERSION] == version()
    edited = await scene.edit(lambda cluster: cluster["metadata"]["annotations"].update({VERSION: "other"}))
    assert annotations_of(edited)[VERSION] == version()


@book.scenario(5)
async def an_ingress_of_kuberay_is_refused(scene: RayScene) -> None:
    await scene.start()
    open_head = copy.deepcopy(spec()["headGroupSpec"]) | {"enableIngress": True}
    said = "spec.headGroupSpec.enableIngress: Invalid value: true: RayCluster with enableIngress set to true is not allowed"
    await refused(scene.create(headGroupSpec=open_head), said)
    await scene.create(headGroupSpec=open_head | {"enableIngress": False})


@book.scenario(6)
async def what_a_user_changes_in_the_proxy_is_put_back(scene: RayScene) -> None:
    await scene.start(*OPENSHIFT)
    await scene.create()
    before = (await pods(scene))[0]["containers"][1]

    def disarm(cluster: Object) -> None:
        cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][1]["args"] = ["--skip-auth-regex=.*"]

    await scene.edit(disarm)
    assert (await pods(scene))[0]["containers"][1]["args"] == before["args"]


def _in(pod: Callable[[Object], Object], change: Callable[[Object], object]) -> Callable[[Object], object]:
    return lambda cluster: change(pod(cluster))


@book.scenario(7)
async def what_another_webhook_changes_is_refused(scene: RayScene) -> None:
    injection = Injection(Names("demo", "team-a"), Settings(), KubeRaySettings(), openshift=True)
    good: Object = {"metadata": {"name": "demo", "namespace": "team-a"}, "spec": spec()}
    injection.into(good)
    assert list(changed(injection, good, certificates=True)) == []

    def head(cluster: Object) -> Object:
        found: Object = cluster["spec"]["headGroupSpec"]["template"]["spec"]
        return found

    def worker(cluster: Object) -> Object:
        found: Object = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        return found

    def other_secret(pod: Object, volume: str) -> None:
        named(pod["volumes"], volume)["secret"]["secretName"] = "other"

    def no_tls(pod: Object) -> None:
        named(pod["containers"][0]["env"], "RAY_USE_TLS")["value"] = "0"

    where = ("spec.headGroupSpec.template.spec", "spec.workerGroupSpecs.0.template.spec")
    cases: list[tuple[Callable[[Object], object], str]] = [
        (
            lambda c: head(c)["containers"][1].update(args=["x"]),
            f"{where[0]}.containers: Invalid value: OAuth Proxy container is immutable",
        ),
        (
            lambda c: head(c)["containers"].pop(),
            f"{where[0]}.containers: Required value: OAuth Proxy container is immutable",
        ),
        (
            lambda c: other_secret(head(c), "proxy-tls-secret"),
            f"{where[0]}.volumes: Invalid value: OAuth Proxy TLS Secret volume is immutable",
        ),
        (
            lambda c: head(c).update(serviceAccountName="x"),
            f'{where[0]}.serviceAccountName: Invalid value: "x": RayCluster head group service account is immutable',
        ),
    ]
    for pod, path in ((head, where[0]), (worker, where[1])):
        cases += [
            (
                _in(pod, lambda spec: spec["initContainers"][0].update(command=["true"])),
                f"{path}.initContainers: Invalid value: create-cert Init Container is immutable",
            ),
            (
                _in(pod, lambda spec: other_secret(spec, "ca-vol")),
                f"{path}.volumes: Invalid value: ca-vol and server-cert Secret volumes are immutable",
            ),
            (
                _in(pod, no_tls),
                f"{path}.containers.0.env: Invalid value: RAY_TLS related environment variables are immutable",
            ),
        ]
    for change, said in cases:
        bad = copy.deepcopy(good)
        change(bad)
        assert [str(error) for error in changed(injection, bad, certificates=True)] == [said]


@book.scenario(8)
async def with_everything_off_only_the_version_is_added(scene: RayScene) -> None:
    await scene.start(kuberay={"rayDashboardOAuthEnabled": False, "mTLSEnabled": False})
    made = await scene.create()
    for pod in await pods(scene):
        assert pod.keys() & {"initContainers", "volumes", "serviceAccountName"} == set()
        (ray,) = pod["containers"]
        assert ray.keys() & {"env", "volumeMounts"} == set()
    assert annotations_of(made).keys() == {VERSION}
